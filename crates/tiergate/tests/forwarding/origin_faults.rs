//! Origins that die, come back, or are one of several: which of them is asked. It does not depend on the
//! clients' protocol; what an origin can do wrong within a request is in `protocols/faults.rs`.

use crate::support;
use rustix::fs::OFlags;
use rustix::process::{Pid, Resource, Rlimit};
use socket2::{Domain, Socket, Type};
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
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
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
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

/// As where what collects the logs hangs: the pipe fills up, and who writes to it waits.
#[test]
fn a_program_log_that_nobody_reads_delays_no_request() {
    let (reader, writer) = std::io::pipe().expect("descriptors are left");
    let again = format!("/proc/self/fd/{}", writer.as_raw_fd());
    let nonblock = OFlags::NONBLOCK.bits() as i32;
    let mut full = File::options().write(true).custom_flags(nonblock).open(again).expect("a pipe");
    let folder = tempfile::tempdir().expect("a folder");
    let port = Port::reserve();
    let mut policy = policy(&[port.address.to_string()], 8);
    policy.origin = "retry_after = \"50ms\"\nrestart_max = \"10ms\"\nfailures_max = 1".into();
    let gateway = Gateway::start_logging_to(&policy, folder.path(), writer.into());
    while full.write(&[b'x'; 4096]).is_ok_and(|count| count > 0) {}
    // The only server goes out and comes back, each time with a line.
    for _ in 0..20 {
        let status = gateway.get("/away").status;
        assert!((502..=503).contains(&status), "{status}");
        let listener = TcpListener::bind(port.address).expect("a port of our own");
        let origin = Origin::start_on(listener, |mut connection| {
            connection.request();
            connection.ok("back");
        });
        eventually("it is back", || gateway.get("/back").status == 200);
        drop(origin);
        eventually("it is gone", || Client::try_connect(port.address).is_err());
    }
    drop(reader);
}

