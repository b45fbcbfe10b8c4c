//! A real listener on loopback, asked over real connections.

use super::status::Status;
use super::*;
use crate::config::Sources;
use crate::observe::counters::Counters;
use crate::observe::refusals::{Refusal, Refusals};
use crate::observe::server::{Health, ServerStatus};
use crate::observe::snapshot::Snapshot;
use crate::sensors::Sensors;
use crate::session;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use tiergate_core::class::ClassId;
use tiergate_core::classify::pattern::HostPattern;
use tiergate_core::gate::{Arrival, Gate};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::Spec;
use tiergate_core::reason::Reason;
use tiergate_core::time::Moment;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Allows changes of settings.
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// What the tests may change while the listener runs.
struct House {
    phase: Mutex<Phase>,
    origin_up: AtomicBool,
    reloads: AtomicU32,
    refuse_reload: AtomicBool,
    refusals: Arc<Refusals>,
    detail: Mutex<String>,
}

fn gate() -> Gate<()> {
    let mut plan = Spec::protective();
    plan.classes[0].name = "<b>odd</b>".to_owned();
    let mut gate: Gate<()> = Gate::new(plan.build().expect("a valid plan"));
    let arrival = Arrival::of(ClassId(0));
    for _ in 0..3 {
        let verdict = gate.arrive(Moment::ZERO, arrival, || ());
        let tiergate_core::gate::Verdict::Admit(slot) = verdict else {
            panic!("the limit begins above 3");
        };
        let first_byte = Some(Duration::from_millis(2));
        let end = End::Served;
        gate.finish(
            Moment::from_millis(5),
            slot,
            Outcome { end, first_byte, bytes: 0, left: None },
        );
    }
    gate.refuse(arrival, Reason::OriginDown);
    gate
}

fn start() -> (SocketAddr, Arc<House>) {
    start_on("127.0.0.1:0", &[], TOKEN)
}

/// On an address, with names and tokens or without.
fn start_on(
    address: &str,
    names: &'static [&str],
    tokens: &'static str,
) -> (SocketAddr, Arc<House>) {
    let refusals = Arc::new(Refusals::default());
    let house = Arc::new(House {
        refusals: Arc::clone(&refusals),
        detail: Mutex::default(),
        phase: Mutex::new(Phase::Serving),
        origin_up: AtomicBool::new(true),
        reloads: AtomicU32::new(0),
        refuse_reload: AtomicBool::new(false),
    });
    for path in ["/first", "/second"] {
        refusals.record(&Refusal {
            at: SystemTime::now(),
            class: "browse",
            rule: None,
            reason: Reason::QueueFull,
            client: "192.0.2.1".parse().expect("an address"),
            method: b"GET",
            path: path.as_bytes(),
        });
    }
    let (a, b, c) = (Arc::clone(&house), Arc::clone(&house), Arc::clone(&house));
    let gate = Mutex::new(gate());
    let context = Context {
        version: "0.1.0",
        snapshot: Box::new(move || {
            Snapshot::take(&gate.lock().expect("nobody panicked"), Moment::from_millis(9_000))
        }),
        counters: Counters::new(1),
        refusals,
        phase: Box::new(move || *a.phase.lock().expect("nobody panicked")),
        sessions: Box::new(session::Readings::default),
        sensors: Box::new(|| Arc::new(Sensors::new(Vec::new()))),
        origin: Box::new(move || {
            vec![ServerStatus {
                address: "10.0.0.5:80".to_owned(),
                health: if b.origin_up.load(Ordering::SeqCst) { Health::Up } else { Health::Down },
                outstanding: 1,
                detail: Some(b.detail.lock().expect("nobody panicked").clone()),
                ..ServerStatus::default()
            }]
        }),
        workers: Box::new(Vec::new),
        listeners: Box::new(|| vec!["http 127.0.0.1:8080".to_owned()]),
        config: Box::new(|| ConfigInForce {
            path: Some("/etc/tiergate.toml".into()),
            sources: Arc::new(Sources::of(
                "/etc/tiergate.toml",
                "password = \"hush\"\n[origin]\nservers = [\"10.0.0.5:80\"]\n",
            )),
            generation: 0,
        }),
        in_force: Box::new(|| InForce { is_enforced: true, ..InForce::default() }),
        success_buffers: Box::new(|_, _| Vec::new()),
        names: Box::new(move || {
            names.iter().map(|it| HostPattern::parse(it).expect("a name")).collect()
        }),
        tokens: Box::new(move || match tokens {
            "" => AdminTokens::default(),
            tokens => AdminTokens::of(tokens),
        }),
        change: Box::new(|_| Err("class.a: no such class".to_owned())),
        undo: Box::new(|| 0),
        reload: Box::new(move || {
            let house = Arc::clone(&c);
            Box::pin(async move {
                tokio::time::sleep(Duration::from_millis(50)).await;
                house.reloads.fetch_add(1, Ordering::SeqCst);
                if house.refuse_reload.load(Ordering::SeqCst) {
                    Err("policy.toml:3:1: no such key".to_owned())
                } else {
                    Ok("generation 1 is in force".to_owned())
                }
            })
        }),
    };
    let listener = bind(address.parse().expect("an address")).expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    tokio::spawn(serve(listener, Arc::new(context)));
    (address, house)
}

