//! What an origin can do wrong, and clients that leave: answers in time, nothing held, nothing lost.

mod support;

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::client::Client;
use support::gateway::{Gateway, Policy, Port};
use support::load::{Habit, Load};
use support::origin::{Origin, ok};
use support::process::{Process, program};
use support::{PATIENCE, eventually, eventually_is};

const TIMEOUTS: &str = "[timeouts]\nconnect = \"300ms\"\nresponse_head = \"500ms\"\n\
                        response_body = \"500ms\"\nrequest_body = \"500ms\"\nwrite = \"500ms\"\n";

/// Slots as given, times short.
fn policy(servers: &[String], slots: u32) -> Policy {
    let mut policy = Policy::of(servers);
    policy.origin = format!("slots = {slots}\nretry_after = \"200ms\"");
    policy.tables = TIMEOUTS.into();
    policy
}

/// Node as an origin that can be killed and started again on its port.
fn start_node(program: &Path, port: &Port) -> Process {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/origin.js");
    let mut command = Command::new(program);
    command.arg(here).arg(port.address.port().to_string());
    let process = Process::start(command.stdin(Stdio::null()).stdout(Stdio::null()));
    eventually("node listens", || Client::try_connect(port.address).is_ok());
    process
}

#[test]
fn an_origin_killed_under_load_is_answered_for_quickly_and_taken_back_by_itself() {
    let Some(node) = program("node") else { return };
    let port = Port::reserve();
    let mut origin = start_node(&node, &port);
    let gateway = Gateway::start(&policy(&[port.address.to_string()], 8));
    let load = Load::start(gateway.address, 16, Habit::Keep);
    let answered = || gateway.number("/clients/responses/2xx");
    for _ in 0..3 {
        let before = answered();
        eventually("requests are answered", || answered() > before + 100);
        origin.kill();
        let mut probe = gateway.client();
        let start = Instant::now();
        let status = probe.get("/probe").status;
        assert!((502..=504).contains(&status), "{status}");
        // The sum of all time-outs on the way, and room for a busy machine.
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
        eventually("the origin is known to be down", || {
            gateway.status()["origin"][0]["health"] != "up"
        });
        origin = start_node(&node, &port);
        eventually("the origin is back", || gateway.get("/probe").status == 200);
    }
    let seen = load.stop();
    println!("killed three times: {:?}", seen.answers);
    assert!(seen.answers.keys().all(|status| matches!(status, 200 | 502 | 503)), "{seen:#?}");
    assert!(seen.lost.is_empty() && seen.wrong.is_empty(), "{seen:#?}");
    gateway.assert_conserved();
}

#[test]
fn an_origin_that_never_answers_becomes_504() {
    let origin = Origin::start(|mut connection| while connection.more() {});
    let mut policy = policy(&[origin.server()], 4);
    policy.origin += "\nfailures_max = 1000";
    let gateway = Gateway::start(&policy);
    let mut clients: Vec<Client> = (0..4).map(|_| gateway.client()).collect();
    for client in &mut clients {
        client.send("GET /x HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    for client in &mut clients {
        assert_eq!(client.answer().status, 504);
    }
    gateway.assert_conserved();
    eventually("their connections are closed", || origin.open() == 0);
}

/// A listen queue that is full: connecting takes longer than it may.
#[test]
fn an_origin_that_does_not_accept_becomes_504() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let _ = socket2::SockRef::from(&listener).listen(1);
    let address = listener.local_addr().expect("bound");
    let mut held = Vec::new();
    while let Ok(stream) =
        std::net::TcpStream::connect_timeout(&address, Duration::from_millis(100))
    {
        held.push(stream);
        assert!(held.len() < 100, "a queue of one fills up");
    }
    let gateway = Gateway::start(&policy(&[address.to_string()], 4));
    assert_eq!(gateway.get("/x").status, 504);
    gateway.assert_conserved();
}

#[test]
fn an_origin_that_resets_becomes_502_and_is_left_out() {
    let origin = Origin::start(|mut connection| {
        connection.request();
        connection.reset();
    });
    let gateway = Gateway::start(&policy(&[origin.server()], 4));
    for _ in 0..3 {
        assert_eq!(gateway.get("/x").status, 502);
    }
    assert_eq!(gateway.get("/x").status, 503, "three failures in a row take it out");
    assert_eq!(gateway.status()["origin"][0]["health"], "down");
    eventually_is("one request tries it again", 502, || gateway.get("/x").status);
    gateway.assert_conserved();
}

