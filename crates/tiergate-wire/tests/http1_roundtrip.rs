//! What goes to the origin and to the client, byte by byte.

use std::net::IpAddr;
use tiergate_wire::http1::Forwarding;
use tiergate_wire::http1::{
    Delivery, FieldTable, ForwardInfo, Framing, HeadLimits, LoadReport, Parsed, PeerText,
    ResponseInfo, Version, delivery, may_be_trailer, parse_request, parse_response,
    response_fields, write_request_head, write_response_head,
};

const LIMITS: HeadLimits = HeadLimits { head_len_max: 4096, target_len_max: 1024, fields_max: 64 };

const NOTHING: Forwarding = Forwarding { x_forwarded: false, forwarded: false, via: false };

const EVERYTHING: Forwarding = Forwarding { x_forwarded: true, forwarded: true, via: true };

fn forward(add: Forwarding, peer: &str, peer_trusted: bool) -> ForwardInfo<'static> {
    ForwardInfo {
        peer: PeerText::new(peer.parse::<IpAddr>().unwrap()),
        peer_trusted,
        https: false,
        add,
        level: None,
        listener_host: b"gate:8080",
    }
}

/// The request as the origin gets it.
fn through(request: &str, forward: &ForwardInfo<'_>) -> String {
    rewritten(request, None, forward)
}

/// The same with another path.
fn rewritten(request: &str, path: Option<&str>, forward: &ForwardInfo<'_>) -> String {
    let mut fields = FieldTable::new();
    let Ok(Parsed::Complete(head)) = parse_request(request.as_bytes(), &mut fields, &LIMITS) else {
        panic!("not accepted: {request:?}");
    };
    assert_eq!(head.len, request.len());
    let head = path.map_or(head, |path| head.with_path(path.as_bytes()));
    let mut out = Vec::new();
    write_request_head(&mut out, &head, &fields, forward, &[]);
    String::from_utf8(out).unwrap()
}

#[track_caller]
fn plain(request: &str, expected: &str) {
    assert_eq!(through(request, &forward(NOTHING, "192.0.2.1", false)), expected);
}

#[test]
fn a_plain_request_passes_unchanged() {
    let request = "GET /a?b=%20&c HTTP/1.1\r\nUser-Agent: x  y\r\nHost: a:1\r\nAccept: */*\r\n\r\n";
    plain(request, request);
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nA: \u{e9}\r\n\r\n";
    plain(post, post);
}

#[test]
fn odd_spelling_is_written_anew() {
    plain(
        "\r\nPOST / HTTP/1.1\r\nHost:\ta \r\nA:b\r\nC:  d\t\r\nE:\r\nCONTENT-LENGTH: 007\r\nG: h\r\n\r\n",
        "POST / HTTP/1.1\r\nA: b\r\nC: d\r\nE: \r\nG: h\r\nHost: a\r\nContent-Length: 7\r\n\r\n",
    );
}

#[test]
fn an_absolute_target_becomes_a_path_and_its_host_wins() {
    plain(
        "GET http://b:2?x HTTP/1.1\r\nHost: B:2\r\nC: d\r\n\r\n",
        "GET /?x HTTP/1.1\r\nC: d\r\nHost: b:2\r\n\r\n",
    );
    plain(
        "OPTIONS http://b HTTP/1.1\r\nHost: b:80\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: b\r\n\r\n",
    );
}

