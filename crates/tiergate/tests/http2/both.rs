//! Cases that run over HTTP/1.1 and over HTTP/2, from one table.

use crate::origin::made_up;
use crate::side::{Answer, Client, Side};
use crate::world::{World, build, get};
use bytes::Bytes;
use http::{Method, Request};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tiergate::config::meant::{Policy, Server};
use tiergate_core::admit::bucket::Rate;
use tiergate_core::admit::policer::{Per, PolicerId, Settings};
use tiergate_core::control::Slots;
use tiergate_core::outcome::End;

/// Each case, over each protocol.
macro_rules! over_both {
    ($($case:ident)*) => {
        mod http1 {
            $(#[tokio::test]
            async fn $case() {
                super::$case(crate::side::Side::Http1).await;
            })*
        }
        mod http2 {
            $(#[tokio::test]
            async fn $case() {
                super::$case(crate::side::Side::Http2).await;
            })*
        }
    };
}

over_both! {
    bodies_of_every_framing_come_whole
    heads_and_bodiless_answers_have_no_body
    what_concerned_the_origins_connection_is_gone
    twenty_megabytes_go_there_and_back
    a_truncated_answer_is_never_taken_for_whole
    an_answer_that_is_malformed_from_its_first_byte_gives_502
    an_origin_that_is_not_there_gives_502
    a_stale_connection_is_tried_anew
    a_silent_origin_gives_504
    faults_of_an_upload_are_answered_and_counted
    received_bytes_are_what_the_client_sent
    a_client_that_leaves_while_it_waits_leaves_the_backlog
    a_client_that_leaves_amid_its_answer_gives_the_slot_back
    a_waiting_request_gets_the_slot_that_comes_free
    a_refusal_says_when_to_come_back
    a_client_is_told_what_it_has_left
    a_preempted_request_is_told_so
    slow_uploads_that_fit_hold_up_no_other_request
    longer_uploads_ask_for_their_slot_when_the_buffer_is_full
    a_client_that_leaves_while_its_body_is_read_costs_the_origin_nothing
    bodies_that_stall_or_are_too_long_never_come_to_the_gate
    a_client_that_waits_for_100_gets_it_from_us
    all_buffers_together_are_bounded
    fifty_streams_of_events_hold_no_slot
}

const KIB: usize = 1024;

