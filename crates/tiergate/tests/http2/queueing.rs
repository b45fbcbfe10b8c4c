//! Slots, waits, refusals, the end.

use crate::world::{World, build, code, fetch, get, read};
use h2::Reason;
use std::time::Duration;
use tiergate::config::meant::{Policy, RefusalConnection};
use tiergate_core::control::Slots;
use tiergate_core::outcome::End;

async fn narrow(change: impl FnOnce(&mut Policy)) -> World {
    build(|policy| {
        policy.plan.slots = Slots::Fixed(1);
        policy.plan.classes[0].deadline = Duration::from_secs(20);
        change(policy);
    })
    .await
}

#[tokio::test]
async fn a_stream_reset_while_it_waits_leaves_the_backlog() {
    let world = narrow(|_| {}).await;
    let client = world.client().await;
    let mut client = client.ready().await.unwrap();
    let (first, _) = client.send_request(get("/wait"), true).unwrap();
    world.until_load(0, 1).await;
    let mut client = client.ready().await.unwrap();
    let (waiting, mut sending) = client.send_request(get("/len/1"), true).unwrap();
    world.until_load(1, 1).await;
    sending.send_reset(Reason::CANCEL);
    drop(waiting);
    world.until_load(0, 1).await;
    world.seen.go_on.notify_one();
    let (_, body, _) = read(first.await.unwrap()).await.unwrap();
    assert_eq!(body, b"waited");
    world.until_load(0, 0).await;
    assert_eq!(world.requests(), 1, "the cancelled one never reached the origin");
}

#[tokio::test]
async fn a_connection_that_ends_takes_its_streams_out_of_the_backlog() {
    let world = narrow(|_| {}).await;
    let mut first = world.client().await;
    let (first, _) = first.send_request(get("/wait"), true).unwrap();
    world.until_load(0, 1).await;
    {
        let stream = tokio::net::TcpStream::connect(world.address).await.unwrap();
        let (client, connection) = h2::client::handshake(stream).await.unwrap();
        let connection = tokio::spawn(connection);
        let mut client: h2::client::SendRequest<bytes::Bytes> = client.ready().await.unwrap();
        let (_waiting, _) = client.send_request(get("/len/1"), true).unwrap();
        world.until_load(1, 1).await;
        connection.abort();
        let _ = connection.await;
        drop((_waiting, client));
    }
    world.until_load(0, 1).await;
    world.seen.go_on.notify_one();
    first.await.unwrap();
}

#[tokio::test]
async fn a_stream_reset_amid_its_answer_gives_the_slot_back() {
    let world = narrow(|_| {}).await;
    let client = world.client().await;
    for path in ["/hangs/1000", "/wait"] {
        let mut client = client.clone().ready().await.unwrap();
        let (answer, mut sending) = client.send_request(get(path), true).unwrap();
        world.until_load(0, 1).await;
        let answer = match path {
            "/wait" => None,
            _ => Some(answer.await.unwrap()),
        };
        sending.send_reset(Reason::CANCEL);
        drop(answer);
        world.until_load(0, 0).await;
    }
    assert_eq!(world.finished(End::Cancelled), 2);
}

async fn refused(connection: RefusalConnection) -> (World, Result<(), h2::Error>) {
    let world = narrow(|policy| {
        policy.plan.classes[0].queue_len_max = 0;
        policy.refusal.connection = connection;
        policy.refusal.reason_header = Some("X-Reason".into());
    })
    .await;
    let client = world.client().await;
    let mut ready = client.clone().ready().await.unwrap();
    let (first, _) = ready.send_request(get("/wait"), true).unwrap();
    world.until_load(0, 1).await;
    let mut asking = client.clone();
    let mut request = get("/len/1");
    request.headers_mut().insert("accept", http::HeaderValue::from_static("application/json"));
    let result = fetch(&mut asking, request).await.map(|(answer, body, _)| {
        assert_eq!(answer.status(), 503);
        let headers = answer.headers();
        assert!(headers["retry-after"] == "1" || headers["retry-after"] == "2", "{headers:?}");
        assert_eq!(headers["x-reason"], "queue_full");
        assert_eq!(headers["content-type"], "application/json");
        assert_eq!(headers["content-length"], body.len().to_string());
        assert!(String::from_utf8(body).unwrap().contains("\"queue_full\""));
    });
    let after = async {
        let mut later = client.clone().ready().await?;
        let (answer, _) = later.send_request(get("/len/1"), true)?;
        answer.await.map(drop)
    };
    let after = after.await;
    // Whoever is being served is served to the end, whatever becomes of the connection.
    world.seen.go_on.notify_one();
    let (_, body, _) = read(first.await.unwrap()).await.unwrap();
    assert_eq!(body, b"waited");
    assert_eq!(world.requests(), 1);
    match connection {
        RefusalConnection::Keep => after.unwrap(),
        RefusalConnection::Close => assert!(after.is_err(), "new streams are not taken"),
        RefusalConnection::Reset => {
            assert_eq!(code(&after.unwrap_err()), Some(Reason::REFUSED_STREAM));
        }
    }
    (world, result)
}

#[tokio::test]
async fn a_refusal_says_when_to_come_back() {
    let (world, result) = refused(RefusalConnection::Keep).await;
    result.unwrap();
    assert_eq!(world.shared.counters.sums(|it| &it.requests), [0, 0, 3]);
}

#[tokio::test]
async fn a_refusal_may_close_the_connection_in_good_order() {
    refused(RefusalConnection::Close).await.1.unwrap();
}

#[tokio::test]
async fn a_refusal_may_be_a_reset_that_allows_to_try_again() {
    let error = refused(RefusalConnection::Reset).await.1.unwrap_err();
    assert_eq!(code(&error), Some(Reason::REFUSED_STREAM));
}

#[tokio::test]
async fn a_drain_finishes_streams_and_then_the_connection() {
    let world = narrow(|_| {}).await;
    let stream = tokio::net::TcpStream::connect(world.address).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut client: h2::client::SendRequest<bytes::Bytes> = client.ready().await.unwrap();
    let (busy, _) = client.send_request(get("/wait"), true).unwrap();
    world.until_load(0, 1).await;
    world.shared.drain();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(!connection.is_finished(), "a stream is still open");
    world.seen.go_on.notify_one();
    let (_, body, _) = read(busy.await.unwrap()).await.unwrap();
    assert_eq!(body, b"waited");
    let ended = tokio::time::timeout(Duration::from_secs(5), connection).await;
    ended.unwrap().unwrap().unwrap();
    for _ in 0..300 {
        if world.shared.connections.load(std::sync::atomic::Ordering::Relaxed) == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the connection is still counted");
}

#[tokio::test]
async fn an_idle_connection_is_closed_in_good_order() {
    let world = build(|policy| policy.timeouts.idle = Duration::from_millis(300)).await;
    let stream = tokio::net::TcpStream::connect(world.address).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    let mut client: h2::client::SendRequest<bytes::Bytes> = client;
    let connection = tokio::spawn(connection);
    // A long request is no idleness.
    let (busy, _) = client.send_request(get("/wait"), true).unwrap();
    tokio::time::sleep(Duration::from_millis(900)).await;
    world.seen.go_on.notify_one();
    read(busy.await.unwrap()).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(5), connection).await;
    ended.unwrap().unwrap().unwrap();
}
