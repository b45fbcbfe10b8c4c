//! What slow clients cost a process: connections and its memory, and heads that come byte by byte. Slow
//! bodies, over both protocols, are in `protocols/slow.rs`.

use crate::support;
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use support::client::Client;
use support::gateway::{Gateway, Policy};
use support::origin::{Origin, ok};
use support::{PATIENCE, eventually};

/// Idle connections of the memory test.
const IDLE: usize = 2_000;

#[test]
fn idle_connections_cost_little_memory() {
    let origin = Origin::echo();
    let gateway = Gateway::start(&Policy::of(&[origin.server()]));
    // Once around, so that what is allocated once is there.
    for _ in 0..50 {
        assert_eq!(gateway.get("/warm").status, 200);
    }
    let measure = |used: bool| {
        let before = gateway.process.memory("VmRSS");
        let mut clients: Vec<Client> = (0..IDLE).map(|_| gateway.client()).collect();
        for client in clients.iter_mut().filter(|_| used) {
            assert_eq!(client.get("/once").status, 200);
        }
        eventually("all are open", || gateway.number("/clients/connections_active") == IDLE as u64);
        let after = gateway.process.memory("VmRSS");
        drop(clients);
        eventually("all are closed", || gateway.number("/clients/connections_active") == 0);
        after.saturating_sub(before) / IDLE as u64
    };
    // The second figure is of memory that the first has made room for, so it is taken of a fresh one.
    println!("{} bytes for a connection that was used once", measure(true));
    let fresh = || {
        let gateway = Gateway::start(&Policy::of(&[origin.server()]));
        let before = gateway.process.memory("VmRSS");
        let mut clients: Vec<Client> = (0..IDLE).map(|_| gateway.client()).collect();
        for client in &mut clients {
            assert_eq!(client.get("/once").status, 200);
        }
        let after = gateway.process.memory("VmRSS");
        (after - before) / IDLE as u64
    };
    // The allocator's own rooms are of the one or the other size.
    let bytes = (0..3).map(|_| fresh()).min().expect("there are three");
    println!("{bytes} bytes for an idle connection, all that a first request allocates included");
    assert!(bytes < 6 * 1024, "{bytes} bytes an idle connection");
}

/// More than its window takes at once, to a client that sends while it reads: what nobody has read makes a close a reset, which would lose the rest.
#[test]
fn what_a_client_sends_meanwhile_costs_it_none_of_its_last_answer() {
    let body = "x".repeat(300_000);
    let origin = Origin::answering({
        let body = body.clone();
        move |_| ok(&body)
    });
    let gateway = Gateway::start(&Policy::of(&[origin.server()]));
    for more in ["\r\n", "GET /next HTTP/1.1\r\nHost: x\r\n\r\n"] {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.set_recv_buffer_size(8 << 10).expect("it is allowed");
        socket.connect(&gateway.address.into()).expect("it listens");
        let mut client = TcpStream::from(socket);
        client.set_read_timeout(Some(PATIENCE)).expect("it is no zero");
        let request = "GET /long HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        client.write_all(request.as_bytes()).expect("open");
        let mut answer = vec![0; 100];
        client.read_exact(&mut answer).expect("it begins");
        client.write_all(more.as_bytes()).expect("open");
        // The gateway has seen it before the client reads on.
        std::thread::sleep(Duration::from_millis(50));
        client.read_to_end(&mut answer).expect("no reset");
        assert!(answer.ends_with(body.as_bytes()), "{} bytes", answer.len());
    }
}

#[test]
fn slow_heads_hold_up_nobody_and_take_no_slot() {
    let origin = Origin::echo();
    let mut policy = Policy::of(&[origin.server()]);
    policy.origin = "slots = 1".into();
    let gateway = Gateway::start(&policy);
    let mut slow: Vec<Client> = (0..500).map(|_| gateway.client()).collect();
    for (number, client) in slow.iter_mut().enumerate() {
        client.send(&b"GET /slow HTTP/1.1\r\nHost: x\r\nA: b"[..10 + number % 24]);
    }
    let mut client = gateway.client();
    for _ in 0..200 {
        assert_eq!(client.get("/quick").status, 200);
        let one = &mut slow[0];
        one.send_anyway(b"");
    }
    assert_eq!(gateway.number("/limit/running"), 0);
    assert_eq!(gateway.number("/classes/0/queued"), 0, "nobody waited for the only slot");
    // The slowest is served all the same if it finishes in time.
    let mut last = gateway.client();
    for byte in b"GET /last HTTP/1.1\r\nHost: x\r\n\r\n" {
        last.send([*byte]);
    }
    assert_eq!(last.answer().text(), "GET /last");
}

