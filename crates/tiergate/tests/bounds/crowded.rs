//! As many client connections as there may be, all of unimportant clients that come again as soon as they are closed: a
//! client of an important class gets in and is served, whether its address or its path says so.

use crate::support::PATIENCE;
use crate::support::client::Client;
use crate::support::eventually;
use crate::support::gateway::{Gateway, Policy};
use crate::support::origin::{Origin, ok};
use socket2::{Domain, Socket, Type};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// The bound, and how many of them are kept for what is above the least important class: an eighth.
const MAX: usize = 24;
const KEPT: usize = 3;
/// So many clients want a connection each.
const HERD: usize = 3 * MAX;
/// How long one that was closed stays away.
const PAUSE: Duration = Duration::from_millis(50);
/// The address that the policy knows.
const KNOWN: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);

fn gateway(origin: &Origin, slots: &str) -> Gateway {
    let mut policy = Policy::of(&[origin.server()]);
    policy.origin = slots.into();
    policy.tables = format!(
        "[limits]\nconnections_max = {MAX}\n\
         [[class]]\nname = \"premium\"\ndeadline = \"15s\"\n\
         [[class]]\nname = \"basic\"\ndeadline = \"60s\"\nlearn_patience = false\n\
         [[rule]]\nclient = \"{KNOWN}\"\nclass = \"premium\"\n\
         [[rule]]\npath = \"/buy\"\nclass = \"premium\"\n"
    );
    Gateway::start(&policy)
}

/// An origin that takes its time for what the herd asks.
fn origin(time: Duration) -> Origin {
    Origin::answering(move |request| {
        if request.target == "/slow" {
            thread::sleep(time);
        }
        ok("done")
    })
}

/// A connection from an address of ours; `None` if it is refused.
fn connect(from: Ipv4Addr, gateway: &Gateway) -> Option<Client> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from((from, 0)).into()).expect("every address of loopback is ours");
    socket.connect_timeout(&gateway.address.into(), PATIENCE).ok()?;
    let client = Client { stream: socket.into(), buffer: Vec::new() };
    client.patience(PATIENCE);
    Some(client)
}

/// What each client of the herd does with a connection, again and again: `None` once it is closed.
type Deed = fn(&mut Client) -> Option<()>;

