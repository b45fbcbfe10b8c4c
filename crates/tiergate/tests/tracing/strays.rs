//! Lines of the access log about what never became a request.

use crate::support::client::Client;
use crate::support::eventually;
use crate::support::gateway::{Gateway, Policy, certificate};
use crate::support::origin::Origin;
use crate::{await_lines, lines, policy};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use serde_json::Value;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

fn cause(line: &Value) -> &str {
    assert_eq!((&line["verdict"], &line["client"]), (&"bad".into(), &"127.0.0.1".into()), "{line}");
    for absent in ["class", "rule", "method", "target", "host"] {
        assert_eq!(line.get(absent), None, "{line}");
    }
    line["cause"].as_str().expect("a cause")
}

#[test]
fn malformed_requests_have_lines() {
    let (origin, folder) = (Origin::echo(), TempDir::new().expect("a folder"));
    let log = folder.path().join("log.json");
    let mut policy = policy(
        &origin,
        &log,
        "[limits]\nrequest_head_max = \"1KiB\"\ntarget_len_max = \"512B\"\n[timeouts]\nrequest_head = \"300ms\"\n",
    );
    policy.listener = "http2 = true".into();
    let gateway = Gateway::start(&policy);
    let send = |bytes: &[u8]| {
        let mut client = gateway.client();
        client.send_anyway(bytes);
        client.try_answer(false).map(|answer| answer.status).unwrap_or_default()
    };
    assert_eq!(send(b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"), 400);
    assert_eq!(send(&[b"GET / HTTP/1.1\r\nA: ", &vec![b'a'; 2000][..]].concat()), 431);
    assert_eq!(send(b"GET / HTTP/1.1\r\nHost: x\r\n"), 408);
    // Half a head, and gone; and nothing at all, which is no mistake.
    let mut client = gateway.client();
    client.send("GET / HT");
    drop(client);
    eventually("four lines", || lines(&log).len() == 4);
    drop(gateway.client());
    assert_eq!(gateway.get("/good").status, 200);
    let lines = await_lines(&log, 5);
    let statuses: Vec<_> = lines.iter().map(|line| line["status"].as_u64()).collect();
    assert_eq!(statuses, [400, 431, 408, 0, 200].map(Some));
    let causes: Vec<_> = lines[..4].iter().map(cause).collect();
    assert_eq!(
        causes[2..],
        ["the request's head took too long", "the client left before its request was whole"]
    );
    assert!(lines[0]["sent_bytes"].as_u64() > lines[0]["body_bytes"].as_u64(), "{}", lines[0]);
}

#[test]
fn http2_that_breaks_the_protocol_has_a_line_and_is_counted() {
    let (origin, folder) = (Origin::echo(), TempDir::new().expect("a folder"));
    let log = folder.path().join("log.json");
    let mut policy = policy(&origin, &log, "");
    policy.listener = "http2 = true".into();
    let gateway = Gateway::start(&policy);
    let begun = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    // One that leaves has done nothing wrong; DATA on stream 0 is.
    for (more, count) in [(&b""[..], 0), (b"\0\0\x01\0\0\0\0\0\0x", 1)] {
        let mut client = gateway.client();
        client.send_anyway(&[begun, more].concat());
        if count == 0 {
            drop(client);
            assert_eq!(gateway.get("/good").status, 200);
        } else {
            let _ = client.rest();
        }
        let lines = await_lines(&log, 1 + count);
        let metrics = Client::connect(gateway.admin).get_local("/metrics").text();
        let expected = format!("tiergate_protocol_errors_total{{protocol=\"HTTP/2.0\"}} {count}");
        assert!(metrics.lines().any(|line| line == expected), "{expected}: {metrics}");
        if count > 0 {
            assert!(!cause(&lines[1]).is_empty());
            assert_eq!(
                (&lines[1]["protocol"], &lines[1]["status"]),
                (&"HTTP/2.0".into(), &0.into())
            );
        }
    }
}

#[test]
fn requests_that_are_refused_for_their_heads_are_logged_as_requests() {
    let (origin, folder) = (Origin::echo(), TempDir::new().expect("a folder"));
    let log = folder.path().join("log.json");
    let tables = "[limits]\nrequest_body_max = \"1KiB\"\n[[class]]\nname = \"shop\"\n[[class]]\nname = \"rest\"\n\
                  [[rule]]\npath = \"/shop\"\nclass = \"shop\"\n[request_id]\n";
    let gateway = Gateway::start(&policy(&origin, &log, tables));
    for (number, (status, head)) in [
        (413, "POST /shop HTTP/1.1\r\nContent-Length: 2000\r\n"),
        (501, "OPTIONS /shop HTTP/1.1\r\nMax-Forwards: 0\r\n"),
    ]
    .into_iter()
    .enumerate()
    {
        // From a proxy that is trusted: the client and the id are those that it names.
        let mut client = Client::connect_from([127, 0, 0, 9].into(), gateway.address);
        client.send(format!(
            "{head}Host: x\r\nX-Forwarded-For: 192.0.2.7\r\nX-Request-ID: abc-{number}\r\n\r\n"
        ));
        assert_eq!(client.answer().status, status);
        let line = await_lines(&log, 1 + number).remove(number);
        assert_eq!(
            (&line["client"], &line["class"]),
            (&"192.0.2.7".into(), &"shop".into()),
            "{line}"
        );
        assert_eq!((&line["status"], &line["target"]), (&status.into(), &"/shop".into()), "{line}");
        assert_eq!(line["request_id"], format!("abc-{number}"), "{line}");
        let metrics = Client::connect(gateway.admin).get_local("/metrics").text();
        let expected = format!("tiergate_bad_requests_total{{code=\"{status}\"}} 1");
        assert!(metrics.lines().any(|line| line == expected), "{expected}: {metrics}");
    }
    assert_eq!(origin.requests().0.len(), 0);
}

#[test]
fn they_look_as_other_servers_have_them() {
    for (format, expected) in [
        ("format = \"common\"", "] \"-\" 400 "),
        (
            "line = '%ci \"%r\" %ST \"$cause\" $bad_left_out'",
            "127.0.0.1 \"-\" 400 \"malformed line end after the version\" 0",
        ),
    ] {
        let (origin, folder) = (Origin::echo(), TempDir::new().expect("a folder"));
        let log = folder.path().join("log");
        let gateway = Gateway::start(&policy(&origin, &log, format));
        let mut client = gateway.client();
        client.send("GET / HTTP/1.1\nHost: x\n\n");
        assert_eq!(client.answer().status, 400);
        eventually("a line", || std::fs::read_to_string(&log).is_ok_and(|text| !text.is_empty()));
        let text = std::fs::read_to_string(&log).expect("it was written");
        assert!(text.contains(expected), "{text}");
    }
}

/// A client's certificate and its key, that was valid until this year.
fn client_certificate(issuer: &Issuer<'static, KeyPair>, until: i32) -> (String, String) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(vec!["client.test".to_owned()]).expect("a name");
    params.not_before = rcgen::date_time_ymd(2001, 1, 1);
    params.not_after = rcgen::date_time_ymd(until, 1, 1);
    (params.signed_by(&key, issuer).expect("signed").pem(), key.serialize_pem())
}

/// Shakes hands, and says whether an answer comes.
fn handshake(gateway: &Gateway, root: &Path, name: &str, own: Option<(String, String)>) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(root).expect("PEM")).expect("a certificate");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    let config = match own {
        Some((certificate, key)) => {
            let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM")];
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
            builder.with_client_auth_cert(chain, key).expect("they fit")
        }
        None => builder.with_no_client_auth(),
    };
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    let mut session = ClientConnection::new(Arc::new(config), name).expect("a session");
    let mut client = Client::connect(gateway.address);
    let mut stream = rustls::Stream::new(&mut session, &mut client.stream);
    let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).is_ok() && answer.ends_with(b"200")
}

