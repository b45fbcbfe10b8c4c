//! Policing of first requests in network namespaces: what the client gets, and what a server behind it sees. Needs root's rights.

#[allow(dead_code, reason = "each test uses a part of it")]
mod network;

use network::held::Held;
use network::{INTERFACE, Network, SERVER, SERVER_V6, policing, undisturbed};
use socket2::{Domain, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tiergate_core::admit::policer::PolicerId;
use tiergate_core::early::bucket::Wanted;
use tiergate_core::early::heads::{Heads, PathEntry};
use tiergate_kernel::{HttpGate, Service};

const PORT: u16 = 8080;
/// More than a window has at the beginning: it takes acknowledgements.
const LARGE: usize = 2_000_000;
const POLICER: PolicerId = PolicerId(2);
const REFUSED: &[u8] =
    b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 4\r\nConnection: close\r\n\r\nno!\n";
const PLAIN: &str = "GET /cgi/x HTTP/1.1\r\nHost: x\r\n\r\n";

/// A server that counts connections that it has accepted, and those with a request.
struct Server {
    requests: Arc<AtomicU64>,
    accepted: Arc<AtomicU64>,
}

impl Server {
    fn start(network: &Network, deferred: bool) -> Server {
        let (requests, accepted) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let addresses: [IpAddr; 2] = [SERVER.into(), SERVER_V6.parse().expect("an address")];
        for address in addresses {
            let listener = network.on_server(|| TcpListener::bind((address, PORT)).expect("free"));
            if deferred {
                defer(&listener);
            }
            let (requests, accepted) = (requests.clone(), accepted.clone());
            // Ends with the process.
            std::thread::spawn(move || {
                for stream in listener.incoming().map_while(Result::ok) {
                    accepted.fetch_add(1, Ordering::Relaxed);
                    serve(&stream, &requests);
                }
            });
        }
        Server { requests, accepted }
    }

    fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

/// Has connections be accepted with their first data only (TCP_DEFER_ACCEPT).
#[expect(unsafe_code, reason = "no safe crate has the option")]
fn defer(listener: &TcpListener) {
    let seconds: libc::c_int = 5;
    let size = size_of_val(&seconds) as libc::socklen_t;
    let (level, option) = (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT);
    // SAFETY: the descriptor is open, and the system reads the bytes of a value that lives until it returns.
    let set = unsafe {
        libc::setsockopt(listener.as_raw_fd(), level, option, (&raw const seconds).cast(), size)
    };
    assert_eq!(set, 0);
}

fn serve(mut stream: &TcpStream, requests: &AtomicU64) {
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("set");
    let (mut got, mut part) = (Vec::new(), [0; 4096]);
    while !got.ends_with(b"\r\n\r\n") {
        match stream.read(&mut part) {
            Ok(len @ 1..) => got.extend(&part[..len]),
            _ => return,
        }
    }
    requests.fetch_add(1, Ordering::Relaxed);
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
    if got.starts_with(b"GET /large ") {
        let _ = stream.write_all(&vec![b'x'; LARGE]);
    }
}

fn wanted(rate: u32, burst: u32) -> Wanted {
    policing::wanted(rate, burst, &[])
}

fn entry(path: &str, is_whole: bool, bucket: Option<u16>) -> PathEntry {
    PathEntry { path: path.as_bytes().into(), is_whole, bucket, methods: 3 }
}

fn gate(network: &Network, wanted: Wanted, answer: &'static [u8]) -> HttpGate {
    let entries = vec![
        entry("/cgi/", false, Some(0)),
        entry("/cgi/free/", false, None),
        entry("/one", true, Some(0)),
    ];
    let heads = Heads { policers: vec![POLICER], listeners: vec![entries] };
    let service = |ip| Service { listener: 0, local: SocketAddr::new(ip, PORT) };
    let services = [SERVER.into(), SERVER_V6.parse().expect("an address")].map(service);
    network.on_server(|| {
        let mut gate = HttpGate::load().expect("it loads");
        let put = gate.put_in_force(&heads, &services, |_| Some(wanted), |_| answer.to_vec());
        put.expect("there is room");
        gate.attach(INTERFACE).expect("it is free");
        gate.switch(true).expect("it is written");
        gate
    })
}

/// All that is answered to these parts, sent one after the other; or how the connection ends.
fn ask(to: &str, parts: &[&str]) -> Result<Vec<u8>, ErrorKind> {
    let to = SocketAddr::new(to.parse().expect("an address"), PORT);
    let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(5)).expect("it listens");
    stream.set_nodelay(true).expect("set");
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("set");
    for (place, part) in parts.iter().enumerate() {
        if place > 0 {
            std::thread::sleep(Duration::from_millis(30));
        }
        stream.write_all(part.as_bytes()).map_err(|error| error.kind())?;
    }
    let mut got = Vec::new();
    stream.read_to_end(&mut got).map_err(|error| error.kind())?;
    Ok(got)
}

fn status(answer: &Result<Vec<u8>, ErrorKind>) -> &str {
    match answer {
        Ok(bytes) => std::str::from_utf8(bytes.get(9..12).unwrap_or(b"end")).expect("ASCII"),
        Err(ErrorKind::ConnectionReset) => "reset",
        Err(_) => "error",
    }
}

#[test]
fn what_is_refused_is_answered_and_never_seen() {
    let Some(network) = Network::start() else { return };
    let server = Server::start(&network, false);
    let mut gate = gate(&network, wanted(0, 3), REFUSED);
    for to in [SERVER.to_string(), SERVER_V6.to_owned()] {
        let before = server.requests();
        let answers: Vec<_> = network.on_client(|| (0..10).map(|_| ask(&to, &[PLAIN])).collect());
        let passed = answers.iter().filter(|it| status(it) == "200").count();
        assert_eq!(passed, 3, "{answers:?}");
        assert!(answers[3..].iter().all(|it| it.as_deref() == Ok(REFUSED)), "{answers:?}");
        assert_eq!(server.requests() - before, 3);
        let asked = |head: &str| network.on_client(|| ask(&to, &[head]));
        // Longer than what is compared. Where the path's end is not seen, it may be another one.
        for (rest, wanted) in [
            ("x".repeat(200), "429"),
            ("x".repeat(200) + "?/../..", "429"),
            ("x".repeat(70) + "/../../else", "200"),
            ("x".repeat(70) + "/%2e%2e/%2e%2e/else", "200"),
            ("x".repeat(250) + "/../../else", "200"),
        ] {
            let head = format!("GET /cgi/{rest} HTTP/1.1\r\nHost: x\r\n\r\n");
            assert_eq!(status(&asked(&head)), wanted, "{head}");
        }
        for (head, wanted) in [
            ("HEAD /cgi/y HTTP/1.1\r\nHost: x\r\n\r\n", "429"),
            ("GET /cgi/y?a=%20b HTTP/1.1\r\nHost: x\r\n\r\n", "429"),
            ("GET /one HTTP/1.1\r\nHost: x\r\n\r\n", "429"),
            ("GET /one?x HTTP/1.1\r\nHost: x\r\n\r\n", "429"),
            // Other rules, other paths.
            ("GET /one/x HTTP/1.1\r\nHost: x\r\n\r\n", "200"),
            ("GET /on HTTP/1.1\r\nHost: x\r\n\r\n", "200"),
            ("GET /cgi/free/x HTTP/1.1\r\nHost: x\r\n\r\n", "200"),
            ("POST /cgi/x HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "200"),
            ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", "200"),
        ] {
            assert_eq!(status(&asked(head)), wanted, "{head}");
        }
        // Only the first request of a connection, and only where its head comes in one piece.
        let split = network.on_client(|| ask(&to, &["GET /cg", "i/x HTTP/1.1\r\nHost: x\r\n\r\n"]));
        assert_eq!(status(&split), "200");
        // Full again for the other version.
        drop(gate);
        gate = self::gate(&network, wanted(0, 3), REFUSED);
    }
    gate.switch(false).expect("it is written");
    let to = SERVER.to_string();
    assert!((0..6).all(|_| status(&network.on_client(|| ask(&to, &[PLAIN]))) == "200"), "off");
}

#[test]
fn what_passes_is_for_others_at_the_interface_to_judge_too() {
    let Some(network) = Network::start() else { return };
    let _server = Server::start(&network, false);
    let first = gate(&network, wanted(1000, 1000), REFUSED);
    let second = gate(&network, wanted(0, 2), REFUSED);
    let to = SERVER.to_string();
    let answers: Vec<_> = network.on_client(|| (0..6).map(|_| ask(&to, &[PLAIN])).collect());
    let passed = answers.iter().filter(|it| status(it) == "200").count();
    assert_eq!(passed, 2, "{answers:?}");
    let counts = |gate: &HttpGate| gate.counts(POLICER).expect("it is in force");
    assert_eq!((counts(&first).passed, counts(&second).dropped), (6, 4));
}

#[test]
fn a_refused_client_may_use_the_same_port_again_at_once() {
    let Some(network) = Network::start() else { return };
    let _server = Server::start(&network, true);
    let _gate = gate(&network, wanted(0, 0), REFUSED);
    let to = SocketAddr::new(SERVER.into(), PORT);
    let ask = |head: &str| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.set_reuse_address(true).expect("set");
        // Ends by a reset, so that the port is free.
        socket.set_linger(Some(Duration::ZERO)).expect("set");
        let from: SocketAddr = "10.78.0.1:5555".parse().expect("an address");
        socket.bind(&from.into()).expect("it is free");
        socket.connect_timeout(&to.into(), Duration::from_secs(5)).expect("it listens");
        let mut stream: TcpStream = socket.into();
        stream.set_read_timeout(Some(Duration::from_secs(5))).expect("set");
        stream.write_all(head.as_bytes()).expect("sent");
        let mut got = Vec::new();
        let end = stream.read_to_end(&mut got).map_err(|error| error.kind());
        (status(&Ok(got.clone())).to_owned(), end.map(|_| ()), got.len())
    };
    let large = "GET /large HTTP/1.1\r\nHost: x\r\n\r\n";
    for round in 0..5 {
        let (refused, large) = network.on_client(|| (ask(PLAIN), ask(large)));
        assert_eq!(refused, ("429".to_owned(), Ok(()), REFUSED.len()), "{round}");
        assert_eq!((large.0, large.1), ("200".to_owned(), Ok(())), "{round}");
        assert!(large.2 > LARGE, "{round}: {}", large.2);
    }
}

#[test]
fn the_rest_of_a_refused_request_does_not_cost_the_client_its_answer() {
    let Some(network) = Network::start() else { return };
    let _server = Server::start(&network, false);
    let _gate = gate(&network, wanted(0, 0), REFUSED);
    let head = "GET /cgi/x HTTP/1.1\r\nHost: x\r\nContent-Length: 30\r\n\r\n";
    let parts = [head, "0123456789", "0123456789", "0123456789"];
    for to in [SERVER.to_string(), SERVER_V6.to_owned()] {
        for _ in 0..5 {
            let answer = network.on_client(|| ask(&to, &parts));
            assert_eq!(answer.as_deref(), Ok(REFUSED), "{answer:?}");
        }
    }
}

/// `make kernel-bench`: nanoseconds of the program for all packets of a refused connection.
#[test]
#[ignore = "make kernel-bench runs it"]
#[expect(unsafe_code, reason = "no safe crate turns the kernel's statistics on")]
fn what_a_refused_connection_costs() {
    let Some(network) = Network::start() else { return };
    let _server = Server::start(&network, true);
    let gate = gate(&network, wanted(0, 0), REFUSED);
    // SAFETY: it takes a number, and returns a descriptor that is closed with the process.
    assert!(
        unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) } >= 0,
        "a right"
    );
    let to = SERVER.to_string();
    network.on_client(|| (0..20_000).for_each(|_| drop(ask(&to, &[PLAIN]))));
    let refused = gate.counts(POLICER).expect("it is in force").dropped;
    let own = Held::by(std::process::id()).programs;
    let mut programs = libbpf_rs::query::ProgInfoIter::default();
    let is_it = |it: &libbpf_rs::query::ProgramInfo| own.contains(&it.id) && it.name == "tg_http";
    let program = programs.find(is_it).expect("it runs");
    let (nanos, packets) = (program.run_time_ns, program.run_cnt);
    eprintln!(
        "{refused} refused connections: {} ns each in {:.1} packets, {} ns a packet",
        nanos / refused,
        packets as f64 / refused as f64,
        nanos / packets
    );
}

