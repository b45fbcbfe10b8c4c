//! Background answers over a link whose capacity is typed in: they leave in what the others leave idle, over HTTP/1.1 and HTTP/2, plain and
//! through TLS, each as fast as any other.

use crate::support;
use std::io::Read;
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use support::client::Client;
use support::gateway::{Gateway, Policy, certificate};
use support::origin::Origin;
use support::process::curl;

/// What the link carries, bits a second; and what the background may use of it, bytes a second.
const CAPACITY: u64 = 20_000_000;
const RATE: f64 = 0.98 * CAPACITY as f64 / 8.0 * 1400.0 / 1497.0;

/// An origin whose answers are as long as the last number in the path says.
fn origin() -> Origin {
    Origin::answering(|request| {
        let len = request.target.rsplit('/').next().and_then(|it| it.parse().ok()).unwrap_or(0);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n");
        [head.into_bytes(), vec![b'x'; len]].concat()
    })
}

fn policy(server: &str, capacity: Option<u64>) -> Policy {
    let link = capacity.map_or(String::new(), |it| format!("[link]\ncapacity = {it}\n"));
    let tables = format!(
        "{link}[[class]]\nname = \"site\"\n\
         [[class]]\nname = \"batch\"\nbackground = true\n\
         [[rule]]\npath = \"/batch/*\"\nclass = \"batch\"\n"
    );
    Policy { tables, origin: "slots = 50".into(), ..Policy::of(&[server.to_owned()]) }
}

/// How long it takes to do it.
fn time(does: impl FnOnce()) -> f64 {
    let began = Instant::now();
    does();
    began.elapsed().as_secs_f64()
}

/// The first of three times that is below this, or the third: what else the machine does only makes them longer.
fn soonest(most: f64, mut measured: impl FnMut() -> f64) -> f64 {
    let mut took = f64::INFINITY;
    for _ in 0..3 {
        took = measured();
        if took < most {
            break;
        }
    }
    took
}

fn get(gateway: &Gateway, path: &str) {
    let answer = gateway.client().get(path);
    let len: usize = path.rsplit('/').next().and_then(|it| it.parse().ok()).expect("its length");
    assert_eq!((answer.status, answer.body.len()), (200, len));
}

#[test]
fn the_background_has_what_the_link_carries_and_no_more() {
    let origin = origin();
    let gateway = Gateway::start(&policy(&origin.server(), Some(CAPACITY)));
    let url = format!("http://{}/batch/1000000", gateway.address);
    for way in ["--http1.1", "--http2-prior-knowledge"] {
        let least = 1e6 / RATE;
        let measured = || {
            let took = time(|| {
                let got = curl(&[way, "-o", "/dev/null", "-w", "%{size_download}", &url]);
                assert_eq!(got.as_deref().unwrap_or("1000000"), "1000000");
            });
            assert!(took > 0.95 * least, "{way}: {took} s, {least} at least");
            took
        };
        let took = soonest(3.0 * least + 0.5, measured);
        assert!(took < 3.0 * least + 0.5, "{way}: {took} s, {least} at least");
    }
    // Through TLS, too: what is around the bytes is counted in.
    let folder = tempfile::tempdir().expect("a folder");
    let (_, keys) = certificate(folder.path(), "link");
    let tls = Policy { listener: keys, ..policy(&origin.server(), Some(CAPACITY)) };
    let tls = Gateway::start(&tls);
    let url = format!("https://{}/batch/1000000", tls.address);
    for way in ["--http1.1", "--http2"] {
        let took = time(|| {
            let _ = curl(&[way, "-k", "-o", "/dev/null", &url]);
        });
        assert!(took > 0.95 * 1e6 / RATE, "{way}: {took} s");
    }
    // The others are not held up.
    let most = 0.8 * 1e6 / RATE;
    let took = soonest(most, || time(|| get(&gateway, "/site/1000000")));
    assert!(took < most, "{took} s");
    gateway.assert_conserved();
}

#[test]
fn what_the_others_send_is_charged_to_the_link() {
    let origin = origin();
    let gateway = Gateway::start(&policy(&origin.server(), Some(CAPACITY)));
    let took = time(|| {
        thread::scope(|scope| {
            scope.spawn(|| get(&gateway, "/batch/1000000"));
            // Two thirds of what there is, in bursts.
            for _ in 0..10 {
                get(&gateway, "/site/100000");
                thread::sleep(Duration::from_millis(50));
            }
        });
    });
    let least = (1e6 + 1e6) / RATE;
    assert!(took > 0.9 * least, "{took} s, {least} at least");
}

