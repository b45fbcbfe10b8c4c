//! Clients that leave while the origin works for them: slots tell the truth.

use crate::side::{Client, Side, fetch, post};
use crate::support::PATIENCE;
use crate::support::origin::{Origin, ok};
use crate::world::{World, build, eventually, get, replan, server};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tiergate::observe::counters::Abandoned;
use tiergate_core::control::Slots;
use tiergate_core::names::PoolId;
use tiergate_core::origin::OnCancel;
use tiergate_core::outcome::End;

over_both! {
    the_slot_is_kept_until_the_origin_has_answered_nobody
    no_more_requests_are_in_progress_than_there_are_slots
    a_server_that_stops_frees_the_slot_at_once
    an_answer_without_end_is_not_read_for_nobody
    a_body_that_was_read_in_part_is_read_to_its_end
    an_upload_that_is_cut_is_not_waited_for
    an_interim_answer_frees_no_slot
    requests_that_never_end_give_their_slots_to_those_that_wait
}

/// Origins whose requests last for `time`, whoever leaves; and the most that were in progress at once.
fn working(time: Duration) -> (Origin, Arc<AtomicUsize>) {
    let most = Arc::new(AtomicUsize::new(0));
    let (running, peak) = (AtomicUsize::new(0), most.clone());
    let origin = Origin::answering(move |request| {
        let now = running.fetch_add(1, Ordering::SeqCst) + 1;
        peak.fetch_max(now, Ordering::SeqCst);
        std::thread::sleep(time);
        running.fetch_sub(1, Ordering::SeqCst);
        ok(request.target.as_str())
    });
    (origin, most)
}

async fn before(origin: &Origin, slots: u32, on_cancel: OnCancel) -> World {
    build(|policy| {
        replan(policy, |plan| plan.slots = Slots::Fixed(slots));
        policy.origin.servers = vec![server(origin.address)];
        policy.origin.on_cancel = on_cancel;
    })
    .await
}

/// A client that asks for this and leaves soon after its request has reached the origin.
async fn ask_and_leave(world: &World, origin: &Origin, side: Side, path: &str) {
    let received = || origin.received().iter().map(Vec::len).sum::<usize>();
    let before = received();
    let exchange = Client::connect(world, side).await.begin(get(path), false).await;
    eventually("the origin has a request", || received() > before).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    drop(exchange);
}

fn abandoned(world: &World, end: Abandoned) -> u64 {
    world.shared.counters.sum(|it| &it.abandoned[end as usize])
}

async fn the_slot_is_kept_until_the_origin_has_answered_nobody(side: Side) {
    let (origin, most) = working(Duration::from_millis(1500));
    let world = before(&origin, 1, OnCancel::Finish).await;
    ask_and_leave(&world, &origin, side, "/left").await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    world.until_load(0, 1).await;
    assert_eq!(fetch(&world, side, "/stayed").await.status, 200);
    world.until_load(0, 0).await;
    assert_eq!(most.load(Ordering::SeqCst), 1);
    assert_eq!(origin.accepted(), 1, "the connection is used again");
    assert_eq!((world.finished(End::Cancelled), world.finished(End::Served)), (1, 1));
    assert_eq!(abandoned(&world, Abandoned::Finished), 1);
}

async fn no_more_requests_are_in_progress_than_there_are_slots(side: Side) {
    let (origin, most) = working(Duration::from_millis(60));
    let world = before(&origin, 3, OnCancel::Learn).await;
    for _ in 0..8 {
        let leave = || ask_and_leave(&world, &origin, side, "/left");
        tokio::join!(leave(), leave(), leave(), leave());
    }
    assert_eq!(fetch(&world, side, "/stayed").await.status, 200);
    world.until_load(0, 0).await;
    assert!(most.load(Ordering::SeqCst) <= 3, "{most:?} in progress");
    assert!(
        abandoned(&world, Abandoned::Finished) >= 8,
        "{}",
        abandoned(&world, Abandoned::Finished)
    );
}

async fn a_server_that_stops_frees_the_slot_at_once(side: Side) {
    let origin = Origin::start(|mut connection| {
        // Reads on for as long as there is a client, and never answers.
        while connection.more() {}
    });
    let world = before(&origin, 1, OnCancel::Learn).await;
    ask_and_leave(&world, &origin, side, "/left").await;
    world.until_load(0, 0).await;
    assert_eq!(abandoned(&world, Abandoned::Stopped), 1);
    let servers = world.shared.config.load().pools.of(PoolId::DEFAULT).states();
    assert_eq!(servers[0].left_out, None);
}

