//! TLS to the origin: which servers are believed, what becomes of requests to the others, and which connections are kept.

use crate::support;
use serde_json::Value;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;
use support::client::get;
use support::gateway::{Gateway, Policy};
use support::origin::Origin;
use support::tls_origin::{Authority, Seen, answering, server_config};
use support::{eventually, eventually_is, pattern_bytes};

/// A policy for one server.
fn policy(server: &Origin, origin: &str) -> Policy {
    Policy { origin: format!("slots = 100\n{origin}"), ..Policy::of(&[server.server()]) }
}

/// A metric of the gateway.
fn metric(gateway: &Gateway, name: &str) -> u64 {
    let page = support::client::Client::connect(gateway.admin).get_local("/metrics").text();
    let line = page.lines().find_map(|line| line.strip_prefix(&format!("tiergate_{name} ")));
    line.and_then(|it| it.parse().ok()).unwrap_or_else(|| panic!("{name} in {page}"))
}

fn full(seen: &Seen) -> usize {
    seen.full.load(Ordering::SeqCst)
}

#[test]
fn a_server_that_is_verified_gets_requests_on_kept_connections_and_sessions_are_resumed() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path(), "own");
    let config = server_config(&authority.sign("app", "app.test"), &["http/1.1"], None);
    for (closes, resumes) in [(false, 0), (true, 2)] {
        let (origin, seen) = answering(config.clone(), closes);
        let tls = format!("tls = {{ server_name = \"app.test\", ca = {:?} }}", authority.file);
        let policy = Policy { top: "threads = 1".into(), ..policy(&origin, &tls) };
        let gateway = Gateway::start(&policy);
        for path in ["/a", "/b", "/c"] {
            assert_eq!(get(gateway.address, path).text(), path);
        }
        assert_eq!((full(&seen), seen.resumed.load(Ordering::SeqCst)), (1, resumes));
        assert_eq!(seen.names.lock().expect("no panic")[0], "app.test");
        assert_eq!(metric(&gateway, "origin_tls_handshakes_total{kind=\"full\"}"), 1);
        let resumed = metric(&gateway, "origin_tls_handshakes_total{kind=\"resumed\"}");
        assert_eq!(resumed, resumes as u64);
        gateway.assert_conserved();
    }
}

#[test]
fn large_bodies_go_both_ways() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path(), "own");
    let config = server_config(&authority.sign("app", "127.0.0.1"), &[], None);
    let (origin, _) = answering(config, false);
    // The name is that of the server itself: an address.
    let gateway =
        Gateway::start(&policy(&origin, &format!("tls = {{ ca = {:?} }}", authority.file)));
    let body = pattern_bytes(0, 8 << 20);
    let mut client = gateway.client();
    client.send(format!(
        "POST /up HTTP/1.1\r\nHost: a.test\r\nContent-Length: {}\r\n\r\n",
        body.len()
    ));
    client.send(&body);
    assert!(client.answer().body == body, "the same bytes come back");
}

/// The status, and the cause in the log, of a request through a gateway to such an origin; by `cause` its failure is counted.
fn refused(folder: &Path, origin: &Origin, keys: &str, cause: &str) -> (u16, String) {
    let (gateway, status, why) = failed(folder, origin, keys);
    let count = metric(&gateway, &format!("origin_tls_failures_total{{cause=\"{cause}\"}}"));
    assert_eq!(count, 1, "{cause}");
    (status, why)
}

