//! Slots, waits, refusals, streams, the end of connections.

use crate::origin::made_up;
use crate::side::{Answer, Client, Side, fetch, read};
use crate::world::{World, build, by, eventually, get, narrow, replan};
use std::time::Duration;
use tiergate::config::meant::RefusalConnection;
use tiergate_core::admit::block;
use tiergate_core::admit::bucket::Rate;
use tiergate_core::admit::policer::{Per, PolicerId, Settings};
use tiergate_core::control::Slots;
use tiergate_core::outcome::End;
use tiergate_core::plan::Spec;

over_both! {
    a_client_that_leaves_while_it_waits_leaves_the_backlog
    a_client_that_leaves_amid_its_answer_gives_the_slot_back
    a_waiting_request_gets_the_slot_that_comes_free
    a_refusal_says_when_to_come_back
    a_client_is_told_what_it_has_left
    a_preempted_request_is_told_so
    fifty_streams_of_events_hold_no_slot
    a_refusal_may_end_the_connection
    a_blocked_client_loses_the_connection_and_is_heard_again_later
    a_drain_finishes_what_is_in_service_and_then_the_connection
    an_idle_connection_is_closed_in_good_order
    calls_become_streams_when_they_last_and_hold_slots_beyond_their_bound
}

/// A gateway whose clients may send two requests each, and then one an hour.
async fn policed(change: impl FnOnce(&mut Spec)) -> World {
    build(|policy| {
        replan(policy, |plan| {
            plan.policers = vec![Settings {
                name: "each".to_owned(),
                key: None,
                rate: Rate::of_thousandths(1000, 3600),
                burst: 2,
                per: Per::Flow { flows_max: 100 },
                shares: Vec::new(),
                inbound: None,
                announce: true,
            }];
            change(plan);
        });
        replan(policy, |plan| plan.classes[0].policer = Some(PolicerId(0)));
        policy.refusal.reason_header = Some("X-Reason".into());
    })
    .await
}

fn streams(world: &World) -> u32 {
    world.shared.door.gate().states().map(|state| state.streams).sum()
}

async fn a_client_that_leaves_while_it_waits_leaves_the_backlog(side: Side) {
    let world = narrow(|_| {}).await;
    let first = Client::connect(&world, side).await.begin(get("/wait"), false).await;
    world.until_load(0, 1).await;
    let waiting = Client::connect(&world, side).await.begin(get("/len/1"), false).await;
    world.until_load(1, 1).await;
    // A client that ends its side as soon as it has sent all is taken to wait for its answer.
    tokio::time::sleep(Duration::from_millis(50)).await;
    drop(waiting);
    world.until_load(0, 1).await;
    world.seen.go_on.notify_one();
    assert_eq!(first.answer().await.unwrap().body, b"waited");
    world.until_load(0, 0).await;
    assert_eq!(world.requests(), 1, "the cancelled one never reached the origin");
}

async fn a_client_that_leaves_amid_its_answer_gives_the_slot_back(side: Side) {
    let world = narrow(|_| {}).await;
    for path in ["/hangs/1000", "/wait"] {
        let client = Client::connect(&world, side).await;
        let mut exchange = client.begin(get(path), false).await;
        world.until_load(0, 1).await;
        let answer = match path {
            "/wait" => None,
            _ => Some(exchange.head().await.unwrap()),
        };
        drop((exchange, answer));
        world.until_load(0, 0).await;
    }
    assert_eq!(world.finished(End::Cancelled), 2);
}

async fn a_waiting_request_gets_the_slot_that_comes_free(side: Side) {
    let world = narrow(|_| {}).await;
    let first = Client::connect(&world, side).await.begin(get("/wait"), false).await;
    world.until_load(0, 1).await;
    let second = Client::connect(&world, side).await.begin(get("/len/5"), false).await;
    world.until_load(1, 1).await;
    world.seen.go_on.notify_one();
    first.answer().await.unwrap();
    let answer = second.answer().await.unwrap();
    assert_eq!((answer.status, answer.body.len()), (200, 5));
}

