//! Weighted 3:1 gives 3:1 of work when one class's requests cost a hundred times the other's, and
//! nobody said so; and a class that comes back neither bursts nor pays for what it left to others.

use crate::plans::class;
use crate::script::{Script, Source, Watch};
use crate::state::{Req, State};
use crate::world::run;
use std::time::Duration;
use tiergate_core::class::Class;
use tiergate_core::control::Slots;
use tiergate_core::plan::Spec;
use tiergate_core::schedule::{Costing, Policy, Site};
use tiergate_core::time::Moment;

/// Work done for each class in a part of the run.
struct Done {
    from: Moment,
    to: Moment,
    work: [f64; 2],
}

impl Watch for Done {
    fn started(&mut self, state: &State, req: &Req) {
        if (self.from..self.to).contains(&state.now) {
            self.work[req.class] += req.work(state.now);
        }
    }
}

fn two_classes(weights: [f64; 2], slots: u32) -> Spec {
    let class = |name, weight| Class { weight, ..class(name) };
    Spec {
        classes: vec![class("a", weights[0]), class("b", weights[1])],
        rules: crate::plans::rules(4),
        slots: Slots::Fixed(slots),
        sites: vec![Site { policy: Policy::Weighted, ..Site::named("site") }],
        cost: Costing::Seconds,
        ..Spec::protective()
    }
}

fn users(class: &str, rule: Option<u32>, users: u32, service_us: (u64, u64)) -> Source {
    let (low, high) = service_us;
    let service = (Duration::from_micros(low), Duration::from_micros(high));
    Source { users, rule, service, ..Source::of(class, 0) }
}

/// The first class's part of the work once a tenth of the run is over.
fn part(plan: Spec, sources: Vec<Source>, seconds: u64, seed: u64) -> f64 {
    let until = Moment::from_millis(1000 * seconds);
    let from = Moment::from_millis(100 * seconds);
    let arrivals = u32::MAX;
    let script = Script { plan, reloads: Vec::new(), sources, arrivals, until, cancelled: 0 };
    let mut done = Done { from, to: until, work: [0.0; 2] };
    run(&script, seed, &mut done);
    done.work[0] / (done.work[0] + done.work[1])
}

fn three_to_one(cheap_first: bool, slots: u32, seed: u64) {
    let costs = [(500, 1500), (50_000, 150_000)];
    let [a, b] = if cheap_first { [costs[0], costs[1]] } else { [costs[1], costs[0]] };
    let sources = vec![users("a", Some(0), 20, a), users("b", Some(1), 20, b)];
    let part = part(two_classes([3.0, 1.0], slots), sources, 40, seed);
    let ratio = part / (1.0 - part);
    println!("{ratio:.4} with {slots} slots, cheap first: {cheap_first}");
    assert!((ratio / 3.0 - 1.0).abs() < 0.02, "{ratio} with {slots} slots, {cheap_first}");
}

#[test]
fn three_to_one_of_work_with_costs_a_hundred_times_apart() {
    for slots in [1, 4, 12] {
        for seed in 1..3 {
            three_to_one(true, slots, seed);
            three_to_one(false, slots, seed);
        }
    }
}

#[test]
fn a_request_of_several_slots_counts_for_each() {
    for seed in 1..4 {
        let mut sources = ["a", "b"].map(|name| users(name, None, 20, (5_000, 15_000))).to_vec();
        sources[0].slots = 5;
        let part = part(two_classes([1.0, 1.0], 8), sources, 40, seed);
        assert!((part - 0.5).abs() < 0.01, "{part} of the work is the wide ones'");
    }
}

/// How much of the work each class gets right after the second comes, ten seconds after the first, in units
/// of the theorem's bound on their difference.
fn off_after_coming_back(slots: u32, window_ms: u64, seed: u64) -> f64 {
    let (come, service) = (Moment::from_millis(10_000), (20_000, 60_000));
    let late = Source { from: come, ..users("b", Some(1), 20, service) };
    let until = come + Duration::from_millis(window_ms);
    let script = Script {
        plan: two_classes([1.0, 1.0], slots),
        reloads: Vec::new(),
        sources: vec![users("a", Some(0), 20, service), late],
        arrivals: u32::MAX,
        until,
        cancelled: 0,
    };
    let mut done = Done { from: come, to: until, work: [0.0; 2] };
    run(&script, seed, &mut done);
    let bound = f64::from(slots + 1) * 2.0 * 0.06;
    (done.work[0] - done.work[1]) / bound
}

#[test]
fn a_class_back_from_idle_neither_bursts_nor_pays() {
    for slots in [1, 3, 8] {
        for window_ms in [200, 1000, 5000] {
            for seed in 1..6 {
                let off = off_after_coming_back(slots, window_ms, seed);
                assert!(off.abs() <= 1.0, "{slots} slots, {window_ms} ms: {off} times the bound");
            }
        }
    }
}
