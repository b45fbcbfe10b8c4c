//! Slow bodies, both ways, over HTTP/1.1: what fits into memory holds no slot of the origin, what does
//! not is streamed; every byte arrives.

mod support;

use socket2::{Domain, Socket, Type};
use std::time::Duration;
use support::client::Client;
use support::gateway::{Gateway, Policy};
use support::origin::{Origin, ok};
use support::{PATIENCE, eventually, pattern_bytes};

const KIB: usize = 1024;

/// One slot, `tables` of the policy.
fn narrow(origin: &Origin, tables: &str) -> Gateway {
    let mut policy = Policy::of(&[origin.server()]);
    // Each thread has its own connections to the origin.
    policy.top = "threads = 1".into();
    policy.origin = "slots = 1".into();
    policy.tables = tables.into();
    Gateway::start(&policy)
}

/// Answers with the body, or with as much of the pattern as `/len/…` says.
fn mirror() -> Origin {
    Origin::answering(|request| match request.target.strip_prefix("/len/") {
        Some(len) => ok(pattern_bytes(0, len.parse().expect("a length"))),
        None => ok(&request.body),
    })
}

/// A client whose system takes little that it does not read.
fn reluctant(gateway: &Gateway) -> Client {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(4 * KIB).expect("an option every socket has");
    socket.connect(&gateway.address.into()).expect("it listens");
    let client = Client { stream: socket.into(), buffer: Vec::new() };
    client.patience(PATIENCE);
    client
}

fn running(gateway: &Gateway) -> u64 {
    gateway.number("/limit/running")
}

fn buffered(gateway: &Gateway) -> u64 {
    gateway.number("/clients/buffered_bytes")
}

fn assert_all_is_given_back(gateway: &Gateway) {
    gateway.assert_conserved();
    eventually("all memory is given back", || buffered(gateway) == 0);
}

/// The body's head and bytes on the wire, by a length or in chunks.
fn upload(body: &[u8], chunked: bool) -> (String, Vec<u8>) {
    if !chunked {
        let head = format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len());
        return (head, body.to_vec());
    }
    let mut wire = Vec::new();
    for chunk in body.chunks(5000) {
        wire.extend(format!("{:x}\r\n", chunk.len()).bytes().chain(chunk.to_vec()).chain(*b"\r\n"));
    }
    wire.extend(b"0\r\n\r\n");
    ("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".into(), wire)
}

#[test]
fn slow_uploads_that_fit_hold_up_nobody() {
    let origin = mirror();
    let gateway = narrow(&origin, "");
    let bodies: Vec<Vec<u8>> = (0..20).map(|at| pattern_bytes(at, 32 * KIB)).collect();
    let mut slow: Vec<(Client, Vec<u8>)> = Vec::new();
    for (at, body) in bodies.iter().enumerate() {
        let (head, wire) = upload(body, at % 2 == 1);
        let mut client = gateway.client();
        client.send(head);
        client.send(&wire[..20 * KIB]);
        slow.push((client, wire));
    }
    eventually("they are read", || buffered(&gateway) >= 20 * 20 * KIB as u64);
    let mut client = gateway.client();
    for _ in 0..100 {
        assert_eq!(client.get("/len/10").body, pattern_bytes(0, 10));
    }
    assert_eq!((running(&gateway), gateway.number("/classes/0/queued")), (0, 0));
    assert_eq!(origin.accepted(), 1);
    for ((client, wire), body) in slow.iter_mut().zip(&bodies) {
        // With the next request behind it.
        client.send([&wire[20 * KIB..], b"GET /len/7 HTTP/1.1\r\nHost: x\r\n\r\n"].concat());
        assert!(client.answer().body == *body, "the body arrived as it was sent");
        assert_eq!(client.answer().body, pattern_bytes(0, 7));
    }
    assert_all_is_given_back(&gateway);
}