async fn an_answer_without_end_is_not_read_for_nobody(side: Side) {
    let origin = Origin::start(|mut connection| {
        if connection.request().is_none() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
        connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        let chunk = format!("10000\r\n{}\r\n", "x".repeat(65_536));
        while connection.try_send(&chunk).is_ok() {}
    });
    let world = before(&origin, 1, OnCancel::Finish).await;
    ask_and_leave(&world, &origin, side, "/left").await;
    world.until_load(0, 0).await;
    assert_eq!(abandoned(&world, Abandoned::Cut), 1);
    eventually("its connection is closed", || origin.open() == 0).await;
}

async fn a_body_that_was_read_in_part_is_read_to_its_end(side: Side) {
    let origin = Origin::start(|mut connection| {
        while connection.request().is_some() {
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf");
            std::thread::sleep(Duration::from_millis(1500));
            connection.send("half");
        }
    });
    let world = before(&origin, 1, OnCancel::Finish).await;
    let mut exchange = Client::connect(&world, side).await.begin(get("/left"), false).await;
    let head = exchange.head().await.unwrap();
    drop((exchange, head));
    tokio::time::sleep(Duration::from_millis(50)).await;
    world.until_load(0, 1).await;
    world.until_load(0, 0).await;
    assert_eq!(abandoned(&world, Abandoned::Finished), 1);
    assert_eq!(fetch(&world, side, "/stayed").await.text(), "halfhalf");
    assert_eq!(origin.accepted(), 1, "the connection is used again");
}

async fn an_upload_that_is_cut_is_not_waited_for(side: Side) {
    let origin = Origin::start(|mut connection| while connection.more() {});
    let world = before(&origin, 1, OnCancel::Finish).await;
    let client = Client::connect(&world, side).await;
    let exchange = client.begin(post("/left", Some(1 << 20)), true).await;
    exchange.send(vec![b'x'; 200_000]);
    world.until_load(0, 1).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    drop(exchange);
    world.until_load(0, 0).await;
    assert_eq!(abandoned(&world, Abandoned::Stopped), 1);
}

/// The client is gone by the time of the interim answer, and only a write of it can tell.
async fn an_interim_answer_frees_no_slot(side: Side) {
    let origin = Origin::start(|mut connection| {
        while connection.request().is_some() {
            std::thread::sleep(Duration::from_millis(100));
            let interim = "HTTP/1.1 102 Processing\r\n\r\n";
            // The first meets a connection that is closed, the second finds that out.
            connection.send(interim.repeat(2));
            std::thread::sleep(Duration::from_millis(1500));
            connection.ok("done");
        }
    });
    let world = before(&origin, 1, OnCancel::Finish).await;
    let exchange = Client::connect(&world, side).await.begin(get("/left"), false).await;
    // A client that ends its side within a few milliseconds is not taken to have left.
    while origin.received().concat().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop(exchange);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(world.load(), (0, 1), "the origin still works");
    world.until_load(0, 0).await;
    assert_eq!(abandoned(&world, Abandoned::Finished), 1);
    assert_eq!(fetch(&world, side, "/stayed").await.text(), "done");
    assert_eq!(origin.accepted(), 1, "the connection is used again");
}

async fn requests_that_never_end_give_their_slots_to_those_that_wait(side: Side) {
    let origin = Origin::start(|mut connection| {
        while let Some(request) = connection.request() {
            let endless = request.target == "/endless";
            std::thread::sleep(if endless { PATIENCE } else { Duration::from_millis(20) });
            connection.ok("done");
        }
    });
    let world = build(|policy| {
        replan(policy, |plan| plan.slots = Slots::Fixed(4));
        replan(policy, |plan| plan.classes[0].deadline = PATIENCE);
        policy.origin.servers = vec![server(origin.address)];
        policy.timeouts.response_head = Duration::from_secs(2);
    })
    .await;
    for _ in 0..5 {
        assert_eq!(fetch(&world, side, "/usual").await.text(), "done");
    }
    ask_and_leave(&world, &origin, side, "/endless").await;
    world.until_load(0, 1).await;
    eventually("it does not end", || abandoned(&world, Abandoned::Cut) == 1).await;
    let leave = || ask_and_leave(&world, &origin, side, "/endless");
    tokio::join!(leave(), leave(), leave(), leave());
    assert_eq!(world.load(), (0, 4));
    let stay = || fetch(&world, side, "/usual");
    let answers = tokio::join!(stay(), stay(), stay());
    assert_eq!([answers.0.status, answers.1.status, answers.2.status], [200; 3]);
    assert_eq!(world.load(), (0, 1), "a quarter of the slots is theirs");
    assert_eq!(abandoned(&world, Abandoned::Cut), 1 + 3);
    world.until_load(0, 0).await;
}
