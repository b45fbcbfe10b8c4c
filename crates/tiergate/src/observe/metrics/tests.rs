//! Checks of the text, after `promtool check metrics` and the format's own rules.

use super::*;
use crate::admin::MemoryBounds;
use crate::admin::incident::CertificateStatus;
use crate::config::meant::{Measure, Of, OrcaSensor, Sensor, Unit};
use crate::interface::capacity::Source;
use crate::kernel::{KernelInterface, KernelPolicer, KernelRequests, KernelStatus};
use crate::lanes::LaneStatus;
use crate::link::LinkCapacity;
use crate::observe::counters::Protocol;
use crate::observe::server::Health;
use crate::orca::Metric;
use crate::workers::status::ShareStatus;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tiergate_core::admit::session::{Bounds, Sessions};
use tiergate_core::class::{Class, ClassId};
use tiergate_core::control::{Cause, Quantile, ServiceTarget, Slots, Step, TargetState};
use tiergate_core::gate::{Arrival, Gate, Verdict};
use tiergate_core::headroom::FailureBound;
use tiergate_core::names::{PoolId, RuleId, RuleKey};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::Spec;
use tiergate_core::sense::{Quantity, Reading};
use tiergate_core::time::Moment;

/// The page of [`bytes`] as text.
pub(super) fn encoded(format: Format) -> String {
    String::from_utf8(bytes(format)).expect("text is UTF-8")
}

/// A gate that has admitted, queued, refused and finished, with a class name that needs escaping.
pub(super) fn bytes(format: Format) -> Vec<u8> {
    let mut plan = Spec::protective();
    plan.classes = vec![Class::named("check\"out\\"), Class::named("browse")];
    plan.classes[1].queue_len_max = 2;
    plan.slots = Slots::Fixed(2);
    plan.rules = vec!["pages".into(), RuleKey::Conditions(2, 0), RuleKey::Conditions(3, 0)];
    plan.shedding = Some(Duration::from_millis(100));
    let mut gate: Gate<()> = Gate::new(plan.build().expect("a valid plan"));
    let mut slots = Vec::new();
    for number in 0..12u64 {
        let arrival = Arrival {
            rule: (number % 4 != 3).then_some(RuleId::at((number % 4) as u32)),
            ..Arrival::of(ClassId(u16::from(number >= 2)))
        };
        if let Verdict::Admit(slot) = gate.arrive(Moment::ZERO, arrival, || ()) {
            slots.push(slot);
        }
    }
    for (slot, end) in slots.into_iter().zip([End::Served, End::Error]) {
        let first_byte = Some(Duration::from_millis(3));
        gate.finish(
            Moment::from_millis(20),
            slot,
            Outcome { end, first_byte, bytes: 0, left: None },
        );
    }
    let (source, quantity) = ("cpu", Quantity::Utilization(0.25));
    let lasting = Duration::from_secs(3);
    gate.observe(Moment::from_millis(25), Reading { source, quantity, lasting })
        .expect("it can be");
    let mut snapshot = Snapshot::take(&gate, Moment::from_millis(30));
    let cause = Cause::Grew;
    snapshot.default.last_step = Some((Moment::from_millis(10), Step { slots: 2, cause }));
    snapshot.lanes = vec![LaneStatus {
        name: "fast".to_owned(),
        threads: 1,
        nice_wanted: -10,
        nice: None,
        connections: 3,
        turned_away: 2,
        handed_over: 5,
        handed_on: 7,
    }];
    snapshot.kernel = Some(KernelStatus {
        interfaces: vec![KernelInterface {
            name: "eth0".to_owned(),
            way: Some("native".to_owned()),
            ingress: true,
        }],
        mechanism: "ebpf".to_owned(),
        policing: true,
        seen: 9,
        let_in: 1,
        blocked: 2,
        policers: vec![KernelPolicer {
            policer: "site".to_owned(),
            class: "shop".to_owned(),
            passed: 5,
            overflow: 1,
            dropped: 3,
        }],
        requests: vec![KernelRequests { policer: "rule 3".to_owned(), passed: 4, refused: 6 }],
        ..KernelStatus::default()
    });
    snapshot.link_capacity = Some(LinkCapacity {
        interface: Some("eth0".to_owned()),
        bits_per_second: 98_000_000,
        from: Source::Htb,
        fault: None,
        failures: 1,
    });
    snapshot.default.classes[0].state.target = Some(TargetState {
        target: ServiceTarget { time: Duration::from_millis(200), quantile: Quantile::P99 },
        slots: Some(40),
        is_missed: false,
        answers: 1000,
        late: 7,
    });
    let counters = Counters::new(2);
    counters.thread(0).request(Protocol::Http11);
    counters.thread(1).response(503);
    counters.thread(1).bad_request(431);
    counters.thread(0).protocol_error(Protocol::Http2);
    counters.thread(1).protocol_error(Protocol::Http3);
    counters.thread(0).protocol_error(Protocol::Http3);
    for (thread, took) in [(0, Some(Duration::from_millis(20))), (1, None)] {
        let status = if took.is_some() { 200 } else { 503 };
        counters.thread(thread).answers.count(ClassId(1), status, took);
    }
    let server = |address: &str, health, outstanding| {
        let address = address.to_owned();
        ServerStatus { address, health, outstanding, ..ServerStatus::default() }
    };
    let servers =
        vec![server("10.0.0.5:8080", Health::Down, 4), server("/run/app.sock", Health::Up, 0)];
    let bounds = Bounds {
        idle: Duration::from_secs(1800),
        lifetime: Duration::from_secs(3600),
        sessions_max: 100,
        at_once_max: 32,
    };
    let mut sessions = Sessions::new(bounds);
    sessions.answered(Moment::ZERO, 1, 1, ClassId(0), true);
    sessions.end(1);
    let sessions = session::Readings { running: 1, classes: sessions.account().to_vec() };
    let refusals = Refusals::default();
    let orca = OrcaSensor {
        metric: Metric::Cpu,
        pool: PoolId::DEFAULT,
        pool_name: "default".to_owned(),
        unit: Unit::Utilization,
    };
    let measures = [("cpu", Measure::Cpu(Of::Machine)), ("reported", Measure::Orca(orca))];
    let sensor = |(name, measure): (&str, Measure)| Sensor {
        name: name.to_owned(),
        measure,
        every: Duration::from_secs(1),
    };
    let sensors = Arc::new(Sensors::new(measures.map(sensor).into()));
    let (counters, refusals, version) = (&counters, &refusals, "0.1.0");
    let workers = vec![workers()];
    let success = vec![(String::new(), "browse".to_owned(), -0.5)];
    let failure = vec![(String::new(), FailureBound::Slots, 1.5)];
    let buffers = Buffers { success, failure };
    let certificate = CertificateStatus {
        file: "/etc/shop.pem".to_owned(),
        name: "shop.example".to_owned(),
        expires_at_seconds: 1_900_000_000,
    };
    let bounds = MemoryBounds { buffers_max: 100, spool_max: 200, stored_max: 300 };
    let in_force = InForce { is_enforced: true, certificates: vec![certificate], bounds };
    Readings {
        snapshot,
        sessions,
        sensors,
        servers,
        workers,
        counters,
        refusals,
        buffers,
        in_force,
        version,
    }
    .encode(format)
}

