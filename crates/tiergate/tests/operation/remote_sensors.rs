//! Sensors of other machines: what servers report with their answers, and what an agent reads. Each source fails in each of its
//! ways while clients ask: no request is lost, what was set last holds, the failure is seen, and the source is back by itself.

use crate::support;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::agent::Agent;
use support::client::Client;
use support::eventually;
use support::gateway::{Gateway, Policy, Port};
use support::load::{Habit, Load};
use support::origin::Origin;

/// What status says of a sensor.
fn sensor(gateway: &Gateway, name: &str) -> Value {
    let status = gateway.status();
    let all = status["sources"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|it| it["source"] == name).unwrap_or(Value::Null)
}

fn fault(gateway: &Gateway, name: &str) -> String {
    sensor(gateway, name)["fault"].as_str().unwrap_or_default().to_owned()
}

fn metric(gateway: &Gateway, line: &str) -> bool {
    Client::connect(gateway.admin).get_local("/metrics").text().lines().any(|it| it == line)
}

fn adaptation(gateway: &Gateway) -> Value {
    gateway.status()["adaptations"][0].clone()
}

/// The level of the only class; 2.0: full.
fn level(gateway: &Gateway) -> f64 {
    adaptation(gateway)["set_points"][0]["set_point"].as_f64().unwrap_or(2.0)
}

/// An adaptation of two levels that follows a sensor.
fn follows(sensor: &str, reference: &str) -> String {
    format!(
        "[[adaptation]]\nname = \"pages\"\nsensor = \"{sensor}\"\nreference = {reference}\ngain_margin = 3\n\
         level = [{{}}, {{}}]\n[[class]]\nname = \"all\"\nadaptation = \"pages\"\n"
    )
}

/// Asserts that the sensor is silent, that what it led to holds for a while, and that the operator sees both.
fn assert_blind(gateway: &Gateway, name: &str, why: &str) {
    eventually(why, || {
        let it = sensor(gateway, name);
        it["stale"] == true && it["fault"].as_str().is_some_and(|it| it.contains(why))
    });
    eventually("the adaptation knows", || adaptation(gateway)["state"] == "blind");
    let held = level(gateway);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(level(gateway), held, "{why}: the last level holds");
    let line = format!("tiergate_sensor_up{{sensor=\"{name}\"}} 0");
    assert!(metric(gateway, &line), "{line}");
    let log = gateway.log();
    let of_it = format!("sensor {name}: ");
    let said =
        |why: &str| log.lines().filter(|line| line.contains(&of_it) && line.contains(why)).count();
    // What ends while it is asked breaks off first; other reasons are not said in the same minute.
    let broken_off = if why.starts_with("cannot connect") { said("connection error") } else { 0 };
    assert_eq!(said(why) + broken_off, 1, "{why}: once in the log\n{log}");
}

/// Answers with what it was asked, and with the header lines that are set at that time.
fn reporting(lines: &Arc<Mutex<String>>) -> Origin {
    let lines = lines.clone();
    Origin::answering(move |request| {
        let body = format!("{} {}", request.method, request.target);
        let lines = lines.lock().expect("no panic").clone();
        format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: {}\r\n\r\n{body}", body.len())
            .into_bytes()
    })
}

fn set(lines: &Mutex<String>, report: &str) {
    let name = if report.starts_with("CQ") {
        "endpoint-load-metrics-bin"
    } else {
        "Endpoint-Load-Metrics"
    };
    let line = if report.is_empty() { String::new() } else { format!("{name}: {report}\r\n") };
    *lines.lock().expect("no panic") = line;
}