#[test]
fn longer_uploads_ask_for_their_slot_when_the_buffer_is_full() {
    let origin = mirror();
    let gateway = narrow(&origin, "[forwarding]\nbuffer_request = \"20KiB\"\n");
    for chunked in [false, true] {
        let body = pattern_bytes(3, 300 * KIB);
        let (head, wire) = upload(&body, chunked);
        let mut client = gateway.client();
        client.send(head);
        client.send(&wire[..10 * KIB]);
        eventually("it is read", || buffered(&gateway) > 0);
        assert_eq!(running(&gateway), 0);
        client.send(&wire[10 * KIB..40 * KIB]);
        eventually("it has its slot", || running(&gateway) == 1);
        eventually("the memory is free for others", || buffered(&gateway) == 0);
        for piece in wire[40 * KIB..].chunks(10_007) {
            client.send(piece);
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(client.answer().body == body, "the body arrived as it was sent");
        assert_all_is_given_back(&gateway);
    }
}

/// A body in memory is larger than what the origin's socket takes, and the origin answers as it reads.
#[test]
fn an_origin_that_answers_while_it_reads_is_read_meanwhile() {
    let origin = Origin::start(|mut connection| {
        let Some(_) = connection.head() else { return };
        let len = 16 << 20;
        connection.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n"));
        let mut left = len;
        let mut stream = connection.stream.try_clone().expect("descriptors are left");
        let mut early = connection.take_buffer();
        while left > 0 {
            if early.is_empty() {
                early.resize(64 * KIB, 0);
                let count = std::io::Read::read(&mut stream, &mut early).expect("more comes");
                early.truncate(count);
            }
            connection.send(&early);
            left -= early.len();
            early.clear();
        }
    });
    let tables = "[forwarding]\nbuffer_request = \"32MiB\"\n[timeouts]\nwrite = \"3s\"\n";
    let gateway = narrow(&origin, tables);
    let body = pattern_bytes(5, 16 << 20);
    let mut client = gateway.client();
    let (head, wire) = upload(&body, false);
    client.send(head);
    client.send(wire);
    assert!(client.answer().body == body, "the body came back as it was sent");
    assert_all_is_given_back(&gateway);
}

#[test]
fn slow_readers_whose_answers_fit_hold_up_nobody() {
    let origin = mirror();
    let gateway = narrow(&origin, "[forwarding]\nbuffer_response = \"16MiB\"\n");
    let len = 8 << 20;
    let mut slow: Vec<Client> = Vec::new();
    for _ in 0..3 {
        let mut client = reluctant(&gateway);
        client.send(format!("GET /len/{len} HTTP/1.1\r\nHost: x\r\n\r\n"));
        eventually("the origin is done with it", || {
            gateway.number("/classes/0/finished/served") > slow.len() as u64
        });
        slow.push(client);
    }
    assert!(buffered(&gateway) > len as u64, "{}", buffered(&gateway));
    assert_eq!((running(&gateway), gateway.number("/origin/0/outstanding")), (0, 0));
    let mut client = gateway.client();
    for _ in 0..100 {
        assert_eq!(client.get("/len/10").body, pattern_bytes(0, 10));
    }
    assert_eq!(origin.accepted(), 1, "the origin's connection goes on to the next");
    for client in &mut slow {
        assert!(client.answer().body == pattern_bytes(0, len), "as the origin sent it");
        // The connection goes on.
        assert_eq!(client.get("/len/3").body, pattern_bytes(0, 3));
    }
    assert_all_is_given_back(&gateway);
}

#[test]
fn longer_answers_hold_their_slot_and_arrive_whole() {
    let origin = mirror();
    for (tables, most) in [("", 256 * KIB), ("[forwarding]\nbuffer_response = 0\n", 0)] {
        let gateway = narrow(&origin, tables);
        let len = 32 << 20;
        let mut client = reluctant(&gateway);
        client.send(format!("GET /len/{len} HTTP/1.1\r\nHost: x\r\n\r\n"));
        eventually("all that may be is read", || buffered(&gateway) == most as u64);
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!((buffered(&gateway), running(&gateway)), (most as u64, 1));
        assert!(client.answer().body == pattern_bytes(0, len), "as the origin sent it");
        assert_all_is_given_back(&gateway);
    }
}

/// To HTTP/1.0 the chunks are taken out on the way.
#[test]
fn chunked_answers_are_kept_for_slow_readers_too() {
    let body = pattern_bytes(0, 4 << 20);
    let (_, wire) = upload(&body, true);
    let origin = Origin::answering(move |_| {
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", &wire[..]].concat()
    });
    let gateway = narrow(&origin, "[forwarding]\nbuffer_response = \"16MiB\"\n");
    for version in ["1.1", "1.0"] {
        let mut client = reluctant(&gateway);
        client.send(format!("GET / HTTP/{version}\r\nHost: x\r\n\r\n"));
        eventually("it is kept", || buffered(&gateway) > 0 && running(&gateway) == 0);
        assert!(client.answer().body == body, "as the origin sent it");
        drop(client);
        assert_all_is_given_back(&gateway);
    }
}

#[test]
fn who_leaves_while_its_body_is_read_costs_the_origin_nothing() {
    let origin = mirror();
    let gateway = narrow(&origin, "");
    for chunked in [false, true] {
        let (head, wire) = upload(&pattern_bytes(0, 30 * KIB), chunked);
        let mut client = gateway.client();
        client.send(head);
        client.send(&wire[..25 * KIB]);
        eventually("it is read", || buffered(&gateway) > 0);
        drop(client);
        assert_all_is_given_back(&gateway);
    }
    assert_eq!((origin.accepted(), gateway.number("/classes/0/arrived")), (0, 0));
}

#[test]
fn who_leaves_while_its_answer_is_kept_gives_all_back() {
    let origin = mirror();
    let gateway = narrow(&origin, "[forwarding]\nbuffer_response = \"16MiB\"\n");
    // One that fits, one that does not.
    for len in [8 << 20, 64 << 20] {
        let mut client = reluctant(&gateway);
        client.send(format!("GET /len/{len} HTTP/1.1\r\nHost: x\r\n\r\n"));
        eventually("it is kept", || buffered(&gateway) > 0);
        drop(client);
        assert_all_is_given_back(&gateway);
    }
}

#[test]
fn what_an_origin_sent_before_it_broke_off_arrives() {
    let origin = Origin::start(|mut connection| {
        if connection.request().is_some() {
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n");
            connection.send(pattern_bytes(0, 6_000_000));
        }
    });
    let gateway = narrow(&origin, "[forwarding]\nbuffer_response = \"16MiB\"\n");
    let mut client = reluctant(&gateway);
    client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    let failed = || gateway.number("/classes/0/finished/failed") == 1;
    eventually("the slot is free before the client has read", failed);
    assert_eq!(client.try_head().expect("a head").status, 200);
    assert!(client.rest() == pattern_bytes(0, 6_000_000), "all that came, and no more");
    assert_all_is_given_back(&gateway);
}

#[test]
fn an_origins_connection_that_is_not_kept_is_closed_before_the_client_has_read() {
    let len = 8 << 20;
    let origin = Origin::start(move |mut connection| {
        if connection.request().is_some() {
            let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length:";
            connection.send(format!("{head} {len}\r\n\r\n"));
            connection.send(pattern_bytes(0, len));
            while connection.more() {}
        }
    });
    let gateway = narrow(&origin, "[forwarding]\nbuffer_response = \"16MiB\"\n");
    let mut client = reluctant(&gateway);
    client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("it is kept", || gateway.number("/classes/0/finished/served") == 1);
    eventually("the origin is left alone", || origin.open() == 0);
    assert!(buffered(&gateway) > 0);
    assert!(client.answer().body == pattern_bytes(0, len), "as the origin sent it");
}

#[test]
fn a_client_that_waits_for_100_gets_it_from_us() {
    let origin = mirror();
    let gateway = narrow(&origin, "");
    for chunked in [false, true] {
        let (head, wire) = upload(b"hello", chunked);
        let mut client = gateway.client();
        client.send(head.replace("Host: x", "Host: x\r\nExpect: 100-continue"));
        assert_eq!(client.answer().status, 100);
        assert_eq!(running(&gateway), 0, "no slot is taken while it is awaited");
        client.send(wire);
        let answer = client.answer();
        assert_eq!((answer.status, answer.text().as_str()), (200, "hello"));
    }
    let (requests, _) = origin.requests();
    assert!(requests.iter().all(|request| request.values("expect").is_empty()));
}

/// That is for the origin to say, before the body is sent.
#[test]
fn whether_a_long_body_is_wanted_is_still_the_origins_to_say() {
    let origin = Origin::start(|mut connection| {
        while connection.head().is_some() {
            connection.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let gateway = narrow(&origin, "");
    let mut client = gateway.client();
    let head = "PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 65537\r\n\r\n";
    client.send(head);
    assert_eq!(client.answer().status, 403);
}

/// A refusal is not worth a body.
#[test]
fn who_would_be_refused_is_refused_before_its_body_is_read() {
    let origin = Origin::start(|mut connection| {
        let _request = connection.request();
        std::thread::sleep(PATIENCE);
    });
    let tables =
        "[[class]]\nname = \"only\"\nqueue = 1\n[[rule]]\npath = \"/never\"\nrefuse = true\n";
    let gateway = narrow(&origin, tables);
    let refused = |head: &str| {
        let mut client = gateway.client();
        client.send(head);
        assert_eq!(client.answer().status, 503, "{head}");
    };
    let rest = "Host: x\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n";
    refused(&format!("POST /never HTTP/1.1\r\n{rest}"));
    let mut busy: Vec<Client> = Vec::new();
    for waiting in 0..2 {
        let mut client = gateway.client();
        client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        eventually("it is in", || gateway.number("/limit/waiting") == waiting);
        busy.push(client);
        eventually("the slot is taken", || running(&gateway) == 1);
    }
    refused(&format!("POST / HTTP/1.1\r\n{rest}"));
    refused("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n");
    drop(busy);
}

#[test]
fn bodies_that_stall_or_are_malformed_never_come_to_the_gate() {
    let origin = mirror();
    let tables = "[timeouts]\nrequest_body = \"300ms\"\n[limits]\nrequest_body_max = \"30KiB\"\n";
    let gateway = narrow(&origin, tables);
    let chunks = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    let large = format!("8000\r\n{}", "x".repeat(0x8000));
    let cases = [
        (408, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n", "hell"),
        (408, chunks, "5\r\nhell"),
        (400, chunks, "5\r\nhello?\r\n"),
        (413, chunks, &large),
    ];
    for (status, head, body) in cases {
        let mut client = gateway.client();
        client.send(head);
        std::thread::sleep(Duration::from_millis(50));
        client.send_anyway(body.as_bytes());
        let answer = client.answer();
        assert_eq!((answer.status, answer.closes()), (status, true), "{}", answer.head);
        assert_eq!(client.rest(), b"");
    }
    assert_eq!((origin.accepted(), gateway.number("/classes/0/arrived")), (0, 0));
    assert_eq!(gateway.number("/clients/bad_requests"), 4);
    assert_all_is_given_back(&gateway);
}

#[test]
fn all_buffers_together_are_bounded() {
    let origin = mirror();
    let mut policy = Policy::of(&[origin.server()]);
    policy.tables = "[limits]\nbuffers_max = \"200KiB\"\n".into();
    let gateway = Gateway::start(&policy);
    let bodies: Vec<Vec<u8>> = (0..12).map(|at| pattern_bytes(at, 60 * KIB)).collect();
    let mut slow: Vec<Client> = Vec::new();
    for body in &bodies {
        let (head, wire) = upload(body, false);
        let mut client = gateway.client();
        client.send(head);
        client.send(&wire[..50 * KIB]);
        slow.push(client);
    }
    // Whoever finds no memory is streamed, and holds a slot.
    eventually("most hold a slot", || running(&gateway) >= 8);
    let readers: Vec<Client> = (0..4)
        .map(|_| {
            let mut client = reluctant(&gateway);
            client.send("GET /len/8000000 HTTP/1.1\r\nHost: x\r\n\r\n");
            client
        })
        .collect();
    eventually("readers too", || running(&gateway) >= 12);
    for _ in 0..20 {
        assert!(buffered(&gateway) <= 200 * KIB as u64, "{}", buffered(&gateway));
    }
    for (mut client, body) in slow.into_iter().zip(&bodies) {
        client.send(&body[50 * KIB..]);
        assert!(client.answer().body == *body, "the body arrived as it was sent");
    }
    for mut client in readers {
        assert!(client.answer().body == pattern_bytes(0, 8_000_000), "as the origin sent it");
    }
    assert_all_is_given_back(&gateway);
}

#[test]
fn nothing_is_kept_where_the_policy_says_so() {
    let origin = mirror();
    let gateway = narrow(&origin, "[forwarding]\nbuffer_request = 0\n");
    let mut client = gateway.client();
    client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n");
    eventually("it has its slot", || running(&gateway) == 1);
    client.send("hello");
    assert_eq!(client.answer().text(), "hello");
}
