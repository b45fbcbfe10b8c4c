//! Names that no trailer may have: of whatever header means something to the policy, and after a reload also for requests whose bodies
//! had begun to come before it.

use crate::policy;
use crate::support::eventually;
use crate::support::gateway::{Gateway, Policy};
use crate::support::http2_client::{connect, rest, run};
use crate::support::origin::{Origin, ok};
use http::{HeaderMap, HeaderValue, Request};
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

/// The trailers that each request has.
const TRAILERS: [&str; 8] =
    ["x-trace", "x-renamed", "x_renamed", "x-partner", "x-token", "x-plan", "x_plan", "x-end"];

/// Tells how many ids it got, and the names of the trailers.
fn origin() -> Origin {
    Origin::answering(|request| {
        let ids = request.values("x-renamed").len();
        let names = request.trailers.iter().map(|(name, _)| name.to_ascii_lowercase());
        let mut names: Vec<_> = names.collect();
        names.sort_unstable();
        ok(format!("{ids} {}", names.join(" ")))
    })
}

/// A policy whose ids are in this header; `tables` follow.
fn with_ids(origin: &Origin, folder: &TempDir, header: &str, tables: &str) -> Policy {
    let log = folder.path().join("log.json");
    let tables = format!("[request_id]\nheader = {header:?}\n{tables}");
    Policy { listener: "http2 = true".into(), ..policy(origin, &log, &tables) }
}

/// A request in chunks with a body of `len` bytes, of which the last comes after `meanwhile`: what the origin told.
fn over_http1(gateway: &Gateway, len: usize, meanwhile: &dyn Fn()) -> String {
    let mut client = gateway.client();
    let most = "x".repeat(len - 1);
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{len:x}\r\n{most}"
    ));
    meanwhile();
    let trailers: String = TRAILERS.iter().map(|name| format!("{name}: forged\r\n")).collect();
    // What follows is a request of its own.
    client.send(format!("x\r\n0\r\n{trailers}\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n"));
    let told = client.answer().text();
    assert!(client.answer().text().ends_with(' '), "it has no trailers");
    told
}

/// The same over HTTP/2.
fn over_http2(gateway: &Gateway, len: usize, meanwhile: &dyn Fn()) -> String {
    run(async {
        let mut send = connect(gateway.address).await;
        let request = Request::post("http://x.test/").body(()).expect("good");
        let (answer, mut sending) = send.send_request(request, false).expect("a stream");
        sending.send_data("x".repeat(len - 1).into(), false).expect("an open stream");
        // The connection's task sends it.
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        meanwhile();
        sending.send_data("x".into(), false).expect("an open stream");
        let mut trailers = HeaderMap::new();
        for name in TRAILERS {
            trailers.insert(name, HeaderValue::from_static("forged"));
        }
        sending.send_trailers(trailers).expect("an open stream");
        let mut body = answer.await.expect("an answer").into_body();
        let (bytes, _) = rest(&mut body).await.expect("whole");
        String::from_utf8(bytes).expect("text")
    })
}

#[test]
fn a_body_that_comes_while_the_id_s_header_is_renamed_has_no_trailer_of_the_new_name() {
    let (origin, folder) = (origin(), TempDir::new().expect("a folder"));
    let spool = format!("[forwarding]\nspool_directory = {:?}\n", folder.path());
    // What fits is gathered in memory; the rest of what does not goes to a file.
    for (len, tables, held) in
        [(0x5000, "", "/clients/buffered_bytes"), (0x2_0000, &*spool, "/clients/spooled_bytes")]
    {
        for over in [over_http1, over_http2] {
            let gateway = Gateway::start(&with_ids(&origin, &folder, "X-Trace", tables));
            let told = over(&gateway, len, &|| {
                eventually("it is read", || gateway.number(held) > 0);
                let renamed = with_ids(&origin, &folder, "X-Renamed", tables);
                gateway.write_policy(&renamed.text(&[gateway.address], gateway.admin));
                let (status, text) = gateway.reload();
                assert_eq!(status, 200, "{text}");
            });
            let passed = "1 x-end x-partner x-plan x-token x-trace x_plan";
            assert_eq!(told, passed, "{held}");
            gateway.assert_conserved();
        }
    }
}

#[test]
fn what_is_a_credential_or_a_condition_in_a_header_does_not_pass_as_a_trailer() {
    let (origin, folder) = (origin(), TempDir::new().expect("a folder"));
    let secret = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("our own folder");
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&path, mode).expect("our own file");
        path.display().to_string()
    };
    let (keys, tokens) = (
        secret("keys", "alice:a-key-that-is-long-enough\n"),
        secret("tokens", "an-issuer-s-secret-of-32-bytes-or-more"),
    );
    let tables = format!(
        "[[key]]\nname = \"k\"\nheader = \"X-Partner\"\nsecret_file = {keys:?}\n\
         [token]\nheader = \"X-Token\"\nsecret_file = {tokens:?}\n\
         [[rule]]\nheader.x-plan = \"gold\"\nrefuse = true\n"
    );
    let gateway = Gateway::start(&with_ids(&origin, &folder, "X-Renamed", &tables));
    for over in [over_http1, over_http2] {
        assert_eq!(over(&gateway, 2, &|| ()), "1 x-end x-trace");
    }
    gateway.assert_conserved();
}
