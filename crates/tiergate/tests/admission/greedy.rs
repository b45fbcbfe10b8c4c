//! One address, or a few, that keep forty or more connections busy, beside others that ask for little: with every option
//! that decides who is refused or who goes first, the others are served.

use crate::support;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use support::gateway::{Gateway, Policy};
use support::origin::{Origin, ok};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// So often one of the others comes: a sixth of what the origin can.
const EVERY: Duration = Duration::from_millis(40);
/// How many of them.
const OTHERS: u64 = 80;

/// A case: what the policy says, and what the greedy client sends.
struct Case {
    scheduling: &'static str,
    class: &'static str,
    tables: &'static str,
    /// How many slots there are; the origin answers 160 requests a second through them.
    slots: u64,
    /// From so many addresses so many connections are kept busy in all.
    addresses: u8,
    connections: usize,
    /// Of the greedy client's requests.
    path: &'static str,
    fields: &'static str,
    /// Body of the others' requests, in bytes.
    body: usize,
    /// How many of the others' requests come at once, of one client: a page.
    page: u64,
    /// How long the greedy client has been there before the others come, in seconds.
    head_start: u64,
}

const CASE: Case = Case {
    scheduling: "",
    class: "",
    tables: "",
    slots: 8,
    addresses: 1,
    connections: 40,
    path: "/",
    fields: "",
    body: 0,
    page: 1,
    head_start: 1,
};

async fn connect(from: Ipv4Addr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    let stream = socket.connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Sends a request and reads its answer, which has a `Content-Length`: the status.
async fn ask(stream: &mut TcpStream, request: &[u8]) -> std::io::Result<u16> {
    stream.write_all(request).await?;
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut piece).await?;
        if count == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&piece[..count]);
        let Some(end) = support::answer::head_len(&bytes) else {
            continue;
        };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let len = head.split("content-length: ").nth(1).and_then(|it| it.split("\r\n").next());
        let len: usize = len.and_then(|it| it.parse().ok()).expect("an answer has a length");
        if bytes.len() >= end + len {
            return Ok(head[9..12].parse().expect("a status"));
        }
    }
}

/// Asks again and again from one address, on a connection each.
async fn greedy(
    from: Ipv4Addr,
    to: SocketAddr,
    request: String,
    stop: Arc<AtomicBool>,
    refused: Arc<AtomicU64>,
) {
    while !stop.load(Ordering::Relaxed) {
        let Ok(mut stream) = connect(from, to).await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        while !stop.load(Ordering::Relaxed) {
            match ask(&mut stream, request.as_bytes()).await {
                Ok(200) => {}
                Ok(_) => {
                    refused.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(_) => break,
            }
        }
    }
}

/// How many of [`OTHERS`] are served, each from one of forty addresses on a connection of its own, and how many of the greedy
/// client's were refused.
fn served(case: &Case) -> (u64, u64) {
    let Case {
        scheduling,
        class,
        tables,
        slots,
        addresses,
        connections,
        path,
        fields,
        body,
        page,
        head_start,
    } = *case;
    let origin = Origin::answering(move |request| {
        let times = if request.target.starts_with("/slow") { 12 } else { 1 };
        thread::sleep(Duration::from_micros(6_250 * slots * times));
        ok("done")
    });
    let gateway = Gateway::start(&Policy {
        origin: format!("slots = {slots}"),
        tables: format!(
            "[scheduling]\n{scheduling}\n[[class]]\nname = \"all\"\n{class}\n{tables}\n\
             [[rule]]\npath = \"/*\"\nclass = \"all\"\n"
        ),
        ..Policy::of(&[origin.server()])
    });
    let to = gateway.address;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let seen = runtime.block_on(async {
        let (stop, refused) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let request = format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n");
        for number in 0..connections {
            let from = Ipv4Addr::new(127, 0, 0, 2 + number as u8 % addresses);
            let request = request.replace("{from}", &from.to_string());
            tokio::spawn(greedy(from, to, request, stop.clone(), refused.clone()));
        }
        tokio::time::sleep(Duration::from_secs(head_start)).await;
        let begun = Instant::now();
        let mut others = Vec::new();
        for number in 0..OTHERS {
            let client = number / page;
            tokio::time::sleep_until((begun + EVERY * (client * page) as u32).into()).await;
            others.push(tokio::spawn(async move {
                let from = Ipv4Addr::new(127, 0, 1, (client % 40) as u8 + 1);
                let method = if body == 0 { "GET" } else { "POST" };
                let head = format!(
                    "{method} / HTTP/1.1\r\nHost: a.test\r\nContent-Length: {body}\r\n\
                     Connection: close\r\n\r\n"
                );
                let request = [head.into_bytes(), vec![b'x'; body]].concat();
                let mut stream = connect(from, to).await.ok()?;
                let answer = ask(&mut stream, &request);
                tokio::time::timeout(Duration::from_secs(5), answer).await.ok()?.ok()
            }));
        }
        let mut served = 0;
        for other in others {
            let got = other.await.expect("no panic");
            served += u64::from(got == Some(200));
        }
        stop.store(true, Ordering::Relaxed);
        (served, refused.load(Ordering::Relaxed))
    });
    gateway.assert_conserved();
    seen
}

/// Cases with a name each; what is not said is as in [`CASE`].
macro_rules! cases {
    ($($name:ident: { $($key:ident: $value:expr),* $(,)? })+) => {
        [$((stringify!($name), Case { $($key: $value,)* ..CASE }),)+]
    };
}

/// Most of their time is waiting: six at a time.
const AT_ONCE: usize = 6;

/// Runs a case: how many were served, if that was not nine of ten.
fn too_few((name, case): &(&str, Case)) -> Option<String> {
    let (served, refused) = served(case);
    println!("{name}: {served} of {OTHERS}, {refused} of the greedy refused");
    (served * 10 < OTHERS * 9).then(|| format!("{name}: {served} of {OTHERS}"))
}

#[test]
fn others_are_served_whatever_decides() {
    let cases = CASES;
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if too_few(case).is_some() {
                        failed.lock().expect("no panic").push(case);
                    }
                }
            });
        }
    });
    // Again alone: the other cases may have left too little of the machine.
    let failed = failed.into_inner().expect("no panic");
    let failed: Vec<String> = failed.into_iter().filter_map(too_few).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

