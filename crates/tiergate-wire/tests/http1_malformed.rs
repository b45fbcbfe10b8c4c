//! Requests and responses that must not pass, each with the answer it gets; and that the answer does
//! not depend on how the bytes were split into reads.

use tiergate_wire::http1::{
    FieldTable, HeadError, HeadLimits, HeadSearch, METHOD_LEN_MAX, Parsed, parse_request,
    parse_response,
};

const LIMITS: HeadLimits = HeadLimits { head_len_max: 1024, target_len_max: 128, fields_max: 16 };

const ACCEPTED: u16 = 0;
const PARTIAL: u16 = 1;

fn outcome<T>(parsed: Result<Parsed<T>, HeadError>) -> u16 {
    match parsed {
        Ok(Parsed::Complete(_)) => ACCEPTED,
        Ok(Parsed::Partial) => PARTIAL,
        Err(error) => error.status,
    }
}

fn request(bytes: &[u8]) -> u16 {
    outcome(parse_request(bytes, &mut FieldTable::new(), &LIMITS))
}

fn response(bytes: &[u8]) -> u16 {
    outcome(parse_response(bytes, &mut FieldTable::new(), &LIMITS, false))
}

/// Feeds byte by byte until there is an answer.
fn trickled(bytes: &[u8], parse: fn(&[u8]) -> u16) -> u16 {
    (0..=bytes.len())
        .map(|len| parse(&bytes[..len]))
        .find(|answer| *answer != PARTIAL)
        .unwrap_or(PARTIAL)
}

#[track_caller]
fn check(bytes: &[u8], expected: u16, parse: fn(&[u8]) -> u16) {
    let text = bytes.escape_ascii();
    assert_eq!(parse(bytes), expected, "whole: {text}");
    assert_eq!(trickled(bytes, parse), expected, "byte by byte: {text}");
}

