//! The number of client connections: idle ones make room for others.

use crate::support::client::Client;
use crate::support::gateway::{Gateway, Policy};
use crate::support::origin::{Origin, ok};
use crate::support::{PATIENCE, eventually_is};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

const MAX: usize = 20;

fn gateway(origin: &Origin) -> Gateway {
    let mut policy = Policy::of(&[origin.server()]);
    policy.tables = format!("[limits]\nconnections_max = {MAX}\n");
    Gateway::start(&policy)
}

/// A connection from an address of its own, 127.0.0.`host`.
fn from(host: u8, gateway: &Gateway) -> Client {
    Client::connect_from(Ipv4Addr::new(127, 0, 0, host), gateway.address)
}

fn is_open(client: &mut Client) -> bool {
    client.patience(Duration::from_millis(100));
    client.send_anyway(b"GET /again HTTP/1.1\r\nHost: x\r\n\r\n");
    client.patience(PATIENCE);
    client.try_answer(false).is_ok_and(|answer| answer.status == 200)
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A client that holds as many idle connections as there may be, in whichever state, locks nobody out; nor
/// does one with a few lose them before the one with many.
#[test]
fn idle_connections_make_room_for_newcomers() {
    let origin = Origin::echo();
    let whole = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    let part = b"GET / HTTP/1.1\r\nHost:";
    let without_body = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n";
    // HEADERS without END_STREAM: POST, http, /, and a name.
    let stream = [PREFACE, b"\0\0\x06\x01\x04\0\0\0\x01\x83\x86\x84\x41\x01x"].concat();
    for first in [&b""[..], part, whole, without_body, PREFACE, &stream] {
        let gateway = gateway(&origin);
        let mut modest = from(2, &gateway);
        assert_eq!(modest.get("/modest").status, 200);
        let mut greedy: Vec<Client> = (1..MAX).map(|_| from(3, &gateway)).collect();
        for client in &mut greedy {
            client.send(first);
            if first == &whole[..] {
                assert_eq!(client.answer().status, 200);
            }
        }
        let open = || gateway.number("/clients/connections_active");
        eventually_is("all are open", MAX as u64, open);
        let begun = Instant::now();
        let mut newcomers: Vec<Client> = (10..20).map(|host| from(host, &gateway)).collect();
        for client in &mut newcomers {
            assert_eq!(client.get("/newcomer").status, 200);
        }
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(8), "{took:?} for {:?}", first.escape_ascii());
        assert!(is_open(&mut modest), "it was not in the way");
        assert!(newcomers.iter_mut().all(is_open));
        assert!(open() <= MAX as u64);
        gateway.assert_conserved();
    }
}

/// A client whose connections all have requests has no others closed for more of its own.
#[test]
fn requests_of_one_client_take_no_idle_connection_of_another() {
    let origin = Origin::answering(|request| {
        if request.target == "/slow" {
            std::thread::sleep(Duration::from_secs(2));
        }
        ok("done")
    });
    let gateway = gateway(&origin);
    let mut modest = from(2, &gateway);
    assert_eq!(modest.get("/modest").status, 200);
    let mut greedy: Vec<Client> = (0..MAX + 10).map(|_| from(3, &gateway)).collect();
    for client in &mut greedy {
        client.send("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    let open = || gateway.number("/clients/connections_active");
    eventually_is("all are open", MAX as u64, open);
    std::thread::sleep(Duration::from_millis(300));
    assert!(is_open(&mut modest), "it was not in the way");
    drop(greedy);
}

/// A client over HTTP/2 is told that the connection ends and that no request was lost.
#[test]
fn an_idle_connection_over_http2_ends_with_goaway() {
    let origin = Origin::echo();
    let gateway = gateway(&origin);
    let mut greedy: Vec<Client> = (0..MAX).map(|_| from(3, &gateway)).collect();
    greedy.iter_mut().for_each(|client| client.send(PREFACE));
    let open = || gateway.number("/clients/connections_active");
    eventually_is("all are open", MAX as u64, open);
    assert_eq!(from(2, &gateway).get("/").status, 200);
    let ended: Vec<Vec<u8>> = greedy
        .iter_mut()
        .filter_map(|client| {
            client.patience(Duration::from_millis(300));
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut client.stream, &mut bytes).ok().map(|_| bytes)
        })
        .collect();
    assert!(!ended.is_empty());
    for bytes in ended {
        // Type GOAWAY, of the connection, without an error.
        let goaway = bytes.windows(17).any(|it| it[3] == 7 && it[13..] == [0; 4]);
        assert!(goaway, "{}", bytes.escape_ascii());
    }
}
