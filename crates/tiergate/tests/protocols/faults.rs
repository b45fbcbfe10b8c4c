//! What an origin can do wrong, what a body can, and clients that leave: answers in time, nothing held.

use crate::origin::made_up;
use crate::side::{Client, Side, fetch, post, read};
use crate::support::origin::Origin;
use crate::world::{World, build, eventually, get, server};
use http::HeaderValue;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tiergate::config::meant::{Policy, Server};
use tiergate_core::names::PoolId;
use tiergate_core::origin::OnCancel;
use tiergate_core::origin::retries::Allowance;
use tiergate_core::outcome::End;
use tokio::net::TcpSocket;

over_both! {
    a_truncated_answer_is_never_taken_for_whole
    an_answer_that_is_malformed_from_its_first_byte_gives_502
    an_origin_that_is_not_there_gives_502
    requests_wait_for_a_server_that_restarts
    a_stale_connection_is_tried_anew
    a_server_that_answers_errors_at_once_gets_few_requests
    a_silent_origin_gives_504
    faults_of_an_upload_are_answered_and_counted
    an_origin_that_does_not_accept_gives_504
    an_origin_that_resets_gives_502_and_the_only_one_stays
    half_an_answer_is_seen_to_be_half_an_answer
    an_answer_before_the_body_is_passed_on
    a_post_on_a_stale_connection_is_not_repeated
    a_client_that_leaves_in_service_frees_the_slot_and_the_origin
}

const KIB: usize = 1024;

/// A gateway before this origin.
async fn before(origin: SocketAddr, change: impl FnOnce(&mut Policy)) -> World {
    build(|policy| {
        change(policy);
        policy.origin.servers = vec![server(origin)];
    })
    .await
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
    let (socket, address) = nobody_listens();
    recite(socket, answer);
    server(address)
}

/// A port that refuses connections for as long as its socket does not listen, and that nobody else gets.
fn nobody_listens() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

fn recite(socket: TcpSocket, answer: &'static [u8]) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = socket.listen(1024).unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut bytes = [0; 4096];
            let _ = stream.read(&mut bytes).await;
            let _ = stream.write_all(answer).await;
        }
    });
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
    let (_held, address) = nobody_listens();
    let longest = Duration::from_millis(200);
    let world = before(address, |policy| policy.origin.restart_max = longest).await;
    let begun = Instant::now();
    let answer = fetch(&world, side, "/len/1").await;
    assert_eq!(answer.status, 502);
    assert_eq!(answer.fields["content-length"], answer.body.len().to_string());
    assert!(begun.elapsed() >= longest, "it may have been a restart");
    // Each waits, until it has lasted for too long. It was no restart: requests are told at once.
    let told = loop {
        let answer = fetch(&world, side, "/len/1").await;
        match answer.status {
            502 => assert!(begun.elapsed() < Duration::from_secs(10), "they wait for ever"),
            _ => break answer,
        }
    };
    assert_eq!(told.status, 503);
    assert!(begun.elapsed() >= 5 * longest);
    let origin = world.shared.config.load().pools.of(PoolId::DEFAULT).servers[0].clone();
    assert!((2..40).contains(&origin.counters.failures.total()), "it is not tried all the time");
}