#[test]
fn what_servers_report_moves_quality_and_clients_never_see_it() {
    let lines = Arc::new(Mutex::new(String::new()));
    let origin = reporting(&lines);
    let policy = Policy {
        tables: format!(
            "[[sensor]]\nname = \"app\"\nmeasure = \"orca\"\nmetric = \"cpu_utilization\"\nevery = \"100ms\"\n{}",
            follows("app", "\"50%\"")
        ),
        ..Policy::of(&[origin.server()])
    };
    set(&lines, "TEXT cpu_utilization=0.2, mem_utilization=0.9");
    let gateway = Gateway::start(&policy);
    let load = Load::start(gateway.address, 4, Habit::Keep);
    let reads = |value: f64| {
        let it = sensor(&gateway, "app");
        it["value"] == value && it["stale"] == false && it["fault"].is_null()
    };
    eventually("it reads", || reads(0.2));
    eventually("all is full", || adaptation(&gateway)["state"] == "full");
    for report in ["cpu_utilization:0.3", "JSON {\"cpuUtilization\": 0.3}", "CTMzMzMzM9M/"] {
        let report = report.replace("CTM", "BIN CTM");
        set(&lines, &report);
        eventually(&report, || reads(0.3));
    }
    let words = sensor(&gateway, "app")["measures"].clone();
    assert_eq!(words, "cpu_utilization as the origin's servers report it");
    let answer = gateway.get("/a");
    let shown = answer.fields.iter().find(|(name, _)| name.to_lowercase().contains("load-metrics"));
    assert_eq!(shown, None);

    // More than 1 above a soft limit is all in use.
    set(&lines, "cpu_utilization=1.3");
    eventually("it is full", || reads(1.0));
    eventually("the lowest quality", || adaptation(&gateway)["state"] == "lowest");
    set(&lines, "");
    assert_blind(&gateway, "app", "no answer reports cpu_utilization in endpoint-load-metrics");
    assert!(level(&gateway) <= 1.0, "{}", adaptation(&gateway));
    assert_eq!(sensor(&gateway, "app")["refused"], 0);
    let back = || {
        set(&lines, "cpu_utilization=1.3");
        eventually("it is back", || reads(1.0));
    };
    back();
    set(&lines, "cpu_utilization=85");
    assert_blind(
        &gateway,
        "app",
        "reports are refused: cpu_utilization is too large; a share is 0 to 1",
    );
    back();
    set(&lines, "cpu_utilization=NaN");
    assert_blind(&gateway, "app", "cpu_utilization has something else than a finite number");
    assert!(sensor(&gateway, "app")["refused"].as_u64() > Some(10));
    let text = Client::connect(gateway.admin).get_local("/metrics").text();
    assert!(text.contains("tiergate_sensor_reports_refused_total{sensor=\"app\"} "), "{text}");

    // As `Endpoint-Load-Metrics-Bin`, 0.25.
    set(&lines, "CQAAAAAAANA/");
    eventually("it reads again", || reads(0.25));
    eventually("quality rises", || level(&gateway) > 1.0);
    eventually("the log says so", || gateway.log().contains("sensor app: measures again"));
    load.stop().assert_all(&[200]);
    // Without requests the servers are free.
    eventually("idle", || reads(0.0));
    assert!(!gateway.log().contains("no answer has come"));

    let mut client = gateway.client();
    client.send(
        "GET /forged HTTP/1.1\r\nHost: a\r\nEndpoint-Load-Metrics: cpu_utilization=0.9\r\n\r\n",
    );
    assert_eq!(client.answer().status, 200);
    let (requests, _) = origin.requests();
    let forged = requests.iter().find(|it| it.target == "/forged").expect("it came");
    assert_eq!(forged.values("endpoint-load-metrics"), [] as [&str; 0]);
    gateway.assert_conserved();
}

#[test]
fn a_pool_s_servers_count_by_their_answers_and_are_told_from_others() {
    let lines = [0.2, 0.8, 0.5].map(|load| {
        let lines = Arc::new(Mutex::new(String::new()));
        set(&lines, &format!("utilization.gpu={load}, named_metrics.queue={}", load * 10.0));
        lines
    });
    let [one, two, other] = [0, 1, 2].map(|at| reporting(&lines[at]));
    let sensor_of = |name: &str, more: &str| {
        format!("[[sensor]]\nname = \"{name}\"\nmeasure = \"orca\"\nevery = \"300ms\"\n{more}\n")
    };
    let policy = Policy {
        tables: format!(
            "{}{}{}[[pool]]\nname = \"other\"\nservers = [\"{}\"]\n[[rule]]\npath = \"/class-1/*\"\npool = \"other\"\n",
            sensor_of("gpu", "metric = \"utilization.gpu\""),
            sensor_of("queue", "metric = \"named_metrics.queue\"\nquantity = \"queue_len\""),
            sensor_of("other", "metric = \"utilization.gpu\"\npool = \"other\""),
            other.server()
        ),
        ..Policy::of(&[one.server(), two.server()])
    };
    let gateway = Gateway::start(&policy);
    let load = Load::start(gateway.address, 4, Habit::Keep);
    eventually("the queues of both servers", || sensor(&gateway, "queue")["value"] == 10.0);
    eventually("the mean", || {
        sensor(&gateway, "gpu")["value"].as_f64().is_some_and(|it| it > 0.3 && it < 0.7)
    });
    eventually("the other pool", || sensor(&gateway, "other")["value"] == 0.5);
    // One of two falls silent: the other one's load is what there is to go by.
    set(&lines[1], "");
    eventually("one is left", || sensor(&gateway, "gpu")["value"] == 0.2);
    eventually("and its queue", || sensor(&gateway, "queue")["value"] == 2.0);
    load.stop().assert_all(&[200]);
}

