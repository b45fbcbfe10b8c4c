//! Slow bodies, both ways: what fits into memory holds no slot of the origin.

use crate::origin::made_up;
use crate::world::{World, build, fetch, get, read, send_body};
use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, SendStream};
use http::Request;
use std::time::Duration;
use tiergate::config::meant::Policy;
use tiergate_core::control::Slots;

const KIB: usize = 1024;

async fn narrow(change: impl FnOnce(&mut Policy)) -> World {
    build(|policy| {
        policy.plan.slots = Slots::Fixed(1);
        change(policy);
    })
    .await
}

fn buffered(world: &World) -> usize {
    world.shared.counters.buffered.used()
}

async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

/// Begins a POST to `/echo`; `length`: it says how long the body is.
async fn post(
    client: &SendRequest<Bytes>,
    length: Option<usize>,
) -> (ResponseFuture, SendStream<Bytes>) {
    let mut request = Request::post("http://gate.test/echo");
    if let Some(len) = length {
        request = request.header("content-length", len);
    }
    let mut client = client.clone().ready().await.unwrap();
    client.send_request(request.body(()).unwrap(), false).unwrap()
}

#[tokio::test]
async fn slow_uploads_that_fit_hold_up_nobody() {
    let world = narrow(|_| {}).await;
    let client = world.client().await;
    let body = Bytes::from(made_up(60 * KIB));
    let mut slow = Vec::new();
    // More than the connection's window would hold, were it not opened again.
    for turn in 0..30 {
        let length = (turn % 2 == 0).then_some(body.len());
        let (answer, mut sending) = post(&client, length).await;
        let first = body.slice(..50 * KIB);
        while sending.capacity() < first.len() {
            sending.reserve_capacity(first.len());
            let room = std::future::poll_fn(|context| sending.poll_capacity(context));
            let room = tokio::time::timeout(Duration::from_secs(5), room).await;
            room.expect("the window opens again").unwrap().unwrap();
        }
        sending.send_data(first, false).unwrap();
        slow.push((answer, sending));
    }
    eventually("they are read", || buffered(&world) >= 30 * 50 * KIB).await;
    let mut other = world.client().await;
    for _ in 0..50 {
        let (_, quick, _) = fetch(&mut other, get("/len/10")).await.unwrap();
        assert_eq!(quick, made_up(10));
    }
    assert_eq!(world.requests(), 50, "the slow ones have not come to the origin");
    for (answer, mut sending) in slow {
        send_body(&mut sending, body.slice(50 * KIB..), None).await.unwrap();
        let (_, echoed, _) = read(answer.await.unwrap()).await.unwrap();
        assert!(echoed == body, "the body arrived as it was sent");
    }
    world.until_load(0, 0).await;
    assert_eq!(buffered(&world), 0);
}

#[tokio::test]
async fn who_leaves_while_its_body_is_read_costs_the_origin_nothing() {
    let world = narrow(|_| {}).await;
    let client = world.client().await;
    for length in [None, Some(60 * KIB)] {
        let (answer, mut sending) = post(&client, length).await;
        sending.send_data(Bytes::from(made_up(30 * KIB)), false).unwrap();
        eventually("it is read", || buffered(&world) > 0).await;
        sending.send_reset(Reason::CANCEL);
        drop(answer);
        eventually("all is given back", || buffered(&world) == 0).await;
    }
    assert_eq!((world.requests(), world.load()), (0, (0, 0)));
    assert_eq!(world.shared.counters.sums(|it| &it.requests), [0, 0, 2]);
}

#[tokio::test]
async fn a_client_that_waits_for_100_gets_it_from_us() {
    let world = narrow(|_| {}).await;
    let client = world.client().await;
    let request = Request::post("http://gate.test/head")
        .header("expect", "100-continue")
        .header("content-length", 5)
        .body(())
        .unwrap();
    let mut ready = client.ready().await.unwrap();
    let (mut answer, mut sending) = ready.send_request(request, false).unwrap();
    let interim = std::future::poll_fn(|context| answer.poll_informational(context)).await;
    assert_eq!(interim.unwrap().unwrap().status(), 100);
    assert_eq!(world.load(), (0, 0), "no slot is taken while it is awaited");
    sending.send_data(Bytes::from_static(b"hello"), true).unwrap();
    let (_, told, _) = read(answer.await.unwrap()).await.unwrap();
    let told = String::from_utf8(told).unwrap();
    assert!(!told.contains("expect"), "{told}");
}

#[tokio::test]
async fn slow_readers_whose_answers_fit_hold_up_nobody() {
    let world = narrow(|policy| policy.buffering.response_max = 16 << 20).await;
    let len = 4 << 20;
    let mut slow = Vec::new();
    for path in ["len", "chunked", "trailers", "close"] {
        // On a connection of its own, whose window it may use up.
        let mut ready = world.client().await;
        let mut request = get(&format!("/{path}/{len}"));
        request.headers_mut().insert("te", http::HeaderValue::from_static("trailers"));
        let (answer, _) = ready.send_request(request, true).unwrap();
        let answer = answer.await.unwrap();
        eventually("it is kept", || world.load() == (0, 0)).await;
        slow.push((path, answer));
    }
    assert!(buffered(&world) > 3 * len, "{}", buffered(&world));
    let mut other = world.client().await;
    for _ in 0..50 {
        fetch(&mut other, get("/len/10")).await.unwrap();
    }
    for (path, answer) in slow {
        let (_, body, trailers) = read(answer).await.unwrap();
        assert!(body == made_up(len), "{path}: as the origin sent it");
        assert_eq!(trailers.is_some(), path == "trailers");
    }
    assert_eq!(buffered(&world), 0);
}

#[tokio::test]
async fn longer_answers_hold_their_slot_and_arrive_whole() {
    let world = narrow(|_| {}).await;
    let client = world.client().await;
    let len = 4 << 20;
    for path in ["len", "chunked"] {
        let mut ready = client.clone().ready().await.unwrap();
        let (answer, _) = ready.send_request(get(&format!("/{path}/{len}")), true).unwrap();
        let answer = answer.await.unwrap();
        eventually("all that may be is read", || buffered(&world) == 256 * KIB).await;
        assert_eq!(world.load(), (0, 1));
        let (_, body, _) = read(answer).await.unwrap();
        assert!(body == made_up(len), "as the origin sent it");
        world.until_load(0, 0).await;
    }
}

#[tokio::test]
async fn who_leaves_while_its_answer_is_kept_gives_all_back() {
    let world = narrow(|policy| policy.buffering.response_max = 2 << 20).await;
    let client = world.client().await;
    for len in [1 << 20, 8 << 20] {
        let mut ready = client.clone().ready().await.unwrap();
        let request = get(&format!("/len/{len}"));
        let (answer, mut sending) = ready.send_request(request, true).unwrap();
        let answer = answer.await.unwrap();
        eventually("it is kept", || buffered(&world) > 0).await;
        sending.send_reset(Reason::CANCEL);
        drop(answer);
        eventually("all is given back", || buffered(&world) == 0).await;
        world.until_load(0, 0).await;
    }
}
