//! Real servers behind the gateway: what clients get is what they would have got without it.

mod support;

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use support::answer::Answer;
use support::client::Client;
use support::gateway::{Gateway, Policy};
use support::process::program;
use support::servers::{self, Server};
use support::{pattern, pattern_bytes};

/// Bytes of the large bodies.
const LARGE: usize = 64 << 20;
/// How much the gateway's memory may grow while they pass.
const GROWTH_MAX: u64 = 32 << 20;

/// What a browser sends besides.
const BROWSER: &str = "Host: example.test\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
    Accept-Language: de,en-US;q=0.7,en;q=0.3\r\n\
    Accept-Encoding: gzip, deflate\r\n\
    Referer: https://example.test/a?b=c&d=%20e\r\n\
    DNT: 1\r\nSec-GPC: 1\r\nUpgrade-Insecure-Requests: 1\r\n\
    Sec-Fetch-Dest: document\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Site: same-origin\r\n\
    Sec-Fetch-User: ?1\r\nPriority: u=0, i\r\nTE: trailers\r\nConnection: keep-alive, TE\r\n\
    Cookie: session=abc; theme=\"dark\"; empty=; long=0123456789abcdef0123456789abcdef\r\n";

fn gateway(server: &Server) -> Gateway {
    Gateway::start(&Policy::of(&[server.server()]))
}

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