async fn narrow(change: impl FnOnce(&mut Policy)) -> World {
    build(|policy| {
        policy.plan.slots = Slots::Fixed(1);
        policy.plan.classes[0].deadline = Duration::from_secs(20);
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

fn post(path: &str, length: Option<usize>) -> Request<()> {
    let request = Request::post(format!("http://gate.test{path}"));
    let request = match length {
        Some(len) => request.header("content-length", len),
        None => request,
    };
    request.body(()).unwrap()
}

/// A request on a connection of its own, and the whole answer.
async fn fetch(world: &World, side: Side, path: &str) -> Answer {
    Client::connect(world, side).await.fetch(get(path)).await.unwrap()
}

async fn bodies_of_every_framing_come_whole(side: Side) {
    let world = build(|_| {}).await;
    for kind in ["len", "chunked", "close"] {
        for len in [0, 1, 1024, 8192, 8193, 65_536, 1_000_003] {
            let answer = fetch(&world, side, &format!("/{kind}/{len}")).await;
            assert_eq!(answer.status, 200);
            assert!(answer.body == made_up(len), "/{kind}/{len}: {} bytes", answer.body.len());
            assert_eq!(answer.fields.contains_key("content-length"), kind == "len");
        }
    }
    world.until_load(0, 0).await;
    assert_eq!(world.finished(End::Served), 21);
}

async fn heads_and_bodiless_answers_have_no_body(side: Side) {
    let world = build(|_| {}).await;
    let mut client = Client::connect(&world, side).await;
    let mut request = get("/len/1000");
    *request.method_mut() = Method::HEAD;
    let answer = client.fetch(request).await.unwrap();
    assert_eq!((answer.fields["content-length"].as_bytes(), answer.body.len()), (&b"1000"[..], 0));
    for status in [204, 304, 404, 500] {
        let answer = client.fetch(get(&format!("/status/{status}"))).await.unwrap();
        assert_eq!((answer.status, answer.body.len()), (status, 0));
    }
    // One connection sufficed for all, so the end of each answer was found.
    assert_eq!(world.seen.connections.load(Ordering::Relaxed), 1);
    assert_eq!(world.finished(End::Error), 1);
}

async fn what_concerned_the_origins_connection_is_gone(side: Side) {
    let world = build(|policy| policy.forwarding.via = true).await;
    let answer = fetch(&world, side, "/cookies").await;
    let cookies: Vec<_> = answer.fields.get_all("set-cookie").iter().collect();
    assert_eq!(cookies, ["a=1", "b=2"]);
    assert_eq!(answer.fields["x-odd"].as_bytes(), b"caf\xe9");
    assert_eq!(answer.fields["via"], "1.1 tiergate");
    assert_eq!(answer.fields["content-length"], "3");
    for gone in ["keep-alive", "connection", "x-hop"] {
        assert!(!answer.fields.contains_key(gone), "{gone}");
    }
    assert_eq!(answer.body, b"two");
}

async fn twenty_megabytes_go_there_and_back(side: Side) {
    let world = build(|_| {}).await;
    let body = Bytes::from(made_up(20 << 20));
    for length in [Some(body.len()), None] {
        let client = Client::connect(&world, side).await;
        let mut exchange = client.begin(post("/echo", length), true).await;
        exchange.send(body.clone());
        exchange.finish();
        let answer = exchange.answer().await.unwrap();
        assert_eq!(answer.status, 200);
        assert!(answer.body == body, "{} bytes came back", answer.body.len());
    }
    world.until_load(0, 0).await;
}

async fn a_truncated_answer_is_never_taken_for_whole(side: Side) {
    let world = build(|_| {}).await;
    let mut client = Client::connect(&world, side).await;
    assert!(client.fetch(get("/breaks/100000")).await.is_err());
    assert_eq!(fetch(&world, side, "/len/10").await.status, 200);
    world.until_load(0, 0).await;
    assert_eq!((world.finished(End::Failed), world.finished(End::Served)), (1, 1));
}

/// A server that sends the same to every connection once it has got something.
async fn reciting(answer: &'static [u8]) -> Server {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut bytes = [0; 4096];
            let _ = stream.read(&mut bytes).await;
            let _ = stream.write_all(answer).await;
        }
    });
    Server::Tcp(address.ip().to_string(), address.port())
}

async fn an_answer_that_is_malformed_from_its_first_byte_gives_502(side: Side) {
    for answer in [
        &b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nno chunk"[..],
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
    ] {
        let server = reciting(answer).await;
        let world = build(|policy| policy.origin.servers = vec![server]).await;
        assert_eq!(fetch(&world, side, "/len/1").await.status, 502);
        world.until_load(0, 0).await;
        assert_eq!(world.finished(End::Failed), 1);
    }
}

async fn an_origin_that_is_not_there_gives_502(side: Side) {
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = closed.local_addr().unwrap().port();
    drop(closed);
    let servers = vec![Server::Tcp("127.0.0.1".into(), port)];
    let world = build(|policy| policy.origin.servers = servers).await;
    let answer = fetch(&world, side, "/len/1").await;
    assert_eq!(answer.status, 502);
    assert_eq!(answer.fields["content-length"], answer.body.len().to_string());
}

async fn a_stale_connection_is_tried_anew(side: Side) {
    let world = build(|_| {}).await;
    fetch(&world, side, "/len/1").await;
    let origin = world.shared.config.load().origin.servers[0].counters.clone();
    for _ in 0..3 {
        // The server closes after this answer, at the moment when it is about to be used again.
        fetch(&world, side, "/close/5").await;
        assert_eq!(fetch(&world, side, "/len/1").await.status, 200);
    }
    assert!(origin.connects.total() >= 4);
}

