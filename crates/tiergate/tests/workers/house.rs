//! Gateways with workers, clients that never stop asking, and what the kernel says of processes.

use crate::support::client::Client;
use crate::support::eventually_is;
use crate::support::gateway::{Gateway, Policy, Port};
use crate::support::process::program;
use serde_json::Value;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The words that start a worker; `before`: what runs it.
pub(crate) fn command(before: &[&str]) -> Option<String> {
    let python = program("python3")?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/worker.py");
    let mut words: Vec<String> = before.iter().map(|word| format!("{word:?}")).collect();
    words.push(format!("{python:?}"));
    words.push(format!("{script:?}"));
    Some(format!("command = [{}, \"{{port}}\", \"{{n}}\"]", words.join(", ")))
}

/// A policy whose default pool has so many workers, with further keys.
pub(crate) fn policy(ports: &[Port], command: &str, keys: &str) -> Policy {
    let servers: Vec<String> = ports.iter().map(|port| port.address.to_string()).collect();
    Policy {
        origin: format!(
            "slots = 100\nrestart_max = \"20s\"\n[origin.workers]\n{command}\nstop_max = \"20s\"\n{keys}"
        ),
        ..Policy::of(&servers)
    }
}

pub(crate) fn reload(gateway: &Gateway, policy: &Policy) {
    gateway.write_policy(&policy.text(&[gateway.address], gateway.admin));
    let (status, text) = gateway.reload();
    assert_eq!(status, 200, "{text}");
}

/// Waits until so many workers of the first pool are ready.
pub(crate) fn await_ready(gateway: &Gateway, count: u64) {
    eventually_is("the workers are ready", count, || of_pool(gateway, 0, "ready"));
}

/// A number of a pool's workers.
pub(crate) fn of_pool(gateway: &Gateway, pool: usize, key: &str) -> u64 {
    gateway.status()["workers"][pool][key].as_u64().unwrap_or_default()
}

/// The processes of a pool's workers, by their numbers.
pub(crate) fn pids(gateway: &Gateway, pool: usize) -> Vec<u32> {
    let status = gateway.status();
    let workers = status["workers"][pool]["workers"].as_array().cloned().unwrap_or_default();
    workers.iter().filter_map(|it| it["pid"].as_u64()).map(|pid| pid as u32).collect()
}

/// A share of the first pool's, by its name.
pub(crate) fn share(gateway: &Gateway, name: &str) -> Value {
    let status = gateway.status();
    let shares = status["workers"][0]["shares"].as_array().cloned().unwrap_or_default();
    shares.into_iter().find(|it| it["name"] == name).unwrap_or_default()
}

/// Whether there is such a process, and it has not ended.
pub(crate) fn lives(pid: u32) -> bool {
    stat(pid).is_some_and(|fields| fields[0] != "Z" && fields[0] != "X")
}

/// The fields of `/proc/PID/stat` behind the name: the first is the state.
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    Some(rest.split_ascii_whitespace().map(str::to_owned).collect())
}

fn number(pid: u32, field: usize) -> i64 {
    let fields = stat(pid).expect("the process lives");
    fields[field].parse().expect("a number")
}

/// The processors of the machine, whatever part of them this process may use.
pub(crate) fn processors() -> usize {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    stat.lines().filter(|line| line.starts_with("cpu")).count().saturating_sub(1)
}

/// One that this process may run on.
pub(crate) fn processor() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let first = allowed.unwrap_or("0").trim().split([',', '-']).next();
    first.unwrap_or("0").to_owned()
}

/// The nice value and the scheduling policy of a process.
pub(crate) fn scheduling(pid: u32) -> (i64, i64) {
    (number(pid, 16), number(pid, 38))
}

/// Ticks of the processor that a process has used.
pub(crate) fn used(pid: u32) -> i64 {
    number(pid, 11) + number(pid, 12)
}

/// How long clients that lost a request wait before the next one.
const DYING: Duration = Duration::from_millis(50);

/// Clients that ask one thing after another.
pub(crate) struct Askers {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    lost: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Askers {
    pub(crate) fn start(address: SocketAddr, count: usize, path: &'static str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let [answered, lost] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
        let ask = |_| {
            let (stop, answered, lost) = (stop.clone(), answered.clone(), lost.clone());
            thread::spawn(move || {
                let mut client = Client::connect(address);
                while !stop.load(Ordering::SeqCst) {
                    client
                        .send_anyway(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
                    match client.try_answer(false) {
                        Ok(answer) if answer.status == 200 => {
                            answered.fetch_add(1, Ordering::SeqCst)
                        }
                        // Refused, or cut short.
                        _ => {
                            // A process that dies closes its sockets one after another: not into its listen queue.
                            thread::sleep(DYING);
                            client = Client::connect(address);
                            lost.fetch_add(1, Ordering::SeqCst)
                        }
                    };
                }
            })
        };
        let threads = (0..count).map(ask).collect();
        Askers { stop, answered, lost, threads }
    }

    pub(crate) fn answered(&self) -> u64 {
        self.answered.load(Ordering::SeqCst)
    }

    /// How many of their requests were lost so far.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::SeqCst)
    }

    /// Stops them; how many of their requests were lost.
    pub(crate) fn stop(self) -> u64 {
        self.stop.store(true, Ordering::SeqCst);
        self.threads.into_iter().for_each(|it| it.join().expect("each gets an answer"));
        assert!(self.answered.load(Ordering::SeqCst) > 0);
        self.lost.load(Ordering::SeqCst)
    }
}
