//! Long-lived answers over HTTP/1.1: they hold no slot, end cleanly, and are counted once.

use crate::support::client::Client;
use crate::support::gateway::{Gateway, Policy};
use crate::support::origin::{Accepted, Origin, ok};
use crate::support::{eventually, eventually_is};
use std::time::Duration;

/// An origin with a stream of events under `/events`, and one of messages under `/calls` whose single
/// message comes at once, and whose second comes when it is told.
fn origin() -> Origin {
    Origin::start(|mut connection: Accepted| {
        while let Some(request) = connection.request() {
            let (kind, first) = match request.target.as_str() {
                "/events" => ("text/event-stream", "data: 1\n\n"),
                "/call" => ("application/grpc-web+proto", "one"),
                "/calls" => ("application/grpc", "one"),
                _ => {
                    connection.send(ok("plain"));
                    continue;
                }
            };
            let len = first.len();
            connection.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n\
                 {len:x}\r\n{first}\r\n"
            ));
            if request.target == "/call" {
                connection.send("0\r\n\r\n");
                continue;
            }
            // Until the gateway closes: the client has left.
            if !connection.more() {
                return;
            }
        }
    })
}

fn policy(origin: &Origin, class: &str) -> Policy {
    Policy {
        origin: "slots = 4".into(),
        tables: format!("[[class]]\nname = \"all\"\n{class}\n"),
        ..Policy::of(&[origin.server()])
    }
}

fn open(gateway: &Gateway, path: &str) -> Client {
    let mut client = gateway.client();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    let head = client.try_head().expect("a head");
    assert_eq!(head.status, 200, "{}", head.head);
    client
}

#[test]
fn fifty_streams_of_events_with_four_slots_stop_nobody() {
    let origin = origin();
    let gateway = Gateway::start(&policy(&origin, ""));
    let streams: Vec<Client> = (0..50).map(|_| open(&gateway, "/events")).collect();
    eventually_is("all are streams", 50, || gateway.number("/classes/0/streams"));
    assert_eq!(gateway.number("/limit/running"), 0);
    for _ in 0..100 {
        assert_eq!(gateway.get("/plain").text(), "plain");
    }
    let metrics = Client::connect(gateway.admin).get_local("/metrics").text();
    assert!(metrics.contains("tiergate_streams{class=\"all\"} 50"), "{metrics}");
    drop(streams);
    eventually_is("all are over", 0, || gateway.number("/classes/0/streams"));
    gateway.assert_conserved();
    assert_eq!(gateway.number("/classes/0/finished/upgraded"), 50);
    assert_eq!(gateway.number("/classes/0/finished/served"), 100);
}

#[test]
fn streams_beyond_their_bound_hold_slots_like_any_request() {
    let origin = origin();
    let gateway = Gateway::start(&policy(&origin, "streams = 3\n"));
    let streams: Vec<Client> = (0..5).map(|_| open(&gateway, "/events")).collect();
    eventually_is("three have none", 3, || gateway.number("/classes/0/streams"));
    assert_eq!(gateway.number("/limit/running"), 2);
    drop(streams);
    gateway.assert_conserved();
    assert_eq!(gateway.number("/classes/0/finished/upgraded"), 3);
    assert_eq!(gateway.number("/classes/0/finished/cancelled"), 2);
}

#[test]
fn a_call_becomes_a_stream_when_it_lasts() {
    let origin = origin();
    let gateway = Gateway::start(&policy(&origin, ""));
    for _ in 0..10 {
        let mut client = gateway.client();
        assert_eq!(client.get("/call").text(), "one");
    }
    let streams: Vec<Client> = (0..4).map(|_| open(&gateway, "/calls")).collect();
    assert_eq!(gateway.number("/limit/running"), 4, "not before it has lasted");
    // All slots are held until then: this one waits.
    assert_eq!(gateway.get("/plain").text(), "plain");
    eventually_is("they have lasted", 4, || gateway.number("/classes/0/streams"));
    drop(streams);
    gateway.assert_conserved();
    assert_eq!(gateway.number("/classes/0/finished/upgraded"), 4);
    assert_eq!(gateway.number("/classes/0/finished/served"), 11);
}

/// A reload, and a class that goes away, lose no stream.
#[test]
fn streams_survive_a_reload() {
    let origin = origin();
    let mut policy = policy(&origin, "");
    let gateway = Gateway::start(&policy);
    let streams: Vec<Client> = (0..8).map(|_| open(&gateway, "/events")).collect();
    eventually_is("all are streams", 8, || gateway.number("/classes/0/streams"));
    policy.tables = "[[class]]\nname = \"first\"\n[[class]]\nname = \"other\"\n".into();
    gateway.write_policy(&policy.text(&[gateway.address], gateway.admin));
    assert_eq!(gateway.reload().0, 200);
    // Their class is gone from the policy; it keeps them until they end.
    assert_eq!(gateway.number("/classes/2/streams"), 8);
    drop(streams);
    eventually("all are over, and the class with them", || {
        gateway.status().pointer("/classes/2").is_none()
    });
    std::thread::sleep(Duration::from_millis(1));
    assert_eq!(gateway.get("/plain").text(), "plain");
}
