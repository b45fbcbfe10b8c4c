//! The slots that classes use in the simulator against the oracle.

use fastrand::Rng;
use tiergate_sim::client::{Arrivals, Population, Profile};
use tiergate_sim::compare::{saturated, subjects};
use tiergate_sim::oracle::{Claimant, shares};
use tiergate_sim::run;
use tiergate_sim::scenario::LimitKind;

const SECONDS: f64 = 60.0;

/// Mean slots used by each class with random demands and minimums; the requests' own mean service
/// times make it slots.
fn used(seed: u64, swap: bool) -> (Vec<f64>, Vec<f64>) {
    let mut rng = Rng::with_seed(seed);
    let slots = rng.u32(1..30);
    let count = rng.usize(2..6);
    let subject = &subjects()[1];
    let mean_s = subject.shape.wait.mean();
    let mut scenario = saturated(subject, 1.0, LimitKind::Fixed(slots), SECONDS);
    scenario.cuts_s = vec![5.0];
    scenario.server.workers = None;
    let (class, clients) = (scenario.class.remove(0), scenario.population.remove(0));
    let mut claimants = Vec::new();
    for place in 0..count {
        let claimant = Claimant {
            demand: f64::from(slots) * 1.5 * rng.f64(),
            minimum: if rng.bool() { 0.8 * rng.f64() / count as f64 } else { 0.0 },
        };
        claimants.push(claimant);
        let mut class = class.clone();
        class.name = format!("class {place}");
        class.minimum = claimant.minimum;
        class.deadline_ms = 10_000.0;
        scenario.class.push(class);
        scenario.population.push(Population {
            class: format!("class {place}"),
            arrivals: Arrivals::Poisson { rate: Profile::Flat(claimant.demand / mean_s) },
            ..clients.clone()
        });
    }
    if swap {
        scenario.class.reverse();
    }
    let report = run(&scenario, seed);
    let phase = &report.phases[1];
    let mut found: Vec<f64> = phase
        .classes
        .iter()
        .map(|class| class.good as f64 * class.service.mean_ms() / 1e3 / phase.seconds())
        .collect();
    if swap {
        found.reverse();
    }
    (found, shares(f64::from(slots), &claimants))
}

fn furthest(found: &[f64], expected: &[f64]) -> f64 {
    let slots: f64 = expected.iter().sum();
    let distance = |(found, expected): (&f64, &f64)| (found - expected).abs() / slots;
    found.iter().zip(expected).map(distance).fold(0.0, f64::max)
}

#[test]
fn every_class_uses_what_the_oracle_says() {
    for seed in 1..60 {
        let (found, expected) = used(seed, false);
        let off = furthest(&found, &expected);
        assert!(off < 0.06, "seed {seed}: {found:.2?}, expected {expected:.2?}");
    }
}

#[test]
fn with_the_order_of_importance_reversed_the_comparison_fails() {
    let off = (1..20).filter(|&seed| {
        let (found, expected) = used(seed, true);
        furthest(&found, &expected) > 0.06
    });
    assert!(off.count() > 10, "the oracle would accept any order");
}
