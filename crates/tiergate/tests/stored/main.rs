//! Copies of answers while the server is overloaded: when they are served, to whom, and what is never stored.

mod house;
#[path = "../support/mod.rs"]
mod support;

use house::{House, ask, get, is_copy, stored};
use socket2::{Domain, Socket, Type};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use support::client::Client;
use support::gateway::{Gateway, Policy};
use support::origin::Origin;
use support::{PATIENCE, eventually, eventually_is};

#[test]
fn a_copy_is_served_while_the_server_is_overloaded_and_only_then() {
    let house = House::new();
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("access.log");
    let mut policy = house.policy("", "stored = { max_age = \"5m\" }");
    policy.tables += &format!("[access_log]\npath = {:?}\n", log.display().to_string());
    let gateway = Gateway::start(&policy);
    let first = get(&gateway, "/c/a?x=1");
    assert_eq!((first.text().as_str(), is_copy(&first)), ("1 /c/a?x=1 ", false));
    assert_eq!(get(&gateway, "/c/a?x=1").text(), "2 /c/a?x=1 ", "no copy while there is a slot");
    house.overloaded(&gateway, || {
        for _ in 0..3 {
            // The same target, however it is written.
            let copy = get(&gateway, "//c/./%61?x=1");
            assert_eq!((copy.status, copy.text().as_str()), (200, "1 /c/a?x=1 "));
            assert_eq!(copy.field("cache-status"), Some("tiergate; hit; detail=wait"));
            assert_eq!(copy.field("content-type"), Some("text/plain"));
            assert_eq!((copy.field("x-hop"), copy.field("connection")), (None, None));
            let age: u64 = copy.field("age").expect("it has an age").parse().expect("seconds");
            assert!((7..20).contains(&age), "{age}: it was 7 s old when it came");
            assert!(copy.field("date").is_some());
        }
        let head = ask(&gateway, "HEAD", "/c/a?x=1", "");
        assert_eq!((head.field("content-length"), head.body.len()), (Some("11"), 0));
        let mut kept = gateway.client();
        for _ in 0..2 {
            kept.send("GET /c/a?x=1 HTTP/1.1\r\nHost: SHOP.test\r\n\r\n");
            assert_eq!(kept.answer().text(), "1 /c/a?x=1 ", "the connection stays");
        }
    });
    assert_eq!(house.count(), 2, "the server was left alone");
    assert_eq!(get(&gateway, "/c/a?x=1").text(), "3 /c/a?x=1 ");
    assert_eq!((stored(&gateway, "wait"), stored(&gateway, "refusal")), (6, 0));
    assert_eq!(gateway.status()["classes"][0]["finished"]["served"], 5);
    assert!(gateway.number("/clients/stored_bytes") > 0);
    gateway.assert_conserved();
    let metrics = Client::connect(gateway.admin).get_local("/metrics").text();
    for line in [
        "tiergate_requests_stored_total{class=\"all\",instead_of=\"wait\"} 6",
        "tiergate_stored_targets 1",
        "tiergate_stored_making_bytes 0",
    ] {
        assert!(metrics.lines().any(|it| it == line), "{line} is missing in\n{metrics}");
    }
    let line = "\"verdict\":\"stored\",\"stored_instead_of\":\"wait\"";
    eventually("the log says so", || {
        std::fs::read_to_string(&log).unwrap_or_default().matches(line).count() == 6
    });
}

/// Whether the answer is served again under overload, where it was got with `with` and is asked for with `then`.
#[track_caller]
fn check(
    house: &House,
    gateway: &Gateway,
    path: &str,
    (with, then): (&str, &str),
    is_served: bool,
) {
    let first = {
        let mut client = gateway.client();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: shop.test\r\n{with}\r\n"));
        client.try_answer(false).ok()
    };
    house.overloaded(gateway, || {
        let answer = ask(gateway, "GET", path, then);
        let status = if is_served { 200 } else { 503 };
        assert_eq!(answer.status, status, "{path} with {with:?}, then {then:?}: {}", answer.head);
        assert_eq!(is_copy(&answer), is_served);
        if is_served {
            assert_eq!(answer.body, first.expect("it was whole").body);
            assert_eq!(answer.field("transfer-encoding"), None);
        }
    });
}