/// A client may say that it takes no longer packets than 88 bytes: nearly half of what is on the wire then are heads.
#[test]
fn short_packets_are_charged_with_their_heads() {
    let origin = origin();
    let gateway = Gateway::start(&policy(&origin.server(), Some(CAPACITY)));
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    let socket = socket.expect("a socket");
    socket.set_tcp_mss(88).expect("an option of TCP");
    socket.connect(&gateway.address.into()).expect("it listens");
    let mut client = Client { stream: socket.into(), buffer: Vec::new() };
    let took = time(|| assert_eq!(client.get("/batch/500000").body.len(), 500_000));
    let full = 500_000.0 / RATE;
    assert!(took > 1.4 * full, "{took} s, {full} in full packets");
    gateway.assert_conserved();
}

/// Over HTTP/2 a head is no part of what the gateway writes to the connection by itself.
#[test]
fn what_is_no_more_than_a_head_has_its_turns_too() {
    const ANSWERS: usize = 40;
    const LEN: usize = 6000;
    let origin = Origin::heads(LEN);
    let gateway = Gateway::start(&policy(&origin.server(), Some(1_000_000)));
    let url = format!("http://{}/batch/0", gateway.address);
    for way in ["--http1.1", "--http2-prior-knowledge"] {
        let took = time(|| {
            for _ in 0..ANSWERS {
                let got = curl(&[way, "-I", "-w", "%{http_code}", "-o", "/dev/null", &url]);
                assert_eq!(got.as_deref().unwrap_or("200"), "200");
            }
        });
        // Without turns, no longer than it takes to connect so often.
        let least = (ANSWERS * LEN) as f64 * 0.75 * 8.0 / 1e6;
        assert!(took > 0.9 * least, "{way}: {took} s, {least} at least");
    }
    gateway.assert_conserved();
}

/// Bytes that were written to connections of the gateway's and that their clients' systems have not taken.
fn unsent(gateway: &Gateway) -> u64 {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("the system has one");
    let port = format!(":{:04X}", gateway.address.port());
    let of_ours = table.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_ours = fields.len() > 4 && fields[1].ends_with(&port) && fields[3] == "01";
        is_ours.then(|| fields[4].split(':').next().expect("two numbers").to_owned())
    });
    of_ours.map(|it| u64::from_str_radix(&it, 16).expect("a number")).sum()
}

/// What clients have no room for would leave later, all of it together, and the link was charged for it long before.
#[test]
fn what_clients_have_no_room_for_is_not_written() {
    const CLIENTS: usize = 20;
    const LEN: usize = 100_000;
    let origin = origin();
    let gateway = Gateway::start(&policy(&origin.server(), Some(10 * CAPACITY)));
    let mut clients: Vec<Client> = (0..CLIENTS)
        .map(|_| {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
            let socket = socket.expect("a socket");
            socket.set_recv_buffer_size(2304).expect("an option");
            socket.connect(&gateway.address.into()).expect("it listens");
            let mut client = Client { stream: socket.into(), buffer: Vec::new() };
            client.send(format!("GET /batch/{LEN} HTTP/1.1\r\nHost: x\r\n\r\n"));
            client
        })
        .collect();
    // Each has something, and nobody reads: soon nobody has room. The system tries small parts of a packet now and then.
    clients.iter().for_each(|it| assert_eq!(it.stream.peek(&mut [0]).expect("an answer"), 1));
    thread::sleep(Duration::from_millis(1500));
    let waits = [(); 5].map(|()| {
        thread::sleep(Duration::from_millis(100));
        unsent(&gateway)
    });
    assert!(waits.iter().all(|it| *it < 100 * CLIENTS as u64), "{waits:?}");
    thread::scope(|scope| {
        for client in &mut clients {
            scope.spawn(|| assert_eq!(client.answer().body.len(), LEN));
        }
    });
    gateway.assert_conserved();
}

