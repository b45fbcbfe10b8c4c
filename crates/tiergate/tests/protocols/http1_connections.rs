//! What only connections of HTTP/1 have: pipelining, upgrades, old clients, absolute targets; and interim
//! answers, which hyper's client shows over HTTP/1.1 only. Against the gateway as a process, by a client that
//! hides nothing.

use crate::support::client::Client;
use crate::support::echo::{echoed, gateway, values};
use crate::support::gateway::{Gateway, Policy};
use crate::support::origin::{Origin, ok};
use crate::support::{PATIENCE, eventually, pattern_bytes, servers};
use socket2::{Domain, Socket, Type};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[test]
fn interim_answers_and_expectations_pass() {
    let Some(server) = servers::node() else { return };
    let gateway = gateway(&server);
    let mut client = gateway.client();
    client.send("GET /hints HTTP/1.1\r\nHost: x\r\n\r\n");
    let hints = client.answer();
    assert_eq!(hints.status, 103);
    assert_eq!(hints.field("link"), Some("</style.css>; rel=preload; as=style"));
    assert_eq!(client.answer().text(), "after hints");
    // The body is not sent before the origin asks for it.
    let sha256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    for framing in ["Content-Length: 5", "Transfer-Encoding: chunked"] {
        let body = if framing.starts_with('C') { "hello" } else { "5\r\nhello\r\n0\r\n\r\n" };
        client.send(format!(
            "POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n{framing}\r\n\r\n"
        ));
        assert_eq!(client.answer().status, 100);
        let seen = echoed(&mut client, body);
        assert_eq!((&seen["sha256"], &seen["length"]), (&sha256.into(), &5.into()));
    }
    // Trailers on the way to the origin.
    let seen = echoed(
        &mut client,
        "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n\
         5\r\nhello\r\n0\r\nX-Sum: 7\r\n\r\n",
    );
    assert_eq!(
        (&seen["sha256"], &seen["trailers"]),
        (&sha256.into(), &serde_json::json!(["X-Sum", "7"]))
    );
}

/// An origin that refuses what is expected, and takes the body for the next request, as if it had never been sent.
#[test]
fn no_body_becomes_a_request_by_an_expectation() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let targets = seen.clone();
    let origin = Origin::start(move |mut connection| {
        while let Some(head) = connection.head() {
            targets.lock().unwrap().push(head.target.clone());
            if !head.values("expect").is_empty() {
                connection.send("HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n");
                continue;
            }
            let length = head.values("content-length").first().map_or(0, |it| it.parse().unwrap());
            let mut body = connection.take_buffer();
            while body.len() < length && connection.more() {
                body.extend(connection.take_buffer());
            }
            connection.ok("taken");
        }
    });
    let gateway = Gateway::start(&Policy::of(&[origin.server()]));
    let hidden = "GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n";
    for length in [hidden.len(), 100_000] {
        let head = format!(
            "POST /up HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: {length}\r\n\r\n"
        );
        let body = format!("{hidden}{}", "x".repeat(length - hidden.len()));
        // The body comes with the head; behind it; when it is asked for.
        let mut client = gateway.client();
        client.send(format!("{head}{body}"));
        assert_eq!(client.answer().text(), "taken", "{length}");
        client.send(&head);
        std::thread::sleep(Duration::from_millis(20));
        client.send(&body);
        let answers = [(); 2].map(|()| client.answer().status);
        assert_eq!(answers, [100, 200], "{length}");
        client.send(&head);
        assert_eq!(client.answer().status, 100);
        client.send(&body);
        assert_eq!(client.answer().text(), "taken", "{length}");
    }
    assert_eq!(*seen.lock().unwrap(), vec!["/up"; 6]);
    gateway.assert_conserved();
}