#[test]
fn what_refuses_all_by_a_report_lets_requests_through_again_by_itself() {
    let lines = Arc::new(Mutex::new(String::new()));
    let told = lines.clone();
    let origin = Origin::answering(move |request| {
        let lines = told.lock().expect("no panic").clone();
        let (kind, upgrade) = ("text/event-stream", "Connection: upgrade\r\nUpgrade: websocket");
        let body = format!("{} {}", request.method, request.target);
        match &*request.target {
            "/events" => format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\n:\n"),
            "/socket" => format!("HTTP/1.1 101 Switching Protocols\r\n{upgrade}\r\n\r\n"),
            _ => format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: {}\r\n\r\n{body}", body.len()),
        }
        .into_bytes()
    });
    let policy = Policy {
        tables: format!(
            "[[sensor]]\nname = \"app\"\nmeasure = \"orca\"\nmetric = \"cpu_utilization\"\nevery = \"100ms\"\n{}",
            follows("app", "\"50%\"").replace("level = ", "refuse = true\nlevel = ")
        ),
        ..Policy::of(&[origin.server()])
    };
    set(&lines, "cpu_utilization=1.0");
    let gateway = Gateway::start(&policy);
    // What lasts is no work: a page that stays open keeps nobody out.
    let upgrade = "Connection: upgrade\r\nUpgrade: websocket\r\n";
    let lasting = [("/events", "", 200), ("/socket", upgrade, 101)].map(|(path, lines, status)| {
        let mut client = gateway.client();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
        assert_eq!(client.try_head().expect("a head").status, status);
        client
    });
    let load = Load::start(gateway.address, 1, Habit::Keep);
    let statuses = || -> Vec<u16> { (0..5).map(|_| gateway.get("/a").status).collect() };
    eventually("all of the only client's requests are refused", || statuses() == [503; 5]);
    set(&lines, "cpu_utilization=0.1");
    // Nothing reaches the server any more that could report it.
    eventually("the pool is free", || {
        let it = sensor(&gateway, "app");
        it["value"] == 0.0 && it["stale"] == false && it["fault"].is_null()
    });
    eventually("requests come through again", || statuses() == [200; 5]);
    load.stop().assert_all(&[200, 503]);
    assert_eq!(gateway.status()["origin"][0]["outstanding"], 2);
    drop(lasting);
    gateway.assert_conserved();
}

