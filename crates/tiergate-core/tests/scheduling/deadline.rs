//! Earliest deadline first: every deadline is met whenever any order meets all.
//!
//! One slot, and who runs is not interrupted. Then the earliest deadline first is optimal among orders
//! if all requests are there from the beginning (Jackson 1955), or if they come when they like and all
//! take equally long and come at multiples of that time (Horn 1974: in each unit, the most urgent). With
//! other arrivals an order that leaves the slot idle for somebody who will come can be better, which no
//! scheduler does that keeps slots busy; `an_idle_slot_would_have_been_better` shows one.

use crate::exact::{Job, feasible};
use crate::plans::{class, classes, millis, plan, script, sources};
use crate::script::Script;
use crate::world::run;
use fastrand::Rng;
use tiergate_core::class::{ClassId, Order};
use tiergate_core::control::Slots;
use tiergate_core::gate::{Arrival, Claim, Effect, Gate, Verdict};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::Plan;
use tiergate_core::schedule::Policy;
use tiergate_core::time::Moment;

fn random(seed: u64) -> Script {
    let mut rng = Rng::with_seed(seed);
    let tight = rng.bool();
    let sources = sources(&mut rng, 2, |rng, source| {
        let low = millis(rng.u64(1..=if tight { 50 } else { 100_000 }));
        source.deadline = (rng.u8(0..3) > 0).then_some((low, low * 5));
    });
    let make = |rng: &mut Rng| {
        let classes = classes(rng, |rng, class| {
            class.order = Order::Deadline;
            class.deadline = millis(rng.u64(5..=if tight { 100 } else { 100_000 }));
        });
        plan(rng, Policy::Deadline, classes)
    };
    script(&mut rng, make, sources)
}

crate::property!(the_most_urgent_goes_first, |seed| run(&random(seed), seed, &mut ()));

/// Serves the jobs one at a time through a gate; how many do not end in time. A deadline at the gate is
/// that of a job's end (WebQoS 4.4), so that a job which is started may still miss it.
fn misses(jobs: &[Job], policy: Policy) -> usize {
    let order = if policy == Policy::Deadline { Order::Deadline } else { Order::Fifo };
    let mut plan = Plan {
        classes: vec![class("a"), class("b"), class("c")],
        slots: Slots::Fixed(1),
        ..Plan::protective()
    };
    plan.sites[0].policy = policy;
    plan.classes.iter_mut().for_each(|class| class.order = order);
    let mut gate: Gate<usize> = Gate::new(plan);
    // The slot is taken while those of the first moment come, so that all of them are there.
    let first = gate.arrive(Moment::ZERO, Arrival::of(ClassId(0)), || usize::MAX);
    let Verdict::Admit(slot) = first else { panic!("the gate is empty") };
    // Of those that come at one moment to an idle slot, the most urgent comes first; at the first moment
    // none is idle.
    let mut coming: Vec<usize> = (0..jobs.len()).collect();
    coming.sort_by_key(|&job| (jobs[job].comes, jobs[job].due.min(jobs[job].comes * 1000)));
    let mut coming = coming.into_iter().peekable();
    let mut tickets = vec![None; jobs.len()];
    let mut in_time = 0;
    let mut now = 0;
    let mut slot = Some(slot);
    loop {
        while let Some(job) = coming.next_if(|&job| jobs[job].comes <= now) {
            let Job { comes, takes, due } = jobs[job];
            let class = ClassId((job % 3) as u16);
            let arrival = Arrival { deadline: Some(millis(due - comes)), ..Arrival::of(class) };
            match gate.arrive(Moment::from_millis(comes), arrival, || job) {
                Verdict::Queue(ticket) => tickets[job] = Some(ticket),
                Verdict::Admit(got) => {
                    assert!(slot.is_none() && comes == now);
                    now += takes;
                    in_time += usize::from(now <= due);
                    slot = Some(got);
                }
                Verdict::Reject(reason) => panic!("{reason:?}"),
            }
        }
        if let Some(slot) = slot.take() {
            gate.tick(Moment::from_millis(now));
            gate.finish(Moment::from_millis(now), slot, Outcome::without_answer(End::Served));
        }
        while let Some(job) = gate.next_effect().and_then(Effect::into_wake) {
            if let Claim::Admitted(got) = gate.claim(tickets[job].expect("it waits")) {
                slot = Some(got);
                now += jobs[job].takes;
                in_time += usize::from(now <= jobs[job].due);
            }
        }
        match (&slot, coming.peek()) {
            (Some(_), _) => {}
            (None, Some(&job)) => now = now.max(jobs[job].comes),
            (None, None) => break jobs.len() - in_time,
        }
    }
}

fn all_there_from_the_beginning(rng: &mut Rng) -> Vec<Job> {
    let count = rng.usize(1..=7);
    let mut jobs: Vec<Job> =
        (0..count).map(|_| Job { comes: 0, takes: rng.u64(1..=9), due: 0 }).collect();
    let all: u64 = jobs.iter().map(|job| job.takes).sum();
    for job in &mut jobs {
        job.due = job.takes + rng.u64(0..=all);
    }
    jobs
}

fn equally_long(rng: &mut Rng) -> Vec<Job> {
    let count = rng.usize(1..=7);
    let takes = rng.u64(1..=9);
    let job = |_| {
        let comes = takes * rng.u64(0..=count as u64);
        Job { comes, takes, due: comes + takes + rng.u64(0..=takes * count as u64) }
    };
    (0..count).map(job).collect()
}

fn meets_all(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let jobs =
        if rng.bool() { all_there_from_the_beginning(&mut rng) } else { equally_long(&mut rng) };
    let missed = misses(&jobs, Policy::Deadline);
    assert_eq!(missed == 0, feasible(&jobs), "{missed} missed of {jobs:?}");
}

crate::property!(every_deadline_is_met_whenever_any_order_could, meets_all);

/// The sets are hard enough: another order misses deadlines in many of those that can be met.
#[test]
fn other_orders_miss_what_can_be_met() {
    let mut rng = Rng::with_seed(1);
    let mut missed = [0; 2];
    let mut sets = 0;
    for _ in 0..1000 {
        let jobs = all_there_from_the_beginning(&mut rng);
        if feasible(&jobs) {
            sets += 1;
            for (count, policy) in missed.iter_mut().zip([Policy::Fifo, Policy::Strict]) {
                *count += usize::from(misses(&jobs, policy) > 0);
            }
        }
    }
    assert!(sets > 200 && missed.iter().all(|&count| count > sets / 4), "{missed:?} of {sets}");
}

/// Who is long goes first, for nobody else is there; who comes next would have needed the slot.
#[test]
fn an_idle_slot_would_have_been_better() {
    let jobs = [Job { comes: 0, takes: 9, due: 30 }, Job { comes: 1, takes: 2, due: 4 }];
    assert!(feasible(&jobs));
    assert_eq!(misses(&jobs, Policy::Deadline), 1);
}