#[test]
fn what_is_stored_and_who_gets_it() {
    let house = House::new();
    let folder = tempfile::tempdir().expect("a folder");
    let keys = folder.path().join("keys");
    std::fs::write(&keys, "partner:0123456789abcdef0123\n").expect("a file of our own");
    std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o600)).expect("ours");
    let mut policy = house.policy("queue = 0", "stored = { max_age = \"5m\" }");
    policy.tables +=
        &format!("[[key]]\nname = \"k\"\nheader = \"X-Partner\"\nsecret_file = {keys:?}\n");
    let gateway = Gateway::start(&policy);
    let (cookie, key) = ("Cookie: a=1\r\n", "Authorization: Basic eA==\r\n");
    for (path, fields, is_served) in [
        ("/c/plain", ("", ""), true),
        ("/other", ("", ""), false),
        ("/c/1/private", ("", ""), false),
        ("/c/1/no-store", ("", ""), false),
        ("/c/1/set-cookie", ("", ""), false),
        ("/c/1/vary-all", ("", ""), false),
        ("/c/1/chunked", ("", ""), true),
        ("/c/1/trailers", ("", ""), false),
        ("/c/1/truncated", ("", ""), false),
        ("/c/1/close", ("", ""), false),
        ("/c/1/long", ("", ""), false),
        ("/c/1/big", ("", ""), true),
        ("/c/1/empty", ("", ""), true),
        // Whose answer it is.
        ("/c/2/plain", (cookie, ""), false),
        ("/c/3/plain", (key, ""), false),
        ("/c/4/plain", ("", cookie), false),
        ("/c/5/plain", ("", key), false),
        ("/c/1/public", (cookie, ""), true),
        ("/c/2/public", (key, cookie), true),
        ("/c/3/public", ("", key), true),
        ("/c/10/plain", ("X-Api-Key: k\r\n", ""), false),
        ("/c/11/plain", ("", "X-Api-Key: k\r\n"), false),
        ("/c/4/public", ("X-Api-Key: k\r\n", "X-Api-Key: l\r\n"), true),
        // The policy has a table of keys that it reads there; nobody has this one.
        ("/c/12/plain", ("X_Partner: guess\r\n", ""), false),
        ("/c/13/plain", ("", "X-Partner: one\r\nX-Partner: two\r\n"), false),
        // The origin does not get that field, and would have answered by it.
        ("/c/4/vary", ("Connection: accept-language\r\n", ""), false),
        // What it depends on.
        ("/c/1/vary", ("Accept-Language: de\r\n", "Accept-Language: de\r\n"), true),
        ("/c/2/vary", ("Accept-Language: de\r\n", "Accept-Language: fr\r\n"), false),
        ("/c/3/vary", ("Accept-Language: de\r\n", ""), false),
        // What the client wants: an old answer is better than none.
        ("/c/6/plain", ("", "Cache-Control: no-cache\r\n"), true),
        ("/c/7/plain", ("Cache-Control: no-store\r\n", ""), false),
        ("/c/8/plain", ("", "Range: bytes=0-1\r\n"), false),
        ("/c/9/plain", ("X-Original-URL: /evil\r\n", ""), false),
    ] {
        check(&house, &gateway, path, fields, is_served);
    }
    gateway.assert_conserved();
}

#[test]
fn copies_for_several_languages_are_kept_beside_each_other() {
    let house = House::new();
    let gateway = house.gateway();
    let ask = |language: &str| {
        ask(&gateway, "GET", "/c/vary", &format!("Accept-Language: {language}\r\n"))
    };
    let answers: Vec<String> = ["de", "fr"].map(|it| ask(it).text()).into();
    house.overloaded(&gateway, || {
        assert_eq!(answers, ["de", "fr"].map(|it| ask(it).text()));
        assert_eq!(ask("en").status, 503);
    });
}

