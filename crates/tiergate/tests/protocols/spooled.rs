//! Long bodies in files: a slow upload holds no slot, and whatever is lacking or fails, every byte arrives.

use crate::origin::made_up;
use crate::side::{Client, Side, fetch, post};
use crate::support::PATIENCE;
use crate::support::origin::{Origin, ok};
use crate::world::{World, eventually, get, narrow, replan, server};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use std::net::SocketAddr;
use std::time::Duration;
use tempfile::TempDir;
use tiergate::config::meant::{Policy, Spooling};
use tiergate::observe::counters::SpoolFault;
use tiergate_core::outcome::End;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

over_both! {
    a_slow_upload_holds_no_slot_and_no_memory
    trailers_come_behind_what_was_spooled
    without_a_directory_it_holds_its_slot
    of_a_longer_body_the_rest_is_streamed
    nothing_is_lost_when_there_are_enough_bytes_in_files
    nothing_is_lost_without_memory_or_files
    a_directory_that_is_gone_costs_a_slot_and_nothing_else
    a_client_that_leaves_while_its_body_is_spooled_gives_all_back
    a_client_that_leaves_while_its_file_is_sent_gives_all_back
    an_origin_that_answers_early_is_heard
    an_origin_that_closes_early_is_a_bad_gateway
    bodies_that_stall_or_are_too_long_never_come_to_the_gate
    a_client_that_waits_for_100_gets_it_from_who_reads_the_body
    what_is_refused_after_it_was_spooled_leaves_the_connection_in_order
    a_body_is_spooled_that_waits_for_its_slot
}

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// One slot, and a directory for spooled bodies.
async fn spooling(change: impl FnOnce(&mut Policy)) -> (World, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let world = narrow(|policy| {
        policy.spooling = Some(spooling_in(&folder, 64 * MIB as u64));
        change(policy);
    })
    .await;
    (world, folder)
}

fn spooling_in(folder: &TempDir, request_max: u64) -> Spooling {
    let directory = tiergate::secrets::NamedFile {
        path: folder.path().to_owned(),
        key: "forwarding.spool_directory".into(),
        at: 0,
    };
    Spooling { directory, request_max }
}

fn shrink(policy: &mut Policy, request_max: usize) {
    policy.spooling.as_mut().expect("it is on").request_max = request_max as u64;
}

impl World {
    fn spooled(&self) -> usize {
        self.shared.counters.spool.bytes.used()
    }

    fn spool_faults(&self, fault: SpoolFault) -> u64 {
        self.shared.counters.spool.faults[fault as usize].total()
    }

    async fn until_nothing_is_held(&self) {
        self.until_all_is_given_back().await;
        let spool = &self.shared.counters.spool;
        eventually("all files are closed", || spool.bytes.used() + spool.files.used() == 0).await;
    }
}

/// How the length of a body is said, if it is.
fn lengths(body: &Bytes) -> [Option<usize>; 2] {
    [None, Some(body.len())]
}

async fn a_slow_upload_holds_no_slot_and_no_memory(side: Side) {
    let (world, folder) = spooling(|_| {}).await;
    let body = Bytes::from(made_up(5 * MIB));
    let mut asked = 0;
    for length in lengths(&body) {
        let client = Client::connect(&world, side).await;
        let mut exchange = client.begin(post("/echo", length), true).await;
        exchange.send(body.slice(..MIB));
        eventually("it is in the file", || world.spooled() >= MIB).await;
        // Over HTTP/2 its head counts.
        eventually("no memory is held", || world.buffered() < KIB).await;
        assert_eq!(world.load(), (0, 0), "it has not asked for its slot");
        for _ in 0..20 {
            assert_eq!(fetch(&world, side, "/len/10").await.body, made_up(10));
        }
        asked += 20;
        assert_eq!(world.requests(), asked, "the slow one has not come to the origin");
        assert_eq!(folder.path().read_dir().expect("it is there").count(), 0, "without a name");
        for from in (MIB..5 * MIB).step_by(99_999) {
            exchange.send(body.slice(from..(from + 99_999).min(5 * MIB)));
        }
        exchange.finish();
        let answer = exchange.answer().await.unwrap();
        assert!(answer.body == body, "the body arrived as it was sent");
        asked += 1;
        world.until_nothing_is_held().await;
    }
    assert!(SpoolFault::ALL.iter().all(|&fault| world.spool_faults(fault) == 0));
}

