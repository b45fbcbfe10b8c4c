//! Ids of requests.

use crate::support::client::Client;
use crate::support::gateway::Gateway;
use crate::support::http2_client::{call, connect, rest, run};
use crate::support::origin::{Origin, ok};
use crate::{await_lines, policy};
use http::{HeaderMap, HeaderValue, Request};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::TempDir;

const TRUSTED: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);

const RULES: &str = "[[rule]]\npath = \"/no\"\nrefuse = true\n";

fn is_made(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Tells the id that it got, and says one of its own.
fn origin() -> Origin {
    Origin::answering(|request| {
        let ids = request.values("x-request-id").join("|");
        let imitations = request.values("x_request_id").len();
        let body = format!("{ids} {imitations}");
        let mut answer = format!(
            "HTTP/1.1 200 OK\r\nX-Request-Id: the-origins\r\nContent-Length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        answer.extend_from_slice(body.as_bytes());
        answer
    })
}

fn start(origin: &Origin, folder: &TempDir, more: &str) -> (Gateway, PathBuf) {
    let log = folder.path().join("log.json");
    let tables = format!("[request_id]\n{more}\n{RULES}");
    let mut policy = policy(origin, &log, &tables);
    policy.listener = "http2 = true".into();
    (Gateway::start(&policy), log)
}

fn get(client: &mut Client, path: &str, fields: &str) -> crate::support::answer::Answer {
    client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n{fields}\r\n"));
    client.answer()
}

/// The id that the client and the origin got: one, and the same.
fn the_id(answer: &crate::support::answer::Answer) -> String {
    let told: Vec<_> = answer
        .fields
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("x-request-id"))
        .collect();
    assert_eq!(told.len(), 1, "{}", answer.head);
    assert_eq!(answer.text(), format!("{} 0", told[0].1));
    told[0].1.clone()
}

#[test]
fn an_id_is_made_for_strangers_and_taken_from_trusted_peers() {
    let (origin, folder) = (origin(), TempDir::new().expect("a folder"));
    let (gateway, log) = start(&origin, &folder, "");
    let mut stranger = gateway.client();
    let made = the_id(&get(&mut stranger, "/", ""));
    assert!(is_made(&made), "{made}");
    // Also by the name that a program behind CGI takes for the real one.
    let forged = "X-Request-Id: forged-\"1\"\r\nX_Request_Id: forged-2\r\n";
    let replaced = the_id(&get(&mut stranger, "/", forged));
    assert!(is_made(&replaced) && replaced != made, "{replaced}");
    let mut trusted = Client::connect_from(TRUSTED, gateway.address);
    let given = "Root=1-678;Self=a/b@c:d,e+f_g.h";
    assert_eq!(the_id(&get(&mut trusted, "/", &format!("x-request-ID: {given}\r\n"))), given);
    // Nor can one that is named as the connection's own.
    let named = format!("X-Request-Id: {given}\r\nConnection: x-request-id\r\n");
    assert_eq!(the_id(&get(&mut trusted, "/", &named)), given);
    for bad in [
        "X-Request-Id: a b\r\n".to_owned(),
        "X-Request-Id: \r\n".to_owned(),
        "X-Request-Id: <script>\r\n".to_owned(),
        "X-Request-Id: a\r\nX-Request-Id: b\r\n".to_owned(),
        format!("X-Request-Id: {}\r\n", "a".repeat(129)),
    ] {
        assert!(is_made(&the_id(&get(&mut trusted, "/", &bad))), "{bad}");
    }
    assert!(is_made(&the_id(&get(&mut stranger, "/", "X_Request_Id: forged-3\r\n"))));
    let empty_first = "X-Request-Id:\r\nX_Request_Id: forged-4\r\n";
    assert!(is_made(&the_id(&get(&mut stranger, "/", empty_first))));
    let lines = await_lines(&log, 11);
    assert_eq!(lines[0]["request_id"], made);
    assert_eq!(lines[0].get("client_request_id"), None);
    assert_eq!(lines[1]["request_id"], replaced);
    assert_eq!(lines[1]["client_request_id"], "forged-\"1\"");
    assert_eq!((&lines[2]["request_id"], lines[2].get("client_request_id")), (&given.into(), None));
    assert_eq!(lines[6]["client_request_id"], "<script>");
    assert_eq!(lines[9]["client_request_id"], "forged-3");
    assert_eq!(lines[10]["client_request_id"], "forged-4");
}

#[test]
fn refusals_and_errors_of_ours_say_the_id_and_so_does_the_log() {
    let (origin, folder) = (origin(), TempDir::new().expect("a folder"));
    let (gateway, log) = start(&origin, &folder, "header = \"X-Trace\"");
    let id = |answer: &crate::support::answer::Answer| {
        let id = answer.field("x-trace").expect("it has one").to_owned();
        assert!(is_made(&id), "{id}");
        id
    };
    let refused = gateway.get("/no");
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n");
    let malformed = client.answer();
    let ambiguous = gateway.get("/a%2Fb");
    drop(origin);
    let failed = gateway.get("/");
    let statuses = [&refused, &malformed, &ambiguous, &failed].map(|answer| answer.status);
    assert_eq!(statuses, [403, 400, 400, 502]);
    let told = [&refused, &malformed, &ambiguous, &failed].map(id);
    let logged = await_lines(&log, 4);
    let logged: Vec<_> = logged.iter().map(|line| line["request_id"].as_str()).collect();
    assert_eq!(logged, told.each_ref().map(|id| Some(id.as_str())));
}

#[test]
fn the_same_over_http2_and_for_calls() {
    let (origin, folder) = (origin(), TempDir::new().expect("a folder"));
    let (gateway, log) = start(&origin, &folder, "");
    run(async {
        let mut send = connect(gateway.address).await;
        let request = Request::get("http://x.test/").header("x-request-id", "forged");
        let (answer, _) =
            send.send_request(request.body(()).expect("good"), true).expect("a stream");
        let answer = answer.await.expect("an answer");
        let told: Vec<_> = answer.headers().get_all("x-request-id").iter().collect();
        assert!(told.len() == 1 && is_made(told[0].to_str().expect("text")), "{told:?}");
        let id = told[0].to_str().expect("text").to_owned();
        let mut body = answer.into_body();
        let body = body.data().await.expect("a body").expect("whole");
        assert_eq!(body, format!("{id} 0"));
        let (answer, _) = call(&mut send, "/no", &[]);
        let answer = answer.await.expect("an answer");
        assert_eq!(answer.headers()["grpc-status"], "7");
        let refused = answer.headers()["x-request-id"].to_str().expect("text").to_owned();
        let logged = await_lines(&log, 2);
        assert_eq!(logged[0]["request_id"], id);
        assert_eq!(logged[1]["request_id"], refused);
        assert!(is_made(&refused));
    });
}

/// Says the names of the trailers that it got, and sends the id's as a trailer of its own.
fn trailing_origin() -> Origin {
    Origin::answering(|request| {
        let names = request.trailers.iter().map(|(name, _)| name.to_ascii_lowercase());
        let got = format!("got {}", names.collect::<Vec<_>>().join(" "));
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let trailers = "X-Trace: its-own\r\nx_trace: its-own\r\nX-Sum: 1\r\n";
        format!("{head}{:x}\r\n{got}\r\n0\r\n{trailers}\r\n", got.len()).into_bytes()
    })
}

#[test]
fn a_trailer_of_the_id_s_name_passes_neither_way() {
    let (origin, folder) = (trailing_origin(), TempDir::new().expect("a folder"));
    let (gateway, _log) = start(&origin, &folder, "header = \"X-Trace\"");
    let head = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    let body = "2\r\nup\r\n0\r\nx-trace: forged\r\nX_Trace: forged\r\nX-End: 1\r\n\r\n";
    let mut client = gateway.client();
    // With the head, and behind it.
    for pieces in [&[&*format!("{head}{body}")][..], &[head, body]] {
        for piece in pieces {
            client.send(piece);
            std::thread::sleep(Duration::from_millis(50));
        }
        let answer = client.answer();
        assert_eq!(answer.text(), "got x-end");
        assert_eq!(answer.trailers, [("X-Sum".to_owned(), "1".to_owned())]);
        assert!(is_made(answer.field("x-trace").expect("it has one")));
    }
    run(async {
        let mut send = connect(gateway.address).await;
        let request = Request::post("http://x.test/").header("te", "trailers").body(());
        let (answer, mut sending) =
            send.send_request(request.expect("good"), false).expect("a stream");
        sending.send_data("up".into(), false).expect("an open stream");
        let forged = HeaderValue::from_static("forged");
        let mut trailers = HeaderMap::new();
        for name in ["x-trace", "x_trace", "x-end"] {
            trailers.insert(name, forged.clone());
        }
        sending.send_trailers(trailers).expect("an open stream");
        let (head, mut body) = answer.await.expect("an answer").into_parts();
        let (bytes, trailers) = rest(&mut body).await.expect("whole");
        assert_eq!(String::from_utf8_lossy(&bytes), "got x-end");
        assert!(trailers.len() == 1 && trailers["x-sum"] == "1", "{trailers:?}");
        assert!(is_made(head.headers["x-trace"].to_str().expect("text")));
    });
}

#[test]
fn an_upgrade_and_a_request_that_is_sent_again_keep_their_id() {
    let served = AtomicUsize::new(0);
    let origin = Origin::start(move |mut connection| {
        let Some(request) = connection.request() else { return };
        let id = request.values("x-request-id").join("|");
        if !request.values("upgrade").is_empty() {
            let head =
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n";
            connection.send(format!("{head}{id}"));
            while connection.more() {}
            return;
        }
        // The first connection is closed when its second request comes: it is sent again, on another.
        let first = served.fetch_add(1, Ordering::SeqCst) == 0;
        connection.send(ok(&id));
        if first {
            let _ = connection.request();
        }
    });
    let folder = TempDir::new().expect("a folder");
    let (gateway, _log) = start(&origin, &folder, "");
    let mut client = gateway.client();
    let first = get(&mut client, "/", "");
    let second = get(&mut client, "/", "");
    assert_eq!(origin.accepted(), 2, "it was sent again");
    for answer in [&first, &second] {
        assert_eq!(answer.field("x-request-id"), Some(answer.text().as_str()));
    }
    let sent: Vec<_> =
        origin.requests().0.iter().map(|it| it.values("x-request-id").join("|")).collect();
    assert_eq!(sent, [first.text(), second.text(), second.text()]);
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: x\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n");
    let answer = client.try_head().expect("an answer");
    let id = answer.field("x-request-id").expect("it has one").to_owned();
    assert_eq!(client.bytes(32), id.as_bytes());
}

#[test]
fn without_the_section_what_clients_send_is_passed_on() {
    let (origin, folder) = (origin(), TempDir::new().expect("a folder"));
    let log = folder.path().join("log.json");
    let gateway = Gateway::start(&policy(&origin, &log, ""));
    let answer = get(&mut gateway.client(), "/", "X-Request-Id: theirs\r\ntraceparent: theirs\r\n");
    assert_eq!(answer.text(), "theirs 0");
    assert_eq!(answer.field("x-request-id"), Some("the-origins"));
    let line = &await_lines(&log, 1)[0];
    assert_eq!((&line["request_id"], &line["traceparent"]), (&"theirs".into(), &"theirs".into()));
}