#[test]
fn what_has_changed_or_is_gone_is_not_served() {
    let house = House::new();
    let gateway = house.gateway();
    for (method, changes) in
        [("POST", true), ("PUT", true), ("DELETE", true), ("PATCH", true), ("OPTIONS", false)]
    {
        let path = format!("/c/{method}");
        assert_eq!(get(&gateway, &path).status, 200);
        let body = "Content-Length: 4\r\n\r\nbody";
        let mut client = gateway.client();
        client.send(format!("{method} {path} HTTP/1.1\r\nHost: shop.test\r\n{body}"));
        assert_eq!(client.answer().status, 200);
        house.overloaded(&gateway, || {
            let status = if changes { 503 } else { 200 };
            assert_eq!(get(&gateway, &path).status, status, "after {method}");
        });
    }
    // A change that failed has changed nothing.
    get(&gateway, "/c/x");
    house.fails.store(500, Ordering::SeqCst);
    assert_eq!(ask(&gateway, "POST", "/c/x", "Content-Length: 0\r\n").status, 500);
    house.fails.store(0, Ordering::SeqCst);
    house.overloaded(&gateway, || assert_eq!(get(&gateway, "/c/x").status, 200));
    house.fails.store(404, Ordering::SeqCst);
    assert_eq!(get(&gateway, "/c/x").status, 404);
    house.fails.store(0, Ordering::SeqCst);
    house.overloaded(&gateway, || assert_eq!(get(&gateway, "/c/x").status, 503, "it is gone"));
}

#[test]
fn a_change_whose_client_has_left_drops_copies() {
    let posts = Arc::new(AtomicUsize::new(0));
    let go = Arc::new(AtomicBool::new(false));
    let (seen, may) = (posts.clone(), go.clone());
    let origin = Origin::start(move |mut connection| {
        while let Some(request) = connection.request() {
            if request.method == "POST" {
                seen.fetch_add(1, Ordering::SeqCst);
                while !may.load(Ordering::SeqCst) {
                    thread::sleep(Duration::from_millis(2));
                }
            }
            connection.ok("page");
        }
    });
    let gateway = Gateway::start(&Policy {
        tables: "[[rule]]\nstored = { max_age = \"5m\" }\n".into(),
        ..Policy::of(&[origin.server()])
    });
    get(&gateway, "/a");
    assert!(gateway.number("/clients/stored_bytes") > 0);
    let mut client = gateway.client();
    client.send("POST //a HTTP/1.1\r\nHost: SHOP.test\r\nContent-Length: 4\r\n\r\nbody");
    eventually_is("the origin has it", 1, || posts.load(Ordering::SeqCst));
    drop(client);
    go.store(true, Ordering::SeqCst);
    eventually_is("the copy is gone", 0, || gateway.number("/clients/stored_bytes"));
    gateway.assert_conserved();
}

#[test]
fn a_copy_that_is_too_old_is_not_served() {
    let house = House::new();
    // The origin's answers are 7 s old when they come.
    let gateway = Gateway::start(&house.policy("queue = 0", "stored = { max_age = \"9s\" }"));
    get(&gateway, "/c/a");
    house.overloaded(&gateway, || {
        assert_eq!(get(&gateway, "/c/a").status, 200);
        eventually_is("it is too old", 503, || get(&gateway, "/c/a").status);
    });
    get(&gateway, "/c/a");
    house.overloaded(&gateway, || assert_eq!(get(&gateway, "/c/a").status, 200, "a new one"));
}