#[test]
fn background_answers_share_it() {
    let origin = origin();
    // Turns are by thread.
    let policy = Policy { top: "threads = 1".into(), ..policy(&origin.server(), Some(CAPACITY)) };
    let gateway = Gateway::start(&policy);
    let mut ends: Vec<f64> = thread::scope(|scope| {
        let began = Instant::now();
        let gets: Vec<_> = (0..8)
            .map(|_| {
                let gateway = &gateway;
                scope.spawn(move || {
                    get(gateway, "/batch/250000");
                    began.elapsed().as_secs_f64()
                })
            })
            .collect();
        gets.into_iter().map(|it| it.join().expect("it was answered")).collect()
    });
    ends.sort_by(f64::total_cmp);
    let least = 8.0 * 250_000.0 / RATE;
    assert!(ends[7] > 0.95 * least, "{ends:?}, {least} at least");
    // One after another, the first would be done after an eighth of the time.
    assert!(ends[0] > 0.4 * ends[7], "{ends:?}");
}

/// Before a link that is short, the origin is soon done with a background answer: what waits for the link then is not in its way, and the next may start.
#[test]
fn what_waits_for_the_link_is_not_in_progress_at_the_origin() {
    let origin = origin();
    let origin_keys = "slots = \"adaptive\"".into();
    let policy = Policy { origin: origin_keys, ..policy(&origin.server(), Some(CAPACITY)) };
    let gateway = Gateway::start(&policy);
    let end = Instant::now() + Duration::from_secs(4);
    let (mut looks, mut idle) = (0, 0);
    thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| {
                while Instant::now() < end {
                    get(&gateway, "/batch/100000");
                }
            });
        }
        while Instant::now() < end {
            get(&gateway, "/site/1000");
            thread::sleep(Duration::from_millis(30));
            let running = gateway.number("/background/0/running");
            looks += 1;
            idle += u64::from(running == 0);
        }
    });
    // Otherwise there would always be one.
    assert!(idle > looks / 3, "{idle} of {looks} times nothing was in progress");
    gateway.assert_conserved();
}

#[test]
fn a_client_that_takes_nothing_or_leaves_holds_nobody_up() {
    let origin = origin();
    let gateway = Gateway::start(&policy(&origin.server(), Some(CAPACITY)));
    let ask = b"GET /batch/5000000 HTTP/1.1\r\nHost: a\r\n\r\n";
    let asks = || {
        let mut stream = TcpStream::connect(gateway.address).expect("it listens");
        std::io::Write::write_all(&mut stream, ask).expect("it reads");
        stream
    };
    let idle: Vec<TcpStream> = (0..4).map(|_| asks()).collect();
    for _ in 0..4 {
        let mut leaves = asks();
        let _ = leaves.read(&mut [0; 1000]);
    }
    let took = time(|| get(&gateway, "/batch/500000"));
    let alone = 500_000.0 / RATE;
    // What those that take nothing have taken fills their buffers; then they have no turn any more.
    assert!(took < 40.0 * alone, "{took} s, alone {alone}");
    drop(idle);
}

/// One of the background may be at the origin, and it waits for the link or for its client, more than there is a stock for.
#[test]
fn a_long_answer_does_not_keep_the_others_of_the_background_from_the_origin() {
    const LONG: usize = 60_000_000;
    for capacity in [Some(CAPACITY), None] {
        let origin = origin();
        let policy =
            Policy { origin: "slots = \"adaptive\"".into(), ..policy(&origin.server(), capacity) };
        let gateway = Gateway::start(&policy);
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            // While others come the background is bounded.
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    get(&gateway, "/site/100");
                    thread::sleep(Duration::from_millis(20));
                }
            });
            thread::sleep(Duration::from_millis(200));
            let mut long = gateway.client();
            long.send(format!("GET /batch/{LONG} HTTP/1.1\r\nHost: x\r\n\r\n"));
            if capacity.is_some() {
                let mut stream = long.stream.try_clone().expect("our own socket");
                scope.spawn(move || std::io::copy(&mut stream, &mut std::io::sink()));
            }
            thread::sleep(Duration::from_millis(500));
            let others = scope.spawn(|| time(|| (0..5).for_each(|_| get(&gateway, "/batch/1000"))));
            let took = others.join();
            is_over.store(true, Ordering::Relaxed);
            let _ = long.stream.shutdown(std::net::Shutdown::Both);
            // The link needs 24 seconds for the long one, and who takes nothing has 30.
            assert!(took.is_ok_and(|took| took < 12.0), "{capacity:?}");
        });
    }
}