#[test]
fn without_an_answer_connections_are_reset_and_a_rate_is_kept() {
    undisturbed(connections_are_reset_at_a_rate);
}

fn connections_are_reset_at_a_rate() {
    let Some(network) = Network::start() else { return };
    let server = Server::start(&network, true);
    let gate = gate(&network, wanted(50, 5), b"");
    let begun = Instant::now();
    let to = SERVER.to_string();
    let answers: Vec<_> = network.on_client(|| {
        let until = begun + Duration::from_secs(2);
        let ask = || (Instant::now() < until).then(|| ask(&to, &[PLAIN]));
        std::iter::from_fn(ask).collect()
    });
    let time = begun.elapsed().as_secs_f64();
    let passed = answers.iter().filter(|it| status(it) == "200").count() as f64;
    assert!(answers.iter().all(|it| ["200", "reset"].contains(&status(it))), "{answers:?}");
    assert!(answers.len() > 300, "{}", answers.len());
    assert!(passed <= 50.0 * time + 6.0 && passed >= 0.95 * (50.0 * time), "{passed} in {time}");
    let counts = gate.counts(POLICER).expect("it is in force");
    assert_eq!(
        (counts.passed, counts.dropped),
        (passed as u64, answers.len() as u64 - passed as u64)
    );
    assert_eq!(server.requests(), passed as u64);
    // It did not even have to accept them.
    assert_eq!(server.accepted.load(Ordering::Relaxed), passed as u64);
}