fn fill(server: &Server) {
    server.put("data.bin", &pattern_bytes(0, 10_000));
    server.put("text.txt", "compressible ".repeat(500).as_bytes());
    server.put("empty", b"");
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

/// What the origin saw of a request to `/echo` of Node's.
fn echoed(client: &mut Client, request: impl AsRef<[u8]>) -> Value {
    client.send(request);
    let answer = client.answer();
    assert_eq!(answer.status, 200, "{}", answer.head);
    serde_json::from_slice(&answer.body).expect("JSON")
}

/// The values that the origin saw of a field.
fn values(seen: &Value, name: &str) -> Vec<String> {
    let raw = seen["headers"].as_array().expect("a list");
    let pairs = raw.chunks(2).map(|pair| (pair[0].as_str().unwrap_or_default(), &pair[1]));
    pairs
        .filter(|(it, _)| it.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.as_str().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn the_origin_sees_what_the_client_sent_and_nothing_of_its_connection() {
    let Some(server) = servers::node() else { return };
    let gateway = gateway(&server);
    let mut client = gateway.client();
    let seen = echoed(
        &mut client,
        format!(
            "GET /echo?a=%2F&b HTTP/1.1\r\n{BROWSER}X-Twice: 1\r\nX-Twice: 2\r\nKeep-Alive: 5\r\n\
             Proxy-Authorization: Basic x\r\nProxy-Connection: keep-alive\r\nX-Hop: gone\r\n\
             X-Forwarded-For: 6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\n\
             X-Forwarded-Proto: https\r\nX_Forwarded_For: 6.6.6.6\r\nX-Tiergate-Class: high\r\n\
             Proxy: evil\r\nConnection: x-hop\r\nVia: 1.1 before\r\n\r\n"
        ),
    );
    assert_eq!((&seen["method"], &seen["url"]), (&"GET".into(), &"/echo?a=%2F&b".into()));
    for (name, expected) in [
        ("host", vec!["example.test"]),
        ("x-twice", vec!["1", "2"]),
        ("accept-language", vec!["de,en-US;q=0.7,en;q=0.3"]),
        ("te", vec!["trailers"]),
        ("connection", vec!["TE"]),
        ("x-forwarded-for", vec!["127.0.0.1"]),
        ("x-forwarded-proto", vec!["http"]),
        ("x-forwarded-host", vec!["example.test"]),
        ("via", vec!["1.1 before", "1.1 tiergate"]),
    ] {
        assert_eq!(values(&seen, name), expected, "{name}: {seen:#}");
    }
    for name in [
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "x-hop",
        "x-real-ip",
        "forwarded",
        "x_forwarded_for",
        "x-tiergate-class",
        "proxy",
    ] {
        assert_eq!(values(&seen, name), [""; 0], "{name} must not pass: {seen:#}");
    }
    // Cookies byte by byte.
    assert!(values(&seen, "cookie")[0].starts_with("session=abc; theme=\"dark\"; empty=; long="));
    // And back: what the origin says of its own connection stays here.
    let answer = client.get("/hop");
    assert_eq!((answer.field("x-private"), answer.field("proxy-authenticate")), (None, None));
    assert_eq!((answer.field("x-public"), answer.text().as_str()), (Some("kept"), "hop"));
    // The last hop's request is answered here.
    client.send("OPTIONS /echo HTTP/1.1\r\nHost: x\r\nMax-Forwards: 0\r\n\r\n");
    assert_eq!(client.answer().status, 501);
    let seen = echoed(
        &mut gateway.client(),
        "OPTIONS /echo HTTP/1.1\r\nHost: x\r\nMax-Forwards: 2\r\n\r\n",
    );
    assert_eq!(values(&seen, "max-forwards"), ["1"]);
    // An absolute target's host counts, not the field's.
    let seen = echoed(
        &mut gateway.client(),
        "GET http://Real.test:81/echo HTTP/1.1\r\nHost: other.test\r\n\r\n",
    );
    assert_eq!(
        (values(&seen, "host"), &seen["url"]),
        (vec!["Real.test:81".into()], &"/echo".into())
    );
}

#[test]
fn forwarding_fields_are_as_configured_and_continued_for_trusted_peers() {
    let Some(server) = servers::node() else { return };
    let mut policy = Policy::of(&[server.server()]);
    policy.top = "trusted = [\"127.0.0.0/8\"]".into();
    policy.tables = "[forwarding]\nx_forwarded = true\nforwarded = true\nvia = false\n\
                     [[class]]\nname = \"far\"\n[[class]]\nname = \"near\"\n\
                     [[rule]]\nclient = \"192.0.2.0/24\"\nclass = \"far\"\n"
        .into();
    let gateway = Gateway::start(&policy);
    let seen = echoed(
        &mut gateway.client(),
        "GET /echo HTTP/1.1\r\nHost: x.test\r\nX-Forwarded-For: 192.0.2.7\r\n\
         X-Forwarded-Proto: https\r\nX-Forwarded-Host: y.test\r\nForwarded: for=192.0.2.7\r\n\r\n",
    );
    assert_eq!(values(&seen, "x-forwarded-for"), ["192.0.2.7, 127.0.0.1"]);
    assert_eq!(values(&seen, "x-forwarded-proto"), ["https"]);
    assert_eq!(values(&seen, "x-forwarded-host"), ["y.test"]);
    let forwarded = "for=192.0.2.7, for=127.0.0.1;host=\"x.test\";proto=http";
    assert_eq!(values(&seen, "forwarded"), [forwarded]);
    assert_eq!(values(&seen, "via"), [""; 0]);
    // The client that a trusted peer names is the one that rules see.
    assert_eq!(gateway.number("/classes/0/arrived"), 1, "{:#}", gateway.status()["classes"]);
    assert_eq!(gateway.number("/classes/1/arrived"), 0);
}

/// A version 2 header for a client and a destination over IPv4.
fn proxy_v2(client: [u8; 4], port: u16) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    header.extend(client);
    header.extend([198, 51, 100, 1]);
    header.extend(port.to_be_bytes());
    header.extend(443_u16.to_be_bytes());
    header
}

#[test]
fn the_proxy_protocol_is_taken_from_trusted_peers_only() {
    let Some(server) = servers::node() else { return };
    let mut policy = Policy::of(&[server.server()]);
    policy.listener = "proxy_protocol = true".into();
    policy.top = "trusted = [\"127.0.0.1\"]".into();
    let gateway = Gateway::start(&policy);
    let request = b"GET /echo HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n";
    let v1 = b"PROXY TCP4 192.0.2.9 198.51.100.1 4711 443\r\n".to_vec();
    for (header, client_address) in [
        (v1, "192.0.2.9"),
        (proxy_v2([192, 0, 2, 10], 4711), "192.0.2.10"),
        (b"PROXY TCP6 2001:db8::1 2001:db8::2 1 2\r\n".to_vec(), "2001:db8::1"),
    ] {
        // In one piece and byte by byte; the client it names is not trusted itself.
        let mut client = gateway.client();
        let seen = echoed(&mut client, [&header[..], request].concat());
        assert_eq!(values(&seen, "x-forwarded-for"), [client_address]);
        let seen = echoed(&mut client, request);
        assert_eq!(
            values(&seen, "x-forwarded-for"),
            [client_address],
            "it holds for the connection"
        );
        let mut client = gateway.client();
        for byte in &header {
            client.send([*byte]);
        }
        assert_eq!(values(&echoed(&mut client, request), "x-forwarded-for"), [client_address]);
    }
    for wrong in
        [&request[..], b"PROXY TCP4 nonsense\r\n", b"PROXY TCP4 1.2.3.4", b"\r\n\r\n\0\r\nQUIX"]
    {
        let mut client = gateway.client();
        client.send_anyway(wrong);
        client.finish();
        assert_eq!(client.rest(), b"", "{:?}", String::from_utf8_lossy(wrong));
    }
    let mut policy = policy;
    policy.top = "trusted = [\"192.0.2.1\"]".into();
    let gateway = Gateway::start(&policy);
    let mut client = gateway.client();
    client.send_anyway(&[&proxy_v2([192, 0, 2, 10], 1)[..], request].concat());
    assert_eq!(client.rest(), b"", "a stranger's word is not taken");
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

/// Runs curl against the gateway; what it printed.
fn curl(arguments: &[&str]) -> Option<String> {
    let program = program("curl")?;
    let mut command = Command::new(program);
    command.args(["-sS", "--max-time", "60"]).args(arguments).stdin(Stdio::null());
    let output = command.output().expect("curl runs");
    let (out, error) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{arguments:?}: {error}");
    Some(String::from_utf8_lossy(out).into_owned())
}

fn sha256(path: &Path) -> String {
    let output = Command::new("sha256sum").arg(path).output().expect("coreutils");
    String::from_utf8_lossy(&output.stdout)[..64].to_owned()
}

fn large_file(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("large.bin");
    fs::write(&path, pattern_bytes(0, LARGE)).expect("room for it");
    path
}

#[test]
fn curl_is_served_in_all_its_ways() {
    let Some(server) = servers::node() else { return };
    let gateway = gateway(&server);
    let url = |path: &str| format!("http://{}{path}", gateway.address);
    let Some(text) = curl(&["-w", "%{num_connects} ", &url("/a"), &url("/b"), &url("/c")]) else {
        return;
    };
    assert_eq!(text, "GET /a1 GET /b0 GET /c0 ", "one connection for three");
    let file = large_file(server.folder.path());
    let expected = sha256(&file);
    let path = file.display().to_string();
    for more in [
        &["-H", "Expect: 100-continue"][..],
        &["-H", "Transfer-Encoding: chunked"],
        &["--http1.0"],
        &["-H", "Expect:"],
    ] {
        let seen = curl(&[&["-T", &path, &url("/echo")][..], more].concat()).expect("found before");
        let seen: Value = serde_json::from_str(&seen).expect("JSON");
        assert_eq!((&seen["sha256"], &seen["length"]), (&expected.clone().into(), &LARGE.into()));
    }
    let text = curl(&["--http1.0", &url("/trailers")]).expect("found before");
    assert_eq!(text, "first second");
}

#[test]
fn large_bodies_pass_unchanged_in_bounded_memory() {
    for (server, name) in [(servers::nginx(), "nginx"), (servers::apache(), "apache")] {
        let Some(server) = server else { return };
        let file = large_file(&server.folder.path().join("www"));
        let gateway = gateway(&server);
        assert_eq!(gateway.get("/").status, 200);
        let before = gateway.process.memory("VmHWM");
        let mut client = gateway.client();
        client.send("GET /large.bin HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(
            client.try_head().expect("a head").field("content-length"),
            Some(&*LARGE.to_string())
        );
        let mut at = 0;
        while at < LARGE {
            let piece = client.bytes((LARGE - at).min(1 << 20));
            let same = piece.iter().zip(at as u64..).all(|(&byte, at)| byte == pattern(at));
            assert!(same, "{name}: not the same around byte {at}");
            at += piece.len();
        }
        assert_eq!(client.get("/").status, 200);
        if name == "nginx" {
            let url = format!("http://{}/up/copy.bin", gateway.address);
            curl(&["-T", &file.display().to_string(), &url]).expect("curl");
            let copy = server.folder.path().join("www/up/copy.bin");
            assert_eq!(sha256(&copy), sha256(&file));
        }
        let grown = gateway.process.memory("VmHWM") - before;
        println!("{name}: {} MiB each way, VmHWM +{} KiB", LARGE >> 20, grown / 1024);
        assert!(grown < GROWTH_MAX, "{grown}");
        gateway.assert_conserved();
    }
}

#[test]
fn an_origin_on_a_unix_socket_is_as_good() {
    let Some(server) = servers::nginx() else { return };
    fill(&server);
    let socket = server.folder.path().join("nginx.sock");
    let gateway = Gateway::start(&Policy::of(&[format!("unix:{}", socket.display())]));
    let mut client = gateway.client();
    for _ in 0..20 {
        let answer = client.get("/data.bin");
        assert_eq!((answer.status, answer.body), (200, pattern_bytes(0, 10_000)));
    }
    assert_eq!(gateway.number("/origin/0/connects"), 1, "the connection is kept");
    let file = large_file(server.folder.path());
    let url = format!("http://{}/up/copy.bin", gateway.address);
    if curl(&["-T", &file.display().to_string(), &url]).is_some() {
        assert_eq!(sha256(&server.folder.path().join("www/up/copy.bin")), sha256(&file));
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
