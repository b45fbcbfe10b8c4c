//! What a client may not do.

use crate::support::origin::Origin;
use crate::world::{World, build, code, eventually, fetch, get, read, replan, server};
use bytes::Bytes;
use h2::{Reason, client};
use http::{HeaderValue, Method, Request};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tiergate_core::control::Slots;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

#[tokio::test]
async fn requests_that_cannot_be_forwarded_are_answered() {
    let world = build(|_| {}).await;
    let mut client = world.client().await;
    let connect = Request::builder().method(Method::CONNECT).uri("a:443");
    let cases = [
        (Request::get("http://a/len/1").header("host", "b"), 400),
        (Request::get("http://user@a/len/1"), 400),
        (connect, 501),
    ];
    for (request, status) in cases {
        let answer = fetch(&mut client, request.body(()).unwrap()).await.unwrap().0;
        assert_eq!(answer.status(), status);
    }
    assert_eq!(world.requests(), 0);
}

#[tokio::test]
async fn malformed_requests_end_their_stream_only() {
    let world = build(|_| {}).await;
    let mut client = world.client().await;
    for (name, value) in [("connection", "close"), ("transfer-encoding", "chunked"), ("te", "gzip")]
    {
        let mut request = get("/len/1");
        request.headers_mut().insert(name, HeaderValue::from_static(value));
        // The client of the same crate may refuse to send it at all.
        if let Err(error) = fetch(&mut client, request).await
            && error.is_remote()
        {
            assert_eq!(code(&error), Some(Reason::PROTOCOL_ERROR), "{name}");
        }
    }
    // A length that the body contradicts.
    let request =
        Request::post("http://gate.test/sum").header("content-length", "5").body(()).unwrap();
    let mut ready = client.clone().ready().await.unwrap();
    let (answer, mut sending) = ready.send_request(request, false).unwrap();
    sending.send_data(Bytes::from_static(b"123"), true).unwrap();
    let error = match answer.await {
        Ok(answer) => read(answer).await.unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(code(&error), Some(Reason::PROTOCOL_ERROR));
    assert_eq!(fetch(&mut client, get("/len/3")).await.unwrap().1.len(), 3);
}

#[tokio::test]
async fn a_client_that_opens_no_window_is_given_up() {
    let world = build(|policy| policy.timeouts.write = Duration::from_millis(300)).await;
    let mut builder = client::Builder::new();
    let client = world.client_with(builder.initial_window_size(0)).await;
    let mut client = client.ready().await.unwrap();
    let (answer, _) = client.send_request(get("/len/100"), true).unwrap();
    let error = read(answer.await.unwrap()).await.unwrap_err();
    assert_eq!(code(&error), Some(Reason::CANCEL));
    world.until_load(0, 0).await;
}

/// A client of bytes, because a decent one does not do what follows.
async fn rude(address: std::net::SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    stream.write_all(&frame(4, 0, 0, &[])).await.unwrap();
    stream
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// GET, http, /wait, and an authority, without Huffman coding or the dynamic table.
fn headers(stream: u32) -> Vec<u8> {
    let block = [&[0x82, 0x86, 0x04, 5][..], b"/wait", &[0x01, 1], b"a"].concat();
    frame(1, 0x5, stream, &block)
}

/// Reads frames until the connection ends; gives the code of the last GOAWAY.
async fn goaway(stream: &mut TcpStream) -> Option<u32> {
    let mut found = None;
    loop {
        let mut head = [0; 9];
        if stream.read_exact(&mut head).await.is_err() {
            return found;
        }
        let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; len];
        if stream.read_exact(&mut payload).await.is_err() {
            return found;
        }
        if head[3] == 7 {
            found = Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
        }
    }
}

const ENHANCE_YOUR_CALM: u32 = 0xb;

/// A client whose windows let single bytes through, which it widens again and again.
async fn pinch(world: &World, streams: u32) -> TcpStream {
    let mut stream = rude(world.address).await;
    let one_byte = [&[0, 4][..], &1u32.to_be_bytes()].concat();
    stream.write_all(&frame(4, 0, 0, &one_byte)).await.unwrap();
    for turn in 0..streams {
        let block = [&[0x82, 0x86, 0x04, 10][..], b"/len/60000", &[0x01, 1], b"a"].concat();
        stream.write_all(&frame(1, 0x5, 2 * turn + 1, &block)).await.unwrap();
    }
    stream
}

async fn widen(stream: &mut TcpStream, streams: u32) {
    for turn in 0..streams {
        // It fails once the gateway has given the client up.
        let _ = stream.write_all(&frame(8, 0, 2 * turn + 1, &1u32.to_be_bytes())).await;
    }
}

/// What is kept of answers for such a client is counted, and not for ever.
#[tokio::test]
async fn answers_behind_a_window_of_a_byte_are_counted_and_given_up() {
    let world = build(|policy| {
        replan(policy, |plan| plan.slots = Slots::Fixed(1000));
        policy.timeouts.write = Duration::from_millis(1500);
    })
    .await;
    let mut stream = pinch(&world, 50).await;
    eventually("the origin is done", || world.requests() == 50 && world.load() == (0, 0)).await;
    assert!(world.buffered() >= 50 * 59_000, "{}", world.buffered());
    for _ in 0..30 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        widen(&mut stream, 50).await;
    }
    assert_eq!(world.buffered(), 0, "bytes that were taken gave it no more time");
    world.until_all_is_given_back().await;
}

