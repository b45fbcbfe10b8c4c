//! A process that may open few files: accepting goes on, and the log stays short.

use crate::support::gateway::{Gateway, Policy};
use crate::support::origin::{Origin, ok};
use crate::support::process::program;
use crate::support::{PATIENCE, eventually};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;
use tempfile::TempDir;

/// Streams of HTTP/2 that each have a connection to the origin.
fn fan_out(gateway: &Gateway, connections: usize) -> Vec<Child> {
    let urls = format!("http://{}/slow", gateway.address);
    (0..connections)
        .map(|_| {
            let mut curl = Command::new("curl");
            curl.args(["-s", "-o", "/dev/null", "--parallel", "--parallel-max", "60"]);
            curl.args(["--http2-prior-knowledge", "--max-time", "10"]);
            curl.args((0..60).map(|_| urls.as_str()));
            curl.stdout(Stdio::null()).stderr(Stdio::null());
            curl.spawn().expect("found before")
        })
        .collect()
}

/// Processor time of the gateway so far, in hundredths of a second.
fn cpu_ticks(gateway: &Gateway) -> u64 {
    let path = format!("/proc/{}/stat", gateway.process.id());
    let stat = std::fs::read_to_string(path).expect("it runs");
    let behind_the_name = stat.rsplit(')').next().expect("there is always a part");
    let fields: Vec<&str> = behind_the_name.split_whitespace().collect();
    fields[11..13].iter().map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
}

#[test]
fn accepting_goes_on_when_descriptors_run_out() {
    if program("curl").is_none() {
        return;
    }
    let origin = Origin::answering(|_| {
        sleep(Duration::from_secs(3));
        ok("slow")
    });
    let folder = TempDir::new().expect("a folder");
    let policy = Policy::of(&[origin.server()]);
    let gateway = Gateway::start_under("ulimit -n 256", &policy, folder.path());
    let mut clients = fan_out(&gateway, 8);
    sleep(Duration::from_secs(2));
    let others: Vec<_> = (0..100).map(|_| gateway.client()).collect();
    sleep(Duration::from_secs(2));
    let before = cpu_ticks(&gateway);
    sleep(Duration::from_secs(3));
    let used = cpu_ticks(&gateway) - before;
    assert!(used < 150, "{used} hundredths of a second of processor time in 3 s: it spins");
    for client in &mut clients {
        client.wait().expect("it ends by itself");
    }
    drop(others);
    eventually("newcomers are served", || {
        let mut client = gateway.client();
        client.patience(PATIENCE);
        client.send("GET /x HTTP/1.1\r\nHost: x\r\n\r\n");
        client.try_answer(false).is_ok_and(|answer| answer.status == 200)
    });
    let log = gateway.log();
    let complaints = log.lines().filter(|line| line.contains("cannot be accepted")).count();
    assert!(complaints <= 4, "{log}");
    assert!(log.lines().count() < 40, "{log}");
}

/// Health checks that cannot be made for want of descriptors leave no server out, which would refuse all
/// requests, those on kept connections too.
#[test]
fn a_lack_of_descriptors_says_nothing_about_servers() {
    let origin = Origin::echo();
    let mut policy = Policy::of(&[origin.server()]);
    policy.tables = "[origin.health]\npath = \"/\"\ninterval = \"20ms\"\nfall = 2\n".into();
    let gateway = Gateway::start(&policy);
    let mut client = gateway.client();
    assert_eq!(client.get("/before").status, 200);
    let limit = |current| {
        let pid = Pid::from_raw(gateway.process.id() as i32);
        let maximum = getrlimit(Resource::Nofile).maximum;
        prlimit(pid, Resource::Nofile, Rlimit { current, maximum }).expect("a child of ours");
    };
    // Below the number of any descriptor that could be opened.
    limit(Some(3));
    sleep(Duration::from_secs(1));
    assert_eq!(client.get("/meanwhile").status, 200);
    limit(Some(1000));
    assert_eq!(client.get("/after").status, 200);
    let log = gateway.log();
    assert!(!log.contains("left out"), "{log}");
}
