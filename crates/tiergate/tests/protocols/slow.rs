//! Slow bodies, both ways: what fits into memory holds no slot of the origin, what does not is streamed;
//! every byte arrives.

use crate::origin::made_up;
use crate::side::{Answer, Client, Exchange, Side, fetch, post, read};
use crate::support::origin::Origin;
use crate::world::{World, build, by, eventually, get, narrow, replan, server};
use bytes::Bytes;
use http::HeaderValue;
use http_body_util::BodyExt;
use std::any::Any;
use std::time::Duration;
use tiergate::config::meant::Policy;
use tiergate_core::control::{Bounds, Slots};
use tiergate_core::outcome::End;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

over_both! {
    slow_uploads_that_fit_hold_up_no_other_request
    longer_uploads_ask_for_their_slot_when_the_buffer_is_full
    a_client_that_leaves_while_its_body_is_read_costs_the_origin_nothing
    bodies_that_stall_or_are_too_long_never_come_to_the_gate
    a_client_that_waits_for_100_gets_it_from_us
    all_buffers_together_are_bounded
    an_origin_that_answers_while_it_reads_is_read_meanwhile
    slow_readers_whose_answers_fit_hold_up_no_other_request
    longer_answers_hold_their_slot_and_arrive_whole
    a_client_that_leaves_while_its_answer_is_kept_gives_all_back
    a_reader_that_stops_is_cut_after_the_time_for_writing
    what_an_origin_sent_before_it_broke_off_arrives
    an_origins_connection_that_is_not_kept_is_closed_before_the_client_has_read
    whether_a_long_body_is_wanted_is_the_origins_to_say
    what_would_be_refused_is_refused_before_its_body_is_read
    nothing_is_kept_where_the_policy_says_so
    uploads_by_the_byte_leave_slots_to_others
    answers_taken_by_the_byte_leave_slots_to_others
    slow_clients_are_let_be_while_slots_are_free
    readers_that_stop_leave_slots_to_others_where_no_memory_is_left
    a_slot_is_freed_once_there_is_memory_for_the_rest
    downloads_through_large_buffers_are_not_slow
    uploads_in_bursts_are_not_slow
    the_end_of_an_upload_waits_for_a_slot_if_its_own_was_lent
    an_upload_that_gets_no_slot_again_is_refused
}

const KIB: usize = 1024;

async fn slow_uploads_that_fit_hold_up_no_other_request(side: Side) {
    let world = narrow(|_| {}).await;
    let body = Bytes::from(made_up(60 * KIB));
    let mut slow = Vec::new();
    for turn in 0..30 {
        let length = (turn % 2 == 0).then_some(body.len());
        let client = Client::connect(&world, side).await;
        let exchange = client.begin(post("/echo", length), true).await;
        exchange.send(body.slice(..50 * KIB));
        slow.push(exchange);
    }
    eventually("they are read", || world.buffered() >= 30 * 50 * KIB).await;
    for _ in 0..50 {
        assert_eq!(fetch(&world, side, "/len/10").await.body, made_up(10));
    }
    assert_eq!(world.requests(), 50, "the slow ones have not come to the origin");
    for mut exchange in slow {
        exchange.send(body.slice(50 * KIB..));
        exchange.finish();
        let answer = exchange.answer().await.unwrap();
        assert!(answer.body == body, "the body arrived as it was sent");
    }
    world.until_load(0, 0).await;
    assert_eq!(world.buffered(), 0);
}

async fn longer_uploads_ask_for_their_slot_when_the_buffer_is_full(side: Side) {
    let world = narrow(|policy| policy.buffering.request_max = 20 * KIB).await;
    let body = Bytes::from(made_up(1000 * KIB));
    for length in [None, Some(body.len())] {
        let client = Client::connect(&world, side).await;
        let mut exchange = client.begin(post("/echo", length), true).await;
        exchange.send(body.slice(..10 * KIB));
        eventually("it is read", || world.buffered() > 0).await;
        assert_eq!(world.load(), (0, 0));
        exchange.send(body.slice(10 * KIB..40 * KIB));
        world.until_load(0, 1).await;
        let mut rest = body.slice(40 * KIB..);
        while !rest.is_empty() {
            exchange.send(rest.split_to(rest.len().min(9_999)));
        }
        exchange.finish();
        let answer = exchange.answer().await.unwrap();
        assert!(answer.body == body, "the body arrived as it was sent");
        world.until_load(0, 0).await;
        assert_eq!(world.buffered(), 0);
    }
}