/// Where there is no memory left for them, they hold their slots.
#[tokio::test]
async fn answers_beyond_the_memory_for_slow_clients_hold_their_slots() {
    let world = build(|policy| {
        replan(policy, |plan| plan.slots = Slots::Fixed(1000));
        policy.limits.buffers_max = 200 << 10;
    })
    .await;
    let stream = pinch(&world, 20).await;
    eventually("all but three hold a slot", || world.load() == (0, 17)).await;
    assert!((3 << 16..200 << 10).contains(&world.buffered()), "{}", world.buffered());
    drop(stream);
    world.until_all_is_given_back().await;
}

/// A request with a head of 10 KB.
fn with_long_head(request: http::request::Builder) -> Request<()> {
    let long = HeaderValue::try_from("x".repeat(10_000)).unwrap();
    request.header("x-long", long).body(()).unwrap()
}

/// The heads of such answers' requests count with them.
#[tokio::test]
async fn heads_of_requests_whose_answers_are_not_taken_count_as_memory_for_slow_clients() {
    let world = build(|policy| {
        replan(policy, |plan| plan.slots = Slots::Fixed(100));
        policy.limits.buffers_max = 200 << 10;
    })
    .await;
    let client = world.client_with(client::Builder::new().initial_window_size(1)).await;
    let mut begun = Vec::new();
    for _ in 0..20 {
        let mut ready = client.clone().ready().await.unwrap();
        let request = with_long_head(Request::get("http://gate.test/len/60000"));
        begun.push(ready.send_request(request, true).unwrap());
    }
    eventually("all but two hold a slot", || world.load() == (0, 18)).await;
    drop((begun, client));
    world.until_all_is_given_back().await;
}

/// A client whose windows take all, and which reads nothing.
async fn deaf(world: &World, streams: u32) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(world.address).await.unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    let large = [&[0, 4][..], &(1u32 << 20).to_be_bytes()].concat();
    stream.write_all(&frame(4, 0, 0, &large)).await.unwrap();
    stream.write_all(&frame(8, 0, 0, &(1u32 << 24).to_be_bytes())).await.unwrap();
    for turn in 0..streams {
        stream.write_all(&headers(2 * turn + 1)).await.unwrap();
    }
    stream
}