async fn a_refusal_says_when_to_come_back(side: Side) {
    let world = narrow(|policy| {
        replan(policy, |plan| plan.classes[0].queue_len_max = 0);
        policy.refusal.reason_header = Some("X-Reason".into());
    })
    .await;
    let first = Client::connect(&world, side).await.begin(get("/wait"), false).await;
    world.until_load(0, 1).await;
    let mut client = Client::connect(&world, side).await;
    // The connection stays for more.
    for _ in 0..2 {
        let mut request = get("/len/1");
        let json = http::HeaderValue::from_static("application/json");
        request.headers_mut().insert("accept", json);
        let Answer { status, fields, body, .. } = client.fetch(request).await.unwrap();
        assert_eq!(status, 503);
        assert!(fields["retry-after"] == "1" || fields["retry-after"] == "2", "{fields:?}");
        assert_eq!(fields["x-reason"], "queue_full");
        assert_eq!(fields["content-type"], "application/json");
        assert_eq!(fields["content-length"], body.len().to_string());
        assert!(String::from_utf8(body).unwrap().contains("\"queue_full\""));
    }
    world.seen.go_on.notify_one();
    assert_eq!(first.answer().await.unwrap().body, b"waited");
    assert_eq!(world.requests(), 1);
    assert_eq!(world.read(), 3);
}

async fn a_client_is_told_what_it_has_left(side: Side) {
    let world = policed(|_| {}).await;
    let answer = fetch(&world, side, "/len/1").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.fields["ratelimit-policy"], "\"each\";q=2;w=7200");
    assert_eq!(answer.fields["ratelimit"], "\"each\";r=1;t=3600");
    fetch(&world, side, "/len/1").await;
    for _ in 0..5 {
        let Answer { status, fields, .. } = fetch(&world, side, "/len/1").await;
        assert_eq!(status, 429);
        assert_eq!(fields["x-reason"], "policed");
        // Both say the same.
        let told = fields["retry-after"].to_str().unwrap();
        assert_eq!(fields["ratelimit"], format!("\"each\";r=0;t={told}"));
        assert!((3000..=3600).contains(&told.parse().unwrap()), "{told}");
    }
}

async fn a_preempted_request_is_told_so(side: Side) {
    let world =
        by("[origin]\nservers = [\"a:1\"]\nslots = 1\n[refusal]\nreason_header = \"X-Reason\"\n\
         [[class]]\nname = \"high\"\n[[class]]\nname = \"low\"\npreemptible = true\n\
         [[rule]]\npath = \"/len/*\"\nclass = \"high\"\n")
        .await;
    let mut client = Client::connect(&world, side).await;
    let preempted = tokio::spawn(async move { (client.fetch(get("/wait")).await, client) });
    eventually("it is in service", || world.requests() == 1).await;
    let answer = fetch(&world, side, "/len/10").await;
    assert_eq!((answer.status, answer.body.len()), (200, 10));
    let (told, mut client) = preempted.await.unwrap();
    let told = told.unwrap();
    assert_eq!(told.status, 503);
    assert_eq!(told.fields["x-reason"], "preempted");
    assert!(told.fields.contains_key("retry-after"));
    assert_eq!(client.fetch(get("/len/1")).await.unwrap().status, 200, "the connection stays");
    let gate = world.shared.door.gate();
    assert_eq!(gate.account().classes[1].finished[End::Preempted.index()], 1);
}

async fn fifty_streams_of_events_hold_no_slot(side: Side) {
    let world = build(|policy| replan(policy, |plan| plan.slots = Slots::Fixed(4))).await;
    let mut open = Vec::new();
    for _ in 0..50 {
        let client = Client::connect(&world, side).await;
        let mut exchange = client.begin(get("/events/10"), false).await;
        let answer = exchange.head().await.unwrap();
        open.push((exchange, answer));
    }
    assert_eq!(fetch(&world, side, "/len/5").await.body, made_up(5));
    world.until_load(0, 0).await;
    assert_eq!(streams(&world), 50);
    drop(open);
    eventually("all have ended", || streams(&world) == 0).await;
}

