//! Each verdict passes on good evidence, and fails on the fault that it is about.

use super::*;
use crate::chaos::ask::Outcome;
use crate::chaos::fault::Fault;

fn reading(name: &str, requests: u64) -> Reading {
    let n = requests as f64;
    Reading {
        name: name.into(),
        at: n,
        memory_used: None,
        memory: 40 << 20,
        descriptors: 20,
        metrics: Metrics::from([
            ("http_requests_total{protocol=\"HTTP/1.1\"}", n),
            ("access_log_lines_total", n),
            ("requests_arrived_total{class=\"premium\"}", n - 3.0),
            ("requests_finished_total{class=\"premium\",end=\"served\"}", n - 5.0),
            ("requests_refused_total{class=\"premium\",reason=\"queue_full\"}", 1.0),
            ("requests_cancelled_waiting_total{class=\"premium\"}", 1.0),
            ("connections_accepted_total", 7.0),
            ("connections_closed_total", 7.0),
        ]),
        lines: requests,
        bad_lines: 3,
        ..Reading::default()
    }
}

fn done(number: u32, outcome: Outcome) -> Done {
    let begun = f64::from(number) / 10.0;
    Done { begun, ended: begun + 0.01, path: format!("/premium/p{number}"), outcome }
}

fn good() -> Evidence {
    let done: Vec<Done> = (0..2000).map(|number| done(number, Outcome::Answered)).collect();
    let premium = done.iter().map(|it| (it.path.clone(), (1, 1))).collect();
    let outage = Fault::AllServersOut { killed: true };
    Evidence {
        done,
        happened: vec![Happened { fault: outage, from: 50.0, to: 53.0 }],
        readings: [("start", 100), ("phase 1", 900), ("phase 2", 2100)]
            .map(|(name, requests)| reading(name, requests))
            .into(),
        samples: vec![Sample { memory: 50 << 20, connections: 400, ..Sample::default() }],
        capacity: [Some(600.0), Some(590.0)],
        lines: Lines { whole: 2100, premium, ..Lines::default() },
        end: Some("the gateway ended (exit status: 0)".into()),
        ..Evidence::default()
    }
}

/// The names of the verdicts that fail.
fn failed(evidence: &Evidence) -> Vec<&'static str> {
    let verdicts = evidence.verdicts();
    verdicts.iter().filter(|it| !it.passed).map(|it| it.name).collect()
}

#[test]
fn good_evidence_passes() {
    assert_eq!(failed(&good()), [""; 0]);
}

#[test]
fn no_evidence_does_not() {
    assert!(failed(&Evidence::default()).len() >= 8);
}

#[test]
fn every_fault_fails_its_verdict() {
    type Break = fn(&mut Evidence);
    let breaks: [(&str, Break); 24] = [
        ("the gateway ran", |it| it.died = Some("signal: 11".into())),
        ("the gateway ran", |it| it.end = Some("it did not end".into())),
        ("the gateway ran", |it| it.program_log = "x ERROR tiergate: a listener".into()),
        ("the gateway ran", |it| it.program_log = "thread 'x' panicked at src/a.rs".into()),
        ("answers belong to their requests", |it| it.crowd_mixed = 1),
        ("premium answered", |it| {
            it.done[..3].iter_mut().for_each(|it| it.outcome = Outcome::Status(502));
        }),
        ("service comes back", |it| {
            let late = it.done.iter_mut().filter(|done| (53.0..=58.0).contains(&done.begun));
            late.for_each(|done| done.outcome = Outcome::Late);
        }),
        ("reloads", |it| it.reloads.wrong.push("SIGHUP, a good policy".into())),
        ("bounds hold", |it| it.samples[0].connections = 401),
        ("bounds hold", |it| it.samples[0].memory = 100 << 20),
        ("bounds hold", |it| it.samples[0].buffered = 5 << 20),
        ("memory is flat", |it| it.readings[2].memory = 61 << 20),
        ("memory is flat", |it| it.readings[0].memory = 19 << 20),
        ("descriptors are flat", |it| it.readings[1].descriptors = 24),
        ("requests counted once", |it| it.readings[2].bad_lines = 2),
        ("requests counted once", |it| it.readings[2].bad_lines = 4),
        ("access log complete", |it| it.readings[2].lines = 2099),
        ("access log complete", |it| it.lines.torn = 1),
        ("premium requests in the log", |it| {
            it.lines.premium.remove("/premium/p7");
        }),
        ("premium requests in the log", |it| {
            it.lines.premium.insert("/premium/p7".into(), (2, 2));
        }),
        ("premium requests in the log", |it| {
            it.lines.premium.insert("/premium/never".into(), (1, 1));
        }),
        ("nothing is stuck", |it| it.readings[0].stuck.push("streams 1".into())),
        ("capacity is kept", |it| it.capacity[1] = Some(400.0)),
        ("capacity is kept", |it| it.capacity[1] = None),
    ];
    for (name, break_it) in breaks {
        let mut evidence = good();
        break_it(&mut evidence);
        assert_eq!(failed(&evidence), [name]);
    }
}

#[test]
fn memory_in_use_that_grows_is_found() {
    let mut evidence = good();
    let last = evidence.readings.pop().expect("three");
    evidence.readings.extend(std::iter::repeat_n(last, 8));
    let many = evidence.readings.len() - 1;
    assert_eq!((1..=many).filter(|phase| compares_memory(*phase, many)).count(), 2);
    assert!(!compares_memory(1, 2));
    let mut used = |first: u64, second: u64| {
        evidence.readings[many / 2].memory_used = Some(first << 20);
        evidence.readings[many].memory_used = Some(second << 20);
        failed(&evidence)
    };
    assert_eq!(used(20, 25), ["memory is flat"]);
    assert_eq!(used(20, 23), [""; 0]);
    // What is kept for the next peak may.
    evidence.readings[many].memory += 29 << 20;
    assert_eq!(failed(&evidence), [""; 0]);
    // But no more than so much above what it was before.
    evidence.readings[many / 2].memory_used = Some(61 << 20);
    assert_eq!(failed(&evidence), ["memory is flat"]);
}

#[test]
fn a_mix_up_is_never_excused() {
    let mut evidence = good();
    // In the middle of the outage.
    evidence.done[510].outcome = Outcome::Mixed("another's".into());
    assert!(failed(&evidence).contains(&"answers belong to their requests"));
}

#[test]
fn what_no_gateway_can_answer_is_excused() {
    let mut evidence = good();
    evidence.done[500..530].iter_mut().for_each(|it| it.outcome = Outcome::Status(502));
    assert_eq!(failed(&evidence), [""; 0]);
}

#[test]
fn a_request_counted_twice_is_found() {
    let mut evidence = good();
    evidence.readings[1].metrics = Metrics::from([
        ("http_requests_total{protocol=\"HTTP/1.1\"}", 13.0),
        ("requests_arrived_total{class=\"a\"}", 10.0),
        ("requests_finished_total{class=\"a\",end=\"served\"}", 11.0),
    ]);
    assert_eq!(failed(&evidence), ["requests counted once"]);
}

#[test]
fn rejected_reloads_are_no_faults() {
    assert!(!is_error("x ERROR tiergate: reload rejected, the old policy stays: policy.toml:1:2"));
    assert!(is_error("x ERROR tiergate: a listener cannot be used"));
}