fn failed(folder: &Path, origin: &Origin, keys: &str) -> (Gateway, u16, String) {
    let log = folder.join("access.log");
    let _ = std::fs::remove_file(&log);
    let mut policy = policy(origin, keys);
    policy.tables = format!("[access_log]\npath = {log:?}\n[timeouts]\nconnect = \"400ms\"");
    let gateway = Gateway::start(&policy);
    let status = get(gateway.address, "/").status;
    gateway.assert_conserved();
    let mut line = Value::Null;
    eventually("the line is written", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        line = serde_json::from_str(text.lines().next().unwrap_or_default()).unwrap_or_default();
        line != Value::Null
    });
    (gateway, status, line["cause"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn a_server_that_is_not_believed_gets_no_request_and_the_log_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let (own, other) = (Authority::new(folder, "own"), Authority::new(folder, "other"));
    let ca = format!("tls = {{ server_name = \"app.test\", ca = {:?} }}", own.file);
    let h2_only = server_config(&own.sign("h2", "app.test"), &["h2"], None);
    let mutual = server_config(&own.sign("mutual", "app.test"), &[], Some(&other));
    for (config, cause, why) in [
        (
            server_config(&own.sign_until("old", "app.test", 2020), &[], None),
            "expired",
            "the server's certificate has expired or is not valid yet",
        ),
        (
            server_config(&own.sign("name", "other.test"), &[], None),
            "wrong_name",
            "the server's certificate is for another name",
        ),
        (
            server_config(&other.sign("other", "app.test"), &[], None),
            "unknown_authority",
            "the server's certificate is signed by an authority that is not trusted",
        ),
        (h2_only, "alert", "the server refused the TLS handshake"),
    ] {
        let (origin, seen) = answering(config, false);
        assert_eq!(refused(folder, &origin, &ca, cause), (502, why.to_owned()), "{cause}");
        assert_eq!(seen.requests.load(Ordering::SeqCst), 0);
    }
    // The system's authorities do not know ours.
    let (origin, _) = answering(server_config(&own.sign("sys", "127.0.0.1"), &[], None), false);
    assert_eq!(refused(folder, &origin, "tls = true", "unknown_authority").0, 502);
    // It says nothing at all, hangs up, or speaks another language.
    let silent = Origin::start(|mut connection| while connection.more() {});
    let (status, why) = refused(folder, &silent, &ca, "timeout");
    assert_eq!((status, &*why), (502, "the TLS handshake timed out"));
    let closing = Origin::start(|mut connection| {
        connection.more();
    });
    assert_eq!(refused(folder, &closing, &ca, "closed").0, 502);
    let plain = Origin::start(|mut connection| {
        connection.more();
        connection.send("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
    });
    assert_eq!(refused(folder, &plain, &ca, "malformed").0, 502);
    // With TLS 1.3 a server refuses a client's certificate, or that there is none, only after the handshake.
    let mutual_h2 = server_config(&own.sign("streams", "app.test"), &["h2"], Some(&other));
    let (origin, _) = answering(mutual_h2, false);
    let (_, status, why) = failed(folder, &origin, &format!("{ca}\nprotocol = \"h2\""));
    assert_eq!((status, &*why), (502, "the server refused the TLS handshake"));
    // Servers that want a certificate of their clients get the gateway's, if it has one.
    let (origin, _) = answering(mutual, false);
    let pair = other.sign("gateway", "gateway.test");
    let mine = format!("certificate = {:?}, key = {:?}", pair.chain, pair.key);
    let keys = format!("tls = {{ server_name = \"app.test\", ca = {:?}, {mine} }}", own.file);
    assert_eq!(get(Gateway::start(&policy(&origin, &keys)).address, "/").status, 200);
    assert_eq!(get(Gateway::start(&policy(&origin, &ca)).address, "/").status, 502);
}

#[test]
fn without_verification_any_certificate_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path(), "own");
    let config = server_config(&authority.sign_until("old", "x.test", 2020), &[], None);
    let (origin, _) = answering(config, false);
    let gateway = Gateway::start(&policy(&origin, "tls = { verify = false }"));
    assert_eq!(get(gateway.address, "/").status, 200);
}

