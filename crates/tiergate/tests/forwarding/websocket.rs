//! WebSockets where client or origin speaks HTTP/2 (RFC 8441).

use crate::support;
use aws_lc_rs::digest;
use bytes::Bytes;
use data_encoding::BASE64;
use h2::client::{ResponseFuture, SendRequest};
use h2::ext::Protocol;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Method, Request};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::gateway::{Gateway, Policy};
use support::http2_client::{connect, run};
use support::http2_origin::{Http2Origin, Offer, head};
use support::origin::Origin;
use support::{eventually, eventually_is, pattern_bytes};

fn accept(key: &str) -> String {
    let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let digest = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    BASE64.encode(digest.as_ref())
}

/// An origin over HTTP/1.1 that agrees, says `hello`, and sends back what it gets; what it agrees with is up to `agrees`.
fn origin(agrees: impl Fn(&str) -> String + Send + Sync + 'static) -> Origin {
    Origin::start(move |mut connection| {
        let Some(request) = connection.head() else { return };
        assert_eq!(request.method, "GET");
        assert_eq!(
            (request.values("upgrade"), request.values("connection")),
            (vec!["websocket"], vec!["upgrade"])
        );
        assert_eq!(request.values("sec-websocket-version"), ["13"]);
        let keys = request.values("sec-websocket-key");
        assert_eq!((keys.len(), BASE64.decode(keys[0].as_bytes()).expect("base64").len()), (1, 16));
        connection.send(agrees(keys[0]));
        loop {
            let bytes = connection.take_buffer();
            connection.send(&bytes);
            if !connection.more() {
                return;
            }
        }
    })
}

fn agreeing(key: &str) -> String {
    let accept = accept(key);
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: chat\r\n\r\nhello"
    )
}

/// Asks for a WebSocket over HTTP/2.
fn ask(
    send: &mut SendRequest<Bytes>,
    protocol: &'static str,
) -> (ResponseFuture, SendStream<Bytes>) {
    let mut request = Request::builder()
        .method(Method::CONNECT)
        .uri("http://a.test/chat")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "made by the client, and meaningless")
        .body(())
        .expect("good");
    request.extensions_mut().insert(Protocol::from_static(protocol));
    send.send_request(request, false).expect("a stream")
}

async fn bytes(body: &mut RecvStream, len: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < len {
        let piece = body.data().await.expect("more").expect("whole");
        let _ = body.flow_control().release_capacity(piece.len());
        all.extend_from_slice(&piece);
    }
    all
}

async fn put(sending: &mut SendStream<Bytes>, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        sending.reserve_capacity(bytes.len());
        let room = std::future::poll_fn(|context| sending.poll_capacity(context)).await;
        let room = room.expect("open").expect("open").min(bytes.len());
        sending.send_data(Bytes::copy_from_slice(&bytes[..room]), false).expect("open");
        bytes = &bytes[room..];
    }
}

/// A WebSocket through the gateway, from beginning to end.
async fn talk(gateway: &Gateway, greeting: &[u8]) {
    let mut send = connect(gateway.address).await;
    assert!(send.is_extended_connect_protocol_enabled());
    let (response, mut sending) = ask(&mut send, "websocket");
    let response = response.await.expect("an answer");
    assert_eq!(response.status().as_u16(), 200);
    let fields: &HeaderMap = response.headers();
    for gone in ["sec-websocket-accept", "upgrade", "connection"] {
        assert!(!fields.contains_key(gone), "{fields:?}");
    }
    let mut body = response.into_body();
    assert_eq!(bytes(&mut body, greeting.len()).await, greeting);
    let long = pattern_bytes(0, 3 << 20);
    let (_, echoed) = tokio::join!(put(&mut sending, &long), bytes(&mut body, long.len()));
    assert!(echoed == long, "the same bytes");
    // The slot is free, and the end of one side reaches the other.
    eventually_is("it holds no slot", 0, || gateway.number("/limit/running"));
    sending.send_data(Bytes::new(), true).expect("open");
    while let Some(piece) = body.data().await {
        assert_eq!(piece.expect("whole"), "", "its end comes back, and nothing else");
    }
}

#[test]
fn a_websocket_over_http2_reaches_an_origin_over_http1() {
    let origin = origin(agreeing);
    let gateway = Gateway::start(&Policy::of(&[origin.server()]));
    run(talk(&gateway, b"hello"));
    eventually("the origin's connection is closed", || origin.open() == 0);
    gateway.assert_conserved();
    let ended = &gateway.status()["classes"][0]["finished"];
    assert_eq!(ended["upgraded"], 1, "{ended}");
}

/// As over HTTP/1.1: a rule holds whatever protocol a client chooses.
#[test]
fn rules_see_that_a_websocket_is_asked_for_over_http2() {
    let origin = origin(agreeing);
    let tables = "[[class]]\nname = \"rest\"\n[[class]]\nname = \"live\"\n[[rule]]\nheader.upgrade = \"websocket\"\nheader.connection = \"*Upgrade*\"\nclass = \"live\"\n[[rule]]\nclass = \"rest\"";
    let policy = Policy { tables: tables.to_owned(), ..Policy::of(&[origin.server()]) };
    let gateway = Gateway::start(&policy);
    run(talk(&gateway, b"hello"));
    let classes = &gateway.status()["classes"];
    assert_eq!((&classes[1]["name"], &classes[1]["admitted"]), (&json!("live"), &json!(1)));
}

