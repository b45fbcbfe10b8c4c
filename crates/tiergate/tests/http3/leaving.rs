//! Threads and listeners that go, while connections of theirs or of others go on.

use crate::answer;
use crate::http3_client::{GET, Http3, Stream, headers, raw, trusting, try_quic};
use crate::support::gateway::Policy;
use crate::support::http2_client::run;
use crate::support::origin::{Origin, ok};
use crate::support::{eventually, pattern_bytes};
use crate::world::{World, comes};
use http::Request;
use quinn::{ConnectionId, Endpoint};
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

const THREADS: u8 = 3;

/// A connection that the kernel gives to this thread: by the first byte of the id that the client begins with.
async fn client_of(world: &World, thread: u8) -> Http3 {
    let mut config = trusting(&world.certificate, "h3");
    let id = move || {
        let mut id: [u8; 16] = std::array::from_fn(|_| fastrand::u8(..));
        id[0] = fastrand::u8(..80) * THREADS + thread;
        ConnectionId::new(&id)
    };
    config.initial_dst_cid_provider(Arc::new(id));
    Http3::connect_with(world.gateway.address, config).await
}

async fn begin(client: &mut Http3, path: &str) -> Stream {
    let request = Request::get(format!("https://example.test{path}")).body(()).unwrap();
    let mut stream = client.begin(request).await.unwrap();
    stream.finish().await.unwrap();
    stream
}

/// A request in service, and its client once it is answered.
async fn served(mut client: Http3, path: &str) -> JoinHandle<Http3> {
    let mut stream = begin(&mut client, path).await;
    let answered = async move {
        let answer = answer(&mut stream).await.expect("it is served to its end");
        assert!(answer.body == pattern_bytes(0, 500_000));
        client
    };
    tokio::spawn(answered)
}

fn slow_origin() -> Origin {
    Origin::answering(|request| {
        let millis = match &*request.target {
            "/slow" => 700,
            "/slower" => 6000,
            _ => 0,
        };
        std::thread::sleep(Duration::from_millis(millis));
        ok(pattern_bytes(0, 500_000))
    })
}

/// Three threads, of which the first has no connection; `ends` makes the listener go.
fn all_in_service_are_answered(ends: impl FnOnce(&World)) -> World {
    let origin = slow_origin();
    let top = format!("threads = {THREADS}");
    let world = World::start(Policy { top, ..Policy::of(&[origin.server()]) });
    run(async {
        // Handshakes first: none of the requests may be over before all are in service.
        let slower = client_of(&world, 1).await;
        let mut connected = Vec::new();
        for _ in 0..12 {
            connected.push(client_of(&world, 2).await);
        }
        let slower = served(slower, "/slower").await;
        let mut clients = Vec::new();
        for client in connected {
            clients.push(served(client, "/slow").await);
        }
        comes("all are in service", || world.running() == 13).await;
        ends(&world);
        for client in clients {
            let client = client.await.expect("an answer");
            let closed = format!("{:?}", client.quic.closed().await);
            assert!(closed.contains("ApplicationClosed"), "it is told: {closed}");
        }
        // With only one socket left, it would get the packets of all.
        assert!(!slower.is_finished(), "none had to wait for the end of the other thread");
        // It acknowledges its answer until the gateway has closed the connection: a drain waits for that.
        slower.await.expect("an answer").quic.closed().await;
    });
    world
}

#[test]
fn a_thread_without_connections_takes_none_of_others_along_in_a_drain() {
    let mut world = all_in_service_are_answered(|world| {
        world.gateway.process.signal(rustix::process::Signal::TERM);
    });
    let status = world.gateway.process.wait(Duration::from_secs(20));
    assert!(status.success(), "{}", world.gateway.log());
    assert!(!world.gateway.log().contains("connections cut"), "{}", world.gateway.log());
}

#[test]
fn a_thread_without_connections_takes_none_of_others_along_in_a_reload() {
    all_in_service_are_answered(|world| {
        let text = std::fs::read_to_string(&world.gateway.policy_path).expect("ours");
        world.gateway.write_policy(&text.replace("http3 = true", ""));
        assert_eq!(world.gateway.reload().0, 200);
    });
}