async fn a_silent_origin_gives_504(side: Side) {
    let world = build(|policy| policy.timeouts.response_head = Duration::from_millis(300)).await;
    assert_eq!(fetch(&world, side, "/wait").await.status, 504);
    world.until_load(0, 0).await;
    assert_eq!(world.finished(End::Failed), 1);
}

/// Streamed to the origin, or gathered before: the client's faults are the client's.
async fn faults_of_an_upload_are_answered_and_counted(side: Side) {
    for request_max in [0, 64 * KIB] {
        let world = build(|policy| {
            policy.timeouts.request_body = Duration::from_millis(300);
            policy.limits.request_body_max = 20_000;
            policy.buffering.request_max = request_max;
        })
        .await;
        for (len, status) in [(1000, 408), (30_000, 413)] {
            let counted = || world.shared.counters.sums(|it| &it.bad_requests).iter().sum::<u64>();
            let before = counted();
            let client = Client::connect(&world, side).await;
            let mut exchange = client.begin(post("/sum", None), true).await;
            exchange.send(made_up(len));
            assert_eq!(exchange.head().await.unwrap().status().as_u16(), status);
            assert_eq!(counted(), before + 1, "{status}, {request_max} bytes gathered");
        }
        world.until_load(0, 0).await;
        assert_eq!(world.finished(End::Failed), 0, "the origin has not failed");
    }
}

async fn received_bytes_are_what_the_client_sent(side: Side) {
    let world = build(|policy| policy.forwarding.via = true).await;
    for request_max in [64 * KIB, 0] {
        let mut config = world.shared.config.load().policy.clone();
        config.buffering.request_max = request_max;
        let former = world.shared.config.load_full();
        let next = former.generation + 1;
        let counters = world.shared.counters.clone();
        world.shared.reconfigure(tiergate::shared::Config::new(
            config,
            next,
            Some(&former),
            &counters,
        ));
        let before = world.shared.counters.sum(|it| &it.received_bytes);
        let client = Client::connect(&world, side).await;
        let mut exchange = client.begin(post("/sum", Some(1000)), true).await;
        exchange.send(made_up(400));
        tokio::time::sleep(Duration::from_millis(50)).await;
        exchange.send(made_up(600));
        exchange.finish();
        assert_eq!(exchange.answer().await.unwrap().status, 200);
        eventually("it is counted", || world.shared.counters.sum(|it| &it.received_bytes) > before)
            .await;
        let received = world.shared.counters.sum(|it| &it.received_bytes) - before;
        // Without what the origin is told of the client, which is longer than all of this.
        let head = b"POST /sum HTTP/1.1\r\nhost: gate.test\r\ncontent-length: 1000\r\n\r\n".len();
        assert_eq!(received as usize, head + 1000);
    }
}

async fn a_client_that_leaves_while_it_waits_leaves_the_backlog(side: Side) {
    let world = narrow(|_| {}).await;
    let first = Client::connect(&world, side).await.begin(get("/wait"), false).await;
    world.until_load(0, 1).await;
    let waiting = Client::connect(&world, side).await.begin(get("/len/1"), false).await;
    world.until_load(1, 1).await;
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
        policy.plan.classes[0].queue_len_max = 0;
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
        let Answer { status, fields, body } = client.fetch(request).await.unwrap();
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
    let counted: u64 = world.shared.counters.sums(|it| &it.requests).iter().sum();
    assert_eq!(counted, 3);
}