/// An origin that answers with the trailers that it got, and 500 if the body is not what it should be.
fn checking(len: usize) -> Origin {
    Origin::answering(move |request| {
        if request.body != made_up(len) {
            return b"HTTP/1.1 500 Not The Same\r\nContent-Length: 0\r\n\r\n".to_vec();
        }
        let trailers = request.trailers.iter().map(|(name, value)| format!("{name}={value}"));
        ok(trailers.collect::<String>().to_lowercase())
    })
}

fn at_origin(policy: &mut Policy, address: SocketAddr) {
    policy.origin.servers = vec![server(address)];
}

async fn trailers_come_behind_what_was_spooled(side: Side) {
    let origin = checking(2 * MIB);
    // Whole in the file; and only a part.
    for request_max in [64 * MIB, MIB] {
        let (world, _folder) = spooling(|policy| {
            at_origin(policy, origin.address);
            shrink(policy, request_max);
        })
        .await;
        let mut request = post("/", None);
        request.headers_mut().insert("trailer", HeaderValue::from_static("x-sum"));
        let mut exchange = Client::connect(&world, side).await.begin(request, true).await;
        exchange.send(made_up(2 * MIB));
        exchange.finish_with(HeaderMap::from_iter([(
            "x-sum".parse().unwrap(),
            HeaderValue::from_static("17"),
        )]));
        let answer = exchange.answer().await.unwrap();
        assert_eq!((answer.status, &*answer.text()), (200, "x-sum=17"));
        world.until_nothing_is_held().await;
    }
}

async fn without_a_directory_it_holds_its_slot(side: Side) {
    let world = narrow(|_| {}).await;
    let mut exchange =
        Client::connect(&world, side).await.begin(post("/echo", Some(2 * MIB)), true).await;
    exchange.send(made_up(MIB));
    world.until_load(0, 1).await;
    exchange.send(made_up(2 * MIB).split_off(MIB));
    exchange.finish();
    assert!(exchange.answer().await.unwrap().body == made_up(2 * MIB));
}

async fn of_a_longer_body_the_rest_is_streamed(side: Side) {
    // Shorter than what is gathered, no multiple of a buffer, and longer than the body behind it.
    for (gathered, spooled) in [(64 * KIB, 10_000), (0, 300_001), (20 * KIB, 2 * MIB)] {
        let (world, _folder) = spooling(|policy| {
            policy.buffering.request_max = gathered;
            shrink(policy, spooled);
        })
        .await;
        let body = Bytes::from(made_up(4 * MIB));
        for length in lengths(&body) {
            let client = Client::connect(&world, side).await;
            let mut exchange = client.begin(post("/echo", length), true).await;
            exchange.send(body.slice(..spooled / 2));
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert_eq!(world.load(), (0, 0));
            exchange.send(body.slice(spooled / 2..3 * MIB));
            world.until_load(0, 1).await;
            exchange.send(body.slice(3 * MIB..));
            exchange.finish();
            let answer = exchange.answer().await.unwrap();
            assert!(answer.body == body, "{gathered}, {spooled}: as it was sent");
            world.until_nothing_is_held().await;
        }
        assert!(SpoolFault::ALL.iter().all(|&fault| world.spool_faults(fault) == 0));
    }
}

/// Several at once, of which not all find what they need.
async fn upload_several(world: &World, side: Side) {
    let body = Bytes::from(made_up(3 * MIB));
    let mut uploads = Vec::new();
    for turn in 0..4 {
        let client = Client::connect(world, side).await;
        let length = lengths(&body)[turn % 2];
        let exchange = client.begin(post("/echo", length), true).await;
        exchange.send(body.slice(..MIB));
        uploads.push(exchange);
    }
    world.until_load_is(|(waiting, running)| waiting + running >= 2).await;
    for exchange in &mut uploads {
        exchange.send(body.slice(MIB..));
        exchange.finish();
    }
    let answers = uploads.into_iter().map(|exchange| tokio::spawn(exchange.answer()));
    for answer in answers.collect::<Vec<_>>() {
        let answer = answer.await.unwrap().unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(answer.body == body, "the body arrived as it was sent");
    }
    world.until_nothing_is_held().await;
}