/// A body that no reader takes stays with its origin; its slot is held, all others are free.
#[test]
fn a_slow_reader_holds_its_own_slot_only_and_bounded_memory() {
    const LEN: usize = 64 << 20;
    let origin = Origin::start(|mut connection| {
        while let Some(request) = connection.request() {
            if request.target == "/quick" {
                connection.ok("quick");
                continue;
            }
            connection.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LEN}\r\n\r\n"));
            let piece = vec![b'x'; 1 << 20];
            for _ in 0..LEN / piece.len() {
                connection.send(&piece);
            }
        }
    });
    let mut policy = Policy::of(&[origin.server()]);
    policy.origin = "slots = 6".into();
    let gateway = Gateway::start(&policy);
    assert_eq!(gateway.get("/quick").status, 200);
    let before = gateway.process.memory("VmHWM");
    let mut slow: Vec<Client> = (0..5).map(|_| gateway.client()).collect();
    for client in &mut slow {
        client.send("GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(client.try_head().expect("a head").status, 200);
    }
    eventually("five slots are held", || gateway.number("/limit/running") == 5);
    let mut client = gateway.client();
    for _ in 0..500 {
        assert_eq!(client.get("/quick").text(), "quick");
    }
    assert_eq!(gateway.number("/limit/running"), 5);
    let grown = gateway.process.memory("VmHWM") - before;
    println!("five slow readers of {} MiB: VmHWM +{} KiB", LEN >> 20, grown / 1024);
    assert!(grown < 8 << 20, "{grown}");
    // One wakes up and gets all of it.
    let mut reader = slow.pop().expect("five");
    let mut got = reader.buffer.len();
    reader.buffer.clear();
    while got < LEN {
        let piece = (LEN - got).min(1 << 20);
        got += reader.bytes(piece).len();
    }
    drop(slow);
    eventually("the slots are free", || gateway.number("/limit/running") == 0);
}