async fn a_client_that_leaves_while_its_body_is_read_costs_the_origin_nothing(side: Side) {
    let world = narrow(|_| {}).await;
    for length in [None, Some(60 * KIB)] {
        let client = Client::connect(&world, side).await;
        let exchange = client.begin(post("/echo", length), true).await;
        exchange.send(made_up(30 * KIB));
        eventually("it is read", || world.buffered() > 0).await;
        drop(exchange);
        eventually("all is given back", || world.buffered() == 0).await;
    }
    assert_eq!((world.requests(), world.load()), (0, (0, 0)));
    eventually("both are counted", || world.read() == 2).await;
}

async fn bodies_that_stall_or_are_too_long_never_come_to_the_gate(side: Side) {
    let world = narrow(|policy| {
        policy.timeouts.request_body = Duration::from_millis(300);
        policy.limits.request_body_max = 20_000;
    })
    .await;
    for (len, status) in [(1000, 408), (30_000, 413)] {
        let client = Client::connect(&world, side).await;
        let mut exchange = client.begin(post("/echo", None), true).await;
        exchange.send(made_up(len));
        assert_eq!(exchange.head().await.unwrap().status().as_u16(), status);
    }
    eventually("all is given back", || world.buffered() == 0).await;
    assert_eq!(world.requests(), 0);
}

async fn a_client_that_waits_for_100_gets_it_from_us(side: Side) {
    let world = narrow(|_| {}).await;
    let mut request = post("/head", Some(5));
    let expect = http::HeaderValue::from_static("100-continue");
    request.headers_mut().insert("expect", expect);
    let mut exchange = Client::connect(&world, side).await.begin(request, true).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(world.load(), (0, 0), "no slot is taken while the body is awaited");
    exchange.send("hello");
    exchange.finish();
    let told = String::from_utf8(exchange.answer().await.unwrap().body).unwrap();
    assert!(!told.contains("expect"), "{told}");
}

async fn all_buffers_together_are_bounded(side: Side) {
    let world = build(|policy| {
        replan(policy, |plan| plan.slots = Slots::Fixed(100));
        policy.limits.buffers_max = 100 * KIB;
    })
    .await;
    let body = Bytes::from(made_up(30 * KIB));
    let mut slow = Vec::new();
    for _ in 0..8 {
        let client = Client::connect(&world, side).await;
        let exchange = client.begin(post("/echo", Some(body.len())), true).await;
        exchange.send(body.slice(..20 * KIB));
        slow.push(exchange);
    }
    // A request that finds no memory is streamed, and holds a slot.
    eventually("most hold a slot", || world.load().1 >= 4).await;
    let mut readers = Vec::new();
    for _ in 0..4 {
        let client = Client::reluctant(&world, side).await;
        let mut exchange = client.begin(get("/len/8388608"), false).await;
        let answer = exchange.head().await.unwrap();
        readers.push((exchange, answer));
    }
    eventually("readers too", || world.load().1 >= 8).await;
    assert!(world.buffered() <= 100 * KIB, "{}", world.buffered());
    for mut exchange in slow {
        exchange.send(body.slice(20 * KIB..));
        exchange.finish();
        let answer = exchange.answer().await.unwrap();
        assert!(answer.body == body, "the body arrived as it was sent");
    }
    for (_exchange, answer) in readers {
        assert!(read(answer).await.unwrap().body == made_up(8 << 20), "as the origin sent it");
    }
    world.until_all_is_given_back().await;
}