#[test]
fn handshakes_that_fail_have_lines_that_say_why() {
    let (origin, folder) = (Origin::echo(), TempDir::new().expect("a folder"));
    let log = folder.path().join("log.json");
    let (certificate, keys) = certificate(folder.path(), "server");
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = folder.path().join("clients.pem");
    std::fs::write(&authority, params.self_signed(&key).expect("signed").pem()).expect("our own");
    let issuer = Issuer::new(params, key);
    let mut policy: Policy = policy(&origin, &log, "");
    policy.listener =
        keys.replace(" }", &format!(", client_ca = {authority:?}, client = \"required\" }}"));
    let gateway = Gateway::start(&policy);
    let root = Path::new(&certificate);
    let valid = Some(client_certificate(&issuer, 2200));
    assert!(handshake(&gateway, root, "example.test", valid.clone()));
    await_lines(&log, 1);

    let mut plain = gateway.client();
    plain.send_anyway(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    let _ = plain.rest();
    let cases = [
        // The client does not find the name that it asked for.
        ("wrong.test", valid, "received fatal alert"),
        ("example.test", Some(client_certificate(&issuer, 2002)), "expired"),
        ("example.test", None, "peer sent no certificates"),
    ];
    await_lines(&log, 2);
    for (number, (name, own, _)) in cases.iter().enumerate() {
        assert!(!handshake(&gateway, root, name, own.clone()), "{number}");
        await_lines(&log, 3 + number);
    }
    let lines = lines(&log);
    assert_eq!(cause(&lines[1]), "TLS handshake failed: what the client sent is not TLS");
    for ((.., expected), line) in cases.iter().zip(&lines[2..]) {
        let cause = cause(line);
        assert!(cause.starts_with("TLS handshake failed: ") && cause.contains(expected), "{cause}");
        assert_eq!((&line["status"], line.get("protocol")), (&0.into(), None));
    }
}

#[test]
fn a_flood_fills_no_disk_and_its_extent_is_said() {
    let (origin, folder) = (Origin::echo(), TempDir::new().expect("a folder"));
    let log = folder.path().join("log.json");
    let gateway = Gateway::start(&policy(&origin, &log, "bad_per_second = 2"));
    let malformed = || {
        let mut client = gateway.client();
        client.send("GET / HTTP/1.1\nHost: x\n\n");
        assert_eq!(client.answer().status, 400);
    };
    let mut sent = 0;
    // Until a line says that others had none, which takes a second.
    eventually("a line says so", || {
        for _ in 0..50 {
            malformed();
        }
        sent += 50;
        assert_eq!(gateway.get("/good").status, 200);
        lines(&log).iter().any(|line| line["bad_left_out"].as_u64() > Some(0))
    });
    eventually("every one has a line or is counted", || {
        let metrics = Client::connect(gateway.admin).get_local("/metrics").text();
        let name = "tiergate_access_log_bad_left_out_total ";
        let left_out = metrics.lines().find_map(|line| line.strip_prefix(name));
        let left_out: usize = left_out.and_then(|it| it.parse().ok()).expect("a number");
        let logged = lines(&log).iter().filter(|line| line["status"] == 400).count();
        logged + left_out == sent
    });
    let logged = lines(&log).iter().filter(|line| line["status"] == 400).count();
    assert!(logged * 3 < sent, "{logged} lines of {sent}");
    eventually("requests have all theirs", || {
        lines(&log).iter().filter(|line| line["status"] == 200).count() * 50 == sent
    });
}

#[test]
fn an_origin_that_fails_has_its_cause() {
    let origin = Origin::start(|mut connection| {
        let Some(request) = connection.request() else { return };
        match request.target.as_str() {
            "/reset" => connection.reset(),
            "/malformed" => connection.send("HTTP/1.1 nonsense\r\n\r\n"),
            "/cut" => connection.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"),
            _ => {}
        }
    });
    let folder = TempDir::new().expect("a folder");
    let log = folder.path().join("log.json");
    let gateway = Gateway::start(&policy(&origin, &log, ""));
    for (number, path) in ["/closed", "/reset", "/malformed", "/cut"].iter().enumerate() {
        let mut client = gateway.client();
        client.send(format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"));
        let _ = client.try_answer(false);
        await_lines(&log, number + 1);
    }
    drop(origin);
    eventually("nobody listens", || gateway.get("/gone").status == 502);
    let lines = lines(&log);
    let causes: Vec<_> = lines.iter().map(|line| line["cause"].as_str().expect("one")).collect();
    assert_eq!(causes[0], "the origin closed the connection without an answer");
    assert_eq!(causes[1], "the origin reset the connection without an answer");
    assert!(!causes[2].contains("connection"), "{}", causes[2]);
    assert_eq!(causes[3], "the origin broke off its answer");
    eventually("it is logged", || {
        crate::lines(&log).last().expect("some")["cause"] == "connection refused"
    });
}