/// Sends a head as given and reads to the end of the connection.
async fn raw(address: SocketAddr, head: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("connected");
    stream.write_all(head.as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    // A connection that is reset after its answer still gave one.
    let _end = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).expect("text")
}

async fn ask(address: SocketAddr, method: &str, path: &str, fields: &str) -> (u16, String) {
    let head =
        format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{fields}\r\n");
    let answer = raw(address, &head).await;
    let status = answer.get(9..12).and_then(|code| code.parse().ok()).expect("a status");
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    (status, body.unwrap_or_default())
}

#[tokio::test]
async fn health_and_readiness_tell_life_from_service() {
    let (address, house) = start();
    assert_eq!(ask(address, "GET", "/readyz", "").await, (200, "ready\n".to_owned()));
    house.origin_up.store(false, Ordering::SeqCst);
    let (status, why) = ask(address, "GET", "/readyz", "").await;
    assert_eq!((status, why.as_str()), (503, "no origin server is usable\n"));
    house.origin_up.store(true, Ordering::SeqCst);
    for phase in [Phase::Draining, Phase::Starting, Phase::Leaving] {
        *house.phase.lock().expect("nobody panicked") = phase;
        assert_eq!(ask(address, "GET", "/readyz", "").await.0, 503);
    }
    assert_eq!(ask(address, "GET", "/healthz", "").await, (200, "ok\n".to_owned()));
}