#[test]
fn request_lines() {
    let cases: &[(u16, &[u8])] = &[
        (ACCEPTED, b"GET / HTTP/1.1"),
        (ACCEPTED, b"\r\nGET / HTTP/1.1"),
        (ACCEPTED, b"get / HTTP/1.1"),
        (ACCEPTED, b"M-SEARCH / HTTP/1.1"),
        (ACCEPTED, b"OPTIONS * HTTP/1.1"),
        (ACCEPTED, b"GET http://a/ HTTP/1.1"),
        (ACCEPTED, b"GET //a/../%00%zz?a[]={}|\\^`\"<> HTTP/1.1"),
        (400, b"\r\n\r\nGET / HTTP/1.1"),
        (400, b"\nGET / HTTP/1.1"),
        (400, b"\rGET / HTTP/1.1"),
        (400, b" GET / HTTP/1.1"),
        (400, b"GET  / HTTP/1.1"),
        (400, b"GET\t/ HTTP/1.1"),
        (400, b"GET /  HTTP/1.1"),
        (400, b"GET /\tHTTP/1.1"),
        (400, b"GET / x HTTP/1.1"),
        (400, b"GET / HTTP/1.1 "),
        (400, b"GET / HTTP/1.1\r"),
        (400, b"GET / HTTP/1.1 HTTP/1.1"),
        (400, b"GET / http/1.1"),
        (400, b"GET / HTTP/11"),
        (400, b"GET / HTTP/1.10"),
        (400, b"GET / HTTP/+1.1"),
        (400, b"GET / HTTPS/1.1"),
        (400, b"GET / "),
        (400, b"GET  HTTP/1.1"),
        (400, b"GET HTTP/1.1 /"),
        (400, b"G(T / HTTP/1.1"),
        (400, b"G\0T / HTTP/1.1"),
        (400, b"G\xc3T / HTTP/1.1"),
        (400, b"GET: / HTTP/1.1"),
        (400, b" / HTTP/1.1"),
        (400, b"GET a HTTP/1.1"),
        (400, b"GET a:80 HTTP/1.1"),
        (400, b"GET a.b/c HTTP/1.1"),
        (400, b"GET * HTTP/1.1"),
        (400, b"OPTIONS ** HTTP/1.1"),
        (400, b"GET ftp://a/ HTTP/1.1"),
        (400, b"GET http:/a/ HTTP/1.1"),
        (400, b"GET http:///a HTTP/1.1"),
        (400, b"GET http://u@a/ HTTP/1.1"),
        (400, b"GET http://a:b/ HTTP/1.1"),
        (400, b"GET http://a\\b/ HTTP/1.1"),
        (400, b"GET /#f HTTP/1.1"),
        (400, b"GET http://a#f HTTP/1.1"),
        (400, b"GET /\0 HTTP/1.1"),
        (400, b"GET /\x7f HTTP/1.1"),
        (400, b"GET /\x80 HTTP/1.1"),
        (400, b"GET /\xc3\xa9 HTTP/1.1"),
        (400, b"GET /\r HTTP/1.1"),
        (400, b"GET /\n HTTP/1.1"),
        (400, b"GET / HTTP/1.1\n"),
        (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
        (501, b"CONNECT a:443 HTTP/1.1"),
        (501, b"CONNECT / HTTP/1.1"),
        (505, b"GET /"),
        (505, b"GET / HTTP/0.9"),
        (505, b"GET / HTTP/1.2"),
        (505, b"GET / HTTP/2.0"),
        (505, b"GET / HTTP/9.9"),
        (505, b"PRI / HTTP/2.0"),
        // The preface of HTTP/2 is looked for before this parser is asked.
        (400, b"PRI * HTTP/2.0"),
    ];
    for (expected, line) in cases {
        check(&[line, &b"\r\nHost: a\r\n\r\n"[..]].concat(), *expected, request);
    }
}

#[test]
fn request_fields() {
    let cases: &[(u16, &[u8])] = &[
        (ACCEPTED, b"A: \xff\x80 caf\xc3\xa9\tb\r\n"),
        (ACCEPTED, b"!#$%&'*+-.^_`|~9: \r\n"),
        (ACCEPTED, b"Connection: ,close,,x\r\n"),
        (ACCEPTED, b"Expect: 100-Continue\r\n"),
        // Line ends.
        (400, b"A: b\n"),
        (400, b"A: b\r"),
        (400, b"A: b\rC: d\r\n"),
        (400, b"A: b\nC: d\r\n"),
        (400, b"A: b\r\r\n"),
        (400, b"A: \rb\r\n"),
        (400, b"A: \nb\r\n"),
        (400, b"A\r\n: b\r\n"),
        (400, b"A\r: b\r\n"),
        (400, b"A\n: b\r\n"),
        (400, b"\rA: b\r\n"),
        (400, b"\nA: b\r\n"),
        (400, b"A:\r b\r\n"),
        (400, b"A: b\n\n"),
        (400, b"A: b\n\r\n"),
        // Folding and white space.
        (400, b" A: b\r\n"),
        (400, b"\tA: b\r\n"),
        (400, b"A: b\r\n c\r\n"),
        (400, b"A: b\r\n\tc\r\n"),
        (400, b"A: b\r\n \r\n"),
        (400, b"A : b\r\n"),
        (400, b"A\t: b\r\n"),
        (400, b"A B: c\r\n"),
        // Names.
        (400, b": b\r\n"),
        (400, b"A\r\n"),
        (400, b"A b\r\n"),
        (400, b"A\0: b\r\n"),
        (400, b"A\x7f: b\r\n"),
        (400, b"A\x80: b\r\n"),
        (400, b"\xc3\x84: b\r\n"),
        (400, b"A(: b\r\n"),
        (400, b"A/B: b\r\n"),
        (400, b"A\"B: b\r\n"),
        (400, b"A=B\r\n"),
        // Values.
        (400, b"A: \0\r\n"),
        (400, b"A: b\x01c\r\n"),
        (400, b"A: b\x0bc\r\n"),
        (400, b"A: b\x0cc\r\n"),
        (400, b"A: b\x1b[m\r\n"),
        (400, b"A: b\x7f\r\n"),
        // Host.
        (400, b"Host: a\r\n"),
        (400, b"host: b\r\n"),
        (400, b"Connection: a b\r\n"),
        (400, b"Connection: a;b\r\n"),
        (400, b"Connection: 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17\r\n"),
        (400, b"Max-Forwards: -1\r\n"),
        (417, b"Expect: 200-ok\r\n"),
        (417, b"Expect: 100-continue, x\r\n"),
    ];
    for (expected, lines) in cases {
        let head = [b"GET / HTTP/1.1\r\nHost: a\r\n", *lines, b"\r\n"].concat();
        check(&head, *expected, request);
        let first = [b"GET / HTTP/1.1\r\n", *lines, b"Host: a\r\n\r\n"].concat();
        check(&first, *expected, request);
    }
}

#[test]
fn hosts() {
    let cases: &[(u16, &[u8])] = &[
        (ACCEPTED, b"GET / HTTP/1.1\r\nHost: a.b:1\r\n\r\n"),
        (ACCEPTED, b"GET / HTTP/1.0\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\n\r\n"),
        (400, b"GET http://a/ HTTP/1.1\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost:\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: \r\n\r\n"),
        (400, b"GET / HTTP/1.0\r\nHost: \r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: a, b\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: a?b\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: a:99999\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: http://a\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: a%00\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: \xc3\xa9\r\n\r\n"),
        (400, b"GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n"),
        (400, b"GET http://b/ HTTP/1.1\r\nHost: a b\r\n\r\n"),
        // The origin, or what is in front of it, could take either.
        (400, b"GET http://good/ HTTP/1.1\r\nHost: evil\r\n\r\n"),
        (400, b"GET http://good:8080/ HTTP/1.0\r\nHost: good\r\n\r\n"),
        (ACCEPTED, b"GET http://good:80/ HTTP/1.1\r\nHost: Good\r\n\r\n"),
    ];
    for (expected, head) in cases {
        check(head, *expected, request);
    }
}

#[test]
fn request_framing() {
    let cases: &[(u16, &[u8])] = &[
        (ACCEPTED, b"Content-Length: 5\r\n"),
        (ACCEPTED, b"Content-Length: 0\r\n"),
        (ACCEPTED, b"content-length:\t005 \r\n"),
        (ACCEPTED, b"Content-Length: 999999999999999999\r\n"),
        (ACCEPTED, b"Transfer-Encoding: chunked\r\n"),
        (ACCEPTED, b"TRANSFER-ENCODING:CHUNKED \r\n"),
        // Underscores: not the field, and not passed on either.
        (ACCEPTED, b"Content_Length: 5\r\nTransfer-Encoding: chunked\r\n"),
        // CL.CL
        (400, b"Content-Length: 5\r\nContent-Length: 6\r\n"),
        (400, b"Content-Length: 5\r\nContent-Length: 5\r\n"),
        (400, b"Content-Length: 5\r\ncontent-length: 5\r\n"),
        (400, b"Content-Length: 5, 5\r\n"),
        (400, b"Content-Length: 5,6\r\n"),
        (400, b"Content-Length: ,5\r\n"),
        // Not a number.
        (400, b"Content-Length: \r\n"),
        (400, b"Content-Length: +5\r\n"),
        (400, b"Content-Length: -5\r\n"),
        (400, b"Content-Length: 5.0\r\n"),
        (400, b"Content-Length: 0x5\r\n"),
        (400, b"Content-Length: 5e1\r\n"),
        (400, b"Content-Length: 5 5\r\n"),
        (400, b"Content-Length: 5;\r\n"),
        (400, b"Content-Length: \"5\"\r\n"),
        (400, b"Content-Length: five\r\n"),
        (400, b"Content-Length: \xd9\xa5\r\n"),
        (400, b"Content-Length: 9999999999999999999\r\n"),
        (400, b"Content-Length: 18446744073709551616\r\n"),
        (400, b"Content-Length: 18446744073709551621\r\n"),
        (400, b"Content-Length: 99999999999999999999999999999999\r\n"),
        (400, b"Content-Length : 5\r\n"),
        (400, b"Content-Length\t: 5\r\n"),
        (400, b"Content-Length: 5\r\n 6\r\n"),
        (400, b"Content-Length:\r\n 5\r\n"),
        (400, b"Content-Length\0: 5\r\n"),
        // CL.TE and TE.CL
        (400, b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
        (400, b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"),
        (400, b"Transfer-Encoding: chunked\r\nA: b\r\nContent-Length: 0\r\n"),
        (400, b"Content-Length: 5\r\nTransfer-Encoding: identity\r\n"),
        (501, b"Content-Length: 5\r\nTransfer-Encoding: gzip, chunked\r\n"),
        // TE.TE
        (400, b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
        (400, b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"),
        (400, b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n"),
        (400, b"Transfer-Encoding: chunked\r\nTransfer-encoding: cow\r\n"),
        (400, b"Transfer-Encoding: chunked, chunked\r\n"),
        (400, b"Transfer-Encoding: chunked, identity\r\n"),
        (400, b"Transfer-Encoding: chunked, gzip\r\n"),
        (400, b"Transfer-Encoding: identity\r\n"),
        (400, b"Transfer-Encoding: gzip\r\n"),
        (400, b"Transfer-Encoding: xchunked\r\n"),
        (400, b"Transfer-Encoding: x chunked\r\n"),
        (400, b"Transfer-Encoding: chunkedx\r\n"),
        (400, b"Transfer-Encoding: chunk\r\n"),
        (400, b"Transfer-Encoding: \"chunked\"\r\n"),
        (400, b"Transfer-Encoding: 'chunked'\r\n"),
        (400, b"Transfer-Encoding: chunked;q=1\r\n"),
        (400, b"Transfer-Encoding: chunked,\r\n"),
        (400, b"Transfer-Encoding: , chunked\r\n"),
        (400, b"Transfer-Encoding: gzip;q=1, chunked\r\n"),
        (400, b"Transfer-Encoding:\r\n"),
        (400, b"Transfer-Encoding: \x0bchunked\r\n"),
        (400, b"Transfer-Encoding: chunked\x0b\r\n"),
        (400, b"Transfer-Encoding: chunked\0\r\n"),
        (400, b"Transfer-Encoding: ch\xc3\xbcnked\r\n"),
        (400, b"Transfer-Encoding : chunked\r\n"),
        (400, b"Transfer-Encoding\t: chunked\r\n"),
        (400, b"Transfer-Encoding:\r\n chunked\r\n"),
        (400, b"Transfer-Encoding: chunked\r\n identity\r\n"),
        (400, b" Transfer-Encoding: chunked\r\n"),
        (400, b"A: b\rTransfer-Encoding: chunked\r\n"),
        (400, b"A: b\nTransfer-Encoding: chunked\r\n"),
        (400, b"Transfer-Encoding: chunked\n"),
        (400, b"Transfer-Encoding: chunked\rA: b\r\n"),
        (400, b"Transfer\x80Encoding: chunked\r\n"),
        (501, b"Transfer-Encoding: gzip, chunked\r\n"),
        (501, b"Transfer-Encoding: x,chunked\r\n"),
        (501, b"Transfer-Encoding: identity, chunked\r\n"),
    ];
    for (expected, lines) in cases {
        let head = [b"POST / HTTP/1.1\r\nHost: a\r\n", *lines, b"\r\n"].concat();
        check(&head, *expected, request);
    }
    let old = b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
    check(old, 400, request);
    check(b"TRACE / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n", 400, request);
}

#[test]
fn responses() {
    let cases: &[(u16, &[u8])] = &[
        (ACCEPTED, b"HTTP/1.1 200 OK\r\n"),
        (ACCEPTED, b"HTTP/1.0 200 \r\n"),
        (ACCEPTED, b"HTTP/1.1 200\r\n"),
        (ACCEPTED, b"HTTP/1.1 999 \xc3\xa9 \t x\r\n"),
        (ACCEPTED, b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n"),
        (ACCEPTED, b"HTTP/1.1 101 \r\nUpgrade: a\r\nConnection: upgrade\r\n"),
        (502, b"HTTP/1.1 101 \r\n"),
        (502, b"HTTP/1.1 101 \r\nUpgrade: a\r\n"),
        (502, b"HTTP/1.1 200 OK\n"),
        (502, b"HTTP/1.1 200\n"),
        (502, b"HTTP/1.1 200 OK\rX\r\n"),
        (502, b"HTTP/1.1 200 O\0K\r\n"),
        (502, b"HTTP/1.1 200OK\r\n"),
        (502, b"HTTP/1.1  200 OK\r\n"),
        (502, b"HTTP/1.1 20 OK\r\n"),
        (502, b"HTTP/1.1 2000 OK\r\n"),
        (502, b"HTTP/1.1 099 OK\r\n"),
        (502, b"HTTP/1.1 -20 OK\r\n"),
        (502, b"HTTP/1.1\r\n"),
        (502, b"HTTP/2.0 200 OK\r\n"),
        (502, b"HTTP/1.2 200 OK\r\n"),
        (502, b"ICY 200 OK\r\n"),
        (502, b"\r\nHTTP/1.1 200 OK\r\n"),
        (502, b"<html>\r\n"),
        (502, b"HTTP/1.1 200 OK\r\nA : b\r\n"),
        (502, b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n"),
        (502, b"HTTP/1.1 200 OK\r\nA: b\nC: d\r\n"),
        (502, b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n"),
        (502, b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n"),
        (502, b"HTTP/1.1 200 OK\r\nContent-Length: 3, 3\r\n"),
        (502, b"HTTP/1.1 200 OK\r\nContent-Length: -3\r\n"),
        (502, b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n"),
        (502, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n"),
        (502, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n"),
        (502, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
        (502, b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n"),
    ];
    for (expected, lines) in cases {
        check(&[*lines, b"\r\n"].concat(), *expected, response);
    }
}

#[test]
fn sizes_at_and_over_their_bounds() {
    let request_of = |target_len: usize, fields: usize, filler: usize| {
        let mut head = format!("GET /{} HTTP/1.1\r\nHost: a\r\n", "x".repeat(target_len - 1));
        for _ in 1..fields {
            head.push_str("A: b\r\n");
        }
        if filler > 0 {
            head.push_str(&format!("F: {}\r\n", "x".repeat(filler)));
        }
        head.push_str("\r\n");
        head.into_bytes()
    };
    check(&request_of(LIMITS.target_len_max, 1, 0), ACCEPTED, request);
    check(&request_of(LIMITS.target_len_max + 1, 1, 0), 414, request);
    check(&request_of(1, LIMITS.fields_max, 0), ACCEPTED, request);
    check(&request_of(1, LIMITS.fields_max + 1, 0), 431, request);
    let without = request_of(1, 1, 1).len() - 1;
    check(&request_of(1, 1, LIMITS.head_len_max - without), ACCEPTED, request);
    check(&request_of(1, 1, LIMITS.head_len_max - without + 1), 431, request);
    // Over the bound without an end in sight.
    check(&[b"GET /", &[b'x'; 4096][..]].concat(), 414, request);
    let endless = [b"GET / HTTP/1.1\r\nHost: a\r\nA: ", &[b'x'; 4096][..]].concat();
    check(&endless, 431, request);
    check(&[b'A'; 4096], 501, request);
    let method = |len: usize| [&vec![b'A'; len][..], b" / HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
    check(&method(METHOD_LEN_MAX), ACCEPTED, request);
    check(&method(METHOD_LEN_MAX + 1), 501, request);
    check(&[b"HTTP/1.1 200 ", &[b'x'; 4096][..]].concat(), 502, response);
    let narrow = HeadLimits { head_len_max: 64, ..LIMITS };
    let line = [b"GET /", &[b'x'; 64][..]].concat();
    assert_eq!(outcome(parse_request(&line, &mut FieldTable::new(), &narrow)), 414);
}

#[test]
fn partial_heads_stay_partial() {
    let whole = b"\r\nPOST /a?b HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
    for len in 0..whole.len() - 3 {
        assert_eq!(request(&whole[..len]), PARTIAL, "{len} bytes");
    }
    assert_eq!(request(whole), ACCEPTED);
}

#[test]
fn a_trickling_head_is_parsed_twice_and_searched_once() {
    let head = b"GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n\r\n";
    let mut search = HeadSearch::default();
    let ready: Vec<usize> =
        (0..=head.len()).filter(|len| search.ready(&head[..*len], 1024)).collect();
    assert_eq!(ready, [1, head.len()]);
    // The end as a lenient recipient sees it: the parser must be asked, to say 400.
    for end in [&b"\n\n"[..], b"\r\n\n", b"\n\r\n"] {
        let mut search = HeadSearch::default();
        let head = [b"GET / HTTP/1.1\r\nHost: a", end].concat();
        assert!(search.ready(&head[..5], 1024));
        assert!(!search.ready(&head[..head.len() - 1], 1024));
        assert!(search.ready(&head, 1024), "{}", end.escape_ascii());
    }
    let mut search = HeadSearch::default();
    assert!(search.ready(b"GET", 8));
    assert!(!search.ready(b"GET /xx", 8));
    assert!(search.ready(b"GET /xxx", 8), "at the limit the parser says which error it is");
}