#[test]
fn a_server_that_hangs_is_not_taken_to_be_free() {
    let lines = Arc::new(Mutex::new(String::new()));
    set(&lines, "cpu_utilization=0.9");
    let (told, hangs) = (lines.clone(), Arc::new(std::sync::atomic::AtomicBool::new(false)));
    let now = hangs.clone();
    let origin = Origin::answering(move |_| {
        while now.load(std::sync::atomic::Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let lines = told.lock().expect("no panic").clone();
        format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: 0\r\n\r\n").into_bytes()
    });
    let policy = Policy {
        tables: "[[sensor]]\nname = \"app\"\nmeasure = \"orca\"\nmetric = \"cpu_utilization\"\nevery = \"100ms\"\n"
            .to_owned(),
        ..Policy::of(&[origin.server()])
    };
    let gateway = Gateway::start(&policy);
    assert_eq!(gateway.get("/a").status, 200);
    eventually("it reads", || sensor(&gateway, "app")["value"] == 0.9);
    hangs.store(true, std::sync::atomic::Ordering::Relaxed);
    let mut client = gateway.client();
    client.send("GET /b HTTP/1.1\r\nHost: a\r\n\r\n");
    let idle = "no answer has come that could report it";
    eventually("it is silent", || fault(&gateway, "app") == idle);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(
        (&sensor(&gateway, "app")["value"], fault(&gateway, "app")),
        (&json!(0.9), idle.to_owned())
    );
    hangs.store(false, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(client.answer().status, 200);
    eventually("it is free", || sensor(&gateway, "app")["value"] == 0.0);
}

/// A connection from that address of this machine.
fn connect_from(peer: std::net::Ipv4Addr, address: std::net::SocketAddr) -> std::net::TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    let socket = socket.expect("a socket");
    socket.bind(&std::net::SocketAddr::from((peer, 0)).into()).expect("an address of this machine");
    socket.connect(&address.into()).expect("it listens");
    socket.into()
}

fn write_token(path: &Path, token: &str) {
    fs::write(path, format!("{token}\n")).expect("our own folder");
}

#[test]
fn an_agent_fails_in_each_way_and_comes_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let (agents, gateways) = (folder.path().join("agent"), folder.path().join("gateway"));
    let (token, other) =
        ("0123456789abcdef0123456789abcdef", "another-token-another-token-another");
    write_token(&agents, token);
    write_token(&gateways, token);
    let watched = TcpListener::bind("127.0.0.1:0").expect("an address");
    let address = watched.local_addr().expect("bound");
    let port = Port::reserve();
    let sensors = format!(
        "[[sensor]]\nname = \"queue\"\nmeasure = \"listen-queue\"\naddress = \"{address}\"\nevery = \"100ms\"\n\
         [[sensor]]\nname = \"missing\"\nmeasure = \"disk\"\ndevice = \"nodisk0\"\nevery = \"100ms\"\n"
    );
    let mut agent = Agent::start(&port, folder.path(), &sensors, Some(&agents));
    let origin = Origin::echo();
    let remote = format!(
        "measure = \"agent\"\nagent = \"http://{}\"\ntoken_file = {:?}\nevery = \"100ms\"\n",
        port.address,
        gateways.display().to_string()
    );
    let policy = Policy {
        tables: format!(
            "[[sensor]]\nname = \"app.queue\"\nreading = \"queue\"\nquantity = \"queue_len\"\n{remote}\
             [[sensor]]\nname = \"missing\"\n{remote}[[sensor]]\nname = \"unknown\"\n{remote}{}",
            follows("app.queue", "2")
        ),
        ..Policy::of(&[origin.server()])
    };
    let gateway = Gateway::start(&policy);
    let load = Load::start(gateway.address, 4, Habit::Keep);
    let reads = |value: f64| {
        let it = sensor(&gateway, "app.queue");
        it["value"] == value && it["stale"] == false && it["fault"].is_null()
    };
    let returns = || gateway.log().matches("sensor app.queue: measures again").count();
    eventually("an empty queue", || reads(0.0));
    eventually("all is full", || adaptation(&gateway)["state"] == "full");
    // The first reading is one, too, where the gateway asked before the agent had it.
    let first = returns();
    let back = |count: usize| eventually("it measures again", || returns() == first + count);
    let far = "sensor missing of the agent: /proc/diskstats names no disk nodisk0";
    eventually("what is wrong there is said here", || fault(&gateway, "missing") == far);
    eventually("no such sensor", || fault(&gateway, "unknown").ends_with("has no sensor unknown"));
    let waiting: Vec<_> =
        (0..20).map(|_| std::net::TcpStream::connect(address).expect("it listens")).collect();
    eventually("a long queue", || reads(20.0));
    eventually("the lowest quality", || adaptation(&gateway)["state"] == "lowest");

    agent.process.kill();
    assert_blind(&gateway, "app.queue", "cannot connect: Connection refused");
    let mut agent = Agent::start(&port, folder.path(), &sensors, Some(&agents));
    back(1);

    agent.process.signal(Signal::STOP);
    assert_blind(&gateway, "app.queue", "does not answer within 1s");
    agent.process.signal(Signal::CONT);
    back(2);

    write_token(&agents, other);
    agent.process.signal(Signal::HUP);
    assert_blind(&gateway, "app.queue", "refuses the token of token_file (401)");
    let said = "asked for the readings without the right token";
    eventually("it says so", || agent.log().contains(said));
    // The other way round: the gateway gets the new one, by a reload.
    write_token(&gateways, other);
    assert_eq!(gateway.reload().0, 200);
    eventually("the new token", || reads(20.0));
    // A token file without a token changes nothing.
    fs::write(&agents, "short\n").expect("our own folder");
    agent.process.signal(Signal::HUP);
    eventually("the agent says so", || agent.log().contains("the tokens stay as they were"));
    std::thread::sleep(Duration::from_millis(300));
    eventually("it still reads", || reads(20.0));

    drop((waiting, watched));
    let watched = TcpListener::bind(address).expect("the address is free again");
    eventually("an empty queue again", || reads(0.0));
    // How fast quality rises with a queue is the law's, and slow.
    eventually("the adaptation follows it", || {
        let state = adaptation(&gateway)["state"].clone();
        state == "adapts" || state == "full"
    });
    load.stop().assert_all(&[200]);
    gateway.assert_conserved();
    for log in [gateway.log(), agent.log(), gateway.status().to_string()] {
        assert!(!log.contains(token) && !log.contains(other), "{log}");
    }
    let config = Client::connect(gateway.admin).get_local("/config").text();
    assert!(!config.contains(token) && !config.contains(other), "{config}");
    agent.process.signal(Signal::TERM);
    assert!(agent.process.wait(support::PATIENCE).success());
    drop(watched);
}

