//! Long-lived answers over HTTP/2: they hold no slot, end cleanly, and are counted once.

use crate::world::{World, build, fetch, get};
use h2::RecvStream;
use http::Response;
use std::time::Duration;
use tiergate_core::control::Slots;
use tiergate_core::outcome::End;

fn streams(world: &World) -> u32 {
    world.shared.door.gate().states().map(|state| state.streams).sum()
}

async fn until_streams(world: &World, count: u32) {
    for _ in 0..500 {
        if streams(world) == count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} streams instead of {count}", streams(world));
}

async fn open(world: &World, path: &str, count: usize) -> Vec<Response<RecvStream>> {
    let client = world.client().await;
    let mut open = Vec::new();
    for _ in 0..count {
        let mut client = client.clone().ready().await.unwrap();
        let (answer, _) = client.send_request(get(path), true).unwrap();
        open.push(answer.await.unwrap());
    }
    open
}

#[tokio::test]
async fn fifty_streams_of_events_with_four_slots_stop_nobody() {
    let world = build(|policy| policy.plan.slots = Slots::Fixed(4)).await;
    let open = open(&world, "/events/5", 50).await;
    until_streams(&world, 50).await;
    assert_eq!(world.load(), (0, 0));
    let mut other = world.client().await;
    for _ in 0..50 {
        fetch(&mut other, get("/len/10")).await.unwrap();
    }
    drop(open);
    until_streams(&world, 0).await;
    assert_eq!((world.finished(End::Upgraded), world.finished(End::Served)), (50, 50));
}

#[tokio::test]
async fn calls_become_streams_when_they_last_and_hold_slots_beyond_their_bound() {
    let world = build(|policy| {
        policy.plan.slots = Slots::Fixed(4);
        policy.plan.classes[0].streams_max = 3;
    })
    .await;
    let open = open(&world, "/calls/5", 4).await;
    assert_eq!((streams(&world), world.load()), (0, (0, 4)), "not before they have lasted");
    let mut other = world.client().await;
    fetch(&mut other, get("/len/10")).await.unwrap();
    until_streams(&world, 3).await;
    assert_eq!(world.load(), (0, 1), "the fourth keeps its slot");
    drop(open);
    until_streams(&world, 0).await;
    world.until_load(0, 0).await;
    assert_eq!((world.finished(End::Upgraded), world.finished(End::Cancelled)), (3, 1));
}

#[tokio::test]
async fn a_background_stream_gives_way_and_is_told_so() {
    let world = build(|policy| {
        let text = "[origin]\nservers = [\"a:1\"]\n[refusal]\nreason_header = \"X-Reason\"\n\
             [[class]]\nname = \"high\"\n[[class]]\nname = \"low\"\npreemptible = true\n\
             [[rule]]\npath = \"/len/*\"\nclass = \"high\"\n";
        let servers = std::mem::take(&mut policy.origin.servers);
        *policy = tiergate::config::parse(text, "p.toml").unwrap();
        policy.origin.servers = servers;
        policy.plan.slots = Slots::Fixed(1);
    })
    .await;
    let mut client = world.client().await;
    let mut ready = client.clone().ready().await.unwrap();
    let (waiting, _) = ready.send_request(get("/wait"), true).unwrap();
    while world.requests() < 1 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (answer, body, _) = fetch(&mut client, get("/len/10")).await.unwrap();
    assert_eq!((answer.status().as_u16(), body.len()), (200, 10));
    let told = waiting.await.unwrap();
    assert_eq!(told.status().as_u16(), 503);
    assert_eq!(told.headers()["x-reason"], "preempted");
    assert!(told.headers().contains_key("retry-after"));
    let gate = world.shared.door.gate();
    assert_eq!(gate.account().classes[1].finished[End::Preempted.index()], 1);
}