impl World {
    async fn until_load_is(&self, holds: impl Fn((u32, u32)) -> bool) {
        eventually("so many ask for a slot", || holds(self.load())).await;
    }
}

async fn nothing_is_lost_when_there_are_enough_bytes_in_files(side: Side) {
    for spool_max in [0, 70 * KIB, 1500 * KIB] {
        let (world, _folder) = spooling(|policy| policy.limits.spool_max = spool_max).await;
        upload_several(&world, side).await;
        assert!(world.spool_faults(SpoolFault::Bytes) >= 2);
    }
}

async fn nothing_is_lost_without_memory_or_files(side: Side) {
    // Over HTTP/2 what is gathered first is memory, too.
    let (world, _folder) = spooling(|policy| policy.limits.buffers_max = 10 * KIB).await;
    upload_several(&world, side).await;
    assert!(world.spool_faults(SpoolFault::Memory) >= 4);
    let (world, _folder) = spooling(|policy| policy.limits.connections_max = 1).await;
    upload_several(&world, side).await;
    assert!(world.spool_faults(SpoolFault::Files) >= 3);
}

async fn a_directory_that_is_gone_costs_a_slot_and_nothing_else(side: Side) {
    let (world, folder) = spooling(|_| {}).await;
    folder.close().expect("it is empty");
    upload_several(&world, side).await;
    assert_eq!(world.spool_faults(SpoolFault::Write), 4);
}

async fn a_client_that_leaves_while_its_body_is_spooled_gives_all_back(side: Side) {
    let (world, _folder) = spooling(|_| {}).await;
    for length in [None, Some(5 * MIB)] {
        let client = Client::connect(&world, side).await;
        let exchange = client.begin(post("/echo", length), true).await;
        exchange.send(made_up(MIB));
        eventually("it is in the file", || world.spooled() >= MIB).await;
        drop(exchange);
        world.until_nothing_is_held().await;
    }
    assert_eq!(world.requests(), 0);
    eventually("both are counted", || world.read() == 2).await;
}

/// An origin that takes nothing of any body.
fn deaf() -> Origin {
    Origin::start(|mut connection| {
        let _ = connection.head();
        std::thread::sleep(PATIENCE);
    })
}

async fn a_client_that_leaves_while_its_file_is_sent_gives_all_back(side: Side) {
    let origin = deaf();
    // Behind more than its socket takes, the end of a client is not seen.
    for request_max in [20 * MIB, 20 * MIB - 4 * KIB] {
        let (world, _folder) = spooling(|policy| {
            at_origin(policy, origin.address);
            shrink(policy, request_max);
        })
        .await;
        let mut exchange =
            Client::connect(&world, side).await.begin(post("/", Some(20 * MIB)), true).await;
        exchange.send(made_up(20 * MIB));
        exchange.finish();
        world.until_load(0, 1).await;
        assert_eq!(world.spooled(), request_max);
        // At once it might only have ended its side, to wait for the answer.
        tokio::time::sleep(Duration::from_millis(100)).await;
        drop(exchange);
        eventually("it is noticed", || world.finished(End::Cancelled) == 1).await;
        world.until_nothing_is_held().await;
    }
}

async fn an_origin_that_answers_early_is_heard(side: Side) {
    let origin = Origin::start(|mut connection| {
        if connection.head().is_some() {
            connection.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
        }
        std::thread::sleep(PATIENCE);
    });
    let (world, _folder) = spooling(|policy| at_origin(policy, origin.address)).await;
    for length in [None, Some(20 * MIB)] {
        let client = Client::connect(&world, side).await;
        let mut exchange = client.begin(post("/", length), true).await;
        exchange.send(made_up(20 * MIB));
        exchange.finish();
        assert_eq!(exchange.head().await.unwrap().status(), 403);
        drop(exchange);
        world.until_nothing_is_held().await;
    }
}

