//! Traces of requests: where `traceparent` comes from, and which spans a collector gets.

use crate::collector::{Collector, attribute, hex, section_at};
use crate::support::client::Client;
use crate::support::gateway::{Gateway, Port};
use crate::support::http2_client::{connect, run};
use crate::support::origin::{Origin, ok};
use crate::support::{eventually, eventually_is};
use crate::{await_lines, policy};
use http::Request;
use opentelemetry_proto::tonic::trace::v1::Span;
use std::net::Ipv4Addr;
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

const TRUSTED: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// Says which `traceparent` and `tracestate` it got.
fn origin() -> Origin {
    Origin::answering(|request| {
        let parent = request.values("traceparent").join("|");
        ok(format!("{parent} {}", request.values("tracestate").join("|")))
    })
}

fn start(origin: &Origin, folder: &TempDir, tables: &str) -> Gateway {
    let mut policy = policy(origin, &folder.path().join("log.json"), tables);
    policy.listener = "http2 = true".into();
    Gateway::start(&policy)
}

/// What the origin got: trace, span, flags, and the state.
fn traced(client: &mut Client, fields: &str) -> (String, String, String, String) {
    client.send(format!("GET /a?token=hush HTTP/1.1\r\nHost: shop.test:81\r\n{fields}\r\n"));
    let answer = client.answer();
    let text = answer.text();
    let (parent, state) = text.split_once(' ').expect("two parts");
    let parts: Vec<&str> = parent.split('-').collect();
    assert_eq!((parts.len(), parts[0]), (4, "00"), "{text}");
    assert_eq!((parts[1].len(), parts[2].len()), (32, 16), "{text}");
    (parts[1].to_owned(), parts[2].to_owned(), parts[3].to_owned(), state.to_owned())
}

fn given(flags: &str) -> String {
    format!("traceparent: 00-{TRACE}-{PARENT}-{flags}\r\ntracestate: a=1\r\ntracestate: b=2\r\n")
}

fn metric(gateway: &Gateway, name: &str) -> u64 {
    let text = Client::connect(gateway.admin).get_local("/metrics").text();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|value| value.trim().parse().ok())
        .unwrap_or_else(|| panic!("no {name} in {text}"))
}

const EXPORTED: &str = "tiergate_spans_exported_total ";
const DROPPED_COLLECTOR: &str = "tiergate_spans_dropped_total{by=\"collector\"} ";
const DROPPED_QUEUE: &str = "tiergate_spans_dropped_total{by=\"queue\"} ";

#[test]
fn a_trusted_peers_trace_goes_through_client_gateway_and_origin() {
    let (origin, collector) = (origin(), Collector::start());
    let folder = TempDir::new().expect("a folder");
    let section = collector.section("sample = \"0%\"\nservice = \"edge\"");
    let tables = format!(
        "{section}\n[[rule]]\nname = \"all\"\npath = \"/*\"\nclass = \"default\"\n[request_id]\n"
    );
    let gateway = start(&origin, &folder, &tables);
    let mut trusted = Client::connect_from(TRUSTED, gateway.address);
    let (trace, span, flags, state) = traced(&mut trusted, &given("01"));
    assert_eq!((trace.as_str(), flags.as_str(), state.as_str()), (TRACE, "01", "a=1|b=2"));
    assert_ne!(span, PARENT);
    eventually_is("two spans", 2, || collector.spans().len());
    let spans = collector.spans();
    let (whole, at_origin) = (&spans[0], &spans[1]);
    assert_eq!((whole.kind, at_origin.kind), (2, 3), "server, client");
    for span in &spans {
        assert_eq!(hex(&span.trace_id), TRACE);
        assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
    }
    assert_eq!(hex(&whole.parent_span_id), PARENT);
    assert_eq!(at_origin.parent_span_id, whole.span_id);
    assert_eq!(hex(&at_origin.span_id), span, "the origin's parent");
    assert!(at_origin.start_time_unix_nano >= whole.start_time_unix_nano);
    assert!(at_origin.end_time_unix_nano <= whole.end_time_unix_nano);
    let line = &await_lines(&folder.path().join("log.json"), 1)[0];
    assert_eq!(line["traceparent"], format!("00-{TRACE}-{span}-01"));
    let port = origin.server().rsplit(':').next().expect("a port").to_owned();
    for (of, key, value) in [
        (whole, "http.request.method", "GET"),
        (whole, "url.path", "/a"),
        (whole, "url.scheme", "http"),
        (whole, "http.response.status_code", "200"),
        (whole, "server.address", "shop.test"),
        (whole, "server.port", "81"),
        (whole, "client.address", "127.0.0.9"),
        (whole, "network.protocol.version", "1.1"),
        (whole, "tiergate.class", "default"),
        (whole, "tiergate.verdict", "admitted"),
        (whole, "tiergate.rule", "all"),
        (whole, "tiergate.request_id", line["request_id"].as_str().expect("an id")),
        (at_origin, "server.address", "127.0.0.1"),
        (at_origin, "server.port", &port),
        (at_origin, "http.response.status_code", "200"),
    ] {
        assert_eq!(attribute(of, key).as_deref(), Some(value), "{key}");
    }
    assert_eq!((attribute(whole, "error.type"), whole.status.as_ref()), (None, None));
    assert!(!format!("{spans:?}").contains("hush"), "queries are never told");
    assert_eq!(collector.services(), ["edge"]);
    eventually_is("both are counted", 2, || metric(&gateway, EXPORTED));
    // One that is not sampled goes on as it came, and nothing is exported.
    let (_, span, flags, _) = traced(&mut trusted, &given("00"));
    assert_eq!((span.as_str(), flags.as_str()), (PARENT, "00"));
}