async fn a_client_is_told_what_it_has_left(side: Side) {
    let world = build(|policy| {
        policy.plan.policers = vec![Settings {
            name: "each".to_owned(),
            rate: Rate::of_thousandths(1000, 3600),
            burst: 2,
            per: Per::Flow { flows_max: 100 },
            shares: Vec::new(),
            announce: true,
        }];
        policy.plan.classes[0].policer = Some(PolicerId(0));
        policy.refusal.reason_header = Some("X-Reason".into());
    })
    .await;
    let answer = fetch(&world, side, "/len/1").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.fields["ratelimit-policy"], "\"each\";q=2;w=7200");
    assert_eq!(answer.fields["ratelimit"], "\"each\";r=1;t=3600");
    fetch(&world, side, "/len/1").await;
    let mut told = BTreeSet::new();
    for _ in 0..40 {
        let Answer { status, fields, .. } = fetch(&world, side, "/len/1").await;
        assert_eq!(status, 429);
        assert_eq!(fields["x-reason"], "policed");
        assert!(fields["ratelimit"].to_str().unwrap().starts_with("\"each\";r=0;t=3"));
        told.insert(fields["retry-after"].to_str().unwrap().parse::<u64>().unwrap());
    }
    assert!(told.len() > 3 && told.iter().all(|it| (30..=45).contains(it)), "{told:?}");
}

async fn a_preempted_request_is_told_so(side: Side) {
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
    eventually("they are read", || buffered(&world) >= 30 * 50 * KIB).await;
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
    assert_eq!(buffered(&world), 0);
}

async fn longer_uploads_ask_for_their_slot_when_the_buffer_is_full(side: Side) {
    let world = narrow(|policy| policy.buffering.request_max = 20 * KIB).await;
    let body = Bytes::from(made_up(1000 * KIB));
    for length in [None, Some(body.len())] {
        let client = Client::connect(&world, side).await;
        let mut exchange = client.begin(post("/echo", length), true).await;
        exchange.send(body.slice(..10 * KIB));
        eventually("it is read", || buffered(&world) > 0).await;
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
        assert_eq!(buffered(&world), 0);
    }
}

async fn a_client_that_leaves_while_its_body_is_read_costs_the_origin_nothing(side: Side) {
    let world = narrow(|_| {}).await;
    for length in [None, Some(60 * KIB)] {
        let client = Client::connect(&world, side).await;
        let exchange = client.begin(post("/echo", length), true).await;
        exchange.send(made_up(30 * KIB));
        eventually("it is read", || buffered(&world) > 0).await;
        drop(exchange);
        eventually("all is given back", || buffered(&world) == 0).await;
    }
    assert_eq!((world.requests(), world.load()), (0, (0, 0)));
    eventually("both are counted", || {
        world.shared.counters.sums(|it| &it.requests).iter().sum::<u64>() == 2
    })
    .await;
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
    eventually("all is given back", || buffered(&world) == 0).await;
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
        policy.plan.slots = Slots::Fixed(100);
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
    assert!(buffered(&world) <= 100 * KIB, "{}", buffered(&world));
    for mut exchange in slow {
        exchange.send(body.slice(20 * KIB..));
        exchange.finish();
        let answer = exchange.answer().await.unwrap();
        assert!(answer.body == body, "the body arrived as it was sent");
    }
    world.until_load(0, 0).await;
    assert_eq!(buffered(&world), 0);
}

async fn fifty_streams_of_events_hold_no_slot(side: Side) {
    let world = build(|policy| policy.plan.slots = Slots::Fixed(4)).await;
    let mut open = Vec::new();
    for _ in 0..50 {
        let client = Client::connect(&world, side).await;
        let mut exchange = client.begin(get("/events/10"), false).await;
        let answer = exchange.head().await.unwrap();
        open.push((exchange, answer));
    }
    assert_eq!(fetch(&world, side, "/len/5").await.body, made_up(5));
    world.until_load(0, 0).await;
    let streams = |world: &World| {
        let gate = world.shared.door.gate();
        gate.states().next().expect("there is one class").streams
    };
    assert_eq!(streams(&world), 50);
    drop(open);
    eventually("all have ended", || streams(&world) == 0).await;
}
