//! Real servers behind the gateway: what clients get is what they would have got without it.

mod support;

use support::answer::Answer;
use support::client::Client;
use support::echo::{BROWSER, echoed, fill, gateway};
use support::gateway::{Gateway, Policy};
use support::pattern_bytes;
use support::servers::{self, Server};

fn ask(client: &mut Client, request: &str) -> Answer {
    client.send(request);
    client
        .try_answer(request.starts_with("HEAD"))
        .unwrap_or_else(|error| panic!("{}: {error}", request.lines().next().unwrap_or_default()))
}

/// Sends the same requests to the server and through the gateway, each on one kept connection, and
/// compares all that is not the connection's own.
fn compare(server: &Server, requests: &[String]) -> Vec<Answer> {
    let gateway = gateway(server);
    let (mut direct, mut through) = (None, None);
    let mut answers = Vec::new();
    for request in requests {
        let there = ask(direct.get_or_insert_with(|| Client::connect(server.address)), request);
        let here = ask(through.get_or_insert_with(|| gateway.client()), request);
        assert_eq!(here.essence(), there.essence(), "{request}");
        assert!(here.head.starts_with("HTTP/1.1 "), "{}", here.head);
        // Where the server's answer is ended by its connection, so is ours; else it is kept.
        if there.closes() || there.head.starts_with("HTTP/1.0") {
            direct = None;
        }
        if here.closes() {
            through = None;
        }
        answers.push(here);
    }
    gateway.assert_conserved();
    answers
}

/// Requests that any server of files understands.
fn for_files(tag: &str) -> Vec<String> {
    let get = |path: &str, more: &str| format!("GET {path} HTTP/1.1\r\n{BROWSER}{more}\r\n");
    vec![
        get("/", ""),
        get("/index.html?a=1&b=%2F", ""),
        get("/text.txt", ""),
        get("/data.bin", ""),
        get("/data.bin", "Range: bytes=100-199\r\n"),
        get("/data.bin", "Range: bytes=-1\r\n"),
        get("/data.bin", "Range: bytes=999999-\r\n"),
        get("/data.bin", "Range: bytes=0-0,10-19\r\n"),
        get("/data.bin", &format!("If-None-Match: {tag}\r\n")),
        get("/data.bin", "If-Modified-Since: Fri, 01 Jan 2038 00:00:00 GMT\r\n"),
        get("/empty", ""),
        get("/missing", ""),
        get("/%7Euser/..%2f", ""),
        format!("HEAD /data.bin HTTP/1.1\r\n{BROWSER}\r\n"),
        format!("HEAD /missing HTTP/1.1\r\n{BROWSER}\r\n"),
        format!("DELETE /data.bin HTTP/1.1\r\n{BROWSER}\r\n"),
        format!("POST /data.bin HTTP/1.1\r\n{BROWSER}Content-Length: 5\r\n\r\nhello"),
        get("/data.bin", ""),
    ]
}

fn tag(server: &Server) -> String {
    let head = Client::connect(server.address).get("/data.bin");
    head.field("etag").unwrap_or("\"none\"").to_owned()
}

/// Multipart boundaries are made up anew for each answer, so only one range at a time is compared.
fn single_ranges(requests: Vec<String>) -> Vec<String> {
    requests.into_iter().filter(|request| !request.contains("10-19")).collect()
}

#[test]
fn nginx_answers_as_it_does_without_the_gateway() {
    let Some(server) = servers::nginx() else { return };
    fill(&server);
    let mut requests = single_ranges(for_files(&tag(&server)));
    requests.push(
        "GET /seen?x=%20y HTTP/1.1\r\nHost: x\r\nCookie: session=abc\r\nX-One: 1\r\n\r\n".into(),
    );
    requests.push(format!("GET /nothing HTTP/1.1\r\n{BROWSER}\r\n"));
    requests.push(format!("GET /moved HTTP/1.1\r\n{BROWSER}\r\n"));
    let answers = compare(&server, &requests);
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    for status in [200, 204, 206, 302, 304, 404, 405, 416] {
        assert!(statuses.contains(&status), "{status} was not compared: {statuses:?}");
    }
    let zipped = answers.iter().find(|answer| answer.field("content-encoding").is_some());
    assert!(zipped.is_some_and(|answer| answer.body.starts_with(&[0x1f, 0x8b])), "gzip passes");
    let cookies = answers.iter().find(|it| it.text().contains("session=abc")).expect("/seen");
    assert_eq!(cookies.fields.iter().filter(|(name, _)| name == "Set-Cookie").count(), 2);
}

#[test]
fn apache_answers_as_it_does_without_the_gateway() {
    let Some(server) = servers::apache() else { return };
    fill(&server);
    let mut requests = single_ranges(for_files(&tag(&server)));
    requests.push(format!("OPTIONS * HTTP/1.1\r\n{BROWSER}\r\n"));
    requests.push(format!("OPTIONS / HTTP/1.1\r\n{BROWSER}\r\n"));
    requests.push(format!("GET /moved HTTP/1.1\r\n{BROWSER}\r\n"));
    let answers = compare(&server, &requests);
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    for status in [200, 206, 302, 304, 404, 405, 416] {
        assert!(statuses.contains(&status), "{status} was not compared: {statuses:?}");
    }
}

#[test]
fn python_answers_as_it_does_without_the_gateway() {
    let Some(server) = servers::python() else { return };
    fill(&server);
    let answers = compare(&server, &single_ranges(for_files("\"none\"")));
    assert!(answers.iter().any(|answer| answer.status == 200 && answer.body.len() == 10_000));
    assert!(answers.iter().any(|answer| answer.status == 304));
    assert!(answers.iter().any(|answer| answer.status == 501), "DELETE");
}

#[test]
fn node_answers_as_it_does_without_the_gateway() {
    let Some(server) = servers::node() else { return };
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\n{BROWSER}\r\n");
    let requests = [get("/trailers"), get("/nothing"), get("/a?b"), get("/trailers")];
    let answers = compare(&server, &requests);
    assert_eq!(answers[0].text(), "first second");
    assert_eq!(answers[0].trailers, [("X-Sum".to_owned(), "abc".to_owned())]);
    assert_eq!(answers[0].fields.iter().filter(|(name, _)| name == "Set-Cookie").count(), 2);
}

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
    support::eventually("three tunnels", || gateway.number("/clients/tunnels_active") == 3);
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
    support::eventually("the tunnels are closed", || {
        gateway.number("/clients/tunnels_active") == 0
    });
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
    support::eventually("it is counted", || gateway.number("/clients/tunnels_active") == 1);
    drop(client);
    support::eventually("the tunnel is closed", || gateway.number("/clients/tunnels_active") == 0);
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

/// An answer without a date gets one on its way (RFC 9110 §6.6.1), and only then.
#[test]
fn an_answer_without_a_date_gets_one() {
    use support::origin::{Origin, ok};
    let origin = Origin::answering(|request| match request.target.as_str() {
        "/dated" => b"HTTP/1.1 200 OK\r\nDate: then\r\nContent-Length: 0\r\n\r\n".to_vec(),
        _ => ok("x"),
    });
    let gateway = Gateway::start(&Policy::of(&[origin.server()]));
    let date = gateway.get("/").field("date").expect("a date").to_owned();
    assert!(date.ends_with(" GMT") && date.len() == 29, "{date}");
    assert_eq!(gateway.get("/dated").field("date"), Some("then"));
}
