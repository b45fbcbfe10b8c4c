//! Each contender that is installed forwards, and serves premium requests first when the origin is
//! overloaded. Shares only, with room to spare: how well each does is what the lab measures.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const LAB: &str = env!("CARGO_BIN_EXE_tiergate-lab");
/// Longer than any program here takes to start or to end.
const PATIENCE: Duration = Duration::from_secs(15);

/// A child that does not outlive its test, nor do its own children: it is asked to end first.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.0.id() as i32) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if matches!(self.0.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_address() -> SocketAddr {
    let free = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    free.local_addr().expect("it is bound")
}

/// An origin of 200 requests a second, four at once.
fn start_origin() -> (Started, SocketAddr) {
    let address = free_address();
    let child = Command::new(LAB)
        .args(["origin", "--workers", "4", "--service", "20ms", "--listen", &address.to_string()])
        .stdout(Stdio::null())
        .spawn()
        .expect("the lab was built");
    let origin = Started(child);
    let begun = Instant::now();
    while TcpStream::connect(address).is_err() {
        assert!(begun.elapsed() < PATIENCE, "the origin does not listen");
        std::thread::sleep(Duration::from_millis(10));
    }
    (origin, address)
}

/// A contender under way, and what it prints.
struct Front {
    stdout: BufReader<ChildStdout>,
    started: Started,
}

impl Front {
    /// Ends it and returns the processor time that it says it has used, in seconds.
    fn end(mut self) -> f64 {
        drop(self.started);
        let mut said = String::new();
        self.stdout.read_to_string(&mut said).expect("its words are text");
        let last: Value = serde_json::from_str(said.trim()).expect("the last line is JSON");
        last["processor_seconds"].as_f64().expect("a number")
    }
}

/// A contender in front of it; `None` where it is not installed. One that does not start, a fault in
/// its configuration for example, fails the test.
fn start_front(name: &str, origin: SocketAddr) -> Option<(Front, SocketAddr)> {
    let (listen, admin) = (free_address(), free_address());
    let child = Command::new(LAB)
        .args(["contender", name, "--slots", "4", "--rate", "200"])
        .args(["--listen", &listen.to_string(), "--admin", &admin.to_string()])
        .args(["--origin", &origin.to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the lab was built");
    let mut started = Started(child);
    let mut stdout = BufReader::new(started.0.stdout.take().expect("it is piped"));
    let mut line = String::new();
    stdout.read_line(&mut line).expect("its words are text");
    if line.starts_with(name) {
        return Some((Front { stdout, started }, listen));
    }
    let mut said = String::new();
    started.0.stderr.take().expect("it is piped").read_to_string(&mut said).expect("text");
    let missing = ["not installed", "is missing", "no gateway at", "makes it"];
    assert!(missing.iter().any(|words| said.contains(words)), "{name} does not start: {said}");
    eprintln!("{}", said.trim());
    None
}

/// Runs a load and returns the part of each population's requests that was answered well.
fn answered<const N: usize>(target: SocketAddr, populations: [&str; N]) -> [f64; N] {
    let mut command = Command::new(LAB);
    command.args(["load", "--json", "--target", &target.to_string()]);
    populations.iter().for_each(|population| {
        command.args(["--population", population]);
    });
    let output = command.output().expect("the lab was built");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(&output.stderr));
    });
    std::array::from_fn(|number| {
        let figures = &report["populations"][number]["overall"];
        let count = |name: &str| figures[name].as_f64().expect("a count");
        count("ok") / count("sent")
    })
}

#[test]
fn each_contender_forwards_and_serves_what_matters_first() {
    let mut met = Vec::new();
    for name in ["tiergate", "haproxy", "nginx", "modqos", "envoy", "failsafe"] {
        let (_origin, origin) = start_origin();
        let Some((running, front)) = start_front(name, origin) else { continue };
        let [idle] = answered(front, ["path=/browse,rate=20x500ms,arrivals=constant"]);
        assert_eq!(idle, 1.0, "{name} does not answer on an idle origin");
        let premium = "path=/checkout,rate=40x2s,arrivals=constant";
        let [premium, basic] = answered(front, [premium, "path=/browse,rate=800x2s"]);
        // 200 requests a second for 40 and 800: without precedence each has a quarter.
        assert!(premium > 0.75, "{name}: premium {premium:.2}, basic {basic:.2}");
        assert!(basic > 0.02, "{name} lets basic requests starve: {basic:.2}");
        assert!(premium > 2.0 * basic, "{name}: premium {premium:.2}, basic {basic:.2}");
        // The server's time and not only that of what started it: 1,700 requests took some.
        let used = running.end();
        assert!((0.002..8.0).contains(&used), "{name} says it has used {used} s");
        met.push(name);
    }
    eprintln!("contenders met: {met:?}");
}

#[test]
fn nothing_in_front_is_the_origin_itself() {
    let (_origin, origin) = start_origin();
    let (_front, listen) = start_front("none", origin).expect("nothing needs no program");
    assert!(TcpStream::connect(listen).is_err(), "nobody should listen there");
    // The same overload as above, without precedence: the test above can fail.
    let premium = "path=/checkout,rate=40x2s,arrivals=constant";
    let [premium, _] = answered(origin, [premium, "path=/browse,rate=800x2s"]);
    assert!(premium < 0.75, "premium {premium:.2} without anything in front");
}