#[test]
fn strangers_begin_anew_and_force_no_export() {
    let (origin, collector) = (origin(), Collector::start());
    let folder = TempDir::new().expect("a folder");
    let gateway = start(&origin, &folder, &collector.section("sample = \"0%\""));
    let mut stranger = gateway.client();
    for _ in 0..20 {
        let (trace, span, flags, state) = traced(&mut stranger, &given("01"));
        assert!(trace != TRACE && span != PARENT && state.is_empty());
        assert_eq!(flags, "02", "random, not sampled");
    }
    let folder = TempDir::new().expect("a folder");
    let gateway =
        start(&origin, &folder, &collector.section("sample = \"0%\"\ncontinues = \"all\""));
    let mut stranger = gateway.client();
    let (trace, span, flags, state) = traced(&mut stranger, &given("01"));
    assert_eq!((trace.as_str(), flags.as_str(), state.as_str()), (TRACE, "00", "a=1|b=2"));
    assert_ne!(span, PARENT, "the flag has changed");
    drop(gateway);
    assert_eq!(collector.spans(), []);
}

#[test]
fn what_is_invalid_is_dropped_and_begins_anew() {
    let (origin, collector) = (origin(), Collector::start());
    let folder = TempDir::new().expect("a folder");
    let gateway = start(&origin, &folder, &collector.section("sample = \"100%\""));
    let mut trusted = Client::connect_from(TRUSTED, gateway.address);
    let valid = format!("00-{TRACE}-{PARENT}-01");
    for bad in [
        format!("traceparent: {}\r\ntracestate: a=1\r\n", valid.to_uppercase()),
        format!("traceparent: ff{}\r\n", &valid[2..]),
        format!("traceparent: {valid}-\r\n"),
        format!("traceparent: 00-{}-{PARENT}-01\r\n", "0".repeat(32)),
        format!("traceparent: {valid}\r\ntraceparent: {valid}\r\n"),
        "traceparent: \r\ntracestate: a=1\r\n".to_owned(),
        "tracestate: a=1\r\n".to_owned(),
    ] {
        let (trace, _, flags, state) = traced(&mut trusted, &bad);
        assert!(trace != TRACE && state.is_empty(), "{bad}");
        assert_eq!(flags, "03", "{bad}");
    }
    // The state alone is invalid.
    let fields = format!("traceparent: {valid}\r\ntracestate: nonsense\r\n");
    let (trace, _, _, state) = traced(&mut trusted, &fields);
    assert_eq!((trace.as_str(), state.as_str()), (TRACE, ""));
    eventually_is("all are exported", 16, || collector.spans().len());
}