/// While its server takes no more, nothing of the client is read: a reset is noticed all the same.
#[test]
fn a_reset_client_whose_upload_is_stuck_gives_its_slot_back() {
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let origin = Origin::start(move |mut connection| {
        // It takes the head and nothing else, until the test is over.
        if connection.head().is_some() {
            let _ = held.lock().expect("no panic").recv();
        }
    });
    let mut policy = Policy::of(&[origin.server()]);
    policy.origin = "slots = 4".into();
    let gateway = Gateway::start(&policy);
    let upload = |client: &mut Client| {
        client.send("POST /up HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n");
        client.stream.set_nonblocking(true).expect("a socket");
        let piece = vec![b'x'; 1 << 20];
        let mut full = 0;
        while full < 20 {
            match std::io::Write::write(&mut client.stream, &piece) {
                Ok(_) => full = 0,
                Err(_) => full += 1,
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let (mut stays, mut leaves) = (gateway.client(), gateway.client());
    upload(&mut stays);
    upload(&mut leaves);
    eventually("both have a slot", || gateway.number("/limit/running") == 2);
    socket2::SockRef::from(&leaves.stream).set_linger(Some(Duration::ZERO)).expect("a socket");
    drop(leaves);
    eventually("one is free", || gateway.number("/limit/running") == 1);
    // Who has sent all and ends its side has not left.
    stays.finish();
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(gateway.number("/limit/running"), 1);
    drop(stays);
    drop(release);
    eventually("none is held", || gateway.number("/limit/running") == 0);
}

/// Beyond the bound new connections wait in the listen queue while all others have requests; they are served
/// once others leave.
#[test]
fn connections_beyond_the_bound_wait_their_turn() {
    let origin = Origin::answering(|request| {
        if request.target == "/first" {
            std::thread::sleep(PATIENCE);
        }
        ok(format!("GET {}", request.target))
    });
    let mut policy = Policy::of(&[origin.server()]);
    policy.top = "threads = 1".into();
    policy.tables = "[limits]\nconnections_max = 10\n".into();
    let gateway = Gateway::start(&policy);
    let mut first: Vec<Client> = (0..10).map(|_| gateway.client()).collect();
    for client in &mut first {
        client.send("GET /first HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    eventually("all are at the origin", || gateway.number("/limit/running") == 10);
    let mut later: Vec<Client> = (0..5).map(|_| gateway.client()).collect();
    for client in &mut later {
        client.send("GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(gateway.number("/clients/connections_active"), 10);
    drop(first);
    for client in &mut later {
        assert_eq!(client.answer().text(), "GET /later");
    }
}

/// A limit that is found while serving, and begins at ten.
fn adaptive(origin: &Origin) -> Policy {
    Policy { origin: String::new(), ..Policy::of(&[origin.server()]) }
}

/// Uploads that take long because their clients send slowly: more of them than the adaptive limit begins with.
#[test]
fn uploads_at_their_clients_pace_leave_the_slots_to_others() {
    const UPLOADS: usize = 14;
    const PIECE: usize = 80 << 10;
    let origin = Origin::echo();
    let gateway = Gateway::start(&adaptive(&origin));
    let mut uploads: Vec<Client> = (0..UPLOADS).map(|_| gateway.client()).collect();
    for client in &mut uploads {
        client
            .send(format!("POST /up HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", 2 * PIECE));
        client.send(vec![b'x'; PIECE]);
    }
    eventually("none of them has a slot", || gateway.number("/limit/lent") == UPLOADS as u64);
    assert_eq!(gateway.number("/limit/running"), 0);
    let mut client = gateway.client();
    (0..50).for_each(|_| assert_eq!(client.get("/quick").status, 200));
    for client in &mut uploads {
        client.send(vec![b'x'; PIECE]);
    }
    uploads.iter_mut().for_each(|client| assert_eq!(client.answer().status, 200));
    eventually("all is given back", || {
        gateway.number("/limit/running") + gateway.number("/limit/lent") == 0
    });
    gateway.assert_conserved();
}

/// All of them are sent at the same moment: the origin works on no more than the limit has it.
#[test]
fn uploads_that_are_sent_at_once_keep_the_limit() {
    const UPLOADS: usize = 80;
    const PIECE: usize = 80 << 10;
    static WORKING: AtomicUsize = AtomicUsize::new(0);
    static MOST: AtomicUsize = AtomicUsize::new(0);
    let origin = Origin::answering(|_| {
        MOST.fetch_max(WORKING.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(10));
        WORKING.fetch_sub(1, Ordering::SeqCst);
        ok("done")
    });
    let gateway = Gateway::start(&adaptive(&origin));
    let mut uploads: Vec<Client> = (0..UPLOADS).map(|_| gateway.client()).collect();
    for client in &mut uploads {
        client
            .send(format!("POST /up HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", 2 * PIECE));
        client.send(vec![b'x'; PIECE]);
    }
    eventually("none of them has a slot", || gateway.number("/limit/lent") == UPLOADS as u64);
    for client in &mut uploads {
        client.send(vec![b'x'; PIECE]);
    }
    uploads.iter_mut().for_each(|client| assert_eq!(client.answer().status, 200));
    // It begins at ten, and may have grown.
    assert!(MOST.load(Ordering::SeqCst) <= 40, "{MOST:?} at once");
    gateway.assert_conserved();
}

/// The same with answers that clients take slowly.
#[test]
fn answers_at_their_clients_pace_leave_the_slots_to_others() {
    const LEN: usize = 24 << 20;
    let origin = Origin::answering(|request| match request.target.as_str() {
        "/large" => ok(vec![b'x'; LEN]),
        _ => ok("quick"),
    });
    let gateway = Gateway::start(&adaptive(&origin));
    let mut readers: Vec<Client> = (0..14).map(|_| gateway.client()).collect();
    for client in &mut readers {
        client.send("GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    eventually("none of them has a slot", || gateway.number("/limit/lent") == 14);
    let mut client = gateway.client();
    (0..50).for_each(|_| assert_eq!(client.get("/quick").status, 200));
    for client in &mut readers {
        assert_eq!(client.answer().body.len(), LEN);
    }
    eventually("all is given back", || {
        gateway.number("/limit/running") + gateway.number("/limit/lent") == 0
    });
    gateway.assert_conserved();
}