/// Two workers of a pool, one of which is being started again.
fn workers() -> WorkersStatus {
    let share = |name: &str, in_force| ShareStatus {
        name: name.to_owned(),
        asked: String::new(),
        in_force,
        fault: None,
    };
    WorkersStatus {
        pool: "reports".to_owned(),
        from: "command".to_owned(),
        wanted: 2,
        alive: 1,
        ready: 1,
        restarts: 7,
        workers: Vec::new(),
        shares: vec![share("nice", true), share("deadline", false)],
        fault: None,
    }
}

/// Name and labels of a sample line, and its value.
pub(super) fn sample(line: &str) -> (&str, &str, f64) {
    let (series, value) = line.rsplit_once(' ').expect("a value");
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    (name, labels, value.parse().expect("a number"))
}

/// The family that a sample belongs to.
fn family<'a>(name: &'a str, types: &BTreeMap<&str, &str>) -> &'a str {
    ["_bucket", "_sum", "_count"]
        .iter()
        .filter_map(|suffix| name.strip_suffix(suffix))
        .find(|base| types.get(base) == Some(&"histogram"))
        .unwrap_or(name)
}

#[test]
fn every_sample_has_a_type_and_help_and_comes_once_and_together() {
    let text = encoded(Format::Prometheus);
    let (mut types, mut helps) = (BTreeMap::new(), BTreeSet::new());
    let (mut series, mut closed, mut current) = (BTreeSet::new(), BTreeSet::new(), "");
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, words) = help.split_once(' ').expect("help says something");
            assert!(helps.insert(name) && !words.is_empty(), "{line}");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect("a type");
            assert!(types.insert(name, kind).is_none(), "twice: {line}");
        } else {
            let (name, labels, value) = sample(line);
            let family = family(name, &types);
            assert!(types.contains_key(family), "no type: {line}");
            assert!(helps.contains(family), "no help: {line}");
            assert!(series.insert((name, labels)), "twice: {line}");
            if family != current {
                assert!(closed.insert(family), "scattered: {line}");
                current = family;
            }
            // Only a buffer may be negative: the class is being shed.
            let least = if name.ends_with("_buffer_ratio") { -1.0 } else { 0.0 };
            assert!(value.is_finite() && value >= least, "{line}");
        }
    }
    assert!(series.len() > 150, "{}", series.len());
}

#[test]
fn names_keep_the_rules() {
    for format in [Format::Prometheus, Format::OpenMetrics] {
        let text = encoded(format);
        for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            let (name, kind) = line.split_once(' ').expect("a type");
            let known = name.starts_with("tiergate_") || name.starts_with("process_");
            assert!(known, "{line}");
            let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'_');
            assert!(name.bytes().all(plain), "{line}");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            let total = kind == "counter" && format == Format::Prometheus;
            assert_eq!(name.ends_with("_total"), total, "{line}");
        }
        assert_eq!(text.ends_with("# EOF\n"), format == Format::OpenMetrics);
    }
}