#[test]
fn under_lasting_overload_one_request_at_a_time_brings_a_new_copy() {
    let house = House::new();
    // Half of the time is over as soon as an answer comes.
    let class = "deadline = \"3s\"";
    let gateway = Gateway::start(&house.policy(class, "stored = { max_age = \"14s\" }"));
    get(&gateway, "/c/a");
    let mut refresher = gateway.client();
    house.overloaded(&gateway, || {
        refresher.send("GET /c/a HTTP/1.1\r\nHost: shop.test\r\n\r\n");
        eventually_is("it waits", 1, || gateway.number("/limit/waiting"));
        for _ in 0..5 {
            assert_eq!(get(&gateway, "/c/a").text(), "1 /c/a ", "the others do not");
        }
        assert_eq!(gateway.number("/limit/waiting"), 1);
        // It is too young to be replaced at once.
        thread::sleep(Duration::from_millis(1100));
    });
    assert_eq!(refresher.answer().text(), "2 /c/a ");
    house.overloaded(&gateway, || {
        // Again one is to replace it, and leaves: another does.
        let mut leaves = gateway.client();
        leaves.send("GET /c/a HTTP/1.1\r\nHost: shop.test\r\n\r\n");
        eventually_is("it waits", 1, || gateway.number("/limit/waiting"));
        assert_eq!(get(&gateway, "/c/a").text(), "2 /c/a ", "the new copy");
        drop(leaves);
        eventually_is("it has left", 0, || gateway.number("/limit/waiting"));
        // Once that is over for the one that left, the next waits until its deadline, and gets the copy.
        let expected = Some("tiergate; hit; detail=refusal".to_owned());
        eventually_is("another is to replace it", expected, || {
            get(&gateway, "/c/a").field("cache-status").map(str::to_owned)
        });
    });
    assert_eq!(gateway.status()["classes"][0]["refused"]["deadline_expired"], 0);
    gateway.assert_conserved();
}

#[test]
fn a_request_whose_answer_is_not_kept_leaves_the_replacement_to_another() {
    let (count, go): (Arc<AtomicUsize>, Arc<AtomicBool>) = Default::default();
    let (seen, may) = (count.clone(), go.clone());
    let origin = Origin::start(move |mut connection| {
        while connection.request().is_some() {
            let begin = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nAge: 7\r\n";
            if seen.fetch_add(1, Ordering::SeqCst) == 1 {
                connection.send(format!("{begin}Set-Cookie: a=b\r\n\r\nha"));
                while !may.load(Ordering::SeqCst) {
                    thread::sleep(Duration::from_millis(2));
                }
                connection.send("lf");
            } else {
                connection.send(format!("{begin}\r\npage"));
            }
        }
    });
    let gateway = Gateway::start(&Policy {
        origin: "slots = 1".into(),
        // Half of the time is over as soon as an answer comes.
        tables: "[[rule]]\nstored = { max_age = \"14s\" }\n".into(),
        ..Policy::of(&[origin.server()])
    });
    get(&gateway, "/a");
    let [mut first, mut second] = [gateway.client(), gateway.client()];
    let request = "GET /a HTTP/1.1\r\nHost: shop.test\r\n\r\n";
    first.send(request);
    first.try_head().expect("the head comes");
    second.send(request);
    eventually_is("it is the one to replace the copy", 1, || gateway.number("/limit/waiting"));
    assert!(is_copy(&get(&gateway, "/a")), "and the others get it");
    go.store(true, Ordering::SeqCst);
    assert!(!is_copy(&second.answer()));
    gateway.assert_conserved();
}

#[test]
fn a_copy_is_served_instead_of_an_error_of_the_origin() {
    let house = House::new();
    let gateway = house.gateway();
    for path in ["/c/a", "/c/b", "/c/public"] {
        get(&gateway, path);
    }
    for failure in [500, 502, 503, 504] {
        house.fails.store(failure, Ordering::SeqCst);
        let copy = get(&gateway, "/c/a");
        assert_eq!((copy.status, copy.text().as_str()), (200, "1 /c/a "), "{failure}");
        assert_eq!(copy.field("cache-status"), Some("tiergate; fwd=stale; detail=failure"));
        let cookie = ask(&gateway, "GET", "/c/b", "Cookie: a=1\r\n");
        assert_eq!((usize::from(cookie.status), is_copy(&cookie)), (failure, false));
        assert_eq!(usize::from(get(&gateway, "/c/none").status), failure);
    }
    house.fails.store(501, Ordering::SeqCst);
    assert_eq!(get(&gateway, "/c/a").status, 501, "what the origin means");
    assert_eq!(stored(&gateway, "failure"), 4);
    let finished = &gateway.status()["classes"][0]["finished"];
    let failed = finished["error"].as_u64().expect("a number")
        + finished["pushback"].as_u64().expect("a number");
    assert!(failed >= 12, "the server's failures are counted: {finished}");
    // It closes connections without an answer.
    house.fails.store(1, Ordering::SeqCst);
    for _ in 0..5 {
        let copy = get(&gateway, "/c/a");
        assert_eq!((copy.status, copy.text().as_str()), (200, "1 /c/a "));
        assert!(ask(&gateway, "GET", "/c/b", "Cookie: a=1\r\n").status >= 502);
    }
    assert!(stored(&gateway, "failure") > 4);
    gateway.assert_conserved();
}