#[test]
fn a_client_that_resets_its_stream_closes_the_origins_connection() {
    let origin = origin(agreeing);
    let gateway = Gateway::start(&Policy::of(&[origin.server()]));
    run(async {
        let mut send = connect(gateway.address).await;
        let (response, mut sending) = ask(&mut send, "websocket");
        let _body = response.await.expect("an answer").into_body();
        sending.send_reset(h2::Reason::CANCEL);
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    });
    eventually("the origin's connection is closed", || origin.open() == 0);
    gateway.assert_conserved();
}

#[test]
fn only_what_the_origin_agrees_to_becomes_a_tunnel() {
    type Answer = fn(&str) -> String;
    let answers: [(Answer, u16); 5] = [
        (|_| agreeing("another key"), 502),
        (|_| "HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n".into(), 502),
        (|_| "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi".into(), 502),
        (|_| "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno".into(), 403),
        (|_| "HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n".into(), 302),
    ];
    for (answer, status) in answers {
        let origin = origin(answer);
        let gateway = Gateway::start(&Policy::of(&[origin.server()]));
        run(async {
            let mut send = connect(gateway.address).await;
            let (response, _sending) = ask(&mut send, "websocket");
            assert_eq!(response.await.expect("an answer").status().as_u16(), status);
            let (response, _sending) = ask(&mut send, "connect-udp");
            assert_eq!(response.await.expect("an answer").status().as_u16(), 501);
            // CONNECT without a protocol is another thing.
            let request = Request::builder()
                .method(Method::CONNECT)
                .uri("a.test:443")
                .body(())
                .expect("good");
            let (response, _sending) = send.send_request(request, false).expect("a stream");
            assert_eq!(response.await.expect("an answer").status().as_u16(), 501);
        });
        gateway.assert_conserved();
    }
}

/// An origin over HTTP/2 that sends back what it gets through a tunnel, and answers other requests with 426.
fn http2_origin(offer: Offer, asked: &Arc<AtomicUsize>) -> Http2Origin {
    let asked = asked.clone();
    Http2Origin::start(offer, move |request, mut respond| {
        let asked = asked.clone();
        async move {
            let is_websocket =
                request.extensions().get::<Protocol>().is_some_and(|it| it.as_str() == "websocket");
            if !is_websocket {
                assert!(!request.headers().contains_key("upgrade"));
                let _ = respond.send_response(head(426, &[]), true);
                return;
            }
            assert_eq!((request.method(), request.uri().path()), (&Method::CONNECT, "/chat"));
            assert!(!request.headers().contains_key("sec-websocket-key"));
            asked.fetch_add(1, Ordering::SeqCst);
            let Ok(mut sending) = respond.send_response(head(200, &[]), false) else { return };
            put(&mut sending, b"greetings").await;
            let mut body = request.into_body();
            while let Some(Ok(piece)) = body.data().await {
                let _ = body.flow_control().release_capacity(piece.len());
                put(&mut sending, &piece).await;
            }
            let _ = sending.send_data(Bytes::new(), true);
        }
    })
}

const ASK_HTTP1: &str = "GET /chat HTTP/1.1\r\nHost: a.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

#[test]
fn tunnels_take_no_other_request_its_place() {
    let asked = Arc::new(AtomicUsize::new(0));
    let offer = Offer { tunnels: true, streams_max: Some(2), ..Offer::default() };
    let origin = http2_origin(offer, &asked);
    let policy = Policy::of(&[origin.server()]);
    let gateway = Gateway::start(&Policy {
        top: "threads = 1".into(),
        origin: "slots = 9\nprotocol = \"h2\"\nhttp2_connections_max = 1".into(),
        tables: "[timeouts]\nconnect = \"500ms\"".into(),
        ..policy
    });
    let mut tunnels = Vec::new();
    for _ in 0..5 {
        let mut client = gateway.client();
        client.send(ASK_HTTP1);
        assert_eq!(client.try_head().expect("a head").status, 101);
        tunnels.push(client);
        assert_eq!(gateway.get("/").status, 426);
    }
    assert!(origin.connections() <= 6, "{}", origin.connections());
    drop(tunnels);
    eventually("all have ended", || origin.counts.open.load(Ordering::SeqCst) == 0);
    gateway.assert_conserved();
}

#[test]
fn an_origin_over_http2_is_asked_as_it_offers() {
    let asked = Arc::new(AtomicUsize::new(0));
    for tunnels in [true, false] {
        let origin = http2_origin(Offer { tunnels, ..Offer::default() }, &asked);
        let policy = Policy::of(&[origin.server()]);
        let gateway =
            Gateway::start(&Policy { origin: "slots = 9\nprotocol = \"h2\"".into(), ..policy });
        let mut client = gateway.client();
        client.send(ASK_HTTP1);
        let answer = client.try_head().expect("a head");
        if !tunnels {
            assert_eq!(answer.status, 426);
            continue;
        }
        assert_eq!(answer.status, 101);
        assert_eq!(answer.field("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        assert_eq!(client.bytes(9), b"greetings");
        client.send("one");
        assert_eq!(client.bytes(3), b"one");
        drop(client);
        run(talk(&gateway, b"greetings"));
        eventually("both have ended", || origin.counts.open.load(Ordering::SeqCst) == 0);
        gateway.assert_conserved();
    }
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}