#[test]
fn half_an_answer_is_seen_to_be_half_an_answer() {
    const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    const LENGTH: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n";
    let halves: [(&[u8], &[u8]); 3] =
        [(LENGTH, b"half"), (CHUNKED, b"4\r\nhalf\r\n"), (CHUNKED, b"zz\r\nhalf\r\n")];
    let origin = Origin::start(move |mut connection| {
        while let Some(request) = connection.request() {
            match request.target.as_str() {
                "/0" | "/1" | "/2" => {
                    let (head, half) =
                        halves[request.target[1..].parse::<usize>().expect("a digit")];
                    connection.send(head);
                    std::thread::sleep(Duration::from_millis(100));
                    connection.send(half);
                    return;
                }
                // Goes on for ever with its second half.
                "/stall" => connection.send([LENGTH, b"half"].concat()),
                _ => connection.ok("whole"),
            }
        }
    });
    let mut policy = policy(&[origin.server()], 4);
    policy.origin += "\nfailures_max = 1000";
    let gateway = Gateway::start(&policy);
    for path in ["/0", "/1", "/2", "/stall"] {
        let mut client = gateway.client();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
        assert_eq!(client.try_head().expect("the head is whole").status, 200);
        let rest = client.rest();
        assert!(!rest.windows(5).any(|five| five == b"0\r\n\r\n"), "{path} looks whole: {rest:?}");
        assert!(rest.len() < 10, "{path}: {rest:?}");
        assert_eq!(gateway.get("/whole").text(), "whole");
    }
    gateway.assert_conserved();
    let failures = gateway.number("/origin/0/failures");
    assert_eq!(failures, 4, "an origin that breaks off has failed");
    let finished = gateway.status()["classes"][0]["finished"].clone();
    assert_eq!((&finished["failed"], &finished["served"]), (&4.into(), &4.into()));
}

/// Only the connection's end ends such a body, so a reset must stay a reset.
#[test]
fn a_body_without_length_that_is_reset_does_not_end_cleanly() {
    let origin = Origin::start(|mut connection| {
        connection.request();
        connection.send("HTTP/1.1 200 OK\r\n\r\nhalf");
        std::thread::sleep(Duration::from_millis(100));
        connection.reset();
    });
    let gateway = Gateway::start(&policy(&[origin.server()], 4));
    let mut client = gateway.client();
    client.send("GET /x HTTP/1.1\r\nHost: x\r\n\r\n");
    let ended = client.try_answer(false).map(|answer| answer.text());
    let kind = ended.expect_err("it was cut").kind();
    assert_eq!(kind, std::io::ErrorKind::ConnectionReset);
    gateway.assert_conserved();
}

