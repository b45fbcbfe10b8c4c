//! The two ends of every experiment, origin and load, over loopback; and that nothing survives one.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

const LAB: &str = env!("CARGO_BIN_EXE_tiergate-lab");
/// Longer than any wait here on a machine that works.
const PATIENCE: Duration = Duration::from_secs(20);

/// A child that does not outlive its test.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Started {
    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.0.id() as i32).expect("a process has a number");
        kill_process(pid, signal).expect("it is ours and has not been waited for");
    }

    /// Waits until it has ended, and returns its exit code.
    fn ended(&mut self) -> Option<i32> {
        let mut status = None;
        wait_until("the program ends", || {
            status = self.0.try_wait().expect("it is our child");
            status.is_some()
        });
        status.and_then(|status| status.code())
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn start_origin(args: &[&str]) -> (Started, SocketAddr) {
    start_server("origin", args)
}

fn start_server(command: &str, args: &[&str]) -> (Started, SocketAddr) {
    // An address of its own: nothing else takes the port until the server does.
    static COUNT: AtomicU8 = AtomicU8::new(1);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let free = TcpListener::bind(SocketAddr::from(([127, 0, 7, number], 0)))
        .expect("loopback has a free port");
    let address = free.local_addr().expect("it is bound");
    drop(free);
    let child = Command::new(LAB)
        .args([command, "--listen", &address.to_string()])
        .args(args)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the lab was built");
    let origin = Started(child);
    wait_until("the origin listens", || TcpStream::connect(address).is_ok());
    (origin, address)
}

/// Ends a server and returns all that it printed.
fn last_words(mut server: Started) -> String {
    server.signal(Signal::TERM);
    assert_eq!(server.ended(), Some(0));
    let mut said = String::new();
    let mut stdout = server.0.stdout.take().expect("it is piped");
    std::io::Read::read_to_string(&mut stdout, &mut said).expect("it is text");
    said
}

/// The last line of an origin or application.
fn counts(server: Started) -> Value {
    let said = last_words(server);
    serde_json::from_str(said.lines().last().expect("it says something")).expect("it is JSON")
}

/// Runs a load and returns its one population's overall figures.
fn load(target: SocketAddr, population: &str) -> Value {
    let output = Command::new(LAB)
        .args(["load", "--json", "--target", &target.to_string(), "--population", population])
        .output()
        .expect("the lab was built");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(&output.stderr));
    });
    report["populations"][0]["overall"].clone()
}

#[test]
fn below_capacity_everybody_is_served_and_counted_alike_at_both_ends() {
    let (origin, address) = start_origin(&["--workers", "4", "--service", "20ms"]);
    let figures = load(address, "rate=50x1s,arrivals=constant,patience=10s");
    assert_eq!(figures["sent"], 50);
    assert_eq!(figures["ok"], 50, "{figures}");
    assert!(figures["p50_ms"].as_f64().unwrap() >= 20.0, "{figures}");
    let last = counts(origin);
    assert_eq!((&last["served"], &last["wasted"]), (&50.into(), &0.into()));
}

#[test]
fn waiting_counts_from_the_moment_a_request_was_due() {
    // 400 requests in one second on 200 a second, through few connections: a generator that
    // waited for answers before it sent the next request would see 40 ms at most.
    let (_origin, address) = start_origin(&["--workers", "4", "--service", "20ms"]);
    let figures = load(address, "rate=400x1s,arrivals=constant,patience=60s,connections=8");
    assert_eq!(figures["ok"], 400, "{figures}");
    let p99 = figures["p99_ms"].as_f64().unwrap();
    assert!(p99 > 800.0, "the queue at the end is a second long: {figures}");
}