async fn an_origin_that_closes_early_is_a_bad_gateway(side: Side) {
    let origin = Origin::start(|mut connection| {
        let _ = connection.head();
        connection.reset();
    });
    let (world, _folder) = spooling(|policy| at_origin(policy, origin.address)).await;
    let mut exchange =
        Client::connect(&world, side).await.begin(post("/", Some(20 * MIB)), true).await;
    exchange.send(made_up(20 * MIB));
    exchange.finish();
    assert_eq!(exchange.head().await.unwrap().status(), 502);
    world.until_nothing_is_held().await;
}

async fn bodies_that_stall_or_are_too_long_never_come_to_the_gate(side: Side) {
    let (world, _folder) = spooling(|policy| {
        policy.timeouts.request_body = Duration::from_millis(300);
        policy.limits.request_body_max = MIB as u64;
    })
    .await;
    for (len, status) in [(200 * KIB, 408), (2 * MIB, 413)] {
        let client = Client::connect(&world, side).await;
        let mut exchange = client.begin(post("/echo", None), true).await;
        exchange.send(made_up(len));
        assert_eq!(exchange.head().await.unwrap().status().as_u16(), status);
    }
    world.until_nothing_is_held().await;
    assert_eq!(world.requests(), 0);
}

async fn a_client_that_waits_for_100_gets_it_from_who_reads_the_body(side: Side) {
    let origin = Origin::start(|mut connection| {
        while let Some(head) = connection.head() {
            match head.values("expect").is_empty() {
                true => connection.send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"),
                false => connection.send("HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n"),
            }
        }
    });
    let (world, _folder) = spooling(|policy| {
        at_origin(policy, origin.address);
        shrink(policy, MIB);
    })
    .await;
    let begin = async |len: usize| {
        let mut request = post("/", Some(len));
        request.headers_mut().insert("expect", HeaderValue::from_static("100-continue"));
        Client::connect(&world, side).await.begin(request, true).await
    };
    // Of one that is not spooled whole, it is told once it has its slot.
    for (len, running) in [(MIB, 0), (MIB + 1, 1)] {
        let mut exchange = begin(len).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(world.load(), (0, running), "{len} bytes are awaited");
        exchange.send(made_up(len));
        exchange.finish();
        assert_eq!(exchange.head().await.unwrap().status(), 200);
        drop(exchange);
        // There is one slot.
        world.until_load(0, 0).await;
    }
}

async fn what_is_refused_after_it_was_spooled_leaves_the_connection_in_order(side: Side) {
    let (world, _folder) = spooling(|policy| {
        policy.buffering.request_max = 0;
        replan(policy, |plan| plan.classes[0].deadline = Duration::from_millis(300));
    })
    .await;
    let busy = Client::connect(&world, side).await.begin(get("/wait"), false).await;
    world.until_load(0, 1).await;
    for len in [10 * KIB, MIB] {
        let client = Client::connect(&world, side).await;
        let mut exchange = client.begin(post("/echo", Some(len)), true).await;
        exchange.send(made_up(len));
        exchange.finish();
        let refused = exchange.head().await.unwrap();
        assert_eq!(refused.status(), 503);
        assert!(!refused.headers().contains_key("connection"), "it is kept");
        crate::side::read(refused).await.unwrap();
        let again = exchange.client.fetch(get("/len/10")).await.unwrap();
        assert_eq!(again.status, 503, "the body was not taken for a request");
    }
    world.seen.go_on.notify_one();
    assert_eq!(busy.answer().await.unwrap().text(), "waited");
    world.until_nothing_is_held().await;
}

async fn a_body_is_spooled_that_waits_for_its_slot(side: Side) {
    let (world, _folder) = spooling(|policy| shrink(policy, MIB)).await;
    let busy = Client::connect(&world, side).await.begin(get("/wait"), false).await;
    world.until_load(0, 1).await;
    // One whole in its file, one not, and one of each that leaves while it waits.
    let mut waiting = Vec::new();
    // What is not read fits into the window: the end of the client's side would stay behind more.
    let longer = MIB + 2 * KIB;
    for (turn, len) in [MIB / 2, longer, MIB / 2, longer].into_iter().enumerate() {
        let client = Client::connect(&world, side).await;
        let mut exchange = client.begin(post("/echo", Some(len)), true).await;
        exchange.send(made_up(len));
        exchange.finish();
        world.until_load(turn as u32 + 1, 1).await;
        waiting.push((len, exchange));
    }
    // A client that ends its side as soon as it has sent all is taken to wait for its answer.
    tokio::time::sleep(Duration::from_millis(50)).await;
    waiting.truncate(2);
    world.until_load(2, 1).await;
    world.seen.go_on.notify_one();
    assert_eq!(busy.answer().await.unwrap().text(), "waited");
    for (len, exchange) in waiting {
        assert!(exchange.answer().await.unwrap().body == made_up(len));
    }
    world.until_nothing_is_held().await;
}