/// A body in memory is larger than what the origin's socket takes, and the origin answers as it reads.
async fn an_origin_that_answers_while_it_reads_is_read_meanwhile(side: Side) {
    const LEN: usize = 16 << 20;
    let origin = Origin::start(|mut connection| {
        let Some(_) = connection.head() else { return };
        connection.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LEN}\r\n\r\n"));
        let mut left = LEN;
        while left > 0 {
            let piece = connection.take_buffer();
            left -= piece.len();
            connection.send(&piece);
            if left > 0 {
                assert!(connection.more(), "the body is whole");
            }
        }
    });
    let world = narrow(|policy| {
        policy.origin.servers = vec![server(origin.address)];
        policy.buffering.request_max = 2 * LEN;
        policy.timeouts.write = Duration::from_secs(3);
    })
    .await;
    let body = Bytes::from(made_up(LEN));
    let client = Client::connect(&world, side).await;
    let mut exchange = client.begin(post("/", Some(LEN)), true).await;
    exchange.send(body.clone());
    exchange.finish();
    assert!(exchange.answer().await.unwrap().body == body, "the body came back as it was sent");
    world.until_all_is_given_back().await;
}

async fn slow_readers_whose_answers_fit_hold_up_no_other_request(side: Side) {
    let world = narrow(|policy| policy.buffering.response_max = 16 << 20).await;
    let len = 8 << 20;
    let mut slow = Vec::new();
    for path in ["len", "chunked", "trailers", "close"] {
        let mut request = get(&format!("/{path}/{len}"));
        side.take_trailers(&mut request);
        let client = Client::reluctant(&world, side).await;
        let mut exchange = client.begin(request, false).await;
        let answer = exchange.head().await.unwrap();
        world.until_load(0, 0).await;
        slow.push((path, exchange, answer));
    }
    assert!(world.buffered() > len, "{}", world.buffered());
    for _ in 0..50 {
        fetch(&world, side, "/len/10").await;
    }
    for (path, mut exchange, answer) in slow {
        let answer = read(answer).await.unwrap();
        assert!(answer.body == made_up(len), "{path}: as the origin sent it");
        assert_eq!(answer.trailers.contains_key("x-sum"), path == "trailers");
        // What only the connection's end ends is passed on so over HTTP/1.1.
        if path != "close" || side == Side::Http2 {
            let next = exchange.client.fetch(get("/len/3")).await.unwrap();
            assert_eq!(next.body, made_up(3), "the connection goes on");
        }
    }
    world.until_all_is_given_back().await;
}

async fn longer_answers_hold_their_slot_and_arrive_whole(side: Side) {
    for most in [256 * KIB, 0] {
        let world = narrow(|policy| policy.buffering.response_max = most).await;
        let len = 16 << 20;
        for path in ["len", "chunked"] {
            let request = get(&format!("/{path}/{len}"));
            let mut exchange = Client::reluctant(&world, side).await.begin(request, false).await;
            let answer = exchange.head().await.unwrap();
            eventually("all that may be is read", || world.buffered() == most).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert_eq!((world.buffered(), world.load()), (most, (0, 1)));
            assert!(read(answer).await.unwrap().body == made_up(len), "as the origin sent it");
            world.until_all_is_given_back().await;
        }
    }
}

async fn a_client_that_leaves_while_its_answer_is_kept_gives_all_back(side: Side) {
    let world = narrow(|policy| policy.buffering.response_max = 16 << 20).await;
    // One that fits, one that does not.
    for len in [8 << 20, 64 << 20] {
        let client = Client::reluctant(&world, side).await;
        let mut exchange = client.begin(get(&format!("/len/{len}")), false).await;
        let answer = exchange.head().await.unwrap();
        eventually("it is kept", || world.buffered() > 0).await;
        drop((exchange, answer));
        world.until_all_is_given_back().await;
    }
}

async fn a_reader_that_stops_is_cut_after_the_time_for_writing(side: Side) {
    let world = narrow(|policy| policy.timeouts.write = Duration::from_millis(300)).await;
    let mut exchange =
        Client::reluctant(&world, side).await.begin(get("/len/33554432"), false).await;
    let answer = exchange.head().await.unwrap();
    eventually("it is cut", || world.finished(End::Cancelled) == 1).await;
    world.until_all_is_given_back().await;
    assert!(read(answer).await.is_err(), "it is cut");
}

