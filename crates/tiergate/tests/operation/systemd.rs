//! What systemd hears of a gateway: that it serves, goes on, reloads and stops.

use crate::support;
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use support::PATIENCE;
use support::gateway::{Policy, Port};
use support::process::Process;

#[test]
fn systemd_is_told_what_the_gateway_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let told = UnixDatagram::bind(path("notify")).expect("a folder of our own");
    told.set_read_timeout(Some(PATIENCE)).expect("not zero");
    let (listen, admin) = (Port::reserve(), Port::reserve());
    let policy = Policy::of(&["127.0.0.1:1".to_owned()]).text(&[listen.address], admin.address);
    std::fs::write(path("policy.toml"), policy).expect("a folder of our own");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tiergate"));
    command.arg("run").arg(path("policy.toml")).stdin(Stdio::null()).stderr(Stdio::null());
    command.env("NOTIFY_SOCKET", path("notify")).env("WATCHDOG_USEC", "100000");
    let mut process = Process::start(&mut command);
    let hears = |what: &str| {
        let mut buffer = [0; 1000];
        loop {
            let len = told.recv(&mut buffer).unwrap_or_else(|fault| panic!("{what}: {fault}"));
            let said = String::from_utf8_lossy(&buffer[..len]);
            if said.lines().any(|line| line == what) {
                return;
            }
            // Whatever else comes meanwhile, it goes on.
            assert!(said.starts_with("WATCHDOG=1") || what == "WATCHDOG=1", "{said}, not {what}");
        }
    };
    hears("READY=1");
    (0..3).for_each(|_| hears("WATCHDOG=1"));
    process.signal(Signal::HUP);
    hears("RELOADING=1");
    hears("READY=1");
    // An upgrade: systemd is to wait for the successor, which the former process names, as it is the one that is believed.
    process.signal(Signal::USR2);
    let mut buffer = [0; 1000];
    let said = std::iter::from_fn(|| {
        let len = told.recv(&mut buffer).expect("something is said");
        Some(String::from_utf8_lossy(&buffer[..len]).into_owned())
    });
    let mut said = said.inspect(|said| assert!(!said.contains("STOPPING"), "{said}"));
    let number = said.find_map(|it| it.trim().strip_prefix("MAINPID=")?.parse().ok());
    let successor = Pid::from_raw(number.expect("endless")).expect("not zero");
    assert!(process.wait(PATIENCE).success());
    kill_process(successor, Signal::TERM).expect("it is there");
    hears("STOPPING=1");
}
