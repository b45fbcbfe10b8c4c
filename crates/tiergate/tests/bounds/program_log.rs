//! The program's log, which no client can fill.

use crate::support::eventually;
use crate::support::gateway::{Gateway, Policy};
use crate::support::origin::Origin;
use serde_json::Value;
use std::process::{Command, Stdio};

/// HTTP/2 with stream 1, 3, …: each is opened and reset at once.
fn resets(streams: u8) -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    for stream in (1..2 * streams).step_by(2) {
        // HEADERS, at the end of both: GET / of http://x.
        bytes.extend_from_slice(&[0, 0, 6, 1, 5, 0, 0, 0, stream]);
        bytes.extend_from_slice(b"\x82\x86\x84\x41\x01x");
        // RST_STREAM with CANCEL.
        bytes.extend_from_slice(&[0, 0, 4, 3, 0, 0, 0, 0, stream, 0, 0, 0, 8]);
    }
    bytes
}

#[test]
fn a_client_that_resets_its_streams_leaves_no_lines() {
    let origin = Origin::echo();
    let gateway = Gateway::start(&Policy::of(&[origin.server()]));
    // The lines of its start are written by a thread of their own.
    eventually("its start is logged", || gateway.log().contains("metrics and status on"));
    let before = gateway.log();
    for _ in 0..10 {
        let mut client = gateway.client();
        client.send(resets(100));
        // The gateway gives such a client up.
        client.rest();
    }
    assert_eq!(gateway.get("/").status, 200);
    assert_eq!(gateway.log(), before);
}

/// Also the one that says why the program has ended, which matters most.
#[test]
fn each_line_is_an_object_where_that_is_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let policy = folder.path().join("policy.toml");
    for text in ["nonsense = 1\n", "admin = \"192.0.2.1:1\"\norigin.servers = [\"a:1\"]\n"] {
        std::fs::write(&policy, text).expect("a folder of our own");
        let mut command = Command::new(env!("CARGO_BIN_EXE_tiergate"));
        command.arg("run").arg(&policy).env("TIERGATE_LOG_FORMAT", "json").stdin(Stdio::null());
        let output = command.output().expect("it starts");
        assert!(!output.status.success());
        let said = String::from_utf8(output.stderr).expect("text");
        let line = |line| serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}"));
        let lines: Vec<Value> = said.lines().map(line).collect();
        let last = lines.last().expect("it says why");
        let message = last["message"].as_str().expect("a text");
        assert_eq!(last["level"], "ERROR");
        assert!(message.contains("policy.toml:1:") && last["timestamp"].is_string(), "{said}");
    }
}