async fn what_an_origin_sent_before_it_broke_off_arrives(side: Side) {
    let body = made_up(6_000_000);
    let sent = body.clone();
    let origin = Origin::start(move |mut connection| {
        if connection.request().is_some() {
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n");
            connection.send(&sent);
        }
    });
    let world = narrow(|policy| {
        policy.origin.servers = vec![server(origin.address)];
        policy.buffering.response_max = 16 << 20;
    })
    .await;
    let mut exchange = Client::reluctant(&world, side).await.begin(get("/"), false).await;
    let mut answer = exchange.head().await.unwrap().into_body();
    eventually("it failed before it was read", || world.finished(End::Failed) == 1).await;
    let mut got = Vec::new();
    while let Some(Ok(frame)) = answer.frame().await {
        got.extend(frame.into_data().unwrap());
    }
    assert!(body.starts_with(&got), "what came, and no more: {}", got.len());
    let lost = match side {
        Side::Http1 => 0,
        // A reset takes along what its stream has not sent yet (RFC 9113 §5.4.2): a window's worth.
        Side::Http2 => 65_535,
    };
    assert!(got.len() + lost >= body.len(), "{} bytes came", got.len());
    world.until_all_is_given_back().await;
}

async fn an_origins_connection_that_is_not_kept_is_closed_before_the_client_has_read(side: Side) {
    let body = made_up(8 << 20);
    let sent = body.clone();
    let origin = Origin::start(move |mut connection| {
        if connection.request().is_some() {
            let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length:";
            connection.send(format!("{head} {}\r\n\r\n", sent.len()));
            connection.send(&sent);
            while connection.more() {}
        }
    });
    let world = narrow(|policy| {
        policy.origin.servers = vec![server(origin.address)];
        policy.buffering.response_max = 16 << 20;
    })
    .await;
    let mut exchange = Client::reluctant(&world, side).await.begin(get("/"), false).await;
    let answer = exchange.head().await.unwrap();
    eventually("the origin is left alone", || origin.open() == 0).await;
    assert_eq!(world.finished(End::Served), 1);
    assert!(world.buffered() > 0);
    assert!(read(answer).await.unwrap().body == body, "as the origin sent it");
}

