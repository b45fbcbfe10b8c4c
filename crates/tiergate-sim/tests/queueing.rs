//! The simulator against queueing theory: where a formula exists, it must come out.

use tiergate_sim::compare::{Subject, saturated, subjects};
use tiergate_sim::distribution::Distribution;
use tiergate_sim::run;
use tiergate_sim::scenario::LimitKind;

/// Mean response in ms at a load without any limit.
fn response_ms(change: impl Fn(&mut Subject), load: f64) -> f64 {
    let mut subject = subjects().swap_remove(1);
    subject.shape.workers = None;
    subject.shape.wait = Distribution::NONE;
    change(&mut subject);
    let mut scenario = saturated(&subject, load, LimitKind::None, 10_000.0);
    scenario.cuts_s = vec![10.0];
    run(&scenario, 5).phases[1].all().total.mean_ms()
}

fn close(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 0.05, "{found}, expected {expected}");
}

#[test]
fn one_worker_is_an_m_m_1_queue() {
    let found = response_ms(
        |subject| {
            subject.shape.workers = Some(1);
            subject.shape.wait = Distribution::Exponential { mean_ms: 10.0 };
            subject.capacity = 100.0;
        },
        0.8,
    );
    // S / (1 - load)
    close(found, 50.0);
}

#[test]
fn constant_service_halves_the_wait() {
    let found = response_ms(
        |subject| {
            subject.shape.workers = Some(1);
            subject.shape.wait = Distribution::Constant { mean_ms: 10.0 };
            subject.capacity = 100.0;
        },
        0.8,
    );
    // Pollaczek and Khinchine: S + load S / (2 (1 - load))
    close(found, 30.0);
}

#[test]
fn processor_sharing_does_not_mind_how_service_times_are_distributed() {
    for cpu in [
        Distribution::Constant { mean_ms: 10.0 },
        Distribution::Bimodal { short_ms: 2.0, long_ms: 82.0, long_share: 0.1 },
    ] {
        let found = response_ms(
            |subject| {
                subject.shape.cores = Some(1.0);
                subject.shape.cpu = cpu;
                subject.capacity = 100.0;
            },
            0.7,
        );
        close(found, 33.3);
    }
}