async fn requests_wait_for_a_server_that_restarts(side: Side) {
    let (socket, address) = nobody_listens();
    let world = before(address, |policy| policy.origin.restart_max = Duration::from_secs(20)).await;
    let back = async {
        tokio::time::sleep(Duration::from_millis(600)).await;
        recite(socket, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    };
    let asked = || fetch(&world, side, "/x");
    let (_, first, second, third, fourth) = tokio::join!(back, asked(), asked(), asked(), asked());
    for answer in [first, second, third, fourth] {
        assert_eq!((answer.status, &answer.body[..]), (200, &b"ok"[..]));
    }
    world.until_load(0, 0).await;
    assert_eq!(world.finished(End::Served), 4);
}

async fn a_stale_connection_is_tried_anew(side: Side) {
    let world = build(|_| {}).await;
    fetch(&world, side, "/len/1").await;
    let origin = world.shared.config.load().pools.of(PoolId::DEFAULT).servers[0].clone();
    for _ in 0..3 {
        // The server closes after this answer, at the moment when it is about to be used again.
        fetch(&world, side, "/close/5").await;
        assert_eq!(fetch(&world, side, "/len/1").await.status, 200);
    }
    assert!(origin.counters.connects.total() >= 4);
}

async fn a_server_that_answers_errors_at_once_gets_few_requests(side: Side) {
    let broken = reciting(b"HTTP/1.1 500 Broken\r\ncontent-length: 0\r\n\r\n").await;
    let world = build(|policy| policy.origin.servers.push(broken)).await;
    let mut erred = 0;
    for _ in 0..200 {
        erred += u32::from(fetch(&world, side, "/len/1").await.status == 500);
    }
    // Every second one, but for the tries, until the other server has answered so many that it is no chance.
    assert!((1..20).contains(&erred), "{erred} of 200");
}

async fn a_silent_origin_gives_504(side: Side) {
    let world = build(|policy| policy.timeouts.response_head = Duration::from_millis(300)).await;
    assert_eq!(fetch(&world, side, "/wait").await.status, 504);
    world.until_load(0, 0).await;
    assert_eq!(world.finished(End::TimedOut), 1);
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

/// A listen queue that is full: connecting takes longer than it may.
async fn an_origin_that_does_not_accept_gives_504(side: Side) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let _ = socket2::SockRef::from(&listener).listen(1);
    let address = listener.local_addr().unwrap();
    let mut held = Vec::new();
    let longest = Duration::from_millis(100);
    while let Ok(stream) = std::net::TcpStream::connect_timeout(&address, longest) {
        held.push(stream);
        assert!(held.len() < 100, "a queue of one fills up");
    }
    let world = before(address, |policy| policy.timeouts.connect = 3 * longest).await;
    assert_eq!(fetch(&world, side, "/x").await.status, 504);
    world.until_load(0, 0).await;
}

async fn an_origin_that_resets_gives_502_and_the_only_one_stays(side: Side) {
    let origin = Origin::start(|mut connection| {
        connection.request();
        connection.reset();
    });
    let text = "[origin]\nservers = [\"a:1\"]\nslots = 4\nretry_after = \"200ms\"\n";
    let policy = tiergate::config::parse(text, "p.toml").unwrap();
    let world = before(origin.address, |before| {
        let servers = std::mem::replace(before, policy).origin.servers;
        drop(servers);
    })
    .await;
    for _ in 0..10 {
        assert_eq!(fetch(&world, side, "/x").await.status, 502, "its requests may be the cause");
    }
    world.until_load(0, 0).await;
}

async fn half_an_answer_is_seen_to_be_half_an_answer(side: Side) {
    const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    const LENGTH: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n";
    // Only the connection's end ends the last, so a reset must stay a reset.
    let halves: [(&str, &[u8], &[u8]); 5] = [
        ("/length", LENGTH, b"half"),
        ("/chunked", CHUNKED, b"4\r\nhalf\r\n"),
        ("/malformed", CHUNKED, b"zz\r\nhalf\r\n"),
        ("/stall", LENGTH, b"half"),
        ("/reset", b"HTTP/1.1 200 OK\r\n\r\n", b"half"),
    ];
    let origin = Origin::start(move |mut connection| {
        while let Some(request) = connection.request() {
            let Some((path, head, half)) = halves.iter().find(|it| it.0 == request.target) else {
                connection.ok("whole");
                continue;
            };
            connection.send(head);
            std::thread::sleep(Duration::from_millis(100));
            connection.send(half);
            match *path {
                // Goes on for ever with its second half.
                "/stall" => while connection.more() {},
                "/reset" => {
                    std::thread::sleep(Duration::from_millis(100));
                    return connection.reset();
                }
                _ => return,
            }
        }
    });
    let world = before(origin.address, |policy| {
        policy.timeouts.response_body = Duration::from_millis(500);
    })
    .await;
    for (turn, (path, ..)) in halves.iter().enumerate() {
        let mut exchange = Client::connect(&world, side).await.begin(get(path), false).await;
        let answer = exchange.head().await.expect("the head is whole");
        assert_eq!(answer.status(), 200);
        let ended = read(answer).await;
        assert!(ended.is_err(), "{path} looks whole: {ended:?}");
        // An origin that failed too often is left out for a while.
        world.until_load(0, 0).await;
        assert_eq!(fetch(&world, side, "/whole").await.body, b"whole");
        world.until_load(0, 0).await;
        let counts = (world.finished(End::Failed), world.finished(End::Served));
        assert_eq!(counts, (turn as u64 + 1, turn as u64 + 1), "{path}");
    }
}

/// The client of such an answer must not go on to send the body.
async fn an_answer_before_the_body_is_passed_on(side: Side) {
    let origin = Origin::start(|mut connection| {
        while let Some(request) = connection.head() {
            if request.target == "/early" {
                connection.send("HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno");
                std::thread::sleep(Duration::from_millis(300));
                return;
            }
            connection.ok("good");
        }
    });
    // With the body in front, the origin would not see the request before that.
    let world = before(origin.address, |policy| policy.buffering.request_max = 0).await;
    for expects in [false, true] {
        let mut request = post("/early", Some(100_000));
        if expects {
            request.headers_mut().insert("expect", HeaderValue::from_static("100-continue"));
        }
        let mut exchange = Client::connect(&world, side).await.begin(request, true).await;
        let answer = read(exchange.head().await.unwrap()).await.unwrap();
        assert_eq!((answer.status, &*answer.body), (401, &b"no"[..]));
        match side {
            // What follows could be the body's rest (RFC 9112 §9.6).
            Side::Http1 => assert_eq!(answer.fields["connection"], "close"),
            Side::Http2 => {
                let answer = exchange.client.fetch(get("/after")).await.unwrap();
                assert_eq!(answer.body, b"good", "only the stream has ended");
            }
        }
    }
    assert_eq!(fetch(&world, side, "/after").await.body, b"good");
    world.until_load(0, 0).await;
}

async fn a_post_on_a_stale_connection_is_not_repeated(side: Side) {
    // Reads a request on a connection that has answered one already, and closes: a stale connection
    // as the gateway sees it, but never noticed beforehand.
    let origin = Origin::start(|mut connection| {
        if let Some(request) = connection.request() {
            connection.ok(&request.target);
        }
        connection.request();
    });
    // Not even where retries are not allowed is that an error: it is no retry.
    let none = Allowance { share: 0.0, floor: 0 };
    let world = before(origin.address, |policy| policy.origin.retries = none).await;
    for turn in 0..10 {
        let path = format!("/{turn}");
        assert_eq!(fetch(&world, side, &path).await.text(), path);
    }
    let origin_server = world.shared.config.load().pools.of(PoolId::DEFAULT).servers[0].clone();
    assert_eq!(origin_server.counters.retries.total(), 9, "each but the first met a stale one");
    let mut exchange =
        Client::connect(&world, side).await.begin(post("/once", Some(1)), true).await;
    exchange.send("x");
    exchange.finish();
    assert_eq!(exchange.answer().await.unwrap().status, 502);
    let posts = origin.requests().0.iter().filter(|request| request.method == "POST").count();
    assert_eq!(posts, 1);
}

/// In each phase of a request the client's leaving frees the slot and the origin's connection.
async fn a_client_that_leaves_in_service_frees_the_slot_and_the_origin(side: Side) {
    let origin = Origin::start(|mut connection| {
        let Some(request) = connection.head() else { return };
        // Never answers; or an answer that stops half way: an event stream between two events.
        if !request.target.ends_with("head") {
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            connection.send(format!("{head}4\r\nhalf\r\n"));
        }
        while connection.more() {}
    });
    // Whether the origin sees the beginning of a body, or the gateway reads it before: whole, or a part.
    for (request_max, lens) in
        [(0, &[None, Some(100), Some(100_000)][..]), (64 * KIB, &[Some(20_000), Some(100_000)])]
    {
        let world = before(origin.address, |policy| {
            policy.buffering.request_max = request_max;
            policy.origin.on_cancel = OnCancel::Abort;
        })
        .await;
        for (turn, len) in lens.iter().flat_map(|len| [(len, "/head"), (len, "/body")]).enumerate()
        {
            let (len, path) = len;
            let request = len.map_or_else(|| get(path), |len| post(path, Some(len)));
            let client = Client::connect(&world, side).await;
            let mut exchange = client.begin(request, len.is_some()).await;
            // Of the shortest nothing is sent.
            if let Some(len) = len.filter(|len| *len > 100) {
                exchange.send(vec![b'x'; len]);
                exchange.finish();
            }
            let answer = match path {
                "/body" => Some(exchange.head().await.unwrap()),
                _ => None,
            };
            world.until_load(0, 1).await;
            // Within 10 ms of its request it would look like a client that has only ended its side.
            tokio::time::sleep(Duration::from_millis(15)).await;
            drop((exchange, answer));
            world.until_load(0, 0).await;
            let what = format!("{path} of {len:?}: the origin's connection is closed");
            eventually(&what, || origin.open() == 0).await;
            assert_eq!(world.finished(End::Cancelled), turn as u64 + 1);
        }
    }
}