const CASES: [(&str, Case); 42] = cases! {
    by_default: {}
    short_queue: { class: "queue = 10" }
    short_queue_of_all: { scheduling: "queue = 10" }
    drop_oldest: { class: "queue = 10\nwhen_full = \"drop-oldest\"" }
    drop_least: { class: "queue = 10\nwhen_full = \"drop-least\"" }
    few_bytes: {
        class: "queue_bytes = \"128KiB\"",
        connections: 400,
        fields: "X-Long: 012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\
                 012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\
                 012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\
                 012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\
                 012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\
                 012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\r\n",
        body: 60_000,
    }
    adaptive_lifo: { class: "order = \"adaptive-lifo\"" }
    by_deadline: { class: "order = \"deadline\"" }
    by_score: { class: "order = \"score\"" }
    codel: { class: "codel = {}" }
    codel_by_deadline: { class: "codel = {}\norder = \"deadline\"" }
    codel_by_score: { class: "codel = {}\norder = \"score\"" }
    short_deadline: { class: "deadline = \"200ms\"" }
    served_late: { class: "deadline = \"200ms\"\nlate = \"last\"" }
    shedding: { tables: "[shedding]\n" }
    triggered_by_its_own_backlog: {
        class: "refuse_at = [{ backlog = \"own\", waiting = 12, until = 6 }]",
        connections: 80,
    }
    triggered_by_every_backlog: {
        class: "refuse_at = [{ backlog = \"total\", waiting = 12 }]",
        connections: 80,
    }
    session_on_twelve_connections: {
        tables: "[session]\ncookie = \"sid\"\n",
        connections: 12,
        fields: "Cookie: sid=one\r\n",
    }
    session_on_forty_connections: {
        tables: "[session]\ncookie = \"sid\"\n",
        fields: "Cookie: sid=one\r\n",
    }
    session_in_a_short_queue: {
        class: "queue = 10",
        tables: "[session]\ncookie = \"sid\"\n",
        fields: "Cookie: sid=one\r\n",
    }
    session_by_deadline: {
        class: "order = \"deadline\"",
        tables: "[session]\ncookie = \"sid\"\n",
        fields: "Cookie: sid=one\r\n",
    }
    session_with_shedding: {
        tables: "[session]\ncookie = \"sid\"\n[shedding]\n",
        fields: "Cookie: sid=one\r\n",
    }
    shedding_of_six_addresses: { tables: "[shedding]\n", addresses: 6, connections: 200 }
    shedding_of_six_addresses_on_few_connections: {
        tables: "[shedding]\n",
        addresses: 6,
        connections: 48,
    }
    shedding_beside_pages: {
        tables: "[shedding]\n",
        addresses: 6,
        connections: 200,
        page: 4,
    }
    shedding_with_a_minimum_below: {
        scheduling: "policy = \"strict\"",
        tables: "[shedding]\n[[class]]\nname = \"low\"\nminimum = \"30%\"\n\
                 [[rule]]\npath = \"/\"\nclass = \"low\"\n",
        path: "/a",
        connections: 60,
    }
    shedding_by_weight: {
        scheduling: "policy = \"weighted\"",
        tables: "[shedding]\n[[class]]\nname = \"low\"\n[[rule]]\npath = \"/\"\nclass = \"low\"\n",
        path: "/a",
        connections: 60,
    }
    shedding_by_share: {
        scheduling: "policy = \"fixed\"",
        class: "share = \"50%\"",
        tables: "[shedding]\n[[class]]\nname = \"low\"\nshare = \"50%\"\n\
                 [[rule]]\npath = \"/\"\nclass = \"low\"\n",
        path: "/a",
        connections: 60,
    }
    sessions_of_slow_requests: {
        tables: "[session]\ncookie = \"sid\"\n",
        addresses: 4,
        connections: 24,
        path: "/slow",
        // Who is served much is known after some services of each.
        head_start: 5,
        fields: "Cookie: sid={from}\r\n",
    }
    sessions_that_pull_a_trigger: {
        class: "refuse_at = [{ backlog = \"own\", waiting = 20 }]",
        tables: "[session]\ncookie = \"sid\"\n",
        addresses: 4,
        connections: 120,
        fields: "Cookie: sid={from}\r\n",
    }
    sessions_of_ten_addresses_in_a_short_queue: {
        class: "queue = 50",
        tables: "[session]\ncookie = \"sid\"\n",
        // Each is known to be served much after nine services, half a second where all begin at once.
        head_start: 2,
        addresses: 10,
        connections: 120,
        fields: "Cookie: sid={from}\r\n",
    }
    sessions_of_ten_addresses_that_drop_the_oldest: {
        class: "queue = 50\nwhen_full = \"drop-oldest\"",
        tables: "[session]\ncookie = \"sid\"\n",
        // Each is known to be served much after nine services, half a second where all begin at once.
        head_start: 2,
        addresses: 10,
        connections: 120,
        fields: "Cookie: sid={from}\r\n",
    }
    sessions_of_five_addresses: {
        tables: "[session]\ncookie = \"sid\"\n",
        addresses: 5,
        connections: 100,
        fields: "Cookie: sid={from}\r\n",
    }
    sessions_of_five_addresses_on_few_connections: {
        tables: "[session]\ncookie = \"sid\"\n",
        addresses: 5,
        connections: 25,
        fields: "Cookie: sid={from}\r\n",
    }
    sessions_of_six_addresses_in_a_short_queue: {
        class: "queue = 50",
        tables: "[session]\ncookie = \"sid\"\n",
        addresses: 6,
        connections: 120,
        fields: "Cookie: sid={from}\r\n",
    }
    sessions_before_one_slot: {
        tables: "[session]\ncookie = \"sid\"\n",
        slots: 1,
        addresses: 4,
        connections: 120,
        fields: "Cookie: sid={from}\r\n",
    }
    lower_site: {
        scheduling: "queue = 50",
        class: "site = \"one\"",
        tables: "[[site]]\nname = \"one\"\n[[site]]\nname = \"two\"\n\
                 [[class]]\nname = \"a\"\nsite = \"two\"\n[[rule]]\npath = \"/a\"\nclass = \"a\"\n",
        path: "/a",
        connections: 150,
    }
    lower_class: {
        scheduling: "queue = 50",
        tables: "[[class]]\nname = \"a\"\n[[rule]]\npath = \"/a\"\nclass = \"a\"\n",
        path: "/a",
        connections: 150,
    }
    other_class_first_come: {
        scheduling: "policy = \"fifo\"\nqueue = 50",
        tables: "[[class]]\nname = \"a\"\n[[rule]]\npath = \"/a\"\nclass = \"a\"\n",
        path: "/a",
        connections: 150,
    }
    weights: { scheduling: "policy = \"weighted\"" }
    policy_by_deadline: { scheduling: "policy = \"deadline\"" }
    places_for_all_by_weight: {
        scheduling: "policy = \"weighted\"\nqueue = 20",
        tables: "[[class]]\nname = \"a\"\n[[rule]]\npath = \"/a\"\nclass = \"a\"\n",
        path: "/a",
        connections: 150,
    }
};

