//! Streams of different classes on one connection: whatever becomes of those of the lower class, those of
//! the higher one go on (Eggert §7: no head-of-line blocking between classes, from socket to socket).

use crate::origin::made_up;
use crate::world::{World, build, fetch, get, read, replan, send_body};
use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderValue, Request, Response};
use std::time::Duration;
use tiergate::config::meant::Policy;
use tiergate::config::parse;
use tiergate_core::control::Slots;

const KIB: usize = 1024;

/// Two classes, `high` by a header and `low`, with further keys. Deadlines are long: nobody is refused
/// because nothing has been served yet.
async fn world(low: &str, slots: u32, change: impl FnOnce(&mut Policy)) -> World {
    let text = format!(
        "[origin]\nservers = [\"a:1\"]\n\
         [[class]]\nname = \"high\"\ndeadline = \"1h\"\n\
         [[class]]\nname = \"low\"\ndeadline = \"1h\"\n{low}\n\
         [[rule]]\nheader.x-class = \"high\"\nclass = \"high\"\n"
    );
    build(|policy| {
        let parsed = parse(&text, "p.toml").unwrap();
        let servers = std::mem::take(&mut policy.origin.servers);
        *policy = parsed;
        policy.origin.servers = servers;
        replan(policy, |plan| plan.slots = Slots::Fixed(slots));
        change(policy);
    })
    .await
}

fn high(path: &str) -> Request<()> {
    let mut request = get(path);
    request.headers_mut().insert("x-class", HeaderValue::from_static("high"));
    request
}

/// Waiting and running, of both classes.
fn load(world: &World) -> [(u32, u32); 2] {
    let gate = world.shared.door.gate();
    let states: Vec<_> = gate.states().map(|state| (state.waiting, state.running)).collect();
    [states[0], states[1]]
}

