//! Workers that are killed or fail come back, and nothing is lost but what they were at.

use crate::house::{Askers, await_ready, command, lives, of_pool, pids, policy};
use crate::support::client::Client;
use crate::support::gateway::{Gateway, Policy, Port};
use crate::support::origin::Origin;
use crate::support::{eventually, eventually_is};
use rustix::process::{Pid, Signal, kill_process};
use std::path::PathBuf;
use std::thread::{self, JoinHandle};

fn kill(pid: u32) {
    let pid = Pid::from_raw(pid as i32).expect("a process");
    kill_process(pid, Signal::KILL).expect("it lives");
}

/// A request that a worker holds until there is a file; returns its process.
fn hold(gateway: &Gateway, file: PathBuf) -> (u32, JoinHandle<u16>) {
    let (address, path) = (gateway.address, file.display().to_string());
    let asking = thread::spawn(move || {
        let mut client = Client::connect(address);
        client.send(format!("POST /hold{path} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"));
        client.answer().status
    });
    let begun = file.with_added_extension("begun");
    let mut pid = 0;
    eventually("a worker is at it", || {
        let text = std::fs::read_to_string(&begun).unwrap_or_default();
        pid = text.trim_end_matches('\n').parse().unwrap_or(0);
        text.ends_with('\n')
    });
    (pid, asking)
}

#[test]
fn killing_a_worker_loses_only_what_was_in_service_there() {
    let Some(command) = command(&[]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let ports = [Port::reserve(), Port::reserve()];
    let mut gateway = Gateway::start(&policy(&ports, &command, ""));
    await_ready(&gateway, 2);
    let before = pids(&gateway, 0);
    let (killed, lost) = hold(&gateway, folder.path().join("lost"));
    // At the other worker, which has fewer requests in progress.
    let (other, kept) = hold(&gateway, folder.path().join("kept"));
    assert_ne!(killed, other);
    let askers = Askers::start(gateway.address, 8, "/x");
    eventually("others are served", || askers.answered() > 20);
    kill(killed);
    assert_eq!(lost.join().expect("an answer"), 502, "it was in service at the worker");
    eventually_is("it is started again", 1, || of_pool(&gateway, 0, "restarts"));
    await_ready(&gateway, 2);
    std::fs::write(folder.path().join("kept"), "").expect("our own folder");
    assert_eq!(kept.join().expect("an answer"), 200, "the other worker is not concerned");
    // Of the other clients each had one request in service at most when it was killed.
    let (seen, lost) = (askers.answered(), askers.lost());
    assert!(lost <= 8, "{lost} of 8 clients");
    eventually("they go on", || askers.answered() > seen + 200);
    assert_eq!(askers.stop(), lost, "nothing is lost but what was in service");
    let after = pids(&gateway, 0);
    let same = before.iter().filter(|pid| after.contains(pid)).count();
    assert_eq!((after.len(), same), (2, 1), "{before:?} {after:?}");
    gateway.assert_conserved();
    gateway.drain();
    assert!(after.iter().all(|pid| !lives(*pid)), "they end with the gateway");
    assert!(gateway.log().contains("worker 1 serves"), "what they print is in the log");
}

#[test]
fn requests_wait_while_the_only_worker_comes_back() {
    let Some(command) = command(&[]) else { return };
    let ports = [Port::reserve()];
    let gateway = Gateway::start(&policy(&ports, &command, ""));
    await_ready(&gateway, 1);
    let askers = Askers::start(gateway.address, 4, "/x");
    for restarts in 1..=3 {
        let seen = askers.answered();
        eventually("it serves", || askers.answered() > seen + 20);
        kill(pids(&gateway, 0)[0]);
        eventually_is("it is started again", restarts, || of_pool(&gateway, 0, "restarts"));
        await_ready(&gateway, 1);
    }
    let seen = askers.answered();
    eventually("it serves", || askers.answered() > seen + 20);
    let lost = askers.stop();
    assert!(
        lost <= 3 * 4,
        "at most one request of each client was in service at each of the three: {lost}"
    );
    gateway.assert_conserved();
}

#[test]
fn workers_that_fail_are_left_alone_for_longer_and_longer_and_stop_nothing_else() {
    let (origin, ports) = (Origin::echo(), [Port::reserve(), Port::reserve()]);
    let pool = |name: &str, port: &Port, program: &str| {
        format!(
            "[[pool]]\nname = \"{name}\"\nservers = [\"{}\"]\n[pool.workers]\ncommand = [{program:?}]\n",
            port.address
        )
    };
    let tables =
        pool("fails", &ports[0], "false") + &pool("missing", &ports[1], "/no/such/program");
    let gateway = Gateway::start(&Policy { tables, ..Policy::of(&[origin.server()]) });
    for place in 0..2 {
        eventually("they are started again", || of_pool(&gateway, place, "restarts") >= 3);
    }
    assert_eq!(gateway.get("/x").status, 200);
    let starts = of_pool(&gateway, 0, "restarts");
    // Starts come after 0.1, 0.3, 0.7, 1.5, 3.1 s: in the next half second there is one at most, and one that was counted late.
    thread::sleep(std::time::Duration::from_millis(500));
    assert!(of_pool(&gateway, 0, "restarts") <= starts + 2);
    let status = gateway.status();
    let worker = &status["workers"][0]["workers"][0];
    assert!(
        worker["last_end"].as_str().is_some_and(|it| it.contains("exit status: 1")),
        "{worker}"
    );
    assert!(
        gateway.log().contains("/no/such/program cannot be started: No such file"),
        "{}",
        gateway.log()
    );
}