#[test]
fn a_share_is_sampled_and_waits_and_refusals_have_their_spans() {
    let (origin, collector) = (origin(), Collector::start());
    let folder = TempDir::new().expect("a folder");
    let gateway = start(&origin, &folder, &collector.section("sample = \"25%\""));
    let mut client = gateway.client();
    let sampled = (0..600).filter(|_| traced(&mut client, "").2 == "03").count();
    assert!((90..=220).contains(&sampled), "{sampled} of 600");
    eventually_is("two spans each", 2 * sampled, || collector.spans().len());

    let slow = Origin::answering(|request| {
        thread::sleep(Duration::from_millis(if request.target == "/slow" { 1000 } else { 0 }));
        ok("")
    });
    let collector = Collector::start();
    let folder = TempDir::new().expect("a folder");
    let mut policy = policy(
        &slow,
        &folder.path().join("log.json"),
        &format!(
            "{}\n[[rule]]\npath = \"/no\"\nrefuse = true\n",
            collector.section("sample = \"100%\"")
        ),
    );
    policy.origin = "slots = 1".into();
    let gateway = Gateway::start(&policy);
    let address = gateway.address;
    let first = thread::spawn(move || Client::connect(address).get("/slow").status);
    eventually("it has the slot", || gateway.number("/limit/running") == 1);
    assert_eq!(gateway.get("/waits").status, 200);
    assert_eq!(first.join().expect("no panic"), 200);
    assert_eq!(gateway.get("/no").status, 403);
    eventually_is("2 + 3 + 1 spans", 6, || collector.spans().len());
    let spans = collector.spans();
    let queue = spans.iter().find(|span| span.name == "queue").expect("one waited");
    let whole = spans.iter().find(|span| span.span_id == queue.parent_span_id).expect("its parent");
    assert_eq!(attribute(whole, "url.path").as_deref(), Some("/waits"));
    assert_eq!(attribute(whole, "tiergate.verdict").as_deref(), Some("queued"));
    let mut children =
        spans.iter().filter(|span| span.parent_span_id == whole.span_id && span.name != "queue");
    let at_origin = children.next().expect("its time at the origin");
    assert!(at_origin.start_time_unix_nano >= queue.end_time_unix_nano);
    let refused = spans.iter().find(|it| attribute(it, "url.path").as_deref() == Some("/no"));
    let refused = refused.expect("it has a span");
    assert_eq!(attribute(refused, "tiergate.verdict").as_deref(), Some("refused"));
    assert_eq!(attribute(refused, "tiergate.reason").as_deref(), Some("rule"));
}

#[test]
fn failures_say_what_failed_and_http2_is_traced_alike() {
    let (origin, collector) = (Origin::start(drop), Collector::start());
    let folder = TempDir::new().expect("a folder");
    let gateway = start(&origin, &folder, &collector.section("sample = \"100%\""));
    run(async {
        let mut send = connect(gateway.address).await;
        let request = Request::post("http://x.test/b").body(()).expect("good");
        let (answer, _) = send.send_request(request, true).expect("a stream");
        assert_eq!(answer.await.expect("an answer").status(), 502);
    });
    eventually_is("two spans", 2, || collector.spans().len());
    let spans = collector.spans();
    assert_eq!(attribute(&spans[0], "network.protocol.version").as_deref(), Some("2"));
    assert_eq!(attribute(&spans[0], "error.type").as_deref(), Some("502"));
    assert_eq!(attribute(&spans[1], "error.type").as_deref(), Some("failed"));
    for span in &spans {
        let status = span.status.as_ref().expect("an error");
        assert_eq!(status.code, 2);
        assert!(status.message.starts_with("the origin "), "{}", status.message);
    }
}