async fn until(world: &World, expected: [(u32, u32); 2]) {
    for _ in 0..500 {
        if load(world) == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{:?} instead of {expected:?}", load(world));
}

async fn begin(client: &SendRequest<Bytes>, request: Request<()>) -> ResponseFuture {
    let mut ready = client.clone().ready().await.unwrap();
    ready.send_request(request, true).unwrap().0
}

async fn post(
    client: &SendRequest<Bytes>,
    path: &str,
    class: &'static str,
) -> (ResponseFuture, SendStream<Bytes>) {
    let request = Request::post(format!("http://gate.test{path}")).header("x-class", class);
    let mut client = client.clone().ready().await.unwrap();
    client.send_request(request.body(()).unwrap(), false).unwrap()
}

/// Whole answers of the higher class on the connection, one after the other, each within seconds.
async fn goes_on(client: &SendRequest<Bytes>) {
    for turn in 0..20 {
        let mut client = client.clone();
        let len = 1 + turn * 5_000;
        let answer = fetch(&mut client, high(&format!("/len/{len}")));
        let answer = tokio::time::timeout(Duration::from_secs(5), answer).await;
        let (answer, body, _) = answer.expect("nothing stands in its way").unwrap();
        assert_eq!((answer.status().as_u16(), body.len()), (200, len));
    }
}

/// A client that lets one stream fall behind without that for the others: as browsers do.
async fn wide(world: &World) -> SendRequest<Bytes> {
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(128 * 1024).initial_connection_window_size(8 << 20);
    world.client_with(&mut builder).await
}

#[tokio::test]
async fn a_stream_that_waits_lets_a_later_one_of_a_higher_class_pass() {
    let world = world("", 1, |_| {}).await;
    let client = world.client().await;
    let first = begin(&client, get("/wait")).await;
    until(&world, [(0, 0), (0, 1)]).await;
    let mut low = Vec::new();
    // No more than may hope to be served in time.
    for waiting in 1..=4 {
        low.push(begin(&client, get("/wait")).await);
        until(&world, [(0, 0), (waiting, 1)]).await;
    }
    let passing = begin(&client, high("/len/7")).await;
    until(&world, [(1, 0), (4, 1)]).await;
    world.seen.go_on.notify_one();
    let (_, body, _) = read(passing.await.unwrap()).await.unwrap();
    assert_eq!(body.len(), 7);
    until(&world, [(0, 0), (3, 1)]).await;
    for answer in [first].into_iter().chain(low) {
        world.seen.go_on.notify_one();
        read(answer.await.unwrap()).await.unwrap();
    }
}

#[tokio::test]
async fn refused_streams_cost_the_others_nothing() {
    let world = world("queue = 0", 2, |_| {}).await;
    let client = world.client().await;
    let held = [begin(&client, get("/wait")).await, begin(&client, get("/wait")).await];
    until(&world, [(0, 0), (0, 2)]).await;
    let body = Bytes::from(made_up(200 * KIB));
    let mut refused = Vec::new();
    for _ in 0..20 {
        let (answer, mut sending) = post(&client, "/sum", "low").await;
        sending.reserve_capacity(body.len());
        let part = sending.capacity().min(body.len());
        let _ = sending.send_data(body.slice(..part), false);
        refused.push((answer, sending));
    }
    for (answer, _) in &mut refused {
        assert_eq!(answer.await.unwrap().status(), 503);
    }
    world.seen.go_on.notify_one();
    goes_on(&client).await;
    let (answer, mut sending) = post(&client, "/sum", "high").await;
    let whole = async {
        send_body(&mut sending, body.clone(), None).await.unwrap();
        read(answer.await.unwrap()).await.unwrap().1
    };
    let told = tokio::time::timeout(Duration::from_secs(5), whole).await.expect("there is room");
    assert_eq!(told, format!("{} ", body.len()).into_bytes());
    world.seen.go_on.notify_one();
    for answer in held {
        read(answer.await.unwrap()).await.unwrap();
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_some_streams_gets_the_others() {
    let world = world("", 5, |policy| policy.buffering.response_max = 64 * KIB).await;
    let client = wide(&world).await;
    let mut unread: Vec<Response<RecvStream>> = Vec::new();
    for path in ["/len/4000000", "/chunked/4000000", "/hangs/1000", "/trailers/4000000"] {
        unread.push(begin(&client, get(path)).await.await.unwrap());
    }
    until(&world, [(0, 0), (0, 4)]).await;
    goes_on(&client).await;
    assert_eq!(load(&world)[1], (0, 4), "those that nobody reads are still there");
    let hangs = unread.swap_remove(2);
    drop(hangs);
    for answer in unread {
        assert!(read(answer).await.unwrap().1 == made_up(4_000_000), "as the origin sent it");
    }
    until(&world, [(0, 0), (0, 0)]).await;
}

/// Uploads that wait for their slot fill the windows of their streams, not that of the connection.
#[tokio::test]
async fn uploads_that_wait_leave_room_for_one_of_a_higher_class() {
    let world = world("", 1, |_| {}).await;
    let client = world.client().await;
    let first = begin(&client, get("/wait")).await;
    until(&world, [(0, 0), (0, 1)]).await;
    let body = Bytes::from(made_up(600 * KIB));
    let mut low = Vec::new();
    for waiting in 1..=8 {
        let (answer, mut sending) = post(&client, "/sum", "low").await;
        let body = body.clone();
        low.push(tokio::spawn(async move {
            send_body(&mut sending, body, None).await.unwrap();
            read(answer.await.unwrap()).await.unwrap().1
        }));
        until(&world, [(0, 0), (waiting, 1)]).await;
    }
    // They send as long as they may.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let (answer, mut sending) = post(&client, "/sum", "high").await;
    let part = body.clone();
    let sent = tokio::spawn(async move {
        send_body(&mut sending, part.slice(..200 * KIB), None).await.unwrap();
        sending
    });
    let sent = tokio::time::timeout(Duration::from_secs(5), sent).await;
    drop(sent.expect("there is room for it").unwrap());
    until(&world, [(1, 0), (8, 1)]).await;
    world.seen.go_on.notify_one();
    let (_, told, _) = read(answer.await.unwrap()).await.unwrap();
    assert_eq!(told, format!("{} ", 200 * KIB).into_bytes());
    first.await.unwrap();
    for answer in low {
        assert_eq!(answer.await.unwrap(), format!("{} ", body.len()).into_bytes());
    }
    until(&world, [(0, 0), (0, 0)]).await;
    for _ in 0..100 {
        if world.shared.counters.buffered.used() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} bytes are still taken", world.shared.counters.buffered.used());
}

/// What clients may send because their uploads waited they may send later, too, and it counts for as long.
#[tokio::test]
async fn what_clients_may_send_stays_within_the_memory_when_their_uploads_have_gone() {
    const STREAM: usize = 256 * KIB;
    const CONNECTION: usize = 1024 * KIB;
    const ROOMS: usize = 12;
    let world = world("learn_patience = false", 1, |policy| {
        policy.buffering.request_max = 0;
        policy.limits.buffers_max = ROOMS * STREAM;
    })
    .await;
    let holder = world.client().await;
    let held = begin(&holder, get("/wait")).await;
    until(&world, [(0, 0), (0, 1)]).await;
    let mut clients = Vec::new();
    for stay in 1..=2 {
        let client = world.client().await;
        let mut streams = Vec::new();
        for _ in 0..16 {
            streams.push(post(&client, "/sum", "low").await);
        }
        until(&world, [(0, 0), (stay + 15, 1)]).await;
        // One stays, so that the connection does.
        streams.truncate(1);
        until(&world, [(0, 0), (stay, 1)]).await;
        clients.push((client, streams));
    }
    for (client, streams) in &mut clients {
        for _ in 0..16 {
            streams.push(post(client, "/sum", "low").await);
        }
        streams.iter_mut().for_each(|(_, sending)| sending.reserve_capacity(STREAM));
    }
    // Windows come.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let allowed: Vec<usize> = clients
        .iter()
        .map(|(_, streams)| streams.iter().map(|(_, sending)| sending.capacity()).sum())
        .collect();
    // Less than half of a window is not said.
    assert!(allowed[0] > 2 * CONNECTION, "its uploads had room: {allowed:?}");
    let total: usize = allowed.iter().sum();
    assert!(total <= 2 * CONNECTION + ROOMS * STREAM, "{allowed:?}");
    drop((clients, held, holder));
    for _ in 0..500 {
        if world.shared.counters.buffered.used() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} bytes are still taken", world.shared.counters.buffered.used());
}

/// A connection whose uploads had room keeps it while it is of use, and then goes.
#[tokio::test]
async fn a_connection_that_has_no_use_for_its_room_ends() {
    let world = world("learn_patience = false", 1, |policy| policy.buffering.request_max = 0).await;
    let holder = world.client().await;
    let held = begin(&holder, get("/wait")).await;
    until(&world, [(0, 0), (0, 1)]).await;
    let client = world.client().await;
    let mut streams = Vec::new();
    for _ in 0..8 {
        streams.push(post(&client, "/sum", "low").await);
    }
    until(&world, [(0, 0), (8, 1)]).await;
    assert!(world.shared.counters.buffered.used() > 0);
    drop(streams);
    for _ in 0..500 {
        if world.shared.counters.buffered.used() == 0 {
            assert!(client.ready().await.is_err(), "it was told to come again");
            world.seen.go_on.notify_one();
            read(held.await.unwrap()).await.unwrap();
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} bytes are still taken", world.shared.counters.buffered.used());
}