#[test]
fn a_listener_that_goes_says_so_and_may_come_back() {
    let origin = slow_origin();
    let world = World::before(&origin);
    let gateway = &world.gateway;
    let text = std::fs::read_to_string(&gateway.policy_path).expect("ours");
    let other = crate::support::gateway::Port::reserve();
    let moved = text.replace(&gateway.address.to_string(), &other.address.to_string());
    run(async {
        let mut client = world.client().await;
        let mut stream = begin(&mut client, "/slow").await;
        comes("it is in service", || world.running() == 1).await;
        gateway.write_policy(&moved);
        assert_eq!(gateway.reload().0, 200);
        // The connection still has the port.
        gateway.write_policy(&text);
        let (status, said) = gateway.reload();
        assert_eq!(status, 200, "{said}");
        assert_eq!(answer(&mut stream).await.expect("what is in service ends").status, 200);
        let closed = format!("{:?}", client.quic.closed().await);
        assert!(closed.contains("ApplicationClosed"), "{closed}");
        let served = || gateway.log().matches("listening for HTTP/3").count() == 3;
        comes("the port is served again", served).await;
        assert_eq!(world.get("/").await.status, 200);
    });
    eventually("nothing is left", || world.running() == 0);
}

/// Another of this machine's addresses.
const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

#[test]
fn a_client_with_another_address_is_told_to_come_by_another_connection() {
    let origin = slow_origin();
    let world = World::before(&origin);
    run(async {
        let mut client = world.client().await;
        let mut stream = begin(&mut client, "/slow").await;
        comes("it is in service", || world.running() == 1).await;
        let socket = UdpSocket::bind((OTHER, 0)).expect("an address of this machine");
        client.endpoint.rebind(socket).expect("a socket");
        // Both are served; what the second says first is that the address has changed.
        let second = client.get("/second").await.expect("an answer");
        let first = answer(&mut stream).await.expect("it goes on");
        assert!(first.body == second.body && first.body == pattern_bytes(0, 500_000));
        let closed = format!("{:?}", client.quic.closed().await);
        assert!(closed.contains("ApplicationClosed"), "{closed}");
    });
    assert_eq!(origin.requests().0.len(), 2);
}

#[test]
fn a_connection_that_waits_for_room_is_refused_when_the_gateway_drains() {
    let origin = Origin::answering(|_| {
        std::thread::sleep(Duration::from_millis(3000));
        ok("done")
    });
    let tables = "[limits]\nconnections_max = 8\n".to_owned();
    let top = "threads = 1".into();
    let world = World::start(Policy { tables, top, ..Policy::of(&[origin.server()]) });
    run(async {
        let mut held = Vec::new();
        for _ in 0..8 {
            let mut client = world.client().await;
            let mut stream = begin(&mut client, "/slow").await;
            held.push(tokio::spawn(async move {
                let answer = answer(&mut stream).await.expect("an answer");
                client.leave().await;
                answer.status
            }));
        }
        comes("all are busy", || world.running() == 8).await;
        // Another client's, for which none may make room; and one behind it.
        let config = trusting(&world.certificate, "h3");
        let endpoint = Endpoint::client((OTHER, 0).into()).expect("an address of this machine");
        let connect = || {
            let (endpoint, config) = (endpoint.clone(), config.clone());
            let to = world.gateway.address;
            tokio::spawn(async move { try_quic(&endpoint, to, config).await.map(drop) })
        };
        let waiting = [connect(), connect()];
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(waiting.iter().all(|it| !it.is_finished()), "they wait");
        world.gateway.process.signal(rustix::process::Signal::TERM);
        for waiting in waiting {
            let refused = waiting.await.unwrap().expect_err("it is refused");
            assert!(format!("{refused:?}").contains("ConnectionClosed"), "{refused:?}");
        }
        assert!(held.iter().all(|it| !it.is_finished()), "before those in service have ended");
        for held in held {
            assert_eq!(held.await.unwrap(), 200);
        }
    });
}

#[test]
fn a_connection_ends_that_brings_many_streams_without_a_head() {
    let origin = Origin::echo();
    let world = World::before(&origin);
    run(async {
        let client = world.client().await;
        let mut endless = vec![1, 0xbf, 0xff, 0xff, 0xff];
        endless.extend_from_slice(&[0; 100]);
        let mut answered = 0;
        while client.quic.close_reason().is_none() && answered < 3000 {
            answered += u32::from(raw(&client.quic, &endless, false).await.is_ok());
        }
        assert!((1000..3000).contains(&answered), "{answered}");
        let other = world.client().await;
        let got = raw(&other.quic, &headers(&GET), true).await.expect("an answer");
        assert!(got.ends_with(b"GET /raw"), "{got:?}");
    });
}