#[test]
fn answers_of_all_kinds_are_whole() {
    let origin = Origin::answering(|request| {
        let head = |more: &str| format!("HTTP/1.1 200 OK\r\n{more}\r\n");
        match request.target.rsplit('/').next() {
            Some("chunks") => {
                let chunk = [b"7d0\r\n".to_vec(), vec![b'y'; 2000], b"\r\n".to_vec()].concat();
                let body = chunk.repeat(20);
                [head("Transfer-Encoding: chunked\r\n").into_bytes(), body, b"0\r\n\r\n".to_vec()]
                    .concat()
            }
            Some("nothing") => b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
            Some("unchanged") => b"HTTP/1.1 304 Not Modified\r\n\r\n".to_vec(),
            _ => head("Content-Length: 0\r\n").into_bytes(),
        }
    });
    let gateway = Gateway::start(&policy(&origin.server(), Some(CAPACITY)));
    let url = |name: &str| format!("http://{}/batch/{name}", gateway.address);
    for way in ["--http1.1", "--http2-prior-knowledge"] {
        for (name, method, expected) in [
            ("chunks", "GET", "200 40000"),
            ("nothing", "GET", "204 0"),
            ("unchanged", "GET", "304 0"),
            ("empty", "GET", "200 0"),
            ("empty", "HEAD", "200 0"),
        ] {
            let head = if method == "HEAD" { "-I" } else { "-s" };
            let write = "%{http_code} %{size_download}";
            let got = curl(&[way, head, "-o", "/dev/null", "-w", write, &url(name)]);
            assert_eq!(got.as_deref().unwrap_or(expected), expected, "{way} {method} {name}");
        }
    }
    gateway.assert_conserved();
}

#[test]
fn a_reload_takes_the_bound_away_and_sets_another() {
    let origin = origin();
    let server = origin.server();
    let gateway = Gateway::start(&policy(&server, Some(200_000)));
    thread::scope(|scope| {
        // At that rate it would take for more than a minute.
        let waits = scope.spawn(|| time(|| get(&gateway, "/batch/2000000")));
        thread::sleep(Duration::from_millis(300));
        for capacity in [None, Some(CAPACITY)] {
            gateway
                .write_policy(&policy(&server, capacity).text(&[gateway.address], gateway.admin));
            let (status, text) = gateway.reload();
            assert_eq!(status, 200, "{text}");
        }
        assert!(waits.join().expect("it was answered") < 30.0);
    });
    let took = time(|| get(&gateway, "/batch/500000"));
    assert!(took > 0.95 * 500_000.0 / RATE, "{took} s");
    let _ = Client::connect(gateway.address);
}

/// Classes by the first part of the path, with these parts of the link.
fn parts(server: &str, transmits: &[(&str, &str)]) -> Policy {
    let class = |(name, transmit): &(&str, &str)| {
        let of = if transmit.is_empty() { String::new() } else { format!("{transmit}\n") };
        format!(
            "[[class]]\nname = \"{name}\"\n{of}[[rule]]\npath = \"/{name}/*\"\nclass = \"{name}\"\n"
        )
    };
    let classes: String = transmits.iter().map(class).collect();
    let tables = format!("[link]\ncapacity = {CAPACITY}\n{classes}");
    Policy { tables, origin: "slots = 200".into(), ..Policy::of(&[server.to_owned()]) }
}

/// The parts of all that is sent in a second and a half, by class, while four clients of each ask for one answer after another.
fn sent(gateway: &Gateway, names: &[&str], way: &str) -> Vec<f64> {
    let end = Instant::now() + Duration::from_millis(2500);
    let bytes = || -> Vec<f64> {
        let status = gateway.status();
        let of = |name: &&str| {
            let parts = status["link"].as_array().expect("parts of the link");
            let part = parts.iter().find(|it| it["class"] == **name).expect("each class has one");
            part["sent_bytes"].as_f64().expect("a number")
        };
        names.iter().map(of).collect()
    };
    thread::scope(|scope| {
        for name in names.iter().flat_map(|name| [name; 4]) {
            // Long enough that on a busy machine, too, a class has more to send while its clients start their next requests.
            let url = format!("http://{}/{name}/250000", gateway.address);
            scope.spawn(move || {
                while Instant::now() < end {
                    let _ = curl(&[way, "-o", "/dev/null", &url]);
                }
            });
        }
        thread::sleep(Duration::from_millis(700));
        let before = bytes();
        thread::sleep(Duration::from_millis(1500));
        let sent: Vec<f64> = bytes().iter().zip(before).map(|(now, then)| now - then).collect();
        let all: f64 = sent.iter().sum();
        sent.iter().map(|it| it / all).collect()
    })
}