#[test]
fn of_several_servers_one_that_dies_costs_no_request() {
    let (first, second) = (Origin::echo(), Origin::echo());
    let dead = Port::reserve();
    let servers = [first.server(), dead.address.to_string(), second.server()];
    let gateway = Gateway::start(&policy(&servers, 8));
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

/// An origin that closes the connection instead of answering `/crash`, as an application server does whose
/// worker dies, or that gives up on a header field.
fn crashing() -> Origin {
    Origin::start(|mut connection| {
        while let Some(request) = connection.request() {
            if request.target == "/crash" {
                return;
            }
            connection.ok("well");
        }
    })
}

#[test]
fn a_client_whose_requests_crash_the_origin_takes_no_server_away_from_others() {
    for count in [1, 2] {
        let origins: Vec<Origin> = (0..count).map(|_| crashing()).collect();
        let servers: Vec<String> = origins.iter().map(Origin::server).collect();
        let mut policy = policy(&servers, 8);
        policy.origin = "slots = 8\nretry_after = \"60s\"".into();
        let gateway = Gateway::start(&policy);
        for _ in 0..20 {
            for _ in 0..3 * count {
                assert_eq!(gateway.get("/crash").status, 502);
            }
            assert_eq!(gateway.get("/well").status, 200, "{}", gateway.status()["origin"]);
        }
    }
}

#[test]
fn a_server_that_crashes_where_the_others_do_not_is_left_out_and_the_log_says_why() {
    let (bad, good) = (crashing(), Origin::echo());
    let mut policy = policy(&[bad.server(), good.server()], 8);
    policy.tables += "[access_log]\npath = \"access.json\"";
    let gateway = Gateway::start(&policy);
    let statuses: Vec<u16> = (0..40).map(|_| gateway.get("/crash").status).collect();
    let failed = statuses.iter().filter(|&&status| status == 502).count();
    assert!((3..=8).contains(&failed), "{statuses:?}");
    eventually("the log says why", || {
        let log = gateway.log();
        log.contains("origin server left out: ") && log.contains("requests in a row failed")
    });
    let lines = || {
        let path = gateway.policy_path.with_file_name("access.json");
        std::fs::read_to_string(path).unwrap_or_default()
    };
    let cause = "\"cause\":\"the origin closed the connection without an answer\"";
    eventually_is("each has its cause", failed, || lines().matches(cause).count());
}

#[test]
fn a_gateway_without_descriptors_does_not_blame_the_origin() {
    let origin = Origin::answering(|request| {
        std::thread::sleep(Duration::from_millis(300));
        ok(request.target.as_str())
    });
    let mut policy = policy(&[origin.server()], 64);
    policy.origin = "slots = 64\nretry_after = \"60s\"".into();
    let gateway = Gateway::start(&policy);
    let pid = gateway.process.id();
    let open = || std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").count();
    let limit_open_files = |max: u64| {
        let limit = Rlimit { current: Some(max), maximum: Some(4096) };
        rustix::process::prlimit(Pid::from_raw(pid as i32), Resource::Nofile, limit)
            .expect("a child of ours");
    };
    let mut clients: Vec<Client> = (0..16).map(|_| gateway.client()).collect();
    eventually("the clients are connected", || gateway.number("/clients/connections_active") >= 16);
    // Room for two connections more.
    let now = open() as u64;
    limit_open_files(now + 2);
    clients.iter_mut().for_each(|client| client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n"));
    let statuses: Vec<u16> = clients.iter_mut().map(|client| client.answer().status).collect();
    limit_open_files(1024);
    println!("{statuses:?}");
    assert!(statuses.contains(&503), "{statuses:?}");
    assert!(statuses.iter().all(|status| matches!(status, 200 | 503)), "{statuses:?}");
    assert_eq!(gateway.get("/after").status, 200, "{}", gateway.status()["origin"]);
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

#[test]
fn a_server_that_is_left_out_is_checked_again_before_the_interval_is_over() {
    let broken = Arc::new(AtomicBool::new(false));
    let state = broken.clone();
    let failing = Origin::answering(move |request| {
        match request.target != "/health" && state.load(Ordering::SeqCst) {
            true => b"HTTP/1.1 500 Broken\r\nContent-Length: 0\r\n\r\n".to_vec(),
            false => ok("well"),
        }
    });
    let well = Origin::answering(|_| ok("well"));
    let mut policy = policy(&[failing.server(), well.server()], 4);
    policy.tables += "[origin.health]\npath = \"/health\"\ninterval = \"1h\"\n";
    let gateway = Gateway::start(&policy);
    let health = || {
        gateway.get("/x");
        gateway.status()["origin"][0]["health"].as_str().unwrap_or_default().to_owned()
    };
    eventually_is("it is up", "up".to_owned(), health);
    (0..40).for_each(|_| drop(gateway.get("/x")));
    broken.store(true, Ordering::SeqCst);
    eventually("it is left out", || health() != "up");
    broken.store(false, Ordering::SeqCst);
    eventually_is("it is up", "up".to_owned(), health);
}

/// It has stopped for a moment, as while it collects garbage. Its checks find that out sooner than its clients would.
#[test]
fn requests_wait_for_the_only_server_while_it_is_silent() {
    let stopped = Arc::new(AtomicBool::new(false));
    let state = stopped.clone();
    let origin = Origin::answering(move |_| {
        while state.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
        ok("well")
    });
    let mut policy = policy(&[origin.server()], 4);
    policy.tables =
        "[origin.health]\npath = \"/health\"\ninterval = \"50ms\"\ntimeout = \"50ms\"\n\
                     fall = 2\nrise = 1\n"
            .into();
    let gateway = Gateway::start(&policy);
    assert_eq!(gateway.get("/x").status, 200);
    stopped.store(true, Ordering::SeqCst);
    let server = || gateway.status()["origin"][0].clone();
    eventually("checks have failed", || !server()["detail"].is_null());
    assert_eq!(server()["health"], "probing", "{}", server());
    let mut clients: Vec<_> = (0..8).map(|_| gateway.client()).collect();
    for client in &mut clients {
        client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    eventually("they wait", || gateway.number("/limit/waiting") == 4);
    stopped.store(false, Ordering::SeqCst);
    clients.iter_mut().for_each(|client| assert_eq!(client.answer().status, 200));
    eventually_is("it is up", "up".to_owned(), || {
        server()["health"].as_str().unwrap_or_default().to_owned()
    });
}

/// An origin that works on `most` requests at once, 20 ms each, and answers others 429.
fn busy_beyond(most: usize) -> (Origin, Arc<AtomicUsize>) {
    let refused = Arc::new(AtomicUsize::new(0));
    let (working, count) = (AtomicUsize::new(0), refused.clone());
    let origin = Origin::answering(move |request| {
        if working.fetch_add(1, Ordering::SeqCst) >= most {
            working.fetch_sub(1, Ordering::SeqCst);
            count.fetch_add(1, Ordering::SeqCst);
            return b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n".to_vec();
        }
        std::thread::sleep(Duration::from_millis(20));
        working.fetch_sub(1, Ordering::SeqCst);
        ok(format!("{} {}", request.method, request.target))
    });
    (origin, refused)
}

#[test]
fn an_origin_that_refuses_beyond_so_many_at_once_gets_no_more_than_that() {
    let (origin, refused) = busy_beyond(6);
    let mut policy = policy(&[origin.server()], 1);
    policy.origin = "slots = \"adaptive\"".into();
    let gateway = Gateway::start(&policy);
    let load = Load::start(gateway.address, 40, Habit::Keep);
    let slots = || gateway.number("/limit/slots");
    eventually("the limit is what the origin takes", || slots() <= 7);
    let counts =
        || (gateway.number("/clients/responses/2xx"), refused.load(Ordering::SeqCst) as u64);
    let (answered_before, refused_before) = counts();
    std::thread::sleep(Duration::from_secs(5));
    let (answered, refused) = counts();
    let (answered, refused) = (answered - answered_before, refused - refused_before);
    let seen = load.stop();
    println!(
        "{answered} answered, {refused} refused by the origin, {} slots: {:?}",
        slots(),
        seen.answers
    );
    assert!(answered > 5 * refused, "{answered} answered, {refused} refused");
    gateway.assert_conserved();
}

/// What a worker does with its connection after an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Closes,
    Keeps,
}

/// An origin on a UNIX socket with a listen queue of five. Each worker accepts a connection when it is free, and answers after
/// 20 ms. They end with the test's process.
fn with_a_short_queue(path: &Path, workers: usize, then: Then) -> String {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
    socket.bind(&socket2::SockAddr::unix(path).expect("a short path")).expect("it is free");
    socket.listen(5).expect("it listens");
    let socket = Arc::new(socket);
    for _ in 0..workers {
        let socket = socket.clone();
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = socket.accept() {
                while answer(&mut stream, then) && then == Then::Keeps {}
            }
        });
    }
    // Without workers it stays bound all the same.
    std::mem::forget(socket);
    format!("unix:{}", path.display())
}

/// Reads a request and answers it; `false`: there was none.
fn answer(stream: &mut Socket, then: Then) -> bool {
    let (mut head, mut buffer) = (Vec::new(), [0; 4096]);
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return false,
            Ok(count) => head.extend_from_slice(&buffer[..count]),
        }
    }
    let line = String::from_utf8_lossy(&head);
    let echo = line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    std::thread::sleep(Duration::from_millis(20));
    let connection = if then == Then::Closes { "close" } else { "keep-alive" };
    let len = echo.len();
    let head =
        format!("HTTP/1.1 200 OK\r\nConnection: {connection}\r\nContent-Length: {len}\r\n\r\n");
    stream.write_all((head + &echo).as_bytes()).is_ok()
}

