//! Streams of one HTTP/2 connection: each ends by itself, and none holds up the others.

use crate::origin::made_up;
use crate::support::origin::Origin;
use crate::world::{build, code, eventually, fetch, get, narrow, read, replan, send_body, server};
use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, SendStream};
use http::{Request, StatusCode};
use std::time::Duration;
use tiergate::config::meant::RefusalConnection;
use tiergate_core::control::Slots;
use tiergate_core::outcome::End;

const KIB: usize = 1024;

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
async fn many_streams_at_once_and_a_slow_one_holds_up_none() {
    let world = build(|policy| replan(policy, |plan| plan.slots = Slots::Fixed(200))).await;
    // What is not read takes up the connection's window as well: here it has room for more.
    let mut builder = h2::client::Builder::new();
    let client = world.client_with(builder.initial_connection_window_size(10 << 20)).await;
    let mut ready = client.clone().ready().await.unwrap();
    let (_slow, _) = ready.send_request(get("/wait"), true).unwrap();
    // This one is never read: its window stays full.
    let mut ready = ready.ready().await.unwrap();
    let (stuck, _) = ready.send_request(get("/len/5000000"), true).unwrap();
    let _stuck = stuck.await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for turn in 0..600 {
        let mut client = client.clone();
        tasks.spawn(async move {
            let len = turn * 37 % 3000;
            let (_, body, _) = fetch(&mut client, get(&format!("/len/{len}"))).await.unwrap();
            assert!(body == made_up(len));
        });
    }
    let all = async { while tasks.join_next().await.transpose().unwrap().is_some() {} };
    tokio::time::timeout(Duration::from_secs(20), all).await.unwrap();
}

#[tokio::test]
async fn interim_answers_pass_but_not_without_end() {
    let origin = Origin::start(|mut connection| {
        while let Some(request) = connection.request() {
            for _ in 0..request.target[1..].parse().unwrap() {
                connection.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
            }
            connection.ok("final");
        }
    });
    let world = build(|policy| policy.origin.servers = vec![server(origin.address)]).await;
    for (count, status) in [(3, 200), (100_000, 502)] {
        let mut client = world.client().await;
        let (mut answer, _) = client.send_request(get(&format!("/{count}")), true).unwrap();
        let mut interim = 0;
        while let Some(hint) =
            std::future::poll_fn(|context| answer.poll_informational(context)).await
        {
            assert_eq!(hint.unwrap().status(), 103);
            interim += 1;
        }
        assert_eq!(answer.await.unwrap().status(), status);
        assert!(interim == count || status == 502 && interim < 1100, "{interim} of {count}");
    }
}

/// An answer that is cut is an error of the stream, which the others survive.
#[tokio::test]
async fn an_answer_that_is_cut_is_a_reset_of_its_stream() {
    let world = build(|policy| policy.timeouts.response_body = Duration::from_millis(300)).await;
    let mut client = world.client().await;
    for path in ["/breaks/100000", "/hangs/5000"] {
        let error = fetch(&mut client, get(path)).await.unwrap_err();
        assert_eq!(code(&error), Some(Reason::INTERNAL_ERROR));
    }
    assert_eq!(fetch(&mut client, get("/len/10")).await.unwrap().1.len(), 10);
    world.until_load(0, 0).await;
}

/// The connection and the other streams go on.
#[tokio::test]
async fn a_stream_that_is_reset_gives_back_what_it_has() {
    let world = narrow(|_| {}).await;
    let client = world.client().await;
    let begin = async |path: &str| {
        let mut client = client.clone().ready().await.unwrap();
        client.send_request(get(path), true).unwrap()
    };
    let (first, _sending) = begin("/wait").await;
    world.until_load(0, 1).await;
    let (waiting, mut sending) = begin("/len/1").await;
    world.until_load(1, 1).await;
    sending.send_reset(Reason::CANCEL);
    drop(waiting);
    world.until_load(0, 1).await;
    world.seen.go_on.notify_one();
    assert_eq!(read(first.await.unwrap()).await.unwrap().1, b"waited");
    world.until_load(0, 0).await;
    assert_eq!(world.requests(), 1, "the one that waited never reached the origin");
    for (path, is_begun) in [("/hangs/1000", true), ("/wait", false), ("/len/8388608", true)] {
        let (answer, mut sending) = begin(path).await;
        world.until_load(0, 1).await;
        let answer = if is_begun { Some(answer.await.unwrap()) } else { None };
        sending.send_reset(Reason::CANCEL);
        drop(answer);
        world.until_all_is_given_back().await;
    }
    assert_eq!(world.finished(End::Cancelled), 3);
    for length in [None, Some(60 * KIB)] {
        let (answer, mut sending) = post(&client, length).await;
        sending.send_data(Bytes::from(made_up(30 * KIB)), false).unwrap();
        eventually("it is read", || world.buffered() > 0).await;
        sending.send_reset(Reason::CANCEL);
        drop(answer);
        world.until_all_is_given_back().await;
    }
    assert_eq!(world.requests(), 4);
}

#[tokio::test]
async fn slow_uploads_open_the_windows_of_others_again() {
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
    eventually("they are read", || world.buffered() >= 30 * 50 * KIB).await;
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
    assert_eq!(world.buffered(), 0);
}

#[tokio::test]
async fn a_client_that_waits_for_100_is_told_before_its_slot() {
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

/// What a stream is told that is refused while another is in service, which ends well.
async fn refused(connection: RefusalConnection) -> Result<StatusCode, h2::Error> {
    let world = narrow(|policy| {
        replan(policy, |plan| plan.classes[0].queue_len_max = 0);
        policy.refusal.connection = connection;
    })
    .await;
    let client = world.client().await;
    let mut ready = client.clone().ready().await.unwrap();
    let (first, _) = ready.send_request(get("/wait"), true).unwrap();
    world.until_load(0, 1).await;
    let mut asking = client.clone();
    let result = fetch(&mut asking, get("/len/1")).await.map(|(answer, ..)| answer.status());
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
    result
}

#[tokio::test]
async fn a_refusal_ends_new_streams_and_leaves_those_in_service() {
    for connection in [RefusalConnection::Keep, RefusalConnection::Close] {
        assert_eq!(refused(connection).await.unwrap(), 503);
    }
    let error = refused(RefusalConnection::Reset).await.unwrap_err();
    assert_eq!(code(&error), Some(Reason::REFUSED_STREAM));
}