#[test]
fn another_path_replaces_the_one_of_the_target() {
    let nothing = forward(NOTHING, "192.0.2.1", false);
    for (request, expected) in [
        (
            "GET /%61//b?c=%2f/../d HTTP/1.1\r\nHost: a\r\nB: c\r\n\r\n",
            "GET /a/b?c=%2f/../d HTTP/1.1\r\nHost: a\r\nB: c\r\n\r\n",
        ),
        ("\r\nPUT //? HTTP/1.1\r\nHost: a\r\n\r\n", "PUT /a/b? HTTP/1.1\r\nHost: a\r\n\r\n"),
        // A first line that is not copied, no field that is copied, and targets that are written anew anyway.
        (
            "GET // HTTP/1.1\r\nB:c\r\nD: e\r\nHost: a\r\n\r\n",
            "GET /a/b HTTP/1.1\r\nB: c\r\nD: e\r\nHost: a\r\n\r\n",
        ),
        ("GET // HTTP/1.1\r\nHost:a\r\n\r\n", "GET /a/b HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("GET // HTTP/1.0\r\nHost: a\r\n\r\n", "GET /a/b HTTP/1.1\r\nHost: a\r\n\r\n"),
        (
            "GET http://b//?c HTTP/1.1\r\nHost: b\r\nB: c\r\n\r\n",
            "GET /a/b?c HTTP/1.1\r\nB: c\r\nHost: b\r\n\r\n",
        ),
    ] {
        assert_eq!(rewritten(request, Some("/a/b"), &nothing), expected);
    }
}

#[test]
fn a_part_is_not_asked_for_where_ranges_are_left_out() {
    let request =
        "GET / HTTP/1.1\r\nRANGE: bytes=5-\r\nHost: a\r\nIf-Range:  \"x\"\r\nRanges: x\r\n\r\n";
    let mut fields = FieldTable::new();
    let parsed = parse_request(request.as_bytes(), &mut fields, &LIMITS);
    let Ok(Parsed::Complete(head)) = parsed else { panic!("a good head") };
    fields.leave_out_ranges();
    let mut out = Vec::new();
    write_request_head(&mut out, &head, &fields, &forward(NOTHING, "192.0.2.1", false), &[]);
    assert_eq!(String::from_utf8_lossy(&out), "GET / HTTP/1.1\r\nHost: a\r\nRanges: x\r\n\r\n");
}

#[test]
fn http_1_0_becomes_1_1_with_a_host() {
    plain("GET / HTTP/1.0\r\nA: b\r\n\r\n", "GET / HTTP/1.1\r\nA: b\r\nHost: gate:8080\r\n\r\n");
    plain("GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.1\r\nHost: gate:8080\r\n\r\n");
    plain(
        "GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    );
}

#[test]
fn what_concerns_the_connection_ends_here() {
    plain(
        "GET / HTTP/1.1\r\nHost: a\r\nX-Hop: 1\r\nConnection: close, X-Hop, host ,, content-length\r\n\
         Keep-Alive: timeout=5\r\nProxy-Connection: x\r\nproxy-authorization: y\r\n\
         Proxy-Authenticate: z\r\nTE: gzip\r\nUpgrade: websocket\r\nTrailer: C\r\n\
         Content-Length: 2\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nTrailer: C\r\nContent-Length: 2\r\n\r\n",
    );
    plain(
        "GET / HTTP/1.1\r\nTE: trailers, deflate\r\nHost: a\r\nConnection: te\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: TE\r\nTE: trailers\r\n\r\n",
    );
}

#[test]
fn upgrades_pass_but_not_to_http() {
    plain(
        "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: k\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nSec-WebSocket-Key: k\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
    );
    for protocol in ["h2c", "foo, H2C", "HTTP/2.0", "TLS/1.2", ""] {
        plain(
            &format!(
                "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: {protocol}\r\nConnection: upgrade\r\n\r\n"
            ),
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        );
    }
    // Two fields, a body, HTTP/1.0: the request stays one, the upgrade does not.
    plain(
        "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\nUpgrade: y\r\nConnection: upgrade\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    plain(
        "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\nContent-Length: 1\r\nConnection: upgrade\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n",
    );
    plain(
        "GET / HTTP/1.0\r\nHost: a\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    );
}

#[test]
fn chunks_pass_and_expectations_do_not() {
    plain(
        "PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\ntransfer-encoding: Chunked\r\nB: c\r\n\r\n",
        "PUT / HTTP/1.1\r\nHost: a\r\nB: c\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
    plain(
        "GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    );
}

#[test]
fn max_forwards_counts_down() {
    plain(
        "OPTIONS * HTTP/1.1\r\nHost: a\r\nMax-Forwards: 10\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: a\r\nMax-Forwards: 9\r\n\r\n",
    );
    plain(
        "GET / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 10\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 10\r\n\r\n",
    );
}

#[test]
fn nobody_forges_what_only_a_trusted_peer_may_say() {
    let request = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 1.1.1.1\r\nx-forwarded-proto: https\r\n\
                   X-Forwarded-Host: evil\r\nX-Forwarded-Port: 1\r\nX-Real-IP: 1.1.1.1\r\n\
                   Forwarded: for=1.1.1.1\r\nX-Tiergate-Class: checkout\r\nProxy: http://evil\r\n\
                   X_Forwarded_For: 1.1.1.1\r\nContent_Length: 5\r\nX_Tiergate-Class: a\r\n\
                   x-forwarded-: a\r\nX-TIERGATE-: a\r\nB_c: d\r\n\r\n";
    plain(request, "GET / HTTP/1.1\r\nHost: a\r\nB_c: d\r\n\r\n");
    assert_eq!(
        through(request, &forward(EVERYTHING, "2001:db8::1", false)),
        "GET / HTTP/1.1\r\nHost: a\r\nB_c: d\r\nX-Forwarded-For: 2001:db8::1\r\n\
         X-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\n\
         Forwarded: for=\"[2001:db8::1]\";host=\"a\";proto=http\r\nVia: 1.1 tiergate\r\n\r\n"
    );
    assert_eq!(
        through(request, &forward(EVERYTHING, "::ffff:192.0.2.1", true)),
        "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-Port: 1\r\nX-Real-IP: 1.1.1.1\r\n\
         X-Tiergate-Class: checkout\r\nx-forwarded-: a\r\nX-TIERGATE-: a\r\nB_c: d\r\nX-Forwarded-For: 1.1.1.1, 192.0.2.1\r\n\
         x-forwarded-proto: https\r\nX-Forwarded-Host: evil\r\n\
         Forwarded: for=1.1.1.1, for=192.0.2.1;host=\"a\";proto=http\r\nVia: 1.1 tiergate\r\n\r\n"
    );
    let kept = through(request, &forward(NOTHING, "192.0.2.1", true));
    for line in ["X-Forwarded-For: 1.1.1.1\r\n", "Forwarded: for=1.1.1.1\r\n"] {
        assert!(kept.contains(line), "{kept}");
    }
}

#[test]
fn repeated_forwarding_fields_become_one() {
    let request = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 1.1.1.1, 2.2.2.2\r\nX-Forwarded-For: 3.3.3.3\r\n\r\n";
    let only_x = Forwarding { x_forwarded: true, ..NOTHING };
    let written = through(request, &forward(only_x, "4.4.4.4", true));
    assert!(
        written.contains("X-Forwarded-For: 1.1.1.1, 2.2.2.2, 3.3.3.3, 4.4.4.4\r\n"),
        "{written}"
    );
}

struct Response {
    text: String,
    body: Framing,
    origin_keep: bool,
    client_keep: bool,
    delivery: Delivery,
}

fn back(response: &str, to_head: bool, client: Version, keep_alive: bool) -> Response {
    let mut fields = FieldTable::new();
    let parsed = parse_response(response.as_bytes(), &mut fields, &LIMITS, to_head);
    let Ok(Parsed::Complete(head)) = parsed else {
        panic!("not accepted: {parsed:?} {response:?}");
    };
    let info = ResponseInfo {
        client,
        keep_alive,
        via: false,
        date_line: b"Date: now\r\n",
        location: None,
        extra: &[],
    };
    let mut out = Vec::new();
    let client_keep = write_response_head(&mut out, &head, &fields, &info);
    Response {
        text: String::from_utf8(out).unwrap(),
        body: head.body,
        origin_keep: head.keep_alive,
        client_keep,
        delivery: delivery(&head, client),
    }
}

use Version::{Http10, Http11};

fn load_report(response: &str) -> String {
    let mut fields = FieldTable::new();
    let parsed = parse_response(response.as_bytes(), &mut fields, &LIMITS, false);
    assert!(matches!(parsed, Ok(Parsed::Complete(_))), "{parsed:?}");
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    match fields.load_report() {
        LoadReport::None => "none".to_owned(),
        LoadReport::Several => "several".to_owned(),
        LoadReport::Text(value) => text(value),
        LoadReport::Binary(value) => format!("bin {}", text(value)),
    }
}

#[test]
fn a_report_of_load_is_for_the_gateway_alone() {
    let with =
        |fields: &str| format!("HTTP/1.1 200 OK\r\nA: 1\r\n{fields}Content-Length: 0\r\n\r\n");
    for (fields, report) in [
        ("", "none"),
        ("Endpoint-Load-Metrics:  TEXT cpu_utilization=0.3 \r\n", "TEXT cpu_utilization=0.3"),
        ("endpoint-load-metrics-bin: CQ==\r\n", "bin CQ=="),
        ("endpoint-load-metrics: a=1\r\nendpoint-load-metrics: b=1\r\n", "several"),
        ("endpoint-load-metrics: a=1\r\nendpoint-load-metrics-bin: CQ==\r\n", "several"),
        ("endpoint_load_metrics: a=1\r\nEndpoint_load-metrics_Bin: CQ==\r\n", "none"),
        ("Connection: endpoint-load-metrics\r\nendpoint-load-metrics: a=1\r\n", "a=1"),
    ] {
        let sent = with(fields);
        assert_eq!(load_report(&sent), report, "{fields}");
        assert_eq!(
            back(&sent, false, Http11, true).text.replace("Date: now\r\n", ""),
            with(""),
            "{fields}"
        );
    }
    let sent = with("endpoint-load-metrics: a=1\r\n");
    let mut fields = FieldTable::new();
    let parsed = parse_response(sent.as_bytes(), &mut fields, &LIMITS, false);
    assert!(matches!(parsed, Ok(Parsed::Complete(_))));
    assert!(response_fields(&fields).all(|field| field.name == b"A"), "nor over HTTP/2");
    assert!(!may_be_trailer(b"endpoint-load-metrics-bin"), "nor as a trailer");
    assert!(!may_be_trailer(b"endpoint_load_metrics"));
    // A client cannot have one sent back to us by a server that repeats what it is asked.
    plain(
        "GET / HTTP/1.1\r\nHost: a\r\nendpoint-load-metrics: a=1\r\nendpoint_load_metrics: a=1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    );
}

#[test]
fn a_plain_response_passes_unchanged() {
    let text =
        "HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 3\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n\r\n";
    let response = back(text, false, Http11, true);
    assert_eq!(response.text, text);
    assert_eq!(response.body, Framing::Length(3));
    assert!(response.origin_keep && response.client_keep);
}

#[test]
fn the_connections_of_origin_and_client_are_told_apart() {
    let text = "HTTP/1.1 200 OK\r\nDate: x\r\nConnection: close\r\nKeep-Alive: 1\r\nContent-Length: 0\r\n\r\n";
    let response = back(text, false, Http11, true);
    assert_eq!(response.text, "HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 0\r\n\r\n");
    assert!(!response.origin_keep && response.client_keep);
    let response = back(text, false, Http11, false);
    assert!(response.text.ends_with("Connection: close\r\n\r\n") && !response.client_keep);
    let response = back(text, false, Http10, true);
    assert!(response.text.ends_with("Connection: keep-alive\r\n\r\n") && response.client_keep);
    let old = "HTTP/1.0 200 OK\r\nDate: x\r\nContent-Length: 0\r\n\r\n";
    let response = back(old, false, Http11, true);
    assert!(response.text.starts_with("HTTP/1.1 200 OK\r\n") && !response.origin_keep);
    let old = "HTTP/1.0 200 OK\r\nDate: x\r\nConnection: Keep-Alive\r\nContent-Length: 0\r\n\r\n";
    assert!(back(old, false, Http11, true).origin_keep);
}

#[test]
fn a_body_without_length_closes() {
    let response = back("HTTP/1.1 200 OK\r\n\r\n", false, Http11, true);
    assert_eq!(response.text, "HTTP/1.1 200 OK\r\nDate: now\r\nConnection: close\r\n\r\n");
    assert_eq!(response.body, Framing::UntilClose);
    assert_eq!(response.delivery, Delivery::UntilClose);
    assert!(!response.origin_keep && !response.client_keep);
}

#[test]
fn chunks_are_not_for_http_1_0() {
    let text = "HTTP/1.1 200 OK\r\nDate: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    let response = back(text, false, Http11, true);
    assert_eq!(response.text, text);
    assert_eq!(response.delivery, Delivery::Raw);
    let response = back(text, false, Http10, true);
    assert_eq!(response.text, "HTTP/1.1 200 OK\r\nDate: x\r\nConnection: close\r\n\r\n");
    assert_eq!(response.delivery, Delivery::Dechunked);
    assert!(response.origin_keep && !response.client_keep);
}

#[test]
fn some_responses_have_no_body() {
    let text = "HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 3\r\n\r\n";
    let response = back(text, true, Http11, true);
    assert_eq!(response.text, text);
    assert_eq!(response.body, Framing::None);
    let text = "HTTP/1.1 304 Not Modified\r\nDate: x\r\nContent-Length: 3\r\n\r\n";
    let response = back(text, false, Http11, true);
    assert_eq!((response.text.as_str(), response.body), (text, Framing::None));
    let response =
        back("HTTP/1.1 204 \r\nDate: x\r\nContent-Length: 3\r\n\r\n", false, Http11, true);
    assert_eq!(response.text, "HTTP/1.1 204 \r\nDate: x\r\n\r\n");
    let response =
        back("HTTP/1.1 204\r\nDate: x\r\nTransfer-Encoding: chunked\r\n\r\n", false, Http11, true);
    assert_eq!(response.text, "HTTP/1.1 204 \r\nDate: x\r\n\r\n");
    assert_eq!(response.body, Framing::None);
}

#[test]
fn interim_responses_and_upgrades() {
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    assert_eq!(back(hints, false, Http11, true).text, hints);
    let response = back(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: k\r\n\r\n",
        false,
        Http11,
        true,
    );
    assert_eq!(
        response.text,
        "HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: k\r\nUpgrade: websocket\r\n\
         Date: now\r\nConnection: upgrade\r\n\r\n"
    );
}