/// Asks now and then, and never rests for long.
fn active(client: &mut Client) -> Option<()> {
    client.send_anyway(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    let answer = client.try_answer(false).ok()?;
    thread::sleep(Duration::from_millis(100));
    (answer.status == 200).then_some(())
}

/// Has asked once, and rests.
fn resting(client: &mut Client) -> Option<()> {
    client.send_anyway(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    client.try_answer(false).ok()?;
    client.patience(Duration::from_secs(2));
    client.try_answer(false).ok().map(|_| ())
}

/// Sends its request's head byte by byte.
fn dribbling(client: &mut Client) -> Option<()> {
    for byte in b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: 0123456789012345678901234567890123456789" {
        client.stream.set_nodelay(true).ok()?;
        std::io::Write::write_all(&mut client.stream, &[*byte]).ok()?;
        thread::sleep(PAUSE);
    }
    None
}

/// Announces a body and never sends it.
fn withholding(client: &mut Client) -> Option<()> {
    client.send_anyway(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n");
    client.try_answer(false).ok().map(|_| ())
}

/// Waits for an answer that takes long.
fn waiting(client: &mut Client) -> Option<()> {
    client.send_anyway(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
    client.try_answer(false).ok().map(|_| ())
}

/// Runs the herd beside `premium`, from when it holds all that it gets.
fn crowded(gateway: &Gateway, deed: Deed, premium: impl FnOnce()) {
    let (over, closed) = (AtomicBool::new(false), AtomicUsize::new(0));
    let is_over = || over.load(Ordering::Relaxed);
    thread::scope(|scope| {
        for at in 0..HERD {
            let (is_over, closed) = (&is_over, &closed);
            scope.spawn(move || {
                let from = Ipv4Addr::new(127, 0, 1, at as u8 + 1);
                while !is_over() {
                    if let Some(mut client) = connect(from, gateway) {
                        client.patience(Duration::from_secs(4));
                        while !is_over() && deed(&mut client).is_some() {}
                        closed.fetch_add(1, Ordering::Relaxed);
                    }
                    thread::sleep(PAUSE);
                }
            });
        }
        let open = || gateway.number("/clients/connections_active") as usize;
        eventually("the herd has what it gets", || open() >= MAX - KEPT);
        // Whatever is known only after a while is known.
        thread::sleep(Duration::from_millis(1500));
        let premium = std::panic::catch_unwind(std::panic::AssertUnwindSafe(premium));
        let open = open();
        over.store(true, Ordering::Relaxed);
        if let Err(panic) = premium {
            std::panic::resume_unwind(panic);
        }
        assert!(open <= MAX, "{open} connections");
    });
}

/// New connections of premium clients, one after the other: each is answered.
fn all_are_served(gateway: &Gateway) {
    for round in 0..6_u8 {
        for (from, path) in [(KNOWN, "/"), (Ipv4Addr::new(127, 0, 2, round + 1), "/buy")] {
            let mut client = connect(from, gateway).expect("it listens");
            client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
            let answer = client.try_answer(false);
            let answer = answer.unwrap_or_else(|error| panic!("{from} {path} {round}: {error}"));
            assert_eq!(answer.status, 200, "{from} {path} {round}");
        }
    }
}

/// Requests of the class that were refused because of the bound.
fn refused(gateway: &Gateway, class: usize) -> u64 {
    let status = gateway.status();
    let refused = status.pointer(&format!("/classes/{class}/refused/connections_full"));
    refused.and_then(serde_json::Value::as_u64).unwrap_or_default()
}

fn closed(gateway: &Gateway) -> u64 {
    gateway.number("/clients/connections_evicted")
}

/// With each of these herds, which keep no slot.
fn all_are_served_beside(deeds: [Deed; 2]) {
    let origin = origin(Duration::ZERO);
    for deed in deeds {
        let gateway = gateway(&origin, "slots = 1000");
        crowded(&gateway, deed, || all_are_served(&gateway));
        assert_eq!(refused(&gateway, 0), 0);
        assert!(closed(&gateway) > 0);
        gateway.assert_conserved();
    }
}

#[test]
fn premium_gets_in_where_all_connections_are_active_or_rest() {
    all_are_served_beside([active, resting]);
}

#[test]
fn premium_gets_in_where_all_connections_send_slowly() {
    all_are_served_beside([dribbling, withholding]);
}

#[test]
fn premium_gets_in_where_all_connections_wait_for_a_slot() {
    let origin = origin(Duration::from_millis(300));
    let gateway = gateway(&origin, "slots = 2");
    crowded(&gateway, waiting, || {
        let wait = gateway.number("/limit/waiting") as usize;
        assert!(wait + 2 >= MAX - KEPT - 2, "{wait} wait");
        all_are_served(&gateway);
    });
    assert_eq!(refused(&gateway, 0), 0);
    assert!(refused(&gateway, 1) > 0);
}

/// Asks over HTTP/2: whether it was told, by GOAWAY without an error, that the connection ends.
fn is_sent_away_over_http2(gateway: &Gateway) -> bool {
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    // HEADERS with END_STREAM and END_HEADERS: GET, http, /slow, and a name.
    let request = b"\0\0\x0c\x01\x05\0\0\0\x01\x82\x86\x04\x05/slow\x41\x01x";
    let mut client = connect(Ipv4Addr::new(127, 0, 3, 1), gateway).expect("it listens");
    client.send([&preface[..], request].concat());
    client.patience(Duration::from_secs(2));
    let mut bytes = Vec::new();
    let closed = std::io::Read::read_to_end(&mut client.stream, &mut bytes).is_ok();
    closed && bytes.windows(17).any(|it| it[3] == 7 && it[13..] == [0; 4])
}

#[test]
fn premium_gets_in_where_all_connections_have_requests_in_progress() {
    let origin = origin(Duration::from_secs(3));
    let gateway = gateway(&origin, "slots = 1000");
    crowded(&gateway, waiting, || {
        all_are_served(&gateway);
        // One of the herd may just have been answered, and have left its place.
        assert!((0..5).any(|_| is_sent_away_over_http2(&gateway)));
        // The least important had all but what is kept for others.
        assert!(gateway.number("/limit/running") <= (MAX - KEPT) as u64);
    });
    assert_eq!(refused(&gateway, 0), 0);
    assert!(refused(&gateway, 1) > 0);
    let log = gateway.log();
    let said: Vec<&str> = log.lines().filter(|line| line.contains("at their bound")).collect();
    assert!(!said.is_empty() && said.len() <= 4, "{log}");
    assert!(said[0].contains("for_least_important=21"), "{log}");
}

/// As [`gateway`], with few connections, and refusals that end theirs.
fn small(origin: &Origin) -> Gateway {
    let mut policy = Policy::of(&[origin.server()]);
    policy.tables = "[limits]\nconnections_max = 4\n[refusal]\nconnection = \"close\"\n[[rule]]\npath = \"/no\"\nrefuse = true\n".into();
    Gateway::start(&policy)
}

#[test]
fn one_that_ends_and_still_sends_a_body_over_http2_makes_room_for_all_others() {
    let origin = origin(Duration::from_secs(5));
    let gateway = small(&origin);
    let mut holds = gateway.client();
    // POST with content-length 9, and one byte of it; then GET of what is refused, which ends the connection once its streams have.
    let begun = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let post = b"\0\0\x0e\x01\x04\0\0\0\x01\x83\x86\x04\x03/up\x41\x01x\x0f\x0d\x019\0\0\x01\0\0\0\0\0\x01x";
    let refused = b"\0\0\x0a\x01\x05\0\0\0\x03\x82\x86\x04\x03/no\x41\x01x";
    holds.send([&begun[..], post, refused].concat());
    eventually("it is refused", || gateway.number("/classes/0/refused/rule") == 1);
    // The others have requests in progress, and none of them can make room.
    let _busy = [(); 3].map(|()| {
        let mut client = gateway.client();
        client.send("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
        client
    });
    eventually("they are in progress", || gateway.number("/limit/running") == 3);
    for _ in 0..3 {
        assert_eq!(gateway.get("/").status, 200);
        assert_eq!(gateway.number("/limit/running"), 3, "it was none of these");
    }
    holds.patience(PATIENCE);
    let closed = std::io::Read::read_to_end(&mut holds.stream, &mut Vec::new());
    assert!(closed.is_ok(), "it has made room: {closed:?}");
}
