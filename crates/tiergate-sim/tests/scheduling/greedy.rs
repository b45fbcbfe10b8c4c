//! One flow sends a hundred times what the others do; its class is fair, and only it waits for it.

use crate::queue::{Clients, Fate, plan, quantile, run};
use tiergate_core::class::{Class, Order};
use tiergate_core::plan::Spec;
use tiergate_core::schedule::{Costing, Policy};
use tiergate_sim::client::Profile;
use tiergate_sim::distribution::Distribution;

/// 16 slots of 20 ms: 800 requests a second.
const SLOTS: u32 = 16;
const CAPACITY: f64 = 800.0;
const OTHERS: usize = 20;

/// Twenty flows that together ask for a part of the capacity, and perhaps a greedy one, the last.
fn flows(part: f64, greedy: bool) -> Vec<Clients> {
    let each = part * CAPACITY / OTHERS as f64;
    let flow = |flow: usize, rate: f64| Clients {
        class: 0,
        flow: 1 + flow as u64 * 0x9E37_79B9,
        points: 0,
        rate: Profile::Flat(rate),
        service: Distribution::Exponential { mean_ms: 1e3 * f64::from(SLOTS) / CAPACITY },
        deadline_ms: None,
    };
    let mut flows: Vec<Clients> = (0..OTHERS).map(|place| flow(place, each)).collect();
    if greedy {
        flows.push(flow(OTHERS, 100.0 * each));
    }
    flows
}

fn fair(fair: bool, order: Order, cost: Costing) -> Spec {
    let mut plan = plan(Policy::Strict, &["all"], SLOTS);
    // With the bounds that a policy has by itself: a greedy flow must not use them up for the others.
    plan.classes[0] = Class { fair, order, ..Class::named("all") };
    Spec { cost, ..plan }
}

/// The others' 99th percentile from arrival to answer in seconds, and how many of them were refused.
fn others(plan: Spec, part: f64, greedy: bool, seed: u64) -> (f64, usize) {
    let fates = run(plan, &flows(part, greedy), usize::MAX, 20.0, seed);
    let of_others = || fates.iter().filter(|fate| fate.clients < OTHERS && fate.came_s > 2.0);
    let total = |fate: &Fate| fate.waited_s.map(|waited| waited + fate.service_s);
    let refused = of_others().filter(|fate| fate.waited_s.is_none()).count();
    (quantile(of_others().filter_map(total), 0.99), refused)
}

#[test]
fn the_others_hardly_notice_a_greedy_flow() {
    for cost in [Costing::Requests, Costing::Seconds] {
        for part in [0.2, 0.5, 0.7] {
            for seed in 1..3 {
                let (without, _) = others(fair(true, Order::Fifo, cost), part, false, seed);
                let (with, refused) = others(fair(true, Order::Fifo, cost), part, true, seed);
                let context = format!(
                    "{cost:?}, load {part}, seed {seed}: p99 {:.0} ms without, {:.0} with, {refused} refused",
                    1e3 * without,
                    1e3 * with
                );
                println!("{context}");
                assert!(with <= 1.3 * without && refused == 0, "{context}");
            }
        }
    }
}

/// The test can fail: in one line they wait as long as the greedy flow does, or are refused.
#[test]
fn without_turns_they_do() {
    let plan = || fair(false, Order::Fifo, Costing::Requests);
    let (without, _) = others(plan(), 0.5, false, 1);
    let (with, refused) = others(plan(), 0.5, true, 1);
    assert!(with > 3.0 * without && refused > 0, "{without} s without, {with} s with it");
}