async fn a_refusal_may_end_the_connection(side: Side) {
    for connection in [RefusalConnection::Close, RefusalConnection::Reset] {
        let world = narrow(|policy| {
            replan(policy, |plan| plan.classes[0].queue_len_max = 0);
            policy.refusal.connection = connection;
        })
        .await;
        let first = Client::connect(&world, side).await.begin(get("/wait"), false).await;
        world.until_load(0, 1).await;
        let mut client = Client::connect(&world, side).await;
        let told = client.fetch(get("/len/1")).await;
        match connection {
            RefusalConnection::Close => {
                assert_eq!(told.unwrap().status, 503);
                client.ended().await.expect("in good order");
            }
            _ => assert!(told.is_err(), "{told:?}"),
        }
        world.seen.go_on.notify_one();
        assert_eq!(first.answer().await.unwrap().body, b"waited");
    }
}

async fn a_blocked_client_loses_the_connection_and_is_heard_again_later(side: Side) {
    let world = policed(|plan| {
        plan.block = Some(block::Settings {
            after: 2,
            within: Duration::from_secs(3600),
            lasting: Duration::from_secs(2),
            flows_max: 100,
        });
    })
    .await;
    for expected in [200, 200, 429, 429] {
        assert_eq!(fetch(&world, side, "/len/1").await.status, expected);
    }
    let mut client = Client::connect(&world, side).await;
    let answer = client.fetch(get("/len/1")).await.unwrap();
    assert_eq!((answer.status, &answer.fields["x-reason"]), (429, &"blocked".parse().unwrap()));
    client.ended().await.expect("in good order");
    for _ in 0..500 {
        let answer = fetch(&world, side, "/len/1").await;
        if answer.fields["x-reason"] == "policed" {
            return;
        }
        assert_eq!(answer.fields["x-reason"], "blocked");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it is still blocked");
}

async fn a_drain_finishes_what_is_in_service_and_then_the_connection(side: Side) {
    let world = narrow(|_| {}).await;
    let mut busy = Client::connect(&world, side).await.begin(get("/wait"), false).await;
    world.until_load(0, 1).await;
    world.shared.drain();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    world.seen.go_on.notify_one();
    let answer = read(busy.head().await.expect("it is still open")).await.unwrap();
    assert_eq!(answer.body, b"waited");
    busy.client.ended().await.expect("in good order");
    let connections = || world.shared.connections.open();
    eventually("no connection is counted", || connections() == 0).await;
}

async fn an_idle_connection_is_closed_in_good_order(side: Side) {
    let world = build(|policy| policy.timeouts.idle = Duration::from_millis(300)).await;
    let mut busy = Client::connect(&world, side).await.begin(get("/wait"), false).await;
    // A long request is no idleness.
    tokio::time::sleep(Duration::from_millis(900)).await;
    world.seen.go_on.notify_one();
    read(busy.head().await.expect("it is still open")).await.unwrap();
    busy.client.ended().await.expect("in good order");
}

async fn calls_become_streams_when_they_last_and_hold_slots_beyond_their_bound(side: Side) {
    let world = build(|policy| {
        replan(policy, |plan| plan.slots = Slots::Fixed(4));
        replan(policy, |plan| plan.classes[0].streams_max = 3);
    })
    .await;
    let mut open = Vec::new();
    for _ in 0..4 {
        let mut call = Client::connect(&world, side).await.begin(get("/calls/5"), false).await;
        let answer = call.head().await.unwrap();
        open.push((call, answer));
    }
    assert_eq!((streams(&world), world.load()), (0, (0, 4)), "not before they have lasted");
    fetch(&world, side, "/len/10").await;
    eventually("three are streams", || streams(&world) == 3).await;
    assert_eq!(world.load(), (0, 1), "the fourth keeps its slot");
    drop(open);
    eventually("all have ended", || streams(&world) == 0).await;
    world.until_load(0, 0).await;
    assert_eq!((world.finished(End::Upgraded), world.finished(End::Cancelled)), (3, 1));
}
