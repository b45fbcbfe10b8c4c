//! What a running gateway tells its rules of a request and its connection, by HTTP/1.1 and HTTP/2.

use crate::support;
use support::gateway::{Gateway, Policy, certificate};
use support::origin::Origin;
use support::process::curl;

/// A rule that refuses, for each condition.
fn refusing(conditions: &[&str]) -> String {
    let rules =
        conditions.iter().map(|condition| format!("[[rule]]\n{condition}\nrefuse = true\n"));
    rules.collect()
}

#[test]
fn every_part_of_a_request_reaches_the_rules() {
    let origin = Origin::echo();
    let mut policy = Policy::of(&[origin.server()]);
    policy.tables = refusing(&[
        "extension = \"cgi\"",
        "path_regex = '^/v[0-9]+/x$'",
        "query.\"a b\" = \"c*\"",
        "content_type = \"application/*\"",
        "content_length = \"5..6\"",
        "prefetch = true",
        "urgency = \"6..7\"",
        "path = \"/here\"\ndestination = \"127.0.0.0/8\"\nlistener = \"main\"",
        "path = \"/elsewhere\"\ndestination = \"192.0.2.1\"",
        "sni = [\"*.test\", \"localhost\"]",
    ]);
    policy.listener = "name = \"main\"".into();
    let gateway = Gateway::start(&policy);
    let status = |request: &str, fields: &str, body: &str| {
        let mut client = gateway.client();
        client.send(format!("{request} HTTP/1.1\r\nHost: x\r\n{fields}\r\n{body}"));
        client.answer().status
    };
    let post = "POST /p";
    for (request, fields, body, refused) in [
        ("GET /a.CGI", "", "", true),
        ("GET /a.cgi/b", "", "", false),
        ("GET /x/../%76%31/x", "", "", true),
        ("GET /v1/x/", "", "", false),
        ("GET /?z=1&a%20b=%63", "", "", true),
        ("GET /?z=1&a+b=d", "", "", false),
        (post, "Content-Type: Application/JSON;a=b\r\nContent-Length: 1\r\n", "1", true),
        (post, "Content-Type: text/json\r\nContent-Length: 1\r\n", "1", false),
        (post, "Content-Length: 5\r\n", "12345", true),
        (post, "Content-Length: 7\r\n", "1234567", false),
        (post, "Transfer-Encoding: chunked\r\n", "5\r\n12345\r\n0\r\n\r\n", false),
        ("GET /", "Sec-Purpose: prefetch;prerender\r\n", "", true),
        ("GET /", "X-Moz: prefetch\r\n", "", true),
        ("GET /", "Sec-Purpose: none\r\n", "", false),
        ("GET /", "Priority: i, u=7\r\n", "", true),
        ("GET /", "Priority: u=0\r\n", "", false),
        ("GET /here", "", "", true),
        ("GET /elsewhere", "", "", false),
    ] {
        let expected = if refused { 403 } else { 200 };
        assert_eq!(status(request, fields, body), expected, "{request} {fields:?}");
    }
}

#[test]
fn the_name_asked_for_in_the_handshake_reaches_the_rules() {
    let origin = Origin::echo();
    let folder = tempfile::tempdir().expect("a folder");
    let (trusted, listener) = certificate(folder.path(), "one");
    for (sni, expected) in [("example.test", "403"), ("*.example.test", "200")] {
        let mut policy = Policy::of(&[origin.server()]);
        policy.listener = listener.clone();
        policy.tables = refusing(&[&format!("sni = \"{sni}\"")]);
        let gateway = Gateway::start(&policy);
        let port = gateway.address.port();
        let resolve = format!("example.test:{port}:127.0.0.1");
        let url = format!("https://example.test:{port}/x");
        for version in ["--http1.1", "--http2"] {
            let body = folder.path().join("body").display().to_string();
            let arguments = [version, "--cacert", &trusted, "--resolve", &resolve];
            let what = ["-o", &body, "-w", "%{http_code}", &url];
            let Some(status) = curl(&[&arguments[..], &what].concat()) else { return };
            assert_eq!(status, expected, "{sni} by {version}");
        }
    }
}
