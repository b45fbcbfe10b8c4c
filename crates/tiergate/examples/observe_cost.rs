//! What observing costs: `cargo run --release --example observe_cost`. The figures stand in
//! `docs/observability.md`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tiergate::config::meant::{AccessLog, LogFormat};
use tiergate::observe::access_log::{Entry, Log, Verdict};
use tiergate::observe::counters::{Counters, Protocol};
use tiergate::observe::metrics::{Format, Readings};
use tiergate::observe::refusals::{Refusal, Refusals};
use tiergate::observe::snapshot::Snapshot;
use tiergate::sensors::Sensors;
use tiergate::session;
use tiergate_core::class::{Class, ClassId};
use tiergate_core::gate::Gate;
use tiergate_core::names::RuleKey;
use tiergate_core::outcome::End;
use tiergate_core::plan::{RuleLabel, Spec};
use tiergate_core::reason::Reason;
use tiergate_core::time::Moment;

/// Median over 11 rounds of the time that one call takes.
fn measure(what: &str, calls: u32, mut call: impl FnMut()) {
    let mut rounds: Vec<f64> = (0..11)
        .map(|_| {
            let start = Instant::now();
            (0..calls).for_each(|_| call());
            start.elapsed().as_secs_f64() / f64::from(calls)
        })
        .collect();
    rounds.sort_unstable_by(f64::total_cmp);
    println!("{what:<58} {:>9.4} µs", rounds[5] * 1e6);
}

fn gate(classes: usize, rules: usize) -> Gate<()> {
    let mut plan = Spec::protective();
    plan.classes = (0..classes).map(|class| Class::named(format!("class{class}"))).collect();
    plan.rules = (0..rules as u64).map(|rule| RuleKey::Conditions(rule, 0)).collect();
    Gate::new(plan.build().expect("a valid plan"))
}

fn main() -> std::io::Result<()> {
    let counters = Counters::new(2);
    let thread = counters.thread(0);
    measure("the counters of one request (6 additions)", 1_000_000, || {
        thread.request(Protocol::Http11);
        thread.response(200);
        thread.received_bytes.add(black_box(400));
        thread.sent_bytes.add(black_box(1_400));
        thread.connections_accepted.one();
        thread.connections_closed.one();
    });
    let refusals = Refusals::default();
    let refusal = Refusal {
        at: SystemTime::now(),
        class: "browse",
        rule: Some(RuleLabel { number: 3, name: None }),
        reason: Reason::QueueFull,
        client: [192, 0, 2, 1].into(),
        method: b"GET",
        path: b"/list/shoes/red",
    };
    measure("a refusal into the ring", 1_000_000, || refusals.record(black_box(&refusal)));
    let took = Some(Duration::from_millis(12));
    measure("an answer by class: status and latency", 1_000_000, || {
        counters.thread(0).answers.count(ClassId(1), black_box(200), black_box(took));
    });
    access_log(&counters)?;
    for (classes, rules) in [(2, 20), (8, 200), (64, 10_000)] {
        let gate = gate(classes, rules);
        measure(&format!("snapshot, {classes} classes, {rules} rules (lock held)"), 1_000, || {
            black_box(Snapshot::take(&gate, Moment::ZERO));
        });
        measure(&format!("/metrics from it, {classes} classes, {rules} rules"), 20, || {
            let readings = Readings {
                snapshot: Snapshot::take(&gate, Moment::ZERO),
                sessions: session::Readings::default(),
                sensors: Arc::new(Sensors::new(Vec::new())),
                servers: Vec::new(),
                workers: Vec::new(),
                buffers: Default::default(),
                in_force: Default::default(),
                counters: &counters,
                refusals: &refusals,
                version: "0",
            };
            black_box(readings.encode(Format::Prometheus));
        });
    }
    Ok(())
}

fn access_log(counters: &Arc<Counters>) -> std::io::Result<()> {
    let entry = Entry {
        time: SystemTime::now(),
        client: [192, 0, 2, 7].into(),
        method: b"GET",
        target: b"/cart/7?step=2",
        protocol: Some(Protocol::Http11),
        host: b"shop.example",
        status: 200,
        sent_bytes: 5_120,
        body_bytes: 5_120,
        received_bytes: 0,
        duration: Duration::from_micros(41_500),
        waited: Some(Duration::from_micros(1_250)),
        first_byte: Some(Duration::from_millis(38)),
        cpu: None,
        class: Some("checkout"),
        pool: None,
        resource: None,
        level: None,
        observed: None,
        rule: Some(RuleLabel { number: 2, name: None }),
        verdict: Verdict::Queued,
        stored: None,
        reason: None,
        policer: None,
        end: Some(End::Served),
        server: Some("10.0.0.5:8080"),
        cause: "",
        slots: 40,
        user_agent: b"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
        referer: b"https://shop.example/",
        request_id: b"",
        client_request_id: b"",
        traceparent: b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    };
    for format in [LogFormat::Json, LogFormat::Combined] {
        let options = AccessLog {
            path: Some("/dev/null".into()),
            format,
            line: None,
            refused_one_in: 1,
            bad_per_second: 20,
        };
        let log = Log::start(&options, Arc::clone(counters))?;
        let mut buffer = log.buffer();
        let dropped = counters.access_log.dropped.total();
        measure(&format!("an access log line, {format:?}"), 100_000, || {
            buffer.record(black_box(&entry));
        });
        let dropped = counters.access_log.dropped.total() - dropped;
        println!("    of them dropped: {dropped}");
    }
    Ok(())
}