#[test]
fn connections_of_one_setting_serve_no_other_and_files_are_read_again_by_a_reload() {
    let folder = tempfile::tempdir().expect("a folder");
    let (own, other) =
        (Authority::new(folder.path(), "own"), Authority::new(folder.path(), "other"));
    let config = server_config(&own.sign("app", "app.test"), &[], None);
    let (origin, seen) = answering(config, false);
    let trusted = folder.path().join("trusted.pem");
    std::fs::copy(&own.file, &trusted).expect("our own folder");
    let mut policy = policy(
        &origin,
        &format!("tls = {{ server_name = \"app.test\", ca = {trusted:?} }}\nfailures_max = 0"),
    );
    policy.top = "threads = 1".into();
    policy.tables = format!(
        "[[pool]]\nname = \"loose\"\nservers = [{:?}]\ntls = {{ verify = false }}\n\
         [[pool]]\nname = \"plain\"\nservers = [{:?}]\ntls = false\n\
         [[rule]]\npath = \"/loose\"\npool = \"loose\"\n[[rule]]\npath = \"/plain\"\npool = \"plain\"\n\
         [timeouts]\norigin_idle = \"30s\"\n",
        origin.server(),
        origin.server()
    );
    let gateway = Gateway::start(&policy);
    for path in ["/", "/loose", "/", "/loose"] {
        assert_eq!(get(gateway.address, path).status, 200, "{path}");
    }
    assert_eq!(full(&seen), 2, "one connection for each setting");
    assert_eq!(get(gateway.address, "/plain").status, 502, "not over a connection with TLS");
    // Nothing has changed: connections are kept over the reload.
    assert_eq!(gateway.reload().0, 200);
    assert_eq!(get(gateway.address, "/").status, 200);
    assert_eq!(full(&seen), 2);
    // The authority is no longer trusted: nor are connections that it let in.
    std::fs::copy(&other.file, &trusted).expect("our own folder");
    assert_eq!(gateway.reload().0, 200);
    eventually_is("it is no longer believed", 502, || get(gateway.address, "/").status);
    assert_eq!(get(gateway.address, "/loose").status, 200);
    // A file that cannot be used leaves all as it is.
    std::fs::write(&trusted, "garbage").expect("our own folder");
    let (status, text) = gateway.reload();
    assert!(status != 200 && text.contains("trusted.pem: no certificate in it"), "{text}");
    std::fs::copy(&own.file, &trusted).expect("our own folder");
    assert_eq!(gateway.reload().0, 200);
    assert_eq!(get(gateway.address, "/").status, 200);
    gateway.assert_conserved();
}

#[test]
fn health_is_checked_over_tls() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path(), "own");
    let health = "health = { path = \"/up\", interval = \"100ms\", fall = 2, rise = 1 }";
    for (host, healthy) in [("app.test", "up"), ("other.test", "down")] {
        let (origin, seen) =
            answering(server_config(&authority.sign(host, host), &[], None), false);
        let tls = format!("tls = {{ server_name = \"app.test\", ca = {:?} }}", authority.file);
        let gateway = Gateway::start(&policy(&origin, &format!("{tls}\n{health}")));
        eventually_is("its health is known", Value::from(healthy), || {
            gateway.status()["origin"][0]["health"].clone()
        });
        if healthy == "up" {
            eventually("checks come", || seen.requests.load(Ordering::SeqCst) > 1);
        } else {
            eventually("it is said why", || gateway.log().contains("is for another name"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn check_warns_of_servers_that_are_not_verified() {
    let folder = tempfile::tempdir().expect("a folder");
    for (verify, warned) in [("false", 1), ("true", 0)] {
        let path = folder.path().join("policy.toml");
        let text = format!("[origin]\nservers = [\"a:1\"]\ntls = {{ verify = {verify} }}\n");
        std::fs::write(&path, text).expect("our own folder");
        let mut check = std::process::Command::new(env!("CARGO_BIN_EXE_tiergate"));
        let said = check.arg("check").arg(&path).output().expect("it runs");
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        assert_eq!(
            said.matches("tls.verify = false takes any certificate").count(),
            warned,
            "{said}"
        );
    }
}