/// Chunks as they come, in whatever pieces, and a request behind them.
#[tokio::test]
async fn chunks_are_spooled_up_to_the_next_request() {
    let origin = checking(MIB);
    let (world, _folder) = spooling(|policy| at_origin(policy, origin.address)).await;
    let mut wire = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for chunk in made_up(MIB).chunks(7_777) {
        wire.extend_from_slice(format!("{:X};name=value\r\n", chunk.len()).as_bytes());
        wire.extend_from_slice(chunk);
        wire.extend_from_slice(b"\r\n");
    }
    wire.extend_from_slice(b"0\r\nX-Sum: 9\r\n\r\n");
    wire.extend_from_slice(b"GET /next HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let mut client = TcpStream::connect(world.address_of(Side::Http1)).await.unwrap();
    for piece in wire.chunks(50_021) {
        client.write_all(piece).await.unwrap();
        client.flush().await.unwrap();
    }
    let mut answers = String::new();
    client.read_to_string(&mut answers).await.unwrap();
    assert_eq!(answers.matches("HTTP/1.1 ").count(), 2, "{answers}");
    assert!(answers.starts_with("HTTP/1.1 200") && answers.contains("x-sum=9"), "{answers}");
    // The next one has no body, which is not what the origin expects.
    assert!(answers.contains("HTTP/1.1 500 Not The Same"), "{answers}");
    world.until_nothing_is_held().await;
}

/// It comes while the first waits for its slot.
#[tokio::test]
async fn the_next_request_is_kept_behind_one_that_is_spooled() {
    let (world, _folder) = spooling(|_| {}).await;
    let busy = Client::connect(&world, Side::Http1).await.begin(get("/wait"), false).await;
    world.until_load(0, 1).await;
    let mut client = TcpStream::connect(world.address_of(Side::Http1)).await.unwrap();
    let head = format!("POST /sum HTTP/1.1\r\nHost: x\r\nContent-Length: {MIB}\r\n\r\n");
    client.write_all(head.as_bytes()).await.unwrap();
    client.write_all(&made_up(MIB)).await.unwrap();
    world.until_load(1, 1).await;
    let next = b"GET /head HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    client.write_all(next).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    world.seen.go_on.notify_one();
    assert_eq!(busy.answer().await.unwrap().text(), "waited");
    let mut answers = String::new();
    client.read_to_string(&mut answers).await.unwrap();
    assert!(answers.contains("1048576 ") && answers.contains("GET /head"), "{answers}");
    world.until_nothing_is_held().await;
}

#[tokio::test]
async fn malformed_chunks_are_refused_while_they_are_spooled() {
    let (world, _folder) = spooling(|_| {}).await;
    let mut client = TcpStream::connect(world.address_of(Side::Http1)).await.unwrap();
    let head = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n30000\r\n";
    client.write_all(head.as_bytes()).await.unwrap();
    client.write_all(&made_up(0x30000)).await.unwrap();
    eventually("it is in the file", || world.spooled() >= 0x20000).await;
    client.write_all(b"no end of a chunk").await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    world.until_nothing_is_held().await;
    assert_eq!(world.requests(), 0);
}

/// An end that comes by itself, of a body that is said to be empty.
#[tokio::test]
async fn a_body_of_no_bytes_is_not_spooled() {
    for gathered in [0, 64 * KIB] {
        let (world, _folder) = spooling(|policy| policy.buffering.request_max = gathered).await;
        let mut client = world.client().await;
        let request = post("/sum", Some(0));
        let (answer, mut sending) = client.send_request(request, false).unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        // The request may have been answered without.
        let _ = sending.send_data(Bytes::new(), true);
        assert_eq!(answer.await.unwrap().status(), 200);
        assert_eq!(world.shared.counters.spool.requests.total(), 0);
        world.until_nothing_is_held().await;
    }
}