#[test]
fn interim_answers_are_passed_on_but_not_without_end() {
    let origin = Origin::start(|mut connection| {
        while let Some(request) = connection.request() {
            let count: usize = request.target[1..].parse().unwrap_or(0);
            for _ in 0..count {
                connection.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
            }
            connection.ok("final");
        }
    });
    let gateway = Gateway::start(&Policy::of(&[origin.server()]));
    let mut client = gateway.client();
    client.send("GET /3 HTTP/1.1\r\nHost: x\r\n\r\n");
    let statuses: Vec<u16> = (0..4).map(|_| client.answer().status).collect();
    assert_eq!(statuses, [103, 103, 103, 200]);
    // HTTP/1.0 knows none.
    let mut old = gateway.client();
    old.send("GET /3 HTTP/1.0\r\nHost: x\r\n\r\n");
    assert_eq!(old.answer().status, 200);
    let mut client = gateway.client();
    client.send("GET /100000 HTTP/1.1\r\nHost: x\r\n\r\n");
    let last = (0..1001).map(|_| client.answer().status).find(|&status| status != 103);
    assert_eq!(last, Some(502));
    gateway.assert_conserved();
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let Some(server) = servers::node() else { return };
    let gateway = gateway(&server);
    let mut client = gateway.client();
    let mut sent = Vec::new();
    for turn in 0..200 {
        match turn % 3 {
            0 => sent.extend(format!("GET /{turn} HTTP/1.1\r\nHost: x\r\n\r\n").bytes()),
            1 => sent.extend(
                format!("POST /{turn} HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\n")
                    .bytes()
                    .chain(pattern_bytes(turn, 9000)),
            ),
            _ => sent.extend(
                format!("PUT /{turn} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
                    .bytes()
                    .chain(*b"5\r\nGET /\r\n0\r\n\r\n"),
            ),
        }
    }
    let mut writer = client.stream.try_clone().expect("descriptors are left");
    let writing = std::thread::spawn(move || std::io::Write::write_all(&mut writer, &sent));
    for turn in 0..200 {
        let method = ["GET", "POST", "PUT"][turn % 3];
        assert_eq!(client.answer().text(), format!("{method} /{turn}"));
    }
    writing.join().expect("no panic").expect("all is taken");
    assert_eq!(gateway.number("/clients/connections_accepted"), 1);
}

/// The end of a body that was gathered is found, and what follows it is the next request.
#[test]
fn a_slow_upload_is_followed_by_the_next_request() {
    let origin = Origin::answering(|request| ok(&request.body));
    let gateway = Gateway::start(&Policy::of(&[origin.server()]));
    let body = String::from_utf8(vec![b'x'; 0x5000]).expect("ASCII");
    let chunk = format!("5000\r\n{body}\r\n0\r\n\r\n");
    for (framing, wire) in
        [("Content-Length: 20480", &body), ("Transfer-Encoding: chunked", &chunk)]
    {
        let (first, second) = wire.split_at(0x4000);
        let mut client = gateway.client();
        client.send(format!("POST / HTTP/1.1\r\nHost: x\r\n{framing}\r\n\r\n{first}"));
        eventually("it is read", || gateway.number("/clients/buffered_bytes") > 0);
        client.send(format!("{second}GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
        assert!(client.answer().text() == body, "the body arrived as it was sent");
        assert_eq!(client.answer().text(), "");
    }
    // A malformed one is answered here, and closes.
    let mut client = gateway.client();
    client.send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send("5\r\nhello?\r\n");
    let answer = client.answer();
    assert_eq!((answer.status, answer.closes()), (400, true), "{}", answer.head);
    assert_eq!(gateway.number("/classes/0/arrived"), 4);
    gateway.assert_conserved();
}

const UPGRADE: &str = "GET /socket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// A masked text frame.
fn frame(text: &str) -> Vec<u8> {
    let mask = [1, 2, 3, 4];
    let mut frame = vec![0x81, 0x80 | text.len() as u8];
    frame.extend(mask);
    frame.extend(text.bytes().enumerate().map(|(at, byte)| byte ^ mask[at % 4]));
    frame
}

#[test]
fn websockets_pass_both_ways_and_hold_no_slot() {
    let Some(server) = servers::node() else { return };
    let mut policy = Policy::of(&[server.server()]);
    policy.origin = "slots = 1".into();
    policy.tables = "[limits]\ntunnels_max = 3\n".into();
    let gateway = Gateway::start(&policy);
    let mut open = Vec::new();
    for early in [false, true, true] {
        let mut client = gateway.client();
        // Frames that follow the request at once must not be lost, nor taken for a request.
        let first = if early { frame("early") } else { Vec::new() };
        client.send([UPGRADE.as_bytes(), &first].concat());
        let answer = client.try_head().expect("a head");
        assert_eq!(answer.status, 101);
        assert_eq!(answer.field("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        assert_eq!(answer.field("upgrade"), Some("websocket"));
        if early {
            assert_eq!(client.bytes(7), b"\x81\x05early");
        }
        for turn in 0..100 {
            let text = format!("message {turn}");
            client.send(frame(&text));
            let back = client.bytes(2 + text.len());
            assert_eq!((back[0], &back[2..]), (0x81, text.as_bytes()));
        }
        open.push(client);
    }
    assert_eq!(gateway.number("/limit/running"), 0);
    eventually("three tunnels", || gateway.number("/clients/tunnels_active") == 3);
    assert_eq!(gateway.get("/x").status, 200, "the only slot is free");
    let mut more = gateway.client();
    more.send(UPGRADE);
    assert_eq!(more.answer().status, 503, "no more tunnels than allowed");
    // A close frame ends it from the far side; a closed connection from this one.
    let mut first = open.remove(0);
    first.send([0x88, 0x80, 1, 2, 3, 4]);
    assert_eq!(first.bytes(2), [0x88, 0]);
    assert_eq!(first.rest(), b"");
    drop(open);
    eventually("the tunnels are closed", || gateway.number("/clients/tunnels_active") == 0);
    // An upgrade that the origin does not know is an ordinary request.
    let mut client = gateway.client();
    client.send(UPGRADE.replace("websocket", "h2c"));
    assert_eq!(client.answer().text(), "GET /socket");
    assert_eq!(client.get("/next").text(), "GET /next");
    gateway.assert_conserved();
}

/// A server that does not notice that its client has left must not keep the tunnel open for an hour.
#[test]
fn a_tunnel_whose_client_has_left_is_closed_though_the_origin_is_deaf() {
    let Some(server) = servers::node() else { return };
    let gateway = gateway(&server);
    let mut client = gateway.client();
    client.send(UPGRADE.replace("/socket", "/deaf"));
    assert_eq!(client.try_head().expect("a head").status, 101);
    eventually("it is counted", || gateway.number("/clients/tunnels_active") == 1);
    drop(client);
    eventually("the tunnel is closed", || gateway.number("/clients/tunnels_active") == 0);
}

#[test]
fn an_old_client_gets_no_chunks_and_a_closed_connection() {
    let Some(server) = servers::node() else { return };
    let gateway = gateway(&server);
    for keep in ["", "Connection: keep-alive\r\n"] {
        let mut client = gateway.client();
        client.send(format!("GET /trailers HTTP/1.0\r\n{keep}\r\n"));
        let answer = client.answer();
        assert_eq!((answer.status, answer.text().as_str()), (200, "first second"));
        assert_eq!(answer.field("transfer-encoding"), None);
        assert!(answer.closes(), "{}", answer.head);
    }
    // With a length it may stay open.
    let mut client = gateway.client();
    for turn in 0..3 {
        client.send(format!("GET /{turn} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
        let answer = client.answer();
        assert_eq!(answer.text(), format!("GET /{turn}"));
        assert_eq!(answer.field("connection"), Some("keep-alive"));
    }
}

/// What is read ahead of it is kept without its chunks.
#[test]
fn an_old_client_that_reads_slowly_gets_no_chunks_either() {
    let body = pattern_bytes(0, 4 << 20);
    let mut wire = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for chunk in body.chunks(5000) {
        wire.extend(format!("{:x}\r\n", chunk.len()).bytes().chain(chunk.to_vec()).chain(*b"\r\n"));
    }
    wire.extend(b"0\r\n\r\n");
    let origin = Origin::answering(move |_| wire.clone());
    let mut policy = Policy::of(&[origin.server()]);
    policy.tables = "[forwarding]\nbuffer_response = \"16MiB\"\n".into();
    let gateway = Gateway::start(&policy);
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(4096).expect("an option every socket has");
    socket.connect(&gateway.address.into()).expect("it listens");
    let mut client = Client { stream: socket.into(), buffer: Vec::new() };
    client.patience(PATIENCE);
    client.send("GET / HTTP/1.0\r\nHost: x\r\n\r\n");
    eventually("it is kept", || {
        gateway.number("/clients/buffered_bytes") > 0 && gateway.number("/limit/running") == 0
    });
    assert!(client.answer().body == body, "as the origin sent it");
    gateway.assert_conserved();
}

#[test]
fn an_absolute_targets_host_goes_on_and_another_in_the_field_is_refused() {
    let Some(server) = servers::node() else { return };
    let gateway = gateway(&server);
    for (target, host) in [("Real.test:81", "real.test:81"), ("real.test:80", "Real.test")] {
        let request = format!("GET http://{target}/echo HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let seen = echoed(&mut gateway.client(), &request);
        assert_eq!(values(&seen, "host"), [target]);
        assert_eq!(seen["url"], "/echo");
    }
    for host in ["other.test", "real.test:82", "real.test"] {
        let mut client = gateway.client();
        client.send(format!("GET http://real.test:81/echo HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(client.answer().status, 400, "{host}");
    }
}