fn connect_within(connect: &str, server: String) -> Policy {
    let mut policy = policy(&[server], 80);
    policy.tables = format!("[timeouts]\nconnect = \"{connect}\"\nresponse_head = \"10s\"\n");
    policy
}

/// As over TCP: a connection that the listen queue has no room for is retried.
#[test]
fn a_full_listen_queue_of_a_unix_socket_is_waited_for() {
    let folder = tempfile::tempdir().expect("a directory");
    let server = with_a_short_queue(&folder.path().join("origin"), 2, Then::Closes);
    // Much longer than the others take that are first.
    let gateway = Gateway::start(&connect_within("30s", server));
    let load = Load::start(gateway.address, 40, Habit::Keep);
    std::thread::sleep(Duration::from_secs(3));
    load.stop().assert_all(&[200]);
    gateway.assert_conserved();
}

#[test]
fn a_server_whose_listen_queue_is_full_is_not_left_out_while_it_accepts_others() {
    let folder = tempfile::tempdir().expect("a directory");
    let server = with_a_short_queue(&folder.path().join("origin"), 2, Then::Closes);
    // Half as long as the 80 take one after the other.
    let gateway = Gateway::start(&connect_within("400ms", server));
    let load = Load::start(gateway.address, 80, Habit::Keep);
    eventually("some are refused, and others served", || {
        let of = |code| gateway.number(&format!("/clients/responses/{code}"));
        of("5xx") > 20 && of("2xx") > 20
    });
    let seen = load.stop();
    seen.assert_all(&[200, 503]);
    assert_eq!(gateway.status()["origin"][0]["failures"], 0);
    gateway.assert_conserved();
}

