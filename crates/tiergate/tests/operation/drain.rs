//! Drains and handovers: a gateway ends while clients ask, and no request is lost.

use crate::support;
use std::net::TcpListener;
use std::time::Duration;
use support::client::Client;
use support::eventually;
use support::gateway::{Gateway, Policy, Port};
use support::load::{Habit, Load};
use support::origin::{Origin, ok};

/// Drains of the long test: what the project promises.
const DRAINS: usize = 200;

fn policy(origin: &Origin) -> Policy {
    Policy::of(&[origin.server()])
}

/// One gateway after the other on a socket that is passed on, the former ended under load.
fn hand_over(drains: usize, habit: Habit) {
    let origin = Origin::echo();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let folder = tempfile::tempdir().expect("a folder");
    let policy = policy(&origin);
    let mut running = Gateway::start_on(&listener, &policy, folder.path());
    let load = Load::start(running.address, 8, habit);
    for _ in 0..drains {
        let next = Gateway::start_on(&listener, &policy, folder.path());
        let mut former = std::mem::replace(&mut running, next);
        former.drain();
        assert!(!former.log().contains("connections cut"), "{}", former.log());
    }
    let seen = load.stop();
    println!(
        "{drains} drains, {habit:?}: {} answers, {} connections, {} kept connections found closed",
        seen.total(),
        seen.connections,
        seen.closed_idle
    );
    seen.assert_all(&[200]);
    assert_eq!(seen.closed_idle, 0, "{seen:#?}");
    running.assert_conserved();
}

#[test]
fn two_hundred_drains_lose_no_request() {
    hand_over(DRAINS / 2, Habit::Keep);
    hand_over(DRAINS / 2, Habit::Fresh);
}

/// Two processes that share the port by SO_REUSEPORT have a queue each: what the former has not
/// accepted when it closes is reset by the kernel. The gateway accepts all there is before it closes;
/// what is lost is a connection made between that and the close. Measured: 0 to 2 in 20 handovers at
/// about 6,000 new connections a second; with `net.ipv4.tcp_migrate_req` set still one in 60. Whoever
/// must lose none passes the socket on.
#[test]
fn a_handover_by_shared_port_loses_next_to_nothing() {
    let origin = Origin::echo();
    let port = Port::reserve();
    let folder = tempfile::tempdir().expect("a folder");
    let mut policy = policy(&origin);
    policy.listener = "share_port = true".into();
    let mut running = Gateway::start_beside(&port, &policy, folder.path());
    let kept = Load::start(port.address, 4, Habit::Keep);
    let fresh = Load::start(port.address, 4, Habit::Fresh);
    let handovers = 20;
    for _ in 0..handovers {
        let next = Gateway::start_beside(&port, &policy, folder.path());
        let mut former = std::mem::replace(&mut running, next);
        former.drain();
    }
    let (kept, fresh) = (kept.stop(), fresh.stop());
    println!(
        "{handovers} handovers: kept {} answers, fresh {} answers, lost {:?} {:?}, unconnected {:?} {:?}",
        kept.total(),
        fresh.total(),
        kept.lost,
        fresh.lost,
        kept.unconnected,
        fresh.unconnected,
    );
    assert!(kept.wrong.is_empty() && fresh.wrong.is_empty());
    assert_eq!(kept.answers.keys().chain(fresh.answers.keys()).max(), Some(&200));
    let lost = [&kept, &fresh].map(|seen| seen.lost.len() + seen.unconnected.len());
    assert!(lost.iter().sum::<usize>() <= handovers / 2, "{kept:#?} {fresh:#?}");
}

#[test]
fn a_drain_finishes_what_is_in_progress_and_waiting_and_takes_nothing_new() {
    let origin = Origin::answering(|request| {
        std::thread::sleep(Duration::from_millis(400));
        ok(&request.target)
    });
    let mut policy = policy(&origin);
    policy.origin = "slots = 1".into();
    let mut gateway = Gateway::start(&policy);
    let mut idle = gateway.client();
    assert_eq!(idle.get("/idle").status, 200);
    let mut clients: Vec<Client> = (0..3).map(|_| gateway.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(format!("GET /{number} HTTP/1.1\r\nHost: x\r\n\r\n"));
    }
    eventually("one runs, two wait", || gateway.number("/limit/waiting") == 2);
    gateway.process.signal(rustix::process::Signal::TERM);
    eventually("the port is closed", || Client::try_connect(gateway.address).is_err());
    // Whoever was accepted before may still ask once: it is told that this was the last time.
    for (number, client) in clients.iter_mut().enumerate() {
        let answer = client.answer();
        assert_eq!(answer.text(), format!("/{number}"));
        assert!(answer.closes(), "{}", answer.head);
    }
    assert_eq!(idle.rest(), b"");
    let status = gateway.process.wait(support::PATIENCE);
    assert!(status.success(), "{status}");
}

/// Connections that were accepted or wait to be accepted when the drain begins are served.
#[test]
fn a_drain_serves_whoever_has_connected_already() {
    let origin = Origin::echo();
    for turn in 0..6 {
        let mut gateway = Gateway::start(&policy(&origin));
        let mut clients: Vec<Client> = (0..8).map(|_| gateway.client()).collect();
        for client in &mut clients {
            client.send(format!("GET /{turn} HTTP/1.1\r\nHost: x\r\n\r\n"));
        }
        gateway.process.signal(rustix::process::Signal::TERM);
        for client in &mut clients {
            let answer = client.try_answer(false).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(answer.text(), format!("GET /{turn}"));
        }
        gateway.process.wait(support::PATIENCE);
    }
}

/// Browsers connect ahead of need: such a connection must not hold the drain up as a slow head would.
#[test]
fn a_drain_does_not_wait_for_connections_without_a_request() {
    let origin = Origin::echo();
    let mut policy = policy(&origin);
    policy.tables = "[timeouts]\nrequest_head = \"1h\"\ndrain = \"1h\"\n".into();
    let mut gateway = Gateway::start(&policy);
    let mut early: Vec<Client> = (0..4).map(|_| gateway.client()).collect();
    eventually("they are accepted", || gateway.number("/clients/connections_active") == 4);
    gateway.drain();
    assert!(early.iter_mut().all(|client| client.rest().is_empty()));
}

#[test]
fn a_drain_ends_after_its_time_however_slow_the_last_request_is() {
    let origin = Origin::start(|mut connection| while connection.more() {});
    let mut policy = policy(&origin);
    policy.tables = "[timeouts]\ndrain = \"500ms\"\n".into();
    let mut gateway = Gateway::start(&policy);
    let mut client = gateway.client();
    client.send("GET /never HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("it is in progress", || gateway.number("/limit/running") == 1);
    gateway.drain();
    assert_eq!(client.rest(), b"");
    assert!(gateway.log().contains("connections cut"), "{}", gateway.log());
    eventually("the origin's connection is closed", || origin.open() == 0);
}

/// Nothing else says it: the metrics end with the process.
#[test]
fn lines_of_the_access_log_that_are_lost_at_the_end_are_counted() {
    let origin = Origin::echo();
    let tables = "[access_log]\npath = \"/dev/full\"\n".to_owned();
    let mut gateway = Gateway::start(&Policy { tables, ..policy(&origin) });
    for _ in 0..3 {
        assert_eq!(gateway.get("/x").status, 200);
    }
    gateway.drain();
    let log = gateway.log();
    assert!(log.contains("the end of the access log is lost") && log.contains("lines=3"), "{log}");
}