#[test]
fn while_no_server_is_usable_there_are_copies() {
    let house = House::new();
    let gateway = house.gateway();
    get(&gateway, "/c/a");
    house.fails.store(1, Ordering::SeqCst);
    drop(house);
    eventually("no server is usable", || get(&gateway, "/c/none").status == 503);
    let copy = get(&gateway, "/c/a");
    assert_eq!((copy.status, copy.text().as_str()), (200, "1 /c/a "));
    gateway.assert_conserved();
}

#[test]
fn a_client_over_its_rate_gets_no_copy() {
    let house = House::new();
    let rule = "stored = { max_age = \"5m\" }\npolice = { rate = \"1/h\", burst = 3 }";
    let gateway = Gateway::start(&house.policy("queue = 0", rule));
    get(&gateway, "/c/a");
    house.overloaded(&gateway, || {
        assert_eq!([200, 200, 429], [(); 3].map(|()| get(&gateway, "/c/a").status));
    });
}

#[test]
fn a_reload_without_the_rule_forgets_all_copies() {
    let house = House::new();
    let gateway = house.gateway();
    get(&gateway, "/c/a");
    let before = std::fs::read_to_string(&gateway.policy_path).expect("our own file");
    let reload = |text: &str| {
        gateway.write_policy(text);
        let (status, said) = gateway.reload();
        assert_eq!(status, 200, "{said}");
    };
    let status = || house.overloaded(&gateway, || get(&gateway, "/c/a").status);
    reload(&before.replace("[[class]]", "# the same\n[[class]]"));
    assert_eq!(status(), 200, "a reload keeps them");
    reload(&before.replace("stored = { max_age = \"5m\" }", "class = \"all\""));
    assert_eq!((status(), gateway.number("/clients/stored_bytes")), (503, 0));
    reload(&before);
    assert_eq!(status(), 503, "nothing has come back");
    get(&gateway, "/c/a");
    assert_eq!(status(), 200);
}

#[test]
fn half_an_answer_is_no_copy() {
    let (begun, go): (Arc<AtomicUsize>, Arc<AtomicBool>) = Default::default();
    let (seen, may) = (begun.clone(), go.clone());
    let origin = Origin::start(move |mut connection| {
        while connection.request().is_some() {
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf ");
            seen.fetch_add(1, Ordering::SeqCst);
            while !may.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(2));
            }
            connection.send("whole");
        }
    });
    let gateway = Gateway::start(&Policy {
        tables: "[[rule]]\nstored = { max_age = \"5m\" }\n".into(),
        ..Policy::of(&[origin.server()])
    });
    let mut client = gateway.client();
    client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually_is("it has half", 1, || begun.load(Ordering::SeqCst));
    drop(client);
    let metric = |name: &str| {
        let text = Client::connect(gateway.admin).get_local("/metrics").text();
        let line = text.lines().find(|line| line.starts_with(name)).expect("a metric").to_owned();
        line.rsplit(' ').next().and_then(|it| it.parse::<f64>().ok()).expect("a number")
    };
    eventually("the gateway has noticed", || metric("tiergate_stored_making_bytes") == 0.0);
    go.store(true, Ordering::SeqCst);
    gateway.assert_conserved();
    assert_eq!(metric("tiergate_stored_kept_total"), 0.0);
    gateway.get("/a");
    assert_eq!(metric("tiergate_stored_kept_total"), 1.0);
}