/// A client makes up three hundred names of sessions: those of others stay known.
#[test]
fn made_up_sessions_evict_nobody_elses() {
    let origin = Origin::answering(|_| ok("done"));
    let gateway = Gateway::start(&Policy {
        tables: "[session]\ncookie = \"sid\"\nsessions_max = 100\n".into(),
        ..Policy::of(&[origin.server()])
    });
    let to = gateway.address;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let begun = || -> u64 {
        let page = support::client::Client::connect(gateway.admin).get_local("/metrics").text();
        let lines = page.lines().filter(|line| line.starts_with("tiergate_sessions_started_total"));
        lines.map(|line| line.rsplit(' ').next().expect("a value").parse::<u64>().unwrap()).sum()
    };
    let ask_as = |from: Ipv4Addr, name: String| {
        let request = format!("GET / HTTP/1.1\r\nHost: a.test\r\nCookie: sid={name}\r\n\r\n");
        let answer = runtime.block_on(async {
            let mut stream = connect(from, to).await.expect("it listens");
            ask(&mut stream, request.as_bytes()).await.expect("an answer")
        });
        assert_eq!(answer, 200);
    };
    let users = || {
        for user in 1..=50 {
            ask_as(Ipv4Addr::new(127, 0, 1, user), format!("user-{user}"));
        }
    };
    users();
    (0..300).for_each(|number| ask_as(Ipv4Addr::new(127, 0, 0, 2), format!("made-up-{number}")));
    assert_eq!(begun(), 350);
    users();
    assert_eq!(begun(), 350, "all users' sessions were still known");
}
