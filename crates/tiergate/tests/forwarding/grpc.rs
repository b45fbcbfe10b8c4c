//! Calls by gRPC: through the gateway and back, refused, failed, and how the limit takes them.

use crate::support;
use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{HeaderMap, Request};
use std::time::Duration;
use support::gateway::{Gateway, Policy};
use support::http2_client::{call, connect, message, rest, run, unary};
use support::http2_origin::{Http2Origin, Offer, head};
use support::origin::Origin;

/// A policy for one server that speaks HTTP/2.
fn policy(server: String, slots: u32) -> Policy {
    Policy {
        top: "threads = 1".into(),
        origin: format!(
            "slots = {slots}\nprotocol = \"h2\"\nfailures_max = 0\nrestart_max = \"1ms\""
        ),
        ..Policy::of(&[server])
    }
}

fn trailers(status: &str) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", status.parse().expect("a value"));
    trailers.insert("grpc-message", "as asked".parse().expect("a value"));
    trailers
}

/// Sends each message back as it comes. `/fails/N` ends with status N, in trailers; `/ends/N` in the head; `/breaks` breaks off
/// its answer; `/waits` answers nothing.
async fn serve(request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let (parts, mut body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    assert_eq!(parts.headers["te"], "trailers");
    if path == "/waits" {
        let _ = std::future::poll_fn(|context| respond.poll_reset(context)).await;
        return;
    }
    if let Some(status) = path.strip_prefix("/ends/") {
        let fields = [("content-type", "application/grpc"), ("grpc-status", status)];
        let _ = respond.send_response(head(200, &fields), true);
        return;
    }
    let fields = [("content-type", "application/grpc")];
    let Ok(mut sending) = respond.send_response(head(200, &fields), false) else { return };
    while let Some(Ok(piece)) = body.data().await {
        let _ = body.flow_control().release_capacity(piece.len());
        if path != "/collects" && sending.send_data(piece, false).is_err() {
            return;
        }
    }
    if path == "/breaks" {
        sending.send_reset(h2::Reason::INTERNAL_ERROR);
        return;
    }
    let _ = sending.send_trailers(trailers(path.strip_prefix("/fails/").unwrap_or("0")));
}

fn field<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    headers.get(name).map_or("", |value| value.to_str().expect("text"))
}

#[test]
fn messages_go_both_ways_as_they_come_and_the_status_follows() {
    let origin = Http2Origin::start(Offer::default(), serve);
    let gateway = Gateway::start(&policy(origin.server(), 10));
    run(async {
        let mut send = connect(gateway.address).await;
        let (answer, bytes, trailers) = unary(&mut send, "/unary", &[]).await.expect("an answer");
        assert_eq!((answer.status().as_u16(), &bytes[..]), (200, &message("hello")[..]));
        assert_eq!(
            (field(&trailers, "grpc-status"), field(&trailers, "grpc-message")),
            ("0", "as asked")
        );
        // Each message is back before the next is sent.
        let (response, mut sending) = call(&mut send, "/both", &[]);
        sending.send_data(message("first"), false).expect("it is open");
        let mut body = response.await.expect("an answer").into_body();
        for text in ["second", "third", ""] {
            let piece = body.data().await.expect("more").expect("whole");
            let _ = body.flow_control().release_capacity(piece.len());
            sending.send_data(message(text), text.is_empty()).expect("it is open");
        }
        let (bytes, trailers) = rest(&mut body).await.expect("whole");
        assert_eq!((&bytes[..], field(&trailers, "grpc-status")), (&message("")[..], "0"));
        // A call that ends with its head.
        let (answer, bytes, trailers) = unary(&mut send, "/ends/5", &[]).await.expect("an answer");
        assert_eq!(
            (field(answer.headers(), "grpc-status"), bytes.len(), trailers.len()),
            ("5", 0, 0)
        );
        assert!(!answer.headers().contains_key("content-length"), "{answer:?}");
    });
    assert_eq!(origin.connections(), 1);
    gateway.assert_conserved();
}

#[test]
fn a_refused_call_is_unavailable_and_hears_when_to_come_again() {
    let origin = Http2Origin::start(Offer::default(), serve);
    let gateway = Gateway::start(&policy(origin.server(), 1));
    run(async {
        let mut send = connect(gateway.address).await;
        let (_waiting, mut sending) = call(&mut send, "/waits", &[]);
        sending.send_data(message("x"), true).expect("it is open");
        tokio::time::sleep(Duration::from_millis(100)).await;
        let begun = std::time::Instant::now();
        let (answer, bytes, _) =
            unary(&mut send, "/unary", &[("grpc-timeout", "100m")]).await.expect("an answer");
        // The class would have it wait for two seconds.
        assert!(begun.elapsed() < Duration::from_millis(1900), "{:?}", begun.elapsed());
        let headers = answer.headers();
        assert_eq!((answer.status().as_u16(), bytes.len()), (200, 0));
        assert_eq!(field(headers, "content-type"), "application/grpc");
        assert_eq!(field(headers, "grpc-status"), "14");
        assert_eq!(field(headers, "grpc-message"), "the server is busy");
        let seconds: u64 = field(headers, "retry-after").parse().expect("seconds");
        assert_eq!(field(headers, "grpc-retry-pushback-ms"), (seconds * 1000).to_string());
    });
    gateway.assert_conserved();
}

#[test]
fn errors_of_ours_are_statuses_of_calls() {
    let origin = Http2Origin::start(Offer::default(), serve);
    let mut slow = policy(origin.server(), 10);
    slow.tables =
        "[timeouts]\nresponse_head = \"300ms\"\n[[rule]]\npath = \"/never\"\nrefuse = true".into();
    let gateway = Gateway::start(&slow);
    let closed = Origin::start(drop);
    let down = Gateway::start(&policy(closed.server(), 10));
    run(async {
        let mut send = connect(gateway.address).await;
        for (path, status) in [("/waits", "4"), ("/never", "7")] {
            let (answer, ..) = unary(&mut send, path, &[]).await.expect("an answer");
            assert_eq!(
                (answer.status().as_u16(), field(answer.headers(), "grpc-status")),
                (200, status),
                "{path}"
            );
        }
        let (answer, bytes, trailers) = unary(&mut send, "/breaks", &[]).await.expect("an answer");
        assert_eq!(answer.status().as_u16(), 200);
        assert!(bytes.is_empty() || bytes == message("hello"), "{bytes:?}");
        // In the head if nothing of it had come when it broke.
        let status =
            field(&trailers, "grpc-status").to_owned() + field(answer.headers(), "grpc-status");
        assert_eq!(status, "14");
        let mut send = connect(down.address).await;
        let (answer, ..) = unary(&mut send, "/", &[]).await.expect("an answer");
        assert_eq!(field(answer.headers(), "grpc-status"), "14");
    });
    gateway.assert_conserved();
    down.assert_conserved();
}

#[test]
fn how_a_call_ended_is_what_its_status_says() {
    let origin = Http2Origin::start(Offer::default(), serve);
    let gateway = Gateway::start(&policy(origin.server(), 10));
    run(async {
        let mut send = connect(gateway.address).await;
        for path in
            ["/fails/14", "/ends/8", "/fails/8", "/fails/13", "/ends/2", "/fails/5", "/fails/0"]
        {
            unary(&mut send, path, &[]).await.expect("an answer");
        }
    });
    gateway.assert_conserved();
    let finished = &gateway.status()["classes"][0]["finished"];
    let count = |end: &str| finished[end].as_u64().unwrap_or(0);
    assert_eq!((count("pushback"), count("error"), count("served")), (3, 2, 2), "{finished}");
}