#[test]
fn an_answer_before_the_body_is_passed_on_and_ends_the_connection() {
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
    let mut policy = policy(&[origin.server()], 4);
    policy.tables += "[forwarding]\nbuffer_request = 0\n";
    let gateway = Gateway::start(&policy);
    for expect in ["", "Expect: 100-continue\r\n"] {
        let mut client = gateway.client();
        client.send(format!(
            "PUT /early HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n{expect}\r\n"
        ));
        let answer = client.answer();
        assert_eq!((answer.status, answer.text().as_str()), (401, "no"));
        assert!(answer.closes(), "{}", answer.head);
        // The rest of the body is not a request.
        client.send_anyway(b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(client.rest(), b"");
    }
    assert_eq!(gateway.get("/after").text(), "good");
    assert!(
        !origin
            .received()
            .iter()
            .any(|bytes| bytes.windows(4).any(|four| four == b"/smu") && bytes.starts_with(b"GET"))
    );
    gateway.assert_conserved();
}

#[test]
fn interim_answers_are_passed_on_but_not_without_end() {
    let origin = Origin::start(|mut connection| {
        while let Some(request) = connection.request() {
            let count: usize = request.target[1..].parse().unwrap_or(0);
            for _ in 0..count {
                connection.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
            }
            connection.ok("final");
        }
    });
    let gateway = Gateway::start(&policy(&[origin.server()], 4));
    let mut client = gateway.client();
    client.send("GET /3 HTTP/1.1\r\nHost: x\r\n\r\n");
    let statuses: Vec<u16> = (0..4).map(|_| client.answer().status).collect();
    assert_eq!(statuses, [103, 103, 103, 200]);
    // HTTP/1.0 knows none.
    let mut old = gateway.client();
    old.send("GET /3 HTTP/1.0\r\nHost: x\r\n\r\n");
    assert_eq!(old.answer().status, 200);
    let mut client = gateway.client();
    client.send("GET /100000 HTTP/1.1\r\nHost: x\r\n\r\n");
    let last = (0..100).map(|_| client.answer().status).find(|&status| status != 103);
    assert_eq!(last, Some(502));
    gateway.assert_conserved();
}

#[test]
fn a_client_that_leaves_while_it_waits_leaves_the_backlog() {
    let go = Arc::new(AtomicBool::new(false));
    let wait = go.clone();
    let origin = Origin::answering(move |request| {
        while !wait.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
        ok(&request.target)
    });
    let mut policy = policy(&[origin.server()], 1);
    policy.tables = "[[class]]\nname = \"only\"\ndeadline = \"1m\"\n".into();
    let gateway = Gateway::start(&policy);
    let mut busy = gateway.client();
    busy.send("GET /busy HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("the slot is taken", || gateway.number("/limit/running") == 1);
    let mut waiting: Vec<Client> = (0..20).map(|_| gateway.client()).collect();
    for client in &mut waiting {
        client.send("GET /waits HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    eventually("they wait", || gateway.number("/limit/waiting") == 20);
    let mut last = waiting.pop().expect("twenty");
    drop(waiting);
    eventually("those who left are gone", || gateway.number("/limit/waiting") == 1);
    go.store(true, Ordering::SeqCst);
    assert_eq!((busy.answer().text(), last.answer().text()), ("/busy".into(), "/waits".into()));
    assert_eq!(gateway.number("/classes/0/cancelled_waiting"), 19);
    assert_eq!(gateway.number("/clients/requests/HTTP~11.1"), 21, "each request is counted once");
    assert_eq!(origin.requests().0.len(), 2, "whoever left cost the origin nothing");
    gateway.assert_conserved();
}

/// In each phase of a request the client's leaving frees the slot and the origin's connection.
#[test]
fn a_client_that_leaves_in_service_frees_the_slot_and_the_origin() {
    let origin = Origin::start(|mut connection| {
        let Some(request) = connection.head() else { return };
        match request.target.as_str() {
            // Never answers; or an answer that stops half way: an event stream between two events.
            "/head" | "/upload" | "/uploaded-head" => {}
            _ => connection
                .send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"),
        }
        while connection.more() {}
    });
    let mut policy = policy(&[origin.server()], 4);
    // So that the origin sees the beginning of a body.
    policy.tables = "[forwarding]\nbuffer_request = 0\n".into();
    let gateway = Gateway::start(&policy);
    for (path, method, body) in [
        ("/head", "GET", 0),
        ("/body", "GET", 0),
        ("/upload", "POST", 100),
        ("/upload-body", "POST", 100),
        ("/uploaded-head", "POST", 100_000),
        ("/uploaded-body", "POST", 100_000),
    ] {
        leaves(&gateway, &origin, path, method, body);
    }
    gateway.assert_conserved();
    let finished = &gateway.status()["classes"][0]["finished"];
    assert_eq!(finished["cancelled"], 6, "{finished:#}");
    // The body was read before: whole, or its beginning.
    policy.tables = String::new();
    let gateway = Gateway::start(&policy);
    for body in [20_000, 60_000, 100_000] {
        leaves(&gateway, &origin, "/uploaded-head", "POST", body);
        leaves(&gateway, &origin, "/uploaded-body", "POST", body);
    }
    gateway.assert_conserved();
}

fn leaves(gateway: &Gateway, origin: &Origin, path: &str, method: &str, body: usize) {
    let mut client = gateway.client();
    let length = match body {
        0 => String::new(),
        len => format!("Content-Length: {len}\r\n"),
    };
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: x\r\n{length}\r\n"));
    if path.starts_with("/uploaded") {
        client.send(vec![b'x'; body]);
    }
    if path.ends_with("body") {
        assert_eq!(client.try_head().expect("a head").status, 200);
    }
    eventually("the slot is taken", || gateway.number("/limit/running") == 1);
    drop(client);
    eventually(&format!("{path}: the slot is free"), || gateway.number("/limit/running") == 0);
    eventually(&format!("{path}: the origin's connection is closed"), || origin.open() == 0);
}

/// A request on a connection that the origin closed while it was idle is sent once more, elsewhere.
#[test]
fn requests_on_stale_connections_are_repeated_only_if_that_is_safe() {
    // Reads a request on a connection that has answered one already, and closes: a stale connection
    // as the gateway sees it, but never noticed beforehand.
    let origin = Origin::start(|mut connection| {
        if let Some(request) = connection.request() {
            connection.ok(&request.target);
        }
        connection.request();
    });
    let mut policy = policy(&[origin.server()], 4);
    policy.top = "threads = 1".into();
    let gateway = Gateway::start(&policy);
    for turn in 0..10 {
        assert_eq!(gateway.get(&format!("/{turn}")).text(), format!("/{turn}"));
    }
    assert_eq!(gateway.number("/origin/0/retries"), 5 + 4, "each but the first met a stale one");
}

#[test]
fn a_post_on_a_stale_connection_is_not_repeated() {
    let origin = Origin::start(|mut connection| {
        if let Some(request) = connection.request() {
            connection.ok(&request.target);
        }
        connection.request();
    });
    let mut policy = policy(&[origin.server()], 4);
    policy.top = "threads = 1".into();
    let gateway = Gateway::start(&policy);
    assert_eq!(gateway.get("/first").status, 200);
    let mut client = gateway.client();
    client.send("POST /once HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx");
    assert_eq!(client.answer().status, 502);
    let posts = origin.requests().0.iter().filter(|request| request.method == "POST").count();
    assert_eq!(posts, 1);
}

#[test]
fn of_several_servers_one_that_dies_costs_no_request() {
    let (first, second) = (Origin::echo(), Origin::echo());
    let dead = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.local_addr().expect("bound").to_string()
    };
    let gateway = Gateway::start(&policy(&[first.server(), dead, second.server()], 8));
    let load = Load::start(gateway.address, 4, Habit::Keep);
    eventually("all is spread", || first.requests().0.len() > 50 && second.requests().0.len() > 50);
    load.stop().assert_all(&[200]);
    let status = gateway.status();
    assert_eq!(
        status["origin"][1]["health"].as_str().map(|it| it != "up"),
        Some(true),
        "{status:#}"
    );
    let failures = status["origin"][1]["failures"].as_u64().expect("a number");
    assert!(failures >= 3, "{failures}");
    gateway.assert_conserved();
}

#[test]
fn requests_go_where_fewest_are_in_progress() {
    let slow = Origin::answering(|request| {
        std::thread::sleep(Duration::from_millis(100));
        ok(format!("{} {}", request.method, request.target))
    });
    let fast = Origin::echo();
    let gateway = Gateway::start(&policy(&[slow.server(), fast.server()], 8));
    let load = Load::start(gateway.address, 4, Habit::Keep);
    eventually("the fast server has done much", || fast.requests().0.len() > 200);
    load.stop().assert_all(&[200]);
    let (slow, fast) = (slow.requests().0.len(), fast.requests().0.len());
    println!("slow {slow}, fast {fast}");
    assert!(slow * 4 < fast, "slow {slow}, fast {fast}");
}

#[test]
fn active_checks_take_a_sick_server_out_and_back() {
    let sick = Arc::new(AtomicBool::new(false));
    let state = sick.clone();
    let origin = Origin::answering(move |request| {
        match request.target == "/health" && state.load(Ordering::SeqCst) {
            true => b"HTTP/1.1 500 Sick\r\nContent-Length: 0\r\n\r\n".to_vec(),
            false => ok("well"),
        }
    });
    let mut policy = policy(&[origin.server()], 4);
    policy.tables +=
        "[origin.health]\npath = \"/health\"\ninterval = \"100ms\"\nfall = 2\nrise = 2\n";
    let gateway = Gateway::start(&policy);
    let health = || gateway.status()["origin"][0]["health"].as_str().unwrap_or_default().to_owned();
    for _ in 0..2 {
        eventually_is("it is up", "up".to_owned(), health);
        assert_eq!(gateway.get("/x").status, 200);
        sick.store(true, Ordering::SeqCst);
        eventually_is("it is down", "down".to_owned(), health);
        assert_eq!(gateway.get("/x").status, 503);
        sick.store(false, Ordering::SeqCst);
    }
    let until = Instant::now() + PATIENCE;
    while gateway.get("/x").status != 200 {
        assert!(Instant::now() < until, "it comes back");
    }
}
