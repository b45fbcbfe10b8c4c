//! What the games found, each as the shortest exchange that shows it; and what they are too short to find.

use crate::play::{serve, start};
use bytes::Bytes;
use std::future::poll_fn;
use std::time::Duration;
use tiergate::memory::{self, End};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{sleep, timeout};

const POLICY: &str = r#"
[origin]
servers = ["10.0.0.1:80"]
slots = 2
failures_max = 0
[[listener]]
address = "127.0.0.1:80"
[forwarding]
buffer_request = "1KiB"
buffer_response = "0B"
[timeouts]
write = "3s"
"#;

const SECOND: Duration = Duration::from_secs(1);

/// Longest time that anything may take.
const PATIENCE: Duration = Duration::from_secs(100);

/// A client's connection that holds `room` bytes, and the connections to the origin.
fn stage(room: usize) -> (End, UnboundedReceiver<End>) {
    let shared = start(POLICY);
    let (client, gateway) = memory::pair(room);
    tokio::spawn(serve(gateway, shared));
    let (opened, origins) = unbounded_channel();
    memory::connect_by(move || {
        let (origin, gateway) = memory::pair(65_536);
        opened.send(origin).expect("the test waits for it");
        Ok(gateway)
    });
    (client, origins)
}

/// The next connection to the origin.
async fn connected(origins: &mut UnboundedReceiver<End>) -> End {
    let connected = timeout(PATIENCE, origins.recv()).await;
    connected.expect("a connection in time").expect("the connector is kept")
}

/// Reads until what came ends with `end`.
async fn read_until(stream: &mut End, end: &str) -> String {
    let mut text = String::new();
    while !text.ends_with(end) {
        let byte = timeout(PATIENCE, stream.read_u8()).await.expect("more is to come in time");
        text.push(byte.expect("more is to come").into());
    }
    text
}

/// Everything that is still to come, and whether a reset follows it.
async fn read_all(stream: &mut End) -> (String, bool) {
    let mut bytes = Vec::new();
    let end = timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("an end in time");
    (String::from_utf8(bytes).expect("text"), end.is_err())
}

#[tokio::test(start_paused = true)]
async fn a_body_over_http2_may_be_an_empty_frame() {
    let (mut client, mut origins) = stage(65_536);
    // Settings; POST / of h, as HPACK's static table has them; data without bytes, which ends the stream.
    let frames: [&[u8]; 4] = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\0\0\0\x04\0\0\0\0\0",
        b"\0\0\x06\x01\x04\0\0\0\x01\x83\x86\x84\x41\x01h",
        b"\0\0\0\0\x01\0\0\0\x01",
    ];
    for frame in frames {
        client.write_all(frame).await.expect("room");
        sleep(SECOND).await;
    }
    let mut origin = connected(&mut origins).await;
    read_until(&mut origin, "\r\n\r\n0\r\n\r\n").await;
}

/// Games end before a window is used up for good.
#[tokio::test(start_paused = true)]
async fn a_body_over_http2_may_be_longer_than_the_windows() {
    const PIECES: usize = 300;
    const PIECE: usize = 16_384;
    let (client, mut origins) = stage(65_536);
    let (mut client, connection) = h2::client::handshake(client).await.expect("a handshake");
    tokio::spawn(connection);
    let request = http::Request::post("http://h/").body(()).expect("a request");
    let (answer, mut body) = client.send_request(request, false).expect("a stream");
    let receiving = tokio::spawn(async move {
        let mut origin = connected(&mut origins).await;
        let request = read_until(&mut origin, "\r\n0\r\n\r\n").await;
        origin.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.expect("room");
        (origin, request.matches('x').count())
    });
    for _ in 0..PIECES {
        let mut piece = Bytes::from(vec![b'x'; PIECE]);
        while !piece.is_empty() {
            body.reserve_capacity(piece.len());
            let room = timeout(PATIENCE, poll_fn(|context| body.poll_capacity(context))).await;
            let room = room.expect("room in time").expect("an open stream").expect("room");
            body.send_data(piece.split_to(room), false).expect("an open stream");
        }
    }
    body.send_data(Bytes::new(), true).expect("an open stream");
    let (_origin, received) = receiving.await.expect("the whole body");
    assert_eq!(received, PIECES * PIECE);
    assert_eq!(answer.await.expect("an answer").status(), 204);
}

/// The rest of the head would take the error page for fields of its own.
#[tokio::test(start_paused = true)]
async fn no_error_page_follows_a_part_of_an_interim_answer() {
    let (mut client, mut origins) = stage(200);
    let head = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    // More than is gathered before it goes to the origin.
    let chunk = format!("1388\r\n{}\r\n", "x".repeat(5_000));
    client.write_all(format!("{head}{chunk}").as_bytes()).await.expect("room");
    let mut origin = connected(&mut origins).await;
    read_until(&mut origin, "\r\n\r\n").await;
    let interim = format!("HTTP/1.1 103 Early Hints\r\nLink: {}\r\n\r\n", "y".repeat(1_000));
    origin.write_all(interim.as_bytes()).await.expect("room");
    sleep(SECOND).await;
    client.write_all(b"no size of a chunk\r\n").await.expect("room");
    sleep(SECOND).await;
    let (answer, _) = read_all(&mut client).await;
    assert!(!answer.is_empty() && interim.starts_with(&answer), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_a_slow_client_did_not_get_whole_ends_with_a_reset() {
    let (mut client, mut origins) = stage(1_000);
    client.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").await.expect("room");
    let mut origin = connected(&mut origins).await;
    read_until(&mut origin, "\r\n\r\n").await;
    let body = "x".repeat(30_000);
    let answer = format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{body}");
    origin.write_all(answer.as_bytes()).await.expect("room");
    drop(origin);
    sleep(60 * SECOND).await;
    let (answer, reset) = read_all(&mut client).await;
    assert!(answer.len() < body.len() && reset, "{} bytes look whole", answer.len());
}

#[tokio::test(start_paused = true)]
async fn chunks_that_were_cut_end_with_a_reset_for_a_client_that_gets_no_chunks() {
    let (mut client, mut origins) = stage(65_536);
    client.write_all(b"GET / HTTP/1.0\r\nHost: h\r\n\r\n").await.expect("room");
    let mut origin = connected(&mut origins).await;
    read_until(&mut origin, "\r\n\r\n").await;
    let answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n";
    origin.write_all(answer).await.expect("room");
    drop(origin);
    let (answer, reset) = read_all(&mut client).await;
    assert!(answer.ends_with("\r\n\r\nsome") && reset, "looks whole: {answer}");
}

/// What it has sent, and what it has taken, were compared with each other.
#[tokio::test(start_paused = true)]
async fn a_client_may_send_slowly_and_then_take_slowly() {
    let (mut client, mut origins) = stage(1_000);
    let head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5001\r\n\r\n";
    client.write_all(head.as_bytes()).await.expect("room");
    // More than is gathered before it goes to the origin.
    client.write_all("x".repeat(5_000).as_bytes()).await.expect("room");
    let mut origin = connected(&mut origins).await;
    read_until(&mut origin, &"x".repeat(5_000)).await;
    sleep(SECOND).await;
    let body = "y".repeat(200_000);
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n{body}");
    tokio::spawn(async move {
        origin.write_all(answer.as_bytes()).await.expect("the client takes it");
        // Until the request is whole.
        origin.read_u8().await.expect("the last byte");
    });
    sleep(2 * SECOND).await;
    client.write_all(b"x").await.expect("room");
    read_until(&mut client, &body).await;
}