#[test]
fn the_impatient_leave_and_the_origin_works_for_nobody() {
    let (origin, address) = start_origin(&["--workers", "1", "--service", "100ms"]);
    let figures = load(address, "rate=100x500ms,arrivals=constant,patience=300ms");
    let (ok, gone) = (figures["ok"].as_u64().unwrap(), figures["timed_out"].as_u64().unwrap());
    assert_eq!(ok + gone, 50, "{figures}");
    assert!(gone >= 40, "at most three or so can be served in time: {figures}");
    // It goes on with what it has queued: at the very least the request in its hands.
    std::thread::sleep(Duration::from_millis(300));
    let last = counts(origin);
    assert!(last["wasted"].as_u64().unwrap() >= 1, "{last}");
}

#[test]
fn the_origin_follows_its_timeline_from_the_first_request() {
    let timeline = "500ms:slow=/browse:10,500ms:workers=0,1s:workers=4";
    let (origin, address) = start_origin(&["--service", "20ms", "--timeline", timeline]);
    // Had it begun with the program, all of it were over now.
    std::thread::sleep(Duration::from_millis(1200));
    let early = load(address, "path=/browse,rate=50x300ms,arrivals=constant,patience=10s");
    assert!(early["p50_ms"].as_f64().unwrap() < 100.0, "{early}");
    std::thread::sleep(Duration::from_millis(800));
    let slow = load(address, "path=/browse,rate=10x300ms,arrivals=constant,patience=10s");
    assert!(slow["p50_ms"].as_f64().unwrap() >= 190.0, "{slow}");
    let said = last_words(origin);
    assert!(said.contains("s: workers=0\n") && said.contains("s: workers=4\n"), "{said}");
}

#[test]
fn the_application_works_and_tells_for_whom() {
    let (app, address) = start_server("app", &["--workers", "2"]);
    for path in ["/cpu/3000", "/io/5", "/memory/1"] {
        let figures =
            load(address, &format!("path={path},rate=20x500ms,arrivals=constant,patience=10s"));
        assert_eq!(figures["ok"], 10, "{path}: {figures}");
    }
    let wrong = load(address, "path=/cpu/x,rate=10x100ms,arrivals=constant,patience=10s");
    assert_eq!(wrong["failed"], wrong["sent"], "{wrong}");
    assert_eq!(counts(app)["served"], 30);
}

#[test]
fn a_server_that_cannot_be_is_refused_with_the_reason() {
    for (args, why) in [
        (["origin", "--timeline", "8s:workers"], "workers=N"),
        (["origin", "--route", "report=1s"], "begins with /"),
        (["origin", "--thrash", "0:1"], "at least 1 request"),
        (["origin", "--workers", "0"], "--workers"),
        (["app", "--workers", "0"], "--workers"),
    ] {
        let output = Command::new(LAB).args(args).output().expect("the lab was built");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "{args:?}: {said}");
    }
}

/// Children of a process, by number.
fn children(parent: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("this is Linux").flatten();
    let numbers = entries.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent_field = stat.rsplit_once(')').and_then(|s| s.1.split_whitespace().nth(1));
        parent_field == Some(&parent.to_string())
    };
    numbers.filter(is_child).collect()
}

/// Whether a process is there and not merely waiting to be reaped.
fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').and_then(|s| s.1.split_whitespace().next());
    state.is_some_and(|state| state != "Z")
}

#[test]
fn no_child_survives_an_experiment_whatever_ends_it() {
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        // The first pass needs no gateway; any program will do.
        let child = Command::new(LAB)
            .args(["demo", "--quick", "--gateway", "/bin/true"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the lab was built");
        let mut demo = Started(child);
        let mut origin = 0;
        // Before that it is a copy of the demonstration, then setpriv.
        let serves = |pid: u32| {
            let words = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.split('\0').nth(1) == Some("origin")
        };
        wait_until("the demonstration has an origin", || {
            origin = children(demo.0.id()).into_iter().find(|pid| serves(*pid)).unwrap_or(0);
            origin != 0
        });
        demo.signal(signal);
        let code = demo.ended();
        assert_eq!(code, if signal == Signal::KILL { None } else { Some(1) });
        wait_until("its origin has ended too", || !lives(origin));
    }
}
