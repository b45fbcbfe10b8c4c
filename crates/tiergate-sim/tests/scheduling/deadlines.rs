//! Earliest deadline first under overload: fewer requests miss their deadline than first come, first
//! served or by strict priority.
//!
//! A deadline is the latest moment at which a request may be started; who waits longer is refused and costs
//! nothing. For these the order by deadline serves the greatest part in time: Panwar, Towsley and Wolf,
//! "Optimal Scheduling Policies for a Class of Queues with Customer Deadlines to the Beginning of Service"
//! (1988). Deadlines differ from request to request, whatever the class.

use crate::queue::{Clients, plan, run};
use tiergate_core::schedule::Policy;
use tiergate_sim::client::Profile;
use tiergate_sim::distribution::Distribution;

/// 8 slots of 10 ms: 800 requests a second.
const SLOTS: u32 = 8;
const CAPACITY: f64 = 800.0;
const SECONDS: f64 = 30.0;

/// Times the capacity that is asked for, from which second on.
type Load = [[f64; 2]];

/// Three classes that together ask for the load.
fn clients(load: &Load) -> Vec<Clients> {
    let points = load.iter().map(|&[from, times]| [from, times * CAPACITY / 3.0]).collect();
    let rate = Profile::Points { points, ramp: false };
    let of = |class: u16| Clients {
        class,
        flow: u64::from(class),
        points: 0,
        rate: rate.clone(),
        service: Distribution::Exponential { mean_ms: 1e3 * f64::from(SLOTS) / CAPACITY },
        deadline_ms: Some((20.0, 5000.0)),
    };
    (0..3).map(of).collect()
}

/// The part of the requests that are not started by their deadline.
fn missed(policy: Policy, load: &Load, seed: u64) -> f64 {
    let plan = plan(policy, &["first", "second", "third"], SLOTS);
    let fates = run(plan, &clients(load), usize::MAX, SECONDS, seed);
    let missed = fates.iter().filter(|fate| fate.waited_s.is_none());
    missed.count() as f64 / fates.len() as f64
}

fn compare(what: &str, load: &Load, times: f64) {
    for seed in 1..4 {
        let [edf, fifo, strict] =
            [Policy::Deadline, Policy::Fifo, Policy::Strict].map(|it| missed(it, load, seed));
        let context = format!(
            "{what}, seed {seed}: {:.2} % by deadline, {:.2} % in order, {:.2} % by priority",
            100.0 * edf,
            100.0 * fifo,
            100.0 * strict
        );
        println!("{context}");
        assert!(edf <= times * fifo.min(strict), "{context}");
    }
}

/// Bursts of twice the capacity, three seconds of six: who can wait waits for the lull.
#[test]
fn bursts_are_ridden_out() {
    let edges = (0..10).map(|step| [3.0 * f64::from(step), [2.0, 0.2][step as usize % 2]]);
    compare("bursts", &edges.collect::<Vec<_>>(), 0.6);
}

/// About as much as the server takes, so that chance makes queues.
#[test]
fn at_capacity_fewer_are_late() {
    compare("at capacity", &[[0.0, 1.0]], 0.8);
}

/// Lasting overload: whoever is served, so many are not. The order by deadline is no worse.
#[test]
fn in_lasting_overload_no_more_are_late() {
    compare("lasting", &[[0.0, 1.5]], 1.01);
}