#[test]
fn over_http2_too() {
    let house = House::new();
    let gateway = house.gateway();
    let curl = |path: &str| {
        let url = format!("http://{}{path}", gateway.address);
        let mut command = Command::new("curl");
        command.args(["-s", "-i", "--http2-prior-knowledge", "-H", "Host: shop.test", &url]);
        command.output().ok().map(|it| String::from_utf8_lossy(&it.stdout).into_owned())
    };
    let Some(first) = curl("/c/chunked") else { return };
    assert!(first.starts_with("HTTP/2 200"), "{first}");
    let big = curl("/c/big").expect("curl");
    // By either protocol, whichever brought the copy.
    get(&gateway, "/c/1/chunked");
    house.overloaded(&gateway, || {
        let copy = curl("/c/chunked").expect("curl");
        assert!(copy.contains("cache-status: tiergate; hit"), "{copy}");
        assert!(copy.ends_with("1 /c/chunked "), "{copy}");
        assert!(curl("/c/1/chunked").expect("curl").ends_with("3 /c/1/chunked "));
        assert_eq!(get(&gateway, "/c/chunked").text(), "1 /c/chunked ");
        let copy = curl("/c/big").expect("curl");
        assert!(copy.len() > 60_000 && copy[copy.len() - 60_000..] == big[big.len() - 60_000..]);
        assert!(curl("/c/none").expect("curl").starts_with("HTTP/2 503"));
    });
    gateway.assert_conserved();
}

/// A request of `/c/long` over HTTP/2, without Huffman coding or the dynamic table.
fn long(stream: u32) -> Vec<u8> {
    let block = [&[0x82, 0x86, 0x04, 7][..], b"/c/long", &[0x01, 9], b"shop.test"].concat();
    frame(1, 0x5, stream, &block)
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = &(payload.len() as u32).to_be_bytes()[1..];
    [len, &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A hundred copies for a client that does not read for a while.
#[test]
fn copies_that_their_clients_do_not_take_count_as_memory_for_slow_clients() {
    const STREAMS: u32 = 100;
    let house = House::new();
    let mut policy = house.policy("queue = 0", "stored = { max_age = \"5m\" }");
    policy.listener = "http2 = true".into();
    let limits = "stored_body_max = \"128KiB\"\nbuffers_max = \"256KiB\"";
    policy.tables = policy.tables.replace("stored_body_max = \"64KiB\"", limits);
    let gateway = Gateway::start(&policy);
    let len = get(&gateway, "/c/long").body.len();
    house.overloaded(&gateway, || {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.set_recv_buffer_size(4096).expect("an option every socket has");
        socket.connect(&gateway.address.into()).expect("it listens");
        let mut client = Client { stream: socket.into(), buffer: Vec::new() };
        client.patience(PATIENCE);
        client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        client.send(frame(4, 0, 0, &[&[0, 4][..], &(1u32 << 20).to_be_bytes()].concat()));
        client.send(frame(8, 0, 0, &(1u32 << 24).to_be_bytes()));
        let before = gateway.process.memory("VmRSS");
        let (most, last) = (0..STREAMS - 4, STREAMS - 4..STREAMS);
        most.for_each(|turn| client.send(long(2 * turn + 1)));
        // More than the systems hold: the rest waits, some of it without memory.
        thread::sleep(Duration::from_millis(300));
        last.for_each(|turn| client.send(long(2 * turn + 1)));
        let buffered = || gateway.number("/clients/buffered_bytes");
        eventually("what waits is counted", || buffered() > 128 << 10);
        assert!(buffered() <= 256 << 10, "{}", buffered());
        let grown = gateway.process.memory("VmRSS").saturating_sub(before);
        assert!(grown < u64::from(STREAMS) * len as u64 / 2, "{grown} bytes");
        let (mut ended, mut came) = (0, 0);
        while ended < STREAMS {
            let head = client.bytes(9);
            let payload = client.bytes(u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize);
            if head[3] == 0 {
                came += payload.len();
                ended += u32::from(head[4] & 1);
            }
        }
        assert_eq!(came, len * STREAMS as usize, "all of them have come");
        eventually("all is given back", || buffered() == 0);
    });
    gateway.assert_conserved();
}
