//! Malformed and smuggling messages on the wire: what the client gets, and that the origin sees nothing
//! but whole, unambiguous requests.

use crate::support;
use std::time::Duration;
use support::client::Client;
use support::eventually;
use support::gateway::{Gateway, Policy};
use support::origin::{Origin, ok};

/// What must come of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// An answer of this status, then the connection is closed; the origin sees nothing.
    Status(u16),
    /// The same, but the head was good: the origin may have seen a request without its end.
    Body(u16),
}
use Fate::{Body, Status};

const CASES: &[(&str, &[u8], Fate)] = &[
    // Request lines.
    ("no method", b" /evil HTTP/1.1\r\nHost: x\r\n\r\n", Status(400)),
    ("method with a colon", b"GE:T /evil HTTP/1.1\r\nHost: x\r\n\r\n", Status(400)),
    ("method with a null", b"G\0T /evil HTTP/1.1\r\nHost: x\r\n\r\n", Status(400)),
    ("tab for space", b"GET\t/evil HTTP/1.1\r\nHost: x\r\n\r\n", Status(400)),
    ("two spaces", b"GET  /evil HTTP/1.1\r\nHost: x\r\n\r\n", Status(400)),
    ("space before the end", b"GET /evil HTTP/1.1 \r\nHost: x\r\n\r\n", Status(400)),
    ("space in the target", b"GET /evil x HTTP/1.1\r\nHost: x\r\n\r\n", Status(400)),
    ("relative target", b"GET evil HTTP/1.1\r\nHost: x\r\n\r\n", Status(400)),
    ("fragment", b"GET /evil#x HTTP/1.1\r\nHost: x\r\n\r\n", Status(400)),
    ("null in the target", b"GET /evil\0 HTTP/1.1\r\nHost: x\r\n\r\n", Status(400)),
    ("bare CR in the target", b"GET /evil\rx HTTP/1.1\r\nHost: x\r\n\r\n", Status(400)),
    ("HTTP/0.9", b"GET /evil\r\nHost: x\r\n\r\n", Status(505)),
    ("HTTP/2.0 by text", b"GET /evil HTTP/2.0\r\nHost: x\r\n\r\n", Status(505)),
    ("HTTP/1.2", b"GET /evil HTTP/1.2\r\nHost: x\r\n\r\n", Status(505)),
    ("lower-case version", b"GET /evil http/1.1\r\nHost: x\r\n\r\n", Status(400)),
    ("long version", b"GET /evil HTTP/1.10\r\nHost: x\r\n\r\n", Status(400)),
    ("CONNECT", b"CONNECT evil:443 HTTP/1.1\r\nHost: evil:443\r\n\r\n", Status(501)),
    ("asterisk with GET", b"GET * HTTP/1.1\r\nHost: evil\r\n\r\n", Status(400)),
    ("user info", b"GET http://a@evil/ HTTP/1.1\r\nHost: x\r\n\r\n", Status(400)),
    ("TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03evil", Status(400)),
    // Paths that servers read differently.
    ("encoded slash", b"GET /x%2Fevil HTTP/1.1\r\nHost: x\r\n\r\n", Status(400)),
    ("backslash", b"GET /x\\evil HTTP/1.1\r\nHost: x\r\n\r\n", Status(400)),
    ("encoded null", b"GET /evil%00 HTTP/1.1\r\nHost: x\r\n\r\n", Status(400)),
    ("double encoding", b"GET /%2565vil HTTP/1.1\r\nHost: x\r\n\r\n", Status(400)),
    ("no escape", b"GET /evil% HTTP/1.1\r\nHost: x\r\n\r\n", Status(400)),
    ("absolute", b"GET http://x/%2fevil HTTP/1.0\r\nHost: x\r\n\r\n", Status(400)),
    // Line ends.
    ("bare LF after the line", b"GET /evil HTTP/1.1\nHost: x\r\n\r\n", Status(400)),
    ("bare LF after a field", b"GET /evil HTTP/1.1\r\nHost: x\n\r\n", Status(400)),
    ("bare LF only", b"GET /evil HTTP/1.1\nHost: x\n\n", Status(400)),
    ("bare CR in a value", b"GET /evil HTTP/1.1\r\nHost: x\r\nA: b\rc\r\n\r\n", Status(400)),
    ("CR CR LF", b"GET /evil HTTP/1.1\r\nHost: x\r\r\n\r\n", Status(400)),
    // Fields.
    ("null in a value", b"GET /evil HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n", Status(400)),
    ("null in a name", b"GET /evil HTTP/1.1\r\nHost: x\r\nA\0: b\r\n\r\n", Status(400)),
    ("control byte", b"GET /evil HTTP/1.1\r\nHost: x\r\nA: b\x01\r\n\r\n", Status(400)),
    ("DEL in a value", b"GET /evil HTTP/1.1\r\nHost: x\r\nA: b\x7f\r\n\r\n", Status(400)),
    ("no colon", b"GET /evil HTTP/1.1\r\nHost: x\r\nnonsense\r\n\r\n", Status(400)),
    ("no name", b"GET /evil HTTP/1.1\r\nHost: x\r\n: b\r\n\r\n", Status(400)),
    ("space before the colon", b"GET /evil HTTP/1.1\r\nHost : x\r\n\r\n", Status(400)),
    ("tab before the colon", b"GET /evil HTTP/1.1\r\nHost: x\r\nA\t: b\r\n\r\n", Status(400)),
    ("folded field", b"GET /evil HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", Status(400)),
    ("space before a field", b"GET /evil HTTP/1.1\r\n Host: x\r\n\r\n", Status(400)),
    ("UTF-8 name", b"GET /evil HTTP/1.1\r\nHost: x\r\n\xc3\xa4: b\r\n\r\n", Status(400)),
    ("no host", b"GET /evil HTTP/1.1\r\nA: b\r\n\r\n", Status(400)),
    ("two hosts", b"GET /evil HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", Status(400)),
    ("the same host twice", b"GET /evil HTTP/1.1\r\nHost: x\r\nhost: x\r\n\r\n", Status(400)),
    ("host with a path", b"GET /evil HTTP/1.1\r\nHost: x/y\r\n\r\n", Status(400)),
    ("host with a user", b"GET /evil HTTP/1.1\r\nHost: a@x\r\n\r\n", Status(400)),
    ("hosts in a list", b"GET /evil HTTP/1.1\r\nHost: x, y\r\n\r\n", Status(400)),
    ("unknown expectation", b"GET /evil HTTP/1.1\r\nHost: x\r\nExpect: tea\r\n\r\n", Status(417)),
    // Lengths.
    ("two lengths", b"POST /evil HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nevil", Status(400)),
    ("equal lengths", b"POST /evil HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\nevil", Status(400)),
    ("lengths in a list", b"POST /evil HTTP/1.1\r\nHost: x\r\nContent-Length: 4, 4\r\n\r\nevil", Status(400)),
    ("plus sign", b"POST /evil HTTP/1.1\r\nHost: x\r\nContent-Length: +4\r\n\r\nevil", Status(400)),
    ("minus sign", b"POST /evil HTTP/1.1\r\nHost: x\r\nContent-Length: -4\r\n\r\nevil", Status(400)),
    ("hexadecimal", b"POST /evil HTTP/1.1\r\nHost: x\r\nContent-Length: 0x4\r\n\r\nevil", Status(400)),
    ("empty length", b"POST /evil HTTP/1.1\r\nHost: x\r\nContent-Length: \r\n\r\n", Status(400)),
    ("space in the length", b"POST /evil HTTP/1.1\r\nHost: x\r\nContent-Length: 4 4\r\n\r\nevil", Status(400)),
    ("overflow", b"POST /evil HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551620\r\n\r\nevil", Status(400)),
    ("fraction", b"POST /evil HTTP/1.1\r\nHost: x\r\nContent-Length: 4.0\r\n\r\nevil", Status(400)),
    // Transfer codings.
    ("length and chunked", b"POST /evil HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Status(400)),
    ("chunked and length", b"POST /evil HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n", Status(400)),
    ("chunked twice", b"POST /evil HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Status(400)),
    ("chunked listed twice", b"POST /evil HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", Status(400)),
    ("identity", b"POST /evil HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\n\r\n", Status(400)),
    ("gzip, chunked", b"POST /evil HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", Status(501)),
    ("chunked, gzip", b"POST /evil HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", Status(400)),
    ("xchunked", b"POST /evil HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", Status(400)),
    ("quoted chunked", b"POST /evil HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", Status(400)),
    ("chunked after a vertical tab", b"POST /evil HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", Status(400)),
    ("chunked in HTTP/1.0", b"POST /evil HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Status(400)),
    ("folded coding", b"POST /evil HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", Status(400)),
    ("space before the coding's colon", b"POST /evil HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", Status(400)),
    // Chunks: the head is good, the body is not.
    ("size is no number", b"POST /evil HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nevil\r\n0\r\n\r\n", Body(400)),
    ("size with 0x", b"POST /evil HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0x4\r\nevil\r\n0\r\n\r\n", Body(400)),
    ("size with a sign", b"POST /evil HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n+4\r\nevil\r\n0\r\n\r\n", Body(400)),
    ("huge size", b"POST /evil HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff4\r\nevil\r\n0\r\n\r\n", Body(400)),
    ("bare LF after the size", b"POST /evil HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\nevil\r\n0\r\n\r\n", Body(400)),
    ("bare LF in an extension", b"POST /evil HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4;a\nb\r\nevil\r\n0\r\n\r\n", Body(400)),
    ("no CRLF after the data", b"POST /evil HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nevilX\r\n0\r\n\r\n", Body(400)),
    ("bare LF after the data", b"POST /evil HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nevil\n0\r\n\r\n", Body(400)),
    ("malformed trailer", b"POST /evil HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nbad trailer\r\n\r\n", Body(400)),
];

const GOOD: &[u8] = b"GET /good HTTP/1.1\r\nHost: x\r\n\r\n";

/// A second request hidden behind the malformed one: it must never be taken for one.
const SMUGGLED: &[u8] = b"GET /evil-smuggled HTTP/1.1\r\nHost: x\r\n\r\n";

fn is_evil(bytes: &[u8]) -> bool {
    bytes.windows(4).any(|four| four == b"evil")
}

#[test]
fn malformed_requests_are_answered_and_never_reach_the_origin() {
    assert!(CASES.len() >= 60, "{} cases", CASES.len());
    let mut faults = Vec::new();
    let origin = Origin::echo();
    let gateway = Gateway::start(&Policy::of(&[origin.server()]));
    for &(name, bytes, fate) in CASES {
        for pipelined in [false, true] {
            let mut client = gateway.client();
            let sent = [if pipelined { GOOD } else { b"" }, bytes, SMUGGLED].concat();
            client.send_anyway(&sent);
            if pipelined {
                let first = client.answer();
                assert_eq!((first.status, first.text().as_str()), (200, "GET /good"), "{name}");
            }
            let (Status(expected) | Body(expected)) = fate;
            match client.try_answer(false) {
                Ok(answer) if answer.status == expected && answer.closes() => {}
                other => {
                    faults.push(format!("{name}, pipelined {pipelined}: {other:?}"));
                    continue;
                }
            }
            let rest = client.rest();
            if !rest.is_empty() {
                faults
                    .push(format!("{name}: answered again: {:?}", String::from_utf8_lossy(&rest)));
            }
        }
        let (whole, rests) = origin.requests();
        for request in whole.iter().filter(|request| request.target != "/good") {
            faults.push(format!("{name}: reached the origin: {request:?}"));
        }
        let allowed = matches!(fate, Body(_));
        for rest in rests.iter().filter(|rest| is_evil(rest) && !allowed) {
            // Parts that an earlier case was allowed to leave behind begin with a good head.
            let text = String::from_utf8_lossy(rest);
            if !text.starts_with("POST /evil HTTP/1.1\r\nHost: x\r\n") {
                faults.push(format!("{name}: {text:?} reached the origin"));
            }
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    // No connection to the origin on which a request was left unfinished is used again.
    for bytes in origin.received() {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some(at) = text.find("POST /evil") {
            assert!(!text[at..].contains("/good"), "used again: {text}");
        }
    }
    assert_eq!(gateway.get("/alive").text(), "GET /alive");
    gateway.assert_conserved();
}

fn strict() -> (Origin, Gateway) {
    let origin = Origin::echo();
    let mut policy = Policy::of(&[origin.server()]);
    policy.tables = "[limits]\nrequest_head_max = \"2KiB\"\ntarget_len_max = \"512B\"\n\
                     fields_max = 20\nrequest_body_max = \"1000B\"\n\
                     [timeouts]\nrequest_head = \"300ms\"\nrequest_body = \"300ms\"\nidle = \"500ms\"\n"
        .into();
    let gateway = Gateway::start(&policy);
    (origin, gateway)
}

#[test]
fn what_is_too_long_or_too_large_is_refused_by_its_own_status() {
    let (origin, gateway) = strict();
    let long = "x".repeat(4000);
    let fields = "A: b\r\n".repeat(30);
    let cases = [
        (414, format!("GET /evil{long} HTTP/1.1\r\nHost: x\r\n\r\n")),
        (414, format!("GET /evil{} HTTP/1.1\r\nHost: x\r\n\r\n", &long[..600])),
        (431, format!("GET /evil HTTP/1.1\r\nHost: x\r\nA: {long}\r\n\r\n")),
        (431, format!("GET /evil HTTP/1.1\r\nHost: x\r\n{fields}\r\n")),
        (431, format!("GET /evil HTTP/1.1\r\nHost: x\r\nA: {long}")),
        (413, "POST /evil HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n".into()),
    ];
    for (status, request) in &cases {
        let mut client = gateway.client();
        client.send_anyway(request.as_bytes());
        let answer = client.answer();
        assert_eq!(answer.status, *status, "{request:.60}");
        assert!(answer.closes());
        assert_eq!(client.rest(), b"");
    }
    assert_eq!(origin.received().iter().filter(|bytes| is_evil(bytes)).count(), 0);
    // A chunked body is found to be too large on its way: the origin never sees its end.
    let mut client = gateway.client();
    client.send("POST /evil HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    for _ in 0..30 {
        client.send_anyway(format!("40\r\n{}\r\n", "x".repeat(64)).as_bytes());
    }
    assert_eq!(client.answer().status, 413);
    assert_eq!(origin.requests().0.len(), 0);
    // What just fits is let through.
    let target = format!("/{}", "x".repeat(511));
    assert_eq!(gateway.get(&target).status, 200);
    let mut client = gateway.client();
    let body = "x".repeat(1000);
    client.send(format!("POST /fits HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{body}"));
    assert_eq!(client.answer().text(), "POST /fits");
    assert_eq!(gateway.number("/clients/bad_requests"), 7);
    gateway.assert_conserved();
}

#[test]
fn slow_heads_and_bodies_get_408_and_idle_connections_are_closed_in_silence() {
    let (origin, gateway) = strict();
    let mut head = gateway.client();
    head.send("GET /evil HTTP/1.1\r\nHo");
    let mut body = gateway.client();
    body.send("POST /evil HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");
    let mut chunks = gateway.client();
    chunks.send("POST /evil HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc");
    let mut second = gateway.client();
    assert_eq!(second.get("/good").status, 200);
    second.send("GET /evil HTTP/1.1\r\n");
    let mut idle = gateway.client();
    assert_eq!(idle.get("/good").status, 200);
    let mut silent = gateway.client();
    for (name, client) in [
        ("head", &mut head),
        ("body", &mut body),
        ("chunks", &mut chunks),
        ("second head", &mut second),
    ] {
        let answer = client.answer();
        assert_eq!((answer.status, answer.closes()), (408, true), "{name}");
    }
    assert_eq!(idle.rest(), b"");
    assert_eq!(silent.rest(), b"");
    assert!(origin.requests().0.iter().all(|request| request.target == "/good"));
    gateway.assert_conserved();
    eventually("every connection is closed", || gateway.number("/clients/connections_active") == 0);
}

#[test]
fn a_good_request_may_come_byte_by_byte() {
    let origin = Origin::answering(|request| ok(&request.body));
    let gateway = Gateway::start(&Policy::of(&[origin.server()]));
    let request = "POST /slow HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\
                   5;ext=\"v\"\r\nhello\r\n6\r\n world\r\n0\r\nContent-Length: 9\r\nX-Sum: 1\r\n\r\n";
    let mut client = gateway.client();
    for _ in 0..2 {
        for byte in request.as_bytes() {
            client.send([*byte]);
        }
        assert_eq!(client.answer().text(), "hello world");
    }
    let (whole, rests) = origin.requests();
    assert_eq!((whole.len(), rests.len()), (2, 0));
    assert_eq!(whole[1].trailers, [("X-Sum".to_owned(), "1".to_owned())]);
    // Extensions, and trailers that may be none, are not passed on.
    for received in origin.received() {
        let text = String::from_utf8_lossy(&received).into_owned();
        assert!(!text.contains("ext") && !text.contains("Content-Length: 9"), "{text}");
    }
}

/// Responses that must not be passed on.
const BAD_ANSWERS: &[(&str, &[u8])] = &[
    ("no HTTP", b"SSH-2.0-OpenSSH\r\n\r\n"),
    ("HTTP/2.0", b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ("status of two digits", b"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n"),
    ("bare LF", b"HTTP/1.1 200 OK\nContent-Length: 0\n\n"),
    ("bare CR in a value", b"HTTP/1.1 200 OK\r\nA: b\rSet-Cookie: c\r\nContent-Length: 0\r\n\r\n"),
    ("null in a value", b"HTTP/1.1 200 OK\r\nA: b\0\r\nContent-Length: 0\r\n\r\n"),
    ("space before a colon", b"HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n"),
    ("folded", b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n"),
    ("two lengths", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\nhello"),
    (
        "length and chunked",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    ("unknown coding", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    ("negative length", b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"),
    (
        "101 unasked",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    ),
    ("no chunk", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
    ("nothing", b""),
    ("half a head", b"HTTP/1.1 200 OK\r\nContent-Le"),
];

/// As an origin may well send them.
#[test]
fn extensions_and_trailers_that_may_be_none_are_taken_out_of_answers() {
    let origin = Origin::answering(|_| {
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=\"b\"\r\nhello\r\n0\r\n\
          Set-Cookie: a=b\r\nX-Sum:1\r\nContent-Length: 7\r\n\r\n"
            .to_vec()
    });
    let gateway = Gateway::start(&Policy::of(&[origin.server()]));
    let mut client = gateway.client();
    for _ in 0..2 {
        client.send(GOOD);
        let head = client.try_head().expect("a head");
        assert_eq!(head.status, 200);
        let body = b"5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n";
        assert_eq!(client.bytes(body.len()), body);
    }
    assert_eq!(origin.accepted(), 1, "its connection is used again");
    // Over HTTP/1.0, without chunks.
    client.send("GET /good HTTP/1.0\r\n\r\n");
    assert_eq!(client.answer().text(), "hello");
}

#[test]
fn malformed_answers_become_502_and_their_connection_is_not_used_again() {
    let origin = Origin::start(|mut connection| {
        while let Some(request) = connection.request() {
            let number =
                request.target.strip_prefix("/bad/").and_then(|it| it.parse::<usize>().ok());
            let Some(number) = number else {
                connection.ok("good");
                continue;
            };
            connection.send(BAD_ANSWERS[number].1);
            if BAD_ANSWERS[number].1.len() < 40 && number >= 14 {
                return;
            }
        }
    });
    let mut policy = Policy::of(&[origin.server()]);
    policy.origin += "\nfailures_max = 1000";
    let gateway = Gateway::start(&policy);
    for (number, (name, _)) in BAD_ANSWERS.iter().enumerate() {
        let mut client = gateway.client();
        let answer = client.get(&format!("/bad/{number}"));
        assert_eq!(answer.status, 502, "{name}: {}", answer.head);
        assert_eq!(client.rest(), b"", "{name}");
        assert_eq!(gateway.get("/good").text(), "good", "after {name}");
    }
    let log = origin.received();
    for bytes in &log {
        let text = String::from_utf8_lossy(bytes);
        let at = text.find("/bad/").unwrap_or(text.len());
        assert_eq!(
            text[at..].matches("HTTP/1.1").count().min(2),
            usize::from(at < text.len()),
            "{text}"
        );
    }
    gateway.assert_conserved();
}

#[test]
fn an_oversized_answer_head_becomes_502() {
    let origin = Origin::answering(|_| {
        format!("HTTP/1.1 200 OK\r\nA: {}\r\nContent-Length: 0\r\n\r\n", "x".repeat(80_000)).into()
    });
    let gateway = Gateway::start(&Policy::of(&[origin.server()]));
    assert_eq!(gateway.get("/").status, 502);
    gateway.assert_conserved();
}

/// An origin that sends more than it was asked for must not be able to answer the next client.
#[test]
fn what_follows_an_answer_is_never_given_to_another_client() {
    let poison = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison";
    let origin = Origin::start(move |mut connection| {
        while let Some(request) = connection.request() {
            let good = ok(format!("GET {}", request.target));
            match request.target.split('/').nth(1) {
                // In one piece with the answer, and after a while.
                Some("together") => connection.send([&good[..], poison].concat()),
                Some("later") => {
                    connection.send(&good);
                    std::thread::sleep(Duration::from_millis(20));
                    connection.send(poison);
                }
                // A body where none may be: what follows looks like the next answer.
                Some("bodiless") => connection.send(
                    [b"HTTP/1.1 204 No Content\r\nContent-Length: 45\r\n\r\n", &poison[..]]
                        .concat(),
                ),
                _ => connection.send(good),
            }
        }
    });
    let mut policy = Policy::of(&[origin.server()]);
    // One thread, so that the next request would find the connection.
    policy.top = "threads = 1".into();
    let gateway = Gateway::start(&policy);
    let mut kept = gateway.client();
    for turn in 0..20 {
        for kind in ["together", "later", "bodiless"] {
            let target = format!("/{kind}/{turn}");
            let mut client = gateway.client();
            let first = client.get(&target);
            match kind {
                "bodiless" => assert_eq!((first.status, first.body.len()), (204, 0)),
                _ => assert_eq!(first.text(), format!("GET {target}")),
            }
            if kind == "later" {
                std::thread::sleep(Duration::from_millis(60));
            }
            assert_eq!(kept.get("/next").text(), "GET /next", "after {target}");
            assert_eq!(client.get("/own").text(), "GET /own", "after {target}");
        }
    }
    gateway.assert_conserved();
}

/// `Connection` cannot name away what frames the message: the origin gets it all the same.
#[test]
fn framing_cannot_be_named_as_hop_by_hop() {
    let origin = Origin::answering(|request| ok(&request.body));
    let gateway = Gateway::start(&Policy::of(&[origin.server()]));
    let mut client = gateway.client();
    for framing in [
        "Content-Length: 4\r\n\r\nevil",
        "Transfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n",
    ] {
        let named = "Connection: content-length, transfer-encoding, host";
        client.send(format!("POST /good HTTP/1.1\r\nHost: x\r\n{named}\r\n{framing}"));
        assert_eq!(client.answer().text(), "evil");
    }
    let (whole, rests) = origin.requests();
    assert_eq!((whole.len(), rests.len()), (2, 0));
    for request in whole {
        assert_eq!((request.values("host"), request.values("connection")), (vec!["x"], vec![]));
    }
}

/// What a client sends cannot make a field of its own in an answer, nor end it.
#[test]
fn answers_of_the_gateway_do_not_repeat_what_the_client_sent() {
    let origin = Origin::echo();
    let gateway = Gateway::start(&Policy::of(&[origin.server()]));
    for request in [
        "GET /x HTTP/1.1\r\nHost: x\r\nBad Name<script>: 1\r\n\r\n",
        "GET /<script>\u{1} HTTP/1.1\r\nHost: x\r\n\r\n",
        "BAD\u{2}<script> / HTTP/1.1\r\n\r\n",
    ] {
        let mut client = Client::connect(gateway.address);
        client.send_anyway(request.as_bytes());
        let answer = client.answer();
        assert_eq!(answer.status, 400);
        assert!(!answer.text().contains("script") && !answer.head.contains("script"));
    }
}

#[test]
fn paths_are_logged_as_received_and_with_what_is_wrong() {
    let origin = Origin::answering(|request| ok(request.target.as_str()));
    let mut policy = Policy::of(&[origin.server()]);
    policy.tables += "[access_log]\npath = \"access.json\"";
    let gateway = Gateway::start(&policy);
    assert_eq!(gateway.get("/x/..//%61%20b?c").text(), "/a%20b?c");
    assert_eq!(gateway.get("/x%2fevil?c").status, 400);
    let lines = || {
        let path = gateway.policy_path.with_file_name("access.json");
        std::fs::read_to_string(path).unwrap_or_default()
    };
    eventually("both are logged", || lines().lines().count() == 2);
    let lines = lines();
    // Two threads write, in whatever order.
    assert!(lines.contains("\"target\":\"/x/..//%61%20b\""), "{lines}");
    let bad = lines.lines().find(|line| line.contains("\"status\":400")).expect("it was refused");
    for part in [
        "\"target\":\"/x%2fevil\"",
        "\"verdict\":\"bad\"",
        "\"cause\":\"encoded slash in the path\"",
    ] {
        assert!(bad.contains(part), "{part} in {bad}");
    }
}