/// What was handed on counts with what waits: also where all was, and the end of the answer comes by itself.
#[tokio::test]
async fn answers_that_wait_for_the_socket_count_as_memory_for_slow_clients() {
    const LEN: usize = 120_000;
    let ended = Arc::new(AtomicUsize::new(0));
    let counted = ended.clone();
    let origin = Origin::start(move |mut connection| {
        while connection.head().is_some() {
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            connection.send(format!("{head}{LEN:x}\r\n{}\r\n", "x".repeat(LEN)));
            std::thread::sleep(Duration::from_millis(100));
            connection.send("0\r\n\r\n");
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    let world = build(|policy| {
        replan(policy, |plan| plan.slots = Slots::Fixed(1000));
        policy.origin.servers = vec![server(origin.address)];
        policy.limits.buffers_max = 1 << 20;
    })
    .await;
    // Twelve megabytes: the systems hold some of them.
    let stream = deaf(&world, 100).await;
    eventually("the origin is done", || ended.load(Ordering::SeqCst) == 100).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(world.load().1 >= 20, "there is no memory for most of them: {:?}", world.load());
    assert!((1 << 19..=1 << 20).contains(&world.buffered()), "{}", world.buffered());
    drop(stream);
    world.until_all_is_given_back().await;
}

/// While a body is awaited, neither a queue nor a slot bounds the memory of its request's head.
#[tokio::test]
async fn heads_whose_bodies_are_awaited_count_as_memory_for_slow_clients() {
    let world = build(|policy| {
        replan(policy, |plan| plan.slots = Slots::Fixed(100));
        policy.limits.buffers_max = 64 << 10;
    })
    .await;
    let client = world.client().await;
    let mut begun = Vec::new();
    for _ in 0..20 {
        let mut ready = client.clone().ready().await.unwrap();
        let request = with_long_head(Request::post("http://gate.test/echo"));
        begun.push(ready.send_request(request, false).unwrap());
    }
    // There is memory for six; the others are streamed, and hold their slots.
    eventually("all but six hold a slot", || world.load() == (0, 14)).await;
    assert!((60_000..=64 << 10).contains(&world.buffered()), "{}", world.buffered());
    for (answer, mut sending) in begun {
        sending.send_data(Bytes::from_static(b"hello"), true).unwrap();
        let (_, echoed, _) = read(answer.await.unwrap()).await.unwrap();
        assert_eq!(echoed, b"hello");
    }
    world.until_all_is_given_back().await;
}

/// CVE-2023-44487, all in one packet: most streams are gone before they are looked at.
#[tokio::test]
async fn rapid_resets_in_a_batch_end_the_connection() {
    let world = build(|_| {}).await;
    let mut stream = rude(world.address).await;
    let attack: Vec<u8> = (0..200)
        .flat_map(|turn| {
            let id = 2 * turn + 1;
            [headers(id), frame(3, 0, id, &8u32.to_be_bytes())].concat()
        })
        .collect();
    stream.write_all(&attack).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(5), goaway(&mut stream)).await;
    assert_eq!(ended.unwrap(), Some(ENHANCE_YOUR_CALM));
    world.until_load(0, 0).await;
}

/// The same at leisure: every stream is begun, and reaches the origin, before it is reset.
#[tokio::test]
async fn rapid_resets_one_by_one_end_the_connection() {
    let world = build(|policy| {
        replan(policy, |plan| plan.slots = Slots::Fixed(1000));
        policy.limits.http2_streams_max = 20;
    })
    .await;
    let mut stream = rude(world.address).await;
    for turn in 0..400 {
        let id = 2 * turn + 1;
        let sent = stream.write_all(&headers(id)).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
        let reset = stream.write_all(&frame(3, 0, id, &8u32.to_be_bytes())).await;
        if sent.and(reset).is_err() {
            break;
        }
    }
    let ended = tokio::time::timeout(Duration::from_secs(5), goaway(&mut stream)).await;
    let reached = world.requests();
    assert!(reached < 100, "{reached} requests reached the origin");
    // The farewell may be lost where the client keeps on writing.
    assert!(matches!(ended.unwrap(), Some(ENHANCE_YOUR_CALM) | None));
    world.until_load(0, 0).await;
}

/// Answers that the gateway gives by itself cost a client nothing, and pay for no reset.
#[tokio::test]
async fn refusals_do_not_pay_for_resets() {
    let world = build(|policy| {
        replan(policy, |plan| plan.slots = Slots::Fixed(1000));
        policy.limits.http2_streams_max = 20;
    })
    .await;
    let mut stream = rude(world.address).await;
    // 501: it may not be forwarded.
    let refused = |id| {
        let field = [&[0, 12][..], b"max-forwards", &[1], b"0"].concat();
        let block = [&[0x82, 0x86, 0x04, 5][..], b"/wait", &[0x01, 1], b"a", &field].concat();
        frame(1, 0x5, id, &block)
    };
    for turn in 0..400 {
        let id = 4 * turn + 1;
        let sent = stream.write_all(&[refused(id), headers(id + 2)].concat()).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
        let reset = stream.write_all(&frame(3, 0, id + 2, &8u32.to_be_bytes())).await;
        if sent.and(reset).is_err() {
            break;
        }
    }
    let reached = world.requests();
    assert!(reached < 100, "{reached} requests reached the origin");
    world.until_load(0, 0).await;
}

#[tokio::test]
async fn more_streams_than_allowed_are_refused() {
    let world = build(|policy| {
        policy.limits.http2_streams_max = 5;
        replan(policy, |plan| plan.slots = Slots::Fixed(100));
    })
    .await;
    let mut stream = rude(world.address).await;
    for turn in 0..8 {
        stream.write_all(&headers(2 * turn + 1)).await.unwrap();
    }
    world.until_load(0, 5).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(world.load(), (0, 5));
}

/// A client that reads nothing: what is owed to it is bounded, and it is given up.
#[tokio::test]
async fn a_client_that_reads_nothing_is_given_up() {
    let world = build(|policy| {
        policy.timeouts.write = Duration::from_millis(500);
        policy.timeouts.idle = Duration::from_millis(500);
    })
    .await;
    let mut stream = rude(world.address).await;
    // Windows as wide as they can be, so that only the socket holds answers up.
    let wide = frame(8, 0, 0, &0x7fff_0000u32.to_be_bytes());
    let setting = [&[0, 4][..], &0x7fff_ffffu32.to_be_bytes()].concat();
    stream.write_all(&[frame(4, 0, 0, &setting), wide].concat()).await.unwrap();
    for turn in 0..20 {
        let block = [&[0x82, 0x86, 0x04, 12][..], b"/len/9000000", &[0x01, 1], b"a"].concat();
        stream.write_all(&frame(1, 0x5, 2 * turn + 1, &block)).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_ne!(world.load(), (0, 0));
    world.until_load(0, 0).await;
    for _ in 0..300 {
        if world.shared.connections.open() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the connection is still open");
}