#[tokio::test]
async fn status_metrics_and_refusals_show_the_gate() {
    let (address, _house) = start();
    let (status, body) = ask(address, "GET", "/status", "").await;
    assert_eq!(status, 200);
    let status: Status = serde_json::from_str(&body).expect("the type that `top` reads");
    let class = &status.classes[0];
    assert_eq!((class.arrived, class.admitted, class.finished["served"]), (4, 3, 3));
    assert_eq!(class.refused["origin_down"], 1);
    assert_eq!(class.first_byte.total.count, 3);
    assert_eq!(status.origin[0].health, Health::Up);
    assert!(status.unready.is_none() && status.limit.adaptive);

    let (_, metrics) = ask(address, "GET", "/metrics", "").await;
    assert!(metrics.contains("tiergate_requests_arrived_total{class=\"<b>odd</b>\"} 4\n"));
    let (_, metrics) =
        ask(address, "GET", "/metrics", "Accept: application/openmetrics-text\r\n").await;
    assert!(metrics.ends_with("# EOF\n"));

    let (_, body) = ask(address, "GET", "/refusals?limit=1", "").await;
    let refusals: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(refusals["recent"][0]["path"], "/second");
    assert_eq!(refusals["recent"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn the_page_escapes_and_the_configuration_is_masked() {
    let (address, _house) = start();
    let (status, page) = ask(address, "GET", "/", "").await;
    assert_eq!(status, 200);
    assert!(page.contains("&lt;b&gt;odd&lt;/b&gt;") && !page.contains("<b>odd"), "{page}");
    let (_, config) = ask(address, "GET", "/config", "").await;
    assert!(config.contains("/etc/tiergate.toml (generation 0)"), "{config}");
    assert!(config.contains("servers = [\"10.0.0.5:80\"]") && !config.contains("hush"), "{config}");
}

#[tokio::test]
async fn the_page_may_use_nothing_but_its_own_style_and_script() {
    let (address, _house) = start();
    let head = format!("GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let answer = raw(address, &head).await;
    let policy = answer.lines().find(|it| it.starts_with("content-security-policy: "));
    let policy = policy.expect("a policy");
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    // One style and one script, no handlers and no styles of elements, nothing from elsewhere.
    for (what, count) in [("<style>", 1), ("<script>", 1), (" style=", 0), (" src=", 0), (" on", 0)]
    {
        let body = answer.split_once("</style>").expect("a style").1;
        let body = body.split_once("<script>").expect("a script").0;
        let found = match count {
            0 => body.matches(&format!("{what}\"")).count() + body.matches("onerror=").count(),
            _ => answer.matches(what).count(),
        };
        assert_eq!(found, count, "{what}");
    }
    assert!(!answer.contains("http://fonts") && !answer.contains("@import"));
}

#[tokio::test]
async fn strangers_texts_are_escaped_wherever_they_appear() {
    let (address, house) = start();
    let evil = "<img src=x onerror=alert(1)>\"'&";
    for _ in 0..3 {
        house.refusals.record(&Refusal {
            at: SystemTime::now(),
            class: "<i>class</i>",
            rule: Some(tiergate_core::plan::RuleLabel { number: 1, name: Some("<i>rule</i>") }),
            reason: Reason::QueueFull,
            client: "192.0.2.1".parse().expect("an address"),
            method: b"<i>",
            path: evil.as_bytes(),
        });
    }
    *house.detail.lock().expect("nobody panicked") = evil.to_owned();
    house.origin_up.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    let (_, page) = ask(address, "GET", "/", "").await;
    assert!(!page.contains("<img") && !page.contains("<i>"), "{page}");
    // In the lists and with the server.
    assert_eq!(page.matches("&lt;img src=x onerror=alert(1)&gt;&quot;'&amp;").count(), 2, "{page}");
    assert!(page.contains("&lt;i&gt;rule&lt;/i&gt;: queue_full"));
    let (_, json) = ask(address, "GET", "/incident", "").await;
    let incident: incident::Incident = serde_json::from_str(&json).expect("the type");
    assert_eq!(incident.refused_most.paths[0].what, evil);
    assert_eq!(incident.urgency, "act");
    assert!(incident.sentence.starts_with("origin down, no server is usable"), "{json}");
}

#[tokio::test]
async fn the_page_is_live_while_it_is_watched() {
    let (address, house) = start();
    let mut stream = TcpStream::connect(address).await.expect("connected");
    let head = format!("GET /live HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("sent");
    let mut read = String::new();
    let mut until = async |what: &str| {
        let mut bytes = [0; 16 * 1024];
        while !read.contains(what) {
            let more = stream.read(&mut bytes);
            let len = tokio::time::timeout(Duration::from_secs(10), more).await;
            let len = len.expect("within ten seconds").expect("readable");
            assert!(len > 0, "ended before {what:?}: {read}");
            read += &String::from_utf8_lossy(&bytes[..len]);
        }
        std::mem::take(&mut read)
    };
    let first = until("\n\n").await;
    assert!(first.contains("text/event-stream") && first.contains("event: parts"), "{first}");
    house.origin_up.store(false, Ordering::SeqCst);
    let _changed = until("origin down, no server is usable").await;
    // A web page of a stranger's name gets no stream, and nobody may send one.
    let rebound = "GET /live HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    assert!(raw(address, rebound).await.starts_with("HTTP/1.1 421 "));
    assert_eq!(ask(address, "POST", "/live", "").await.0, 405);
}

#[tokio::test]
async fn a_reload_says_what_came_of_it() {
    let (address, house) = start();
    let (status, text) = ask(address, "POST", "/reload", "").await;
    assert_eq!((status, text.as_str()), (200, "generation 1 is in force\n"));
    house.refuse_reload.store(true, Ordering::SeqCst);
    let (status, text) = ask(address, "POST", "/reload", "Content-Length: 0\r\n").await;
    assert_eq!((status, text.as_str()), (422, "policy.toml:3:1: no such key\n"));
    let both =
        tokio::join!(ask(address, "POST", "/reload", ""), ask(address, "POST", "/reload", ""));
    let mut statuses = [both.0.0, both.1.0];
    statuses.sort_unstable();
    assert_eq!(statuses, [409, 422]);
}

#[tokio::test]
async fn a_reload_goes_on_when_whoever_asked_leaves() {
    let (address, house) = start();
    let mut stream = TcpStream::connect(address).await.expect("connected");
    let head = format!("POST /reload HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("sent");
    tokio::time::sleep(Duration::from_millis(20)).await;
    drop(stream);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(house.reloads.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn settings_are_changed_by_those_who_have_a_token() {
    let (address, _house) = start();
    let patch = |more: String, body: &'static str| async move {
        let fields = format!("{more}Content-Length: {}\r\n\r\n{body}", body.len());
        // What follows the empty line is the body; the end of the head after it is never read.
        ask(address, "PATCH", "/settings", &fields).await
    };
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    assert_eq!(ask(address, "GET", "/settings", "").await, (200, "[]".to_owned()));
    assert_eq!(patch(String::new(), "{}").await.0, 401);
    assert_eq!(patch(format!("Authorization: Bearer {TOKEN}x\r\n"), "{}").await.0, 401);
    assert_eq!(patch(format!("Authorization: Basic {TOKEN}\r\n"), "{}").await.0, 401);
    let page = format!("{token}Origin: https://evil.example\r\n");
    assert_eq!(patch(page, "{}").await.0, 403);
    let (status, text) = patch(token.clone(), "{").await;
    assert!(status == 400 && text.contains("is no JSON"), "{text}");
    let (status, text) = patch(token.clone(), "{}").await;
    assert_eq!((status, text.as_str()), (422, "class.a: no such class\n"));
    assert_eq!(ask(address, "DELETE", "/settings", "").await.0, 401);
    assert_eq!(ask(address, "DELETE", "/settings", &token).await, (200, "0 undone\n".to_owned()));
    let long = format!("{token}Content-Length: 20000\r\n\r\n{}", "x".repeat(20_000));
    assert_eq!(ask(address, "PATCH", "/settings", &long).await.0, 413);
    assert_eq!(ask(address, "PUT", "/settings", &token).await.0, 405);
}

#[tokio::test]
async fn web_pages_are_kept_out() {
    let (address, house) = start();
    let origin = "Origin: https://evil.example\r\n";
    assert_eq!(ask(address, "POST", "/reload", origin).await.0, 403);
    let meant = format!("{origin}X-Tiergate-Admin: 1\r\n");
    assert_eq!(ask(address, "POST", "/reload", &meant).await.0, 200);
    assert_eq!(house.reloads.load(Ordering::SeqCst), 1);
    for path in ["/status", "/healthz", "/reload"] {
        let head =
            format!("GET {path} HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
        let answer = raw(address, &head).await;
        assert!(answer.starts_with("HTTP/1.1 421 "), "{answer}");
    }
    assert_eq!(ask(address, "OPTIONS", "/reload", origin).await.0, 405);
    let elsewhere = "Sec-Fetch-Site: cross-site\r\n";
    assert_eq!(ask(address, "GET", "/live", elsewhere).await.0, 403);
    assert_eq!(ask(address, "GET", "/", elsewhere).await.0, 200, "a link may lead here");
}

/// Asks for a reload under a name of the listener.
async fn reload_as(address: SocketAddr, host: &str, fields: &str) -> u16 {
    let head =
        format!("POST /reload HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{fields}\r\n");
    let answer = raw(address, &head).await;
    answer.get(9..12).and_then(|code| code.parse().ok()).expect("a status")
}

#[tokio::test]
async fn where_others_can_connect_a_reload_needs_a_token_or_an_address() {
    let page = "Origin: http://evil.example\r\nX-Tiergate-Admin: 1\r\n";
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    let (address, house) = start_on("0.0.0.0:0", &[], TOKEN);
    // Under any name, for any client.
    for (host, fields) in [("10.0.0.5", ""), ("localhost", ""), ("evil.example", page)] {
        assert_eq!(reload_as(address, host, fields).await, 401, "{host}");
    }
    assert_eq!(house.reloads.load(Ordering::SeqCst), 0);
    assert_eq!(reload_as(address, "gateway.internal", &token).await, 200);
    let form = "Origin: http://evil.example\r\n";
    assert_eq!(reload_as(address, "10.0.0.5", &format!("{form}{token}")).await, 403);

    let (address, house) = start_on("0.0.0.0:0", &[], "");
    // A page whose name was made to resolve to this listener is of its origin.
    for fields in [page, ""] {
        assert_eq!(reload_as(address, "evil.example:8434", fields).await, 421);
    }
    assert_eq!(reload_as(address, "10.0.0.5:8434", form).await, 403, "from another site");
    assert_eq!(house.reloads.load(Ordering::SeqCst), 0);
    assert_eq!(reload_as(address, "10.0.0.5:8434", "").await, 200);
    // What only reads has any name.
    assert_eq!(read_as(address, "gateway.internal").await, 200);
}

/// Reads under a name of the listener.
async fn read_as(address: SocketAddr, host: &str) -> u16 {
    let head = format!("GET /status HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let answer = raw(address, &head).await;
    answer.get(9..12).and_then(|code| code.parse().ok()).expect("a status")
}

#[tokio::test]
async fn a_listener_that_has_names_answers_to_no_other() {
    for at in ["0.0.0.0:0", "127.0.0.1:0"] {
        let (address, house) = start_on(at, &["gateway.internal", "*.ops.example"], "");
        for host in
            ["gateway.internal", "Gateway.Internal.:8434", "a.ops.example", "10.0.0.5", "localhost"]
        {
            assert_eq!(read_as(address, host).await, 200, "{at} {host}");
        }
        for host in ["evil.example", "ops.example", "gateway.internal.evil.example:8434", ""] {
            assert_eq!(read_as(address, host).await, 421, "{at} {host}");
            assert_eq!(reload_as(address, host, "").await, 421, "{at} {host}");
        }
        assert_eq!(house.reloads.load(Ordering::SeqCst), 0);
        assert_eq!(reload_as(address, "gateway.internal", "").await, 200, "{at}");
    }
}

#[tokio::test]
async fn other_methods_paths_and_sizes_are_refused() {
    let (address, _house) = start();
    for (method, path, expected) in [
        ("GET", "/nothing", 404),
        ("GET", "/status/", 404),
        ("POST", "/nothing", 404),
        ("POST", "/status", 405),
        ("DELETE", "/", 405),
        ("GET", "/reload", 405),
        ("HEAD", "/metrics", 200),
    ] {
        assert_eq!(ask(address, method, path, "").await.0, expected, "{method} {path}");
    }
    let head = ask(address, "HEAD", "/metrics", "").await;
    assert_eq!(head.1, "");
    let answer = raw(address, "PUT /status HTTP/1.1\r\nConnection: close\r\n\r\n").await;
    assert!(answer.contains("allow: GET, HEAD\r\n"), "{answer}");
    assert_eq!(ask(address, "POST", "/reload", "Content-Length: 5000\r\n").await.0, 413);
    let long = format!("X: {}\r\n", "a".repeat(20_000));
    assert_eq!(ask(address, "GET", "/status", &long).await.0, 431);
    let many: String = (0..100).map(|field| format!("X-{field}: 1\r\n")).collect();
    assert_eq!(ask(address, "GET", "/status", &many).await.0, 431);
}

/// Nobody is kept out by silent connections, which are bounded; a page that is watched goes on.
#[tokio::test]
async fn a_newcomer_takes_the_place_of_the_connection_that_has_been_silent_longest() {
    let (address, _house) = start();
    let mut watching = TcpStream::connect(address).await.expect("connected");
    let head = format!("GET /live HTTP/1.1\r\nHost: {address}\r\n\r\n");
    watching.write_all(head.as_bytes()).await.expect("sent");
    let mut bytes = vec![0; 1 << 20];
    let _begun = watching.read(&mut bytes).await.expect("the page");
    let mut silent = Vec::new();
    for _ in 0..80 {
        let mut stream = TcpStream::connect(address).await.expect("connected");
        // A part of a head is no request.
        stream.write_all(b"GET /st").await.expect("sent");
        silent.push(stream);
    }
    let late = ask(address, "GET", "/healthz", "");
    let late = tokio::time::timeout(Duration::from_secs(5), late).await;
    assert_eq!(late.expect("it need not wait").0, 200);
    // Of 64, one watches, and one was the last.
    let (gone, left) = silent.split_at_mut(80 - 62);
    for stream in gone {
        let read = tokio::time::timeout(Duration::from_secs(5), stream.read(&mut bytes)).await;
        assert!(!matches!(read.expect("it was closed"), Ok(1..)), "it made room");
    }
    let mut is_open = |stream: &TcpStream| loop {
        match stream.try_read(&mut bytes) {
            Ok(1..) => {}
            Ok(_) => return false,
            Err(fault) => return fault.kind() == ErrorKind::WouldBlock,
        }
    };
    assert!(left.iter().all(&mut is_open), "those that came later stay");
    assert!(is_open(&watching), "the page goes on");
}