#[test]
fn each_class_has_its_part_of_the_link() {
    let origin = origin();
    let transmits = [
        ("held", "transmit = { slice = \"5ms\", period = \"50ms\", extra = false }"),
        ("sure", "transmit = { slice = \"10ms\", period = \"20ms\", extra = false }"),
        ("rest", ""),
        ("more", "transmit = { weight = 3 }"),
    ];
    let gateway = Gateway::start(&parts(&origin.server(), &transmits));
    for way in ["--http1.1", "--http2-prior-knowledge"] {
        for (names, wanted) in [
            (&["held", "sure", "rest", "more"][..], &[0.1, 0.5, 0.1, 0.3][..]),
            // What is not wanted, others have.
            (&["held", "rest"], &[0.1]),
        ] {
            // The clients need the machine to ask as fast as the link sends: once more if they had not.
            let mut measured = Vec::new();
            let is_right = (0..3).any(|_| {
                let parts = sent(&gateway, names, way);
                let is_near = |(part, wanted): (&f64, &f64)| (part / wanted - 1.0).abs() < 0.2;
                let is_right = parts.iter().zip(wanted).all(is_near);
                measured.push(parts);
                is_right
            });
            assert!(is_right, "{way}: {measured:.3?}");
        }
    }
    gateway.assert_conserved();
}

#[test]
fn who_is_held_is_not_taken_for_slow_and_leaves_the_others_alone() {
    let origin = origin();
    let transmits = [
        ("held", "transmit = { slice = \"1ms\", period = \"100ms\", extra = false }"),
        ("pages", ""),
    ];
    let gateway = Gateway::start(&parts(&origin.server(), &transmits));
    thread::scope(|scope| {
        // Together three seconds of a hundredth of the link; the pages are a fifth of a second of the rest.
        let get_held = || time(|| get(&gateway, "/held/25000"));
        let held: Vec<_> = (0..3).map(|_| scope.spawn(get_held)).collect();
        let took = time(|| (0..20).for_each(|_| get(&gateway, "/pages/20000")));
        let held = held.into_iter().map(|it| it.join().expect("it was answered"));
        let longest = held.fold(0.0, f64::max);
        assert!(took < 0.5 * longest, "{took} s beside {longest} s");
    });
    gateway.assert_conserved();
}

#[test]
fn a_reload_that_gives_or_takes_parts_stalls_nobody() {
    let origin = origin();
    let held = ("held", "transmit = { slice = \"1ms\", period = \"100ms\", extra = false }");
    let batch = ("batch", "background = true");
    let [pages, free] = [("pages", ""), ("held", "")];
    let given = parts(&origin.server(), &[held, pages, batch]);
    let taken = parts(&origin.server(), &[free, pages, batch]);
    let gateway = Gateway::start(&given);
    let reload = |policy: &Policy| {
        gateway.write_policy(&policy.text(&[gateway.address], gateway.admin));
        let (status, text) = gateway.reload();
        assert_eq!(status, 200, "{text}");
    };
    // Who waits is let go.
    thread::scope(|scope| {
        let waits = scope.spawn(|| time(|| get(&gateway, "/held/2000000")));
        thread::sleep(Duration::from_millis(300));
        reload(&taken);
        assert!(waits.join().expect("it was answered") < 30.0, "80 s at its part");
    });
    // Who sends twice what the link carries is held, too, and does not keep the others from it.
    thread::scope(|scope| {
        let url = format!("http://{}/held/40000000", gateway.address);
        let sends = scope.spawn(move || {
            time(|| {
                // It is ended by its own time: that is no success.
                let arguments = ["-s", "-m", "6", "--limit-rate", "5M", "-o", "/dev/null", &url];
                let _ = Command::new("curl").args(arguments).status();
            })
        });
        thread::sleep(Duration::from_millis(100));
        reload(&given);
        let took = time(|| get(&gateway, "/pages/500000"));
        let sends = sends.join().expect("it ends by itself");
        assert!(took < 0.5 * sends, "{took} s beside one that ended after {sends} s");
    });
    gateway.assert_conserved();
}