#[test]
fn what_is_no_agent_is_silence_and_never_a_reading() {
    let readings = |age: f64| {
        let cpu = json!({ "sensor": "cpu", "measures": "", "quantity": "utilization", "value": 0.5, "sequence": 7,
            "age_seconds": age, "every_seconds": 0.1 });
        json!({ "agent": "a", "readings": [cpu] }).to_string()
    };
    let answer =
        |body: String| format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let impossible = readings(0.0).replace("\"value\":0.5", "\"value\":1.5");
    assert!(impossible.contains("1.5"));
    let cases = [
        ("garbage", answer("\u{1}\u{2}cpu=0.5".to_owned()), "answers what is no agent's answer"),
        (
            "error",
            answer(String::new()).replace("200", "500"),
            "answers 500: is it tiergate agent?",
        ),
        ("huge", answer(" ".repeat(1 << 20) + &readings(0.0)), "has more than 65536 bytes"),
        (
            "cut",
            answer(readings(0.0)).replace("Length: ", "Length: 9"),
            "does not answer within 1s",
        ),
        ("old", answer(readings(9.0)), "has had no new reading for 300ms"),
        ("still", answer(readings(0.0)), "has had no new reading for 300ms"),
        ("impossible", answer(impossible), "1.5 as utilization cannot be"),
        ("silent", String::new(), "does not answer within 1s"),
    ];
    let fakes =
        cases.clone().map(|(_, sent, _)| Origin::answering(move |_| sent.clone().into_bytes()));
    let sensor_of = |name: &str, address: &str| {
        format!(
            "[[sensor]]\nname = \"{name}\"\nmeasure = \"agent\"\nagent = \"http://{address}\"\nreading = \"cpu\"\nevery = \"100ms\"\n"
        )
    };
    let dead = Port::reserve();
    let mut tables = sensor_of("dead", &dead.address.to_string());
    for ((name, ..), fake) in cases.iter().zip(&fakes) {
        tables += &sensor_of(name, &fake.server());
    }
    let origin = Origin::echo();
    let gateway = Gateway::start(&Policy { tables, ..Policy::of(&[origin.server()]) });
    let load = Load::start(gateway.address, 4, Habit::Keep);
    for (name, _, why) in &cases {
        eventually(&format!("{name}: {why}"), || {
            let it = sensor(&gateway, name);
            it["stale"] == true && fault(&gateway, name).contains(why)
        });
        let read = if *name == "still" { json!(0.5) } else { Value::Null };
        assert_eq!(sensor(&gateway, name)["value"], read, "{name}");
    }
    eventually("nobody listens", || fault(&gateway, "dead").contains("cannot connect"));
    std::thread::sleep(Duration::from_secs(2));
    let log = gateway.log();
    for (name, _, why) in &cases {
        let said = log.matches(&format!("sensor {name}: ")).count();
        assert_eq!(said, 1, "{name}: {why}\n{log}");
    }
    load.stop().assert_all(&[200]);
}