/// Two of ten requests get the workers, six are in the listen queue (the system takes one more than it was told), and two wait
/// for room in it, which never comes, since the workers keep their connections.
#[test]
fn a_request_that_waits_for_a_connection_gets_one_that_becomes_idle() {
    let folder = tempfile::tempdir().expect("a directory");
    let server = with_a_short_queue(&folder.path().join("origin"), 2, Then::Keeps);
    let mut policy = connect_within("90s", server);
    // Nothing but an idle connection helps.
    policy.tables = policy.tables.replace("10s", "90s") + "origin_idle = \"90s\"\n";
    // Idle connections are a thread's own.
    policy.top = "threads = 1".into();
    let gateway = Gateway::start(&policy);
    let mut clients: Vec<_> = (0..10).map(|_| gateway.client()).collect();
    for client in &mut clients {
        client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    eventually_is("two are answered, and two more", 4, || gateway.number("/clients/responses/2xx"));
}

#[test]
fn a_server_whose_listen_queue_is_full_is_not_left_out_while_it_serves_kept_connections() {
    let folder = tempfile::tempdir().expect("a directory");
    let server = with_a_short_queue(&folder.path().join("origin"), 2, Then::Keeps);
    let gateway = Gateway::start(&connect_within("1s", server));
    let load = Load::start(gateway.address, 20, Habit::Keep);
    let answered = || gateway.number("/clients/responses/2xx");
    eventually("connecting has taken too long several times", || answered() > 300);
    let status = gateway.status();
    assert_eq!(status["origin"][0]["failures"], 0, "{status}");
    drop(gateway);
    load.stop();
}

#[test]
fn a_server_that_accepts_nothing_from_its_full_listen_queue_is_left_out() {
    let folder = tempfile::tempdir().expect("a directory");
    let server = with_a_short_queue(&folder.path().join("origin"), 0, Then::Closes);
    let mut policy = connect_within("60ms", server);
    policy.tables = policy.tables.replace("10s", "2s");
    let gateway = Gateway::start(&policy);
    let load = Load::start(gateway.address, 20, Habit::Keep);
    eventually("it is left out", || gateway.status()["origin"][0]["health"] != "up");
    load.stop().assert_all(&[503, 504]);
}