#[test]
fn an_origins_own_errors_are_its_spans_and_only_those_of_servers_the_wholes() {
    let origin = Origin::start(|mut connection| {
        while let Some(request) = connection.request() {
            let status = &request.target[1..];
            connection.send(format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n"));
        }
    });
    let collector = Collector::start();
    let folder = TempDir::new().expect("a folder");
    let gateway = start(&origin, &folder, &collector.section("sample = \"100%\""));
    let mut client = gateway.client();
    for status in [200, 404, 429, 500] {
        assert_eq!(client.get(&format!("/{status}")).status, status);
    }
    eventually_is("eight spans", 8, || collector.spans().len());
    let spans = collector.spans();
    let mut seen = Vec::new();
    for whole in spans.iter().filter(|it| attribute(it, "url.path").is_some()) {
        let of_origin = spans.iter().find(|it| it.parent_span_id == whole.span_id);
        let of_origin = of_origin.expect("its time at the origin");
        let code = attribute(of_origin, "http.response.status_code").expect("it answered");
        let path = attribute(whole, "url.path").expect("just seen");
        assert_eq!(path, format!("/{code}"));
        let is_error = |span: &Span| span.status.as_ref().is_some_and(|it| it.code == 2);
        assert_eq!(is_error(of_origin), attribute(of_origin, "error.type").is_some());
        seen.push((code, attribute(of_origin, "error.type"), is_error(whole)));
    }
    seen.sort();
    let error = |code: &str| Some(code.to_owned());
    let of = |code: &str, origin, whole| (code.to_owned(), origin, whole);
    let expected = [
        of("200", None, false),
        of("404", error("404"), false),
        of("429", error("429"), false),
        of("500", error("500"), true),
    ];
    assert_eq!(seen, expected);
}

/// Sends requests, all of which are served, and waits until all their spans are accounted for.
fn all_are_dropped(collector: &Collector, keys: &str) {
    let origin = origin();
    let folder = TempDir::new().expect("a folder");
    let gateway =
        start(&origin, &folder, &collector.section(&format!("sample = \"100%\"\n{keys}")));
    let mut client = gateway.client();
    for _ in 0..50 {
        traced(&mut client, "");
    }
    eventually_is("all are dropped", 100, || {
        metric(&gateway, DROPPED_COLLECTOR) + metric(&gateway, DROPPED_QUEUE)
    });
    assert_eq!(metric(&gateway, EXPORTED), 0);
    let log = gateway.log();
    assert_eq!(log.matches("spans are dropped").count(), 1, "seldom said: {log}");
}

#[test]
fn a_collector_that_is_dead_slow_or_lies_costs_spans_and_nothing_else() {
    let answer = |text: &'static str| Collector::answering(move |_| text.as_bytes().to_vec());
    all_are_dropped(&answer("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"), "");
    all_are_dropped(&answer("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\ngarbage"), "");
    all_are_dropped(&answer("SSH-2.0-nothing\r\n"), "");
    let huge = "HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n";
    all_are_dropped(&answer(huge), "timeout = \"100ms\"");
    let silent = Collector::serving(|_, _| thread::sleep(Duration::from_millis(300)));
    all_are_dropped(&silent, "timeout = \"100ms\"\nqueue = 10");
    let dead = Port::reserve();
    let section = section_at(dead.address, "sample = \"100%\"");
    let (origin, folder) = (origin(), TempDir::new().expect("a folder"));
    let mut gateway = start(&origin, &folder, &section);
    traced(&mut gateway.client(), "");
    eventually_is("both are dropped", 2, || metric(&gateway, DROPPED_COLLECTOR));
    gateway.drain();
}

#[test]
fn what_a_collector_rejects_is_counted_and_a_full_queue_drops() {
    // `partial_success { rejected_spans: 1 }`.
    let partly = Collector::answering(|_| {
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n\x0a\x02\x08\x01".to_vec()
    });
    let (origin, folder) = (origin(), TempDir::new().expect("a folder"));
    let gateway = start(&origin, &folder, &partly.section("sample = \"100%\""));
    traced(&mut gateway.client(), "");
    eventually_is("one is taken", (1, 1), || {
        (metric(&gateway, EXPORTED), metric(&gateway, DROPPED_COLLECTOR))
    });

    let slow = Collector::serving(|connection, _| {
        thread::sleep(Duration::from_secs(1));
        connection.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    });
    let folder = TempDir::new().expect("a folder");
    let gateway = start(&origin, &folder, &slow.section("sample = \"100%\"\nqueue = 5"));
    let mut client = gateway.client();
    traced(&mut client, "");
    eventually("the first is being sent", || slow.spans().len() == 2);
    for _ in 0..50 {
        traced(&mut client, "");
    }
    eventually_is("five requests wait", 90, || metric(&gateway, DROPPED_QUEUE));
    eventually_is("the rest is taken", 12, || metric(&gateway, EXPORTED));
}

#[test]
fn a_reload_begins_ends_and_moves_it_and_the_end_of_the_process_sends_the_rest() {
    let (origin, first, second) = (origin(), Collector::start(), Collector::start());
    let folder = TempDir::new().expect("a folder");
    let mut gateway = start(&origin, &folder, "");
    let without = std::fs::read_to_string(&gateway.policy_path).expect("it was written");
    let mut client = gateway.client();
    let mut reload = |gateway: &Gateway, section: &str| {
        gateway.write_policy(&format!("{without}\n{section}"));
        let (status, text) = gateway.reload();
        assert_eq!(status, 200, "{text}");
        client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        client.answer().text()
    };
    assert_ne!(reload(&gateway, &first.section("sample = \"100%\"")), " ");
    eventually_is("the first has them", 2, || first.spans().len());
    let late = second.section("sample = \"100%\"").replace("50ms", "30s");
    assert_ne!(reload(&gateway, &late), " ");
    assert_eq!(reload(&gateway, ""), " ", "none any more");
    eventually_is("what waited is sent when it ends", 2, || second.spans().len());
    assert_ne!(reload(&gateway, &late), " ");
    gateway.drain();
    eventually_is("the rest", 4, || second.spans().len());
    assert_eq!(first.spans().len(), 2);
}