#[test]
fn an_agent_is_closed_to_strangers() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, token_file) = (folder.path().join("a.toml"), folder.path().join("token"));
    let sensors = "[[sensor]]\nname = \"ram\"\nmeasure = \"memory\"\nevery = \"100ms\"\n";
    fs::write(&file, sensors).expect("our own folder");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tiergate"));
        let out = command.arg("agent").arg(&file).args(arguments).output().expect("it runs");
        (out.status.success(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let (good, said) = run(&["--listen", "0.0.0.0:0"]);
    assert!(!good && said.contains("give --token-file, or --no-token"), "{said}");
    write_token(&token_file, "too-short-a-secret");
    let (good, said) = run(&["--token-file", &token_file.display().to_string()]);
    assert!(
        !good && said.contains("must have at least 32 bytes") && !said.contains("too-short"),
        "{said}"
    );
    fs::write(&file, format!("threads = 2\n{sensors}")).expect("our own folder");
    let (good, said) = run(&[]);
    assert!(!good && said.contains("a.toml:1:1: threads: unknown key"), "{said}");

    let token = "0123456789abcdef0123456789abcdef";
    write_token(&token_file, token);
    let port = Port::reserve();
    let agent = Agent::start(&port, folder.path(), sensors, Some(&token_file));
    let ask = |method: &str, path: &str, more: &str| {
        let mut client = Client::connect(port.address);
        client.send(format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n{more}\r\n"
        ));
        client.answer()
    };
    let bearer = format!("Authorization: Bearer {token}\r\n");
    for wrong in [
        "",
        "Authorization: Bearer x\r\n",
        &bearer.replace("Bearer", "Basic"),
        &bearer.replace('0', "1"),
    ] {
        let answer = ask("GET", "/readings", wrong);
        assert_eq!(
            (answer.status, answer.field("www-authenticate")),
            (401, Some("Bearer")),
            "{wrong}"
        );
        assert!(!answer.text().contains("ram"));
    }
    assert_eq!(ask("POST", "/readings", &bearer).status, 405);
    assert_eq!(ask("GET", "/status", &bearer).status, 404);
    assert_eq!(
        ask("GET", "/readings", &format!("X: {}\r\n{bearer}", "a".repeat(20_000))).status,
        431
    );
    let read = || -> Value {
        let answer = ask("GET", "/readings", &bearer);
        assert_eq!((answer.status, answer.field("cache-control")), (200, Some("no-store")));
        serde_json::from_slice(&answer.body).expect("JSON")
    };
    eventually("a reading", || read()["readings"][0]["sequence"].as_u64() > Some(0));
    let readings = read();
    let ram = &readings["readings"][0];
    let value = ram["value"].as_f64().expect("a number");
    assert!((0.0..=1.0).contains(&value) && ram["age_seconds"].as_f64() < Some(5.0), "{ram}");
    assert_eq!(
        (&ram["sensor"], &ram["quantity"], &ram["every_seconds"]),
        (&json!("ram"), &json!("utilization"), &json!(0.1))
    );
    // Taken once a period, for any number of clients.
    let before = read()["readings"][0]["sequence"].as_u64().expect("a number");
    let begun = std::time::Instant::now();
    for _ in 0..100 {
        read();
    }
    let after = read()["readings"][0]["sequence"].as_u64().expect("a number");
    let most = begun.elapsed().as_millis() as u64 / 100 + 2;
    assert!(after - before <= most, "{before} to {after} in {:?}", begun.elapsed());
    assert_eq!(read()["agent"], readings["agent"]);
    // As many connections as it takes are open and say nothing, from one address or from many: it is there for who has a token.
    let is_there = |idle: Vec<_>| {
        let begun = std::time::Instant::now();
        read();
        // After two seconds those that say nothing would be gone.
        assert!(begun.elapsed() < Duration::from_millis(1500), "{:?}", begun.elapsed());
        drop(idle);
    };
    is_there((0..80).map(|_| Client::connect(port.address).stream).collect());
    let peer = |last| std::net::Ipv4Addr::new(127, 0, 1, last);
    is_there((1..=80).map(|it| connect_from(peer(it), port.address)).collect());
    // A refused one gives its place back at once, and a silent one soon.
    let mut stranger = Client::connect(port.address);
    stranger.send("GET /readings HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let refused = stranger.answer();
    assert_eq!((refused.status, refused.field("connection")), (401, Some("close")));
    let mut silent = Client::connect(port.address).stream;
    let begun = std::time::Instant::now();
    assert_eq!(std::io::Read::read(&mut silent, &mut [0; 16]).ok(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    eventually("it is there", || read()["readings"][0]["sequence"].as_u64() > Some(after));
    let log = agent.log();
    assert_eq!(log.matches("without the right token").count(), 1, "{log}");
    assert!(!log.contains(token), "{log}");
}