#[test]
fn histograms_are_cumulative_and_end_in_their_count() {
    let text = encoded(Format::Prometheus);
    let mut histograms = BTreeMap::<(&str, String), Vec<(f64, f64)>>::new();
    let mut counts = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, labels, value) = sample(line);
        if let Some(base) = name.strip_suffix("_bucket") {
            let (le, others) = labels.split_once("\",").expect("a bound before the class");
            let bound = match le.strip_prefix("le=\"").expect("the bound comes first") {
                "+Inf" => f64::INFINITY,
                bound => bound.parse().expect("a number"),
            };
            let key = (base, others.trim_end_matches('}').to_owned());
            histograms.entry(key).or_default().push((bound, value));
        } else if let Some(base) = name.strip_suffix("_count") {
            counts.insert((base, labels.trim_end_matches('}').to_owned()), value);
        }
    }
    assert_eq!(histograms.len(), 10);
    for (key, buckets) in histograms {
        assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{key:?}: {buckets:?}");
        let last = *buckets.last().expect("at least +Inf");
        assert_eq!(last.0, f64::INFINITY);
        assert_eq!(counts.get(&key), Some(&last.1), "{key:?}");
        let lengths = key.0 == "tiergate_session_requests";
        let expected = if lengths { 12..13 } else { 20..30 };
        assert!(expected.contains(&buckets.len()), "{key:?}: {}", buckets.len());
    }
}

#[test]
fn the_values_are_the_gate_s_own() {
    let text = encoded(Format::Prometheus);
    for line in [
        r#"tiergate_requests_arrived_total{class="check\"out\\"} 2"#,
        r#"tiergate_sensor_value{sensor="cpu",quantity="utilization"} 0.25"#,
        r#"tiergate_sensor_up{sensor="cpu"} 1"#,
        r#"tiergate_requests_refused_total{class="browse",reason="queue_full"} 8"#,
        r#"tiergate_requests_finished_total{class="check\"out\\",end="served"} 1"#,
        r#"tiergate_requests_running{class="browse"} 2"#,
        r#"tiergate_queue_wait_seconds_count{class="browse"} 2"#,
        r#"tiergate_queue_wait_seconds_bucket{le="0.032768",class="browse"} 2"#,
        r#"tiergate_queue_wait_seconds_bucket{le="0.016384",class="browse"} 0"#,
        r#"tiergate_slots_last_change{cause="grew"} 2"#,
        r#"tiergate_rule_hits_total{rule="pages"} 3"#,
        r#"tiergate_service_target_seconds{class="check\"out\\",quantile="p99"} 0.2"#,
        r#"tiergate_service_target_slots{class="check\"out\\"} 40"#,
        r#"tiergate_service_target_missed{class="check\"out\\"} 0"#,
        r#"tiergate_service_target_late_total{class="check\"out\\"} 7"#,
        r#"tiergate_workers_wanted{pool="reports"} 2"#,
        r#"tiergate_workers_alive{pool="reports"} 1"#,
        r#"tiergate_worker_restarts_total{pool="reports"} 7"#,
        r#"tiergate_workers_share_in_force{pool="reports",share="deadline"} 0"#,
        r#"tiergate_request_seconds_count{class="browse"} 1"#,
        r#"tiergate_request_seconds_bucket{le="0.032768",class="browse"} 1"#,
        r#"tiergate_responses_total{class="browse",code="200"} 1"#,
        r#"tiergate_responses_total{class="browse",code="503"} 1"#,
        r#"tiergate_success_buffer_ratio{class="browse"} -0.5"#,
        r#"tiergate_failure_buffer_ratio{bound="slots"} 1.5"#,
        r#"tiergate_certificate_expiry_timestamp_seconds{file="/etc/shop.pem",name="shop.example"} 1900000000"#,
        "tiergate_spooled_max_bytes 200",
        "tiergate_rule_unmatched_total 3",
        "tiergate_shed_fraction 0.0",
        r#"tiergate_bad_requests_total{code="431"} 1"#,
        r#"tiergate_protocol_errors_total{protocol="HTTP/2.0"} 1"#,
        r#"tiergate_protocol_errors_total{protocol="HTTP/3.0"} 2"#,
        r#"tiergate_http_responses_total{code_class="5xx"} 1"#,
        r#"tiergate_origin_up{server="10.0.0.5:8080"} 0"#,
        r#"tiergate_origin_connects_total{server="/run/app.sock"} 0"#,
    ] {
        assert!(text.lines().any(|it| it == line), "missing: {line}\n{text}");
    }
}

#[test]
fn the_documentation_lists_every_metric() {
    let documentation = include_str!("../../../../../docs/observability.md");
    let text = encoded(Format::Prometheus);
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let name = line.split(' ').next().unwrap_or_default();
        let name = name.strip_prefix("tiergate_").unwrap_or(name);
        assert!(documentation.contains(&format!("`{name}`")), "{name} is not documented");
    }
}
