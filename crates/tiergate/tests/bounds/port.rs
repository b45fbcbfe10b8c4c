//! Nobody shares a port by mistake.

use crate::support::gateway::{Gateway, Policy, Port};
use crate::support::origin::Origin;
use std::process::{Command, Stdio};
use tempfile::TempDir;

#[test]
fn a_port_that_another_process_has_is_shared_only_if_that_was_asked_for() {
    let origin = Origin::echo();
    let folder = TempDir::new().expect("a folder");
    let port = Port::reserve();
    for shares in [false, true] {
        let mut policy = Policy::of(&[origin.server()]);
        policy.listener = format!("share_port = {shares}");
        // Its own threads share it.
        policy.top = "threads = 4".into();
        let _first = Gateway::start_beside(&port, &policy, folder.path());
        policy.listener.clear();
        let path = folder.path().join("second.toml");
        let admin = Port::reserve();
        let text = policy.text(&[port.address], admin.address);
        std::fs::write(&path, text).expect("our own folder");
        let mut second = Command::new(env!("CARGO_BIN_EXE_tiergate"));
        let second = second.arg("run").arg(&path).stdin(Stdio::null()).output();
        let second = second.expect("it starts");
        let said = String::from_utf8_lossy(&second.stderr).into_owned();
        assert!(!second.status.success(), "{said}");
        assert!(said.contains(&format!("cannot listen on {}", port.address)), "{said}");
        if shares {
            policy.listener = "share_port = true".into();
            let _second = Gateway::start_beside(&port, &policy, folder.path());
        }
    }
}