/// That is for the origin to say, before the body is sent.
async fn whether_a_long_body_is_wanted_is_the_origins_to_say(side: Side) {
    let origin = Origin::start(|mut connection| {
        while connection.head().is_some() {
            connection.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let world = narrow(|policy| policy.origin.servers = vec![server(origin.address)]).await;
    let mut request = post("/", Some(64 * KIB + 1));
    request.headers_mut().insert("expect", HeaderValue::from_static("100-continue"));
    let mut exchange = Client::connect(&world, side).await.begin(request, true).await;
    assert_eq!(exchange.head().await.unwrap().status(), 403);
}

/// A refusal is not worth a body.
async fn what_would_be_refused_is_refused_before_its_body_is_read(side: Side) {
    let world =
        by("[origin]\nservers = [\"a:1\"]\nslots = 1\n[[class]]\nname = \"only\"\nqueue = 1\n\
         deadline = \"20s\"\n[[rule]]\npath = \"/never\"\nrefuse = true\n")
        .await;
    let refused = async |path: &str, expects: bool, status: u16| {
        let mut request = post(path, Some(9));
        if expects {
            request.headers_mut().insert("expect", HeaderValue::from_static("100-continue"));
        }
        let mut exchange = Client::connect(&world, side).await.begin(request, true).await;
        assert_eq!(exchange.head().await.unwrap().status(), status, "{path}");
    };
    refused("/never", true, 403).await;
    let mut busy = Vec::new();
    for waiting in 0..2 {
        busy.push(Client::connect(&world, side).await.begin(get("/wait"), false).await);
        world.until_load(waiting, 1).await;
    }
    refused("/len/1", true, 503).await;
    refused("/len/1", false, 503).await;
}

async fn nothing_is_kept_where_the_policy_says_so(side: Side) {
    let world = narrow(|policy| policy.buffering.request_max = 0).await;
    let client = Client::connect(&world, side).await;
    let mut exchange = client.begin(post("/echo", Some(5)), true).await;
    world.until_load(0, 1).await;
    exchange.send("hello");
    exchange.finish();
    assert_eq!(exchange.answer().await.unwrap().body, b"hello");
}

/// Four slots, nothing kept for slow clients, and time to wait for a slot.
async fn four_slots(change: impl FnOnce(&mut Policy)) -> World {
    build(|policy| {
        replan(policy, |plan| {
            plan.slots = Slots::Fixed(4);
            plan.classes[0].deadline = Duration::from_secs(60);
        });
        policy.buffering.request_max = 0;
        policy.buffering.response_max = 0;
        change(policy);
    })
    .await
}

/// What a client gets that asks for little, while `meanwhile` happens five times a second.
async fn fetch_while(world: &World, side: Side, mut meanwhile: impl AsyncFnMut()) -> Answer {
    let mut polite = std::pin::pin!(fetch(world, side, "/len/10"));
    loop {
        tokio::select! {
            answer = &mut polite => return answer,
            () = tokio::time::sleep(Duration::from_millis(200)) => meanwhile().await,
        }
    }
}

async fn uploads_by_the_byte_leave_slots_to_others(side: Side) {
    let world = four_slots(|_| {}).await;
    let mut slow = Vec::new();
    for _ in 0..4 {
        let client = Client::connect(&world, side).await;
        let exchange = client.begin(post("/sum", Some(200 * KIB)), true).await;
        exchange.send(made_up(66 * KIB));
        slow.push(exchange);
    }
    world.until_load(0, 4).await;
    let answer = fetch_while(&world, side, async || slow.iter().for_each(|it| it.send("x"))).await;
    assert_eq!(answer.status, 200);
    // One was enough, and it is told why.
    world.until_load(0, 3).await;
    let first = slow.remove(0).answer().await.unwrap();
    assert_eq!(first.status, 408, "who was slow for longest");
    assert!(first.text().contains("while others waited"), "{}", first.text());
}

async fn answers_taken_by_the_byte_leave_slots_to_others(side: Side) {
    // A frame is some kilobytes, and five come a second.
    let world = four_slots(|policy| policy.limits.client_rate_min = 1 << 20).await;
    let mut slow = Vec::new();
    for _ in 0..4 {
        let client = Client::reluctant(&world, side).await;
        let mut exchange = client.begin(get("/len/16777216"), false).await;
        let answer = exchange.head().await.unwrap();
        slow.push((exchange, answer));
    }
    world.until_load(0, 4).await;
    let answer = fetch_while(&world, side, async || {
        for (_, answer) in &mut slow {
            let taking = answer.body_mut().frame();
            let _ = tokio::time::timeout(Duration::from_millis(1), taking).await;
        }
    });
    assert_eq!(answer.await.status, 200);
}

async fn slow_clients_are_let_be_while_slots_are_free(side: Side) {
    let world = four_slots(|policy| replan(policy, |plan| plan.slow_slots_max = 0.0)).await;
    let client = Client::connect(&world, side).await;
    let mut slow = client.begin(post("/echo", Some(100)), true).await;
    world.until_load(0, 1).await;
    for _ in 0..20 {
        slow.send("x");
        tokio::time::sleep(Duration::from_millis(250)).await;
        assert_eq!(fetch(&world, side, "/len/10").await.status, 200);
    }
    slow.send(made_up(80));
    slow.finish();
    assert_eq!(slow.answer().await.unwrap().body.len(), 100);
}

/// A client that reads nothing of an answer whose last part then waits for it; dropped, it leaves.
async fn stopped_reader(world: &World, side: Side) -> Box<dyn Any> {
    match side {
        // The socket's buffers would take an unknown part of the answer.
        Side::Http1 => {
            let mut client = world.client_in_memory(4 * KIB);
            client.write_all(b"GET /len/50000 HTTP/1.1\r\nHost: gate.test\r\n\r\n").await.unwrap();
            Box::new(client)
        }
        // Its window takes 65,535 bytes.
        Side::Http2 => {
            let client = Client::reluctant(world, side).await;
            Box::new(client.begin(get("/len/100000"), false).await)
        }
    }
}

/// The origin is done, but there is no memory for what the clients have still to take.
async fn readers_that_stop_leave_slots_to_others_where_no_memory_is_left(side: Side) {
    let world = four_slots(|policy| {
        policy.limits.buffers_max = 0;
        policy.timeouts.write = Duration::from_secs(120);
    })
    .await;
    let mut stopped = Vec::new();
    for _ in 0..4 {
        stopped.push(stopped_reader(&world, side).await);
    }
    world.until_load(0, 4).await;
    let polite = tokio::time::timeout(Duration::from_secs(30), fetch(&world, side, "/len/10"));
    assert_eq!(polite.await.expect("one of them gives way").status, 200);
    world.until_load(0, 3).await;
    drop(stopped);
    world.until_all_is_given_back().await;
}

async fn a_slot_is_freed_once_there_is_memory_for_the_rest(side: Side) {
    let world = four_slots(|policy| {
        policy.limits.buffers_max = 100 * KIB;
        policy.limits.client_rate_min = 0;
        policy.timeouts.write = Duration::from_secs(120);
    })
    .await;
    let all = world.shared.counters.buffered.take(100 * KIB, 100 * KIB).expect("none is in use");
    let stopped = stopped_reader(&world, side).await;
    world.until_load(0, 1).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(world.load(), (0, 1), "the slot bounds the memory");
    drop(all);
    world.until_load(0, 0).await;
    assert_eq!(world.finished(End::Served), 1);
    assert!(world.buffered() > 0);
    drop(stopped);
    world.until_all_is_given_back().await;
}

/// Has a request wait for a slot that slow clients hold; none of them may be taken for slow.
async fn all_keep_their_slots(world: &World, side: Side, meanwhile: impl AsyncFnMut()) {
    world.until_load(0, 4).await;
    let polite = fetch_while(world, side, meanwhile);
    let waited = tokio::time::timeout(Duration::from_secs(14), polite).await;
    assert!(waited.is_err(), "no slot came free");
    assert_eq!(world.load().1, 4);
}

/// The system says that there is room for more when a third of a large buffer is free: at 40 KiB/s every 20 s.
async fn downloads_through_large_buffers_are_not_slow(side: Side) {
    let world = four_slots(|policy| replan(policy, |plan| plan.slow_slots_max = 0.0)).await;
    let mut downloads = Vec::new();
    for _ in 0..4 {
        let client = Client::throttled(&world, side, 2 * KIB, Duration::from_millis(50)).await;
        let exchange = client.begin(get("/len/67108864"), false).await;
        downloads.push(tokio::spawn(exchange.answer()));
    }
    all_keep_their_slots(&world, side, async || ()).await;
    downloads.iter().for_each(|it| assert!(!it.is_finished()));
}

/// 14 KB/s, in pieces of 70 KB. The second comes soon: what came before the origin waited for more is no credit.
async fn uploads_in_bursts_are_not_slow(side: Side) {
    let world = four_slots(|policy| replan(policy, |plan| plan.slow_slots_max = 0.0)).await;
    let mut uploads = Vec::new();
    for _ in 0..4 {
        let client = Client::connect(&world, side).await;
        let exchange = client.begin(post("/sum", Some(9_000_000)), true).await;
        exchange.send(made_up(70_000));
        uploads.push(exchange);
    }
    let mut turn = 0;
    all_keep_their_slots(&world, side, async || {
        turn += 1;
        if turn == 5 || turn % 24 == 0 {
            uploads.iter().for_each(|it| it.send(made_up(70_000)));
        }
    })
    .await;
}

/// One slot, which may be lent, and requests that wait for it for so long.
async fn one_adaptive_slot(deadline: Duration) -> World {
    build(|policy| {
        replan(policy, |plan| {
            let bounds = Bounds { slots_start: 1, slots_min: 1, slots_max: 1 };
            plan.slots = Slots::Adaptive(bounds);
            plan.classes[0].deadline = deadline;
        });
    })
    .await
}

const UPLOAD: usize = 200 * KIB;

/// An upload of which the last part comes when another request has its slot; and that request.
async fn upload_without_slot(
    world: &World,
    side: Side,
    length: Option<usize>,
) -> (Exchange, Exchange) {
    let body = Bytes::from(made_up(UPLOAD));
    let mut upload = Client::connect(world, side).await.begin(post("/sum", length), true).await;
    upload.send(body.slice(..UPLOAD / 2));
    eventually("its slot is lent", || world.shared.door.gate().lent() == 1).await;
    let other = Client::connect(world, side).await.begin(get("/wait"), false).await;
    world.until_load(0, 1).await;
    upload.send(body.slice(UPLOAD / 2..));
    // Over HTTP/2 the client may have sent all, and not have said so.
    if length.is_none() {
        upload.finish();
    }
    (upload, other)
}

async fn the_end_of_an_upload_waits_for_a_slot_if_its_own_was_lent(side: Side) {
    for length in [None, Some(UPLOAD)] {
        let world = one_adaptive_slot(Duration::from_secs(20)).await;
        let (upload, other) = upload_without_slot(&world, side, length).await;
        world.until_load(1, 1).await;
        world.seen.go_on.notify_one();
        assert_eq!(other.answer().await.unwrap().text(), "waited");
        assert_eq!(upload.answer().await.unwrap().text(), format!("{UPLOAD} "));
        world.until_all_is_given_back().await;
        assert_eq!((world.finished(End::Served), world.shared.door.gate().lent()), (2, 0));
    }
}

async fn an_upload_that_gets_no_slot_again_is_refused(side: Side) {
    let world = one_adaptive_slot(Duration::from_millis(300)).await;
    let (upload, other) = upload_without_slot(&world, side, Some(UPLOAD)).await;
    assert_eq!(upload.answer().await.unwrap().status, 503);
    eventually("it is counted", || world.finished(End::Preempted) == 1).await;
    world.seen.go_on.notify_one();
    assert_eq!(other.answer().await.unwrap().text(), "waited");
    world.until_all_is_given_back().await;
    let gate = world.shared.door.gate();
    let account = &gate.account().classes[0];
    assert_eq!((account.arrived, account.refused_total(), account.finished_total()), (2, 0, 2));
    assert_eq!(gate.lent(), 0);
}

/// A client that speaks HTTP/1.1 by hand, and has sent the first half of an upload whose slot is lent.
async fn half_an_upload(world: &World) -> TcpStream {
    let mut client = TcpStream::connect(world.address_of(Side::Http1)).await.unwrap();
    let head = format!("POST /sum HTTP/1.1\r\nHost: x\r\nContent-Length: {UPLOAD}\r\n\r\n");
    client.write_all(head.as_bytes()).await.unwrap();
    client.write_all(&[b'x'; UPLOAD / 2]).await.unwrap();
    eventually("its slot is lent", || world.shared.door.gate().lent() == 1).await;
    client
}

/// Its connection goes on behind the body, whatever came with that.
#[tokio::test]
async fn what_follows_an_upload_that_is_refused_at_its_end_is_a_request() {
    let world = one_adaptive_slot(Duration::from_millis(300)).await;
    let mut client = half_an_upload(&world).await;
    let other = Client::connect(&world, Side::Http1).await.begin(get("/wait"), false).await;
    world.until_load(0, 1).await;
    let next = b"GET /len/3 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    client.write_all(&[&[b'x'; UPLOAD / 2][..], next].concat()).await.unwrap();
    eventually("it is refused", || world.finished(End::Preempted) == 1).await;
    world.seen.go_on.notify_one();
    assert_eq!(other.answer().await.unwrap().text(), "waited");
    let mut answers = String::new();
    let read = client.read_to_string(&mut answers);
    tokio::time::timeout(Duration::from_secs(5), read).await.expect("both").unwrap();
    let statuses: Vec<&str> = answers.split("HTTP/1.1 ").skip(1).map(|it| &it[..3]).collect();
    assert_eq!(statuses, ["503", "200"], "{answers}");
}

#[tokio::test]
async fn a_client_that_leaves_when_the_end_of_its_upload_waits_is_noticed() {
    let world = one_adaptive_slot(Duration::from_secs(20)).await;
    let mut client = half_an_upload(&world).await;
    let other = Client::connect(&world, Side::Http1).await.begin(get("/wait"), false).await;
    world.until_load(0, 1).await;
    client.write_all(&[b'x'; UPLOAD / 2]).await.unwrap();
    world.until_load(1, 1).await;
    drop(client);
    eventually("it is noticed", || world.finished(End::Cancelled) == 1).await;
    assert_eq!(world.load(), (0, 1));
    world.seen.go_on.notify_one();
    assert_eq!(other.answer().await.unwrap().text(), "waited");
    world.until_all_is_given_back().await;
    assert_eq!(world.shared.door.gate().lent(), 0);
}
