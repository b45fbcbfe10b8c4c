//! What a request costs in the gate: arrive, wait, be granted, claim, finish, with the adaptive limit
//! on, at several lengths of the backlog. Medians over rounds, in nanoseconds a request.
//!
//! Questions answered: is a request's way through the gate under 300 ns whatever waits? How long does a tick
//! take when very many deadlines have passed?

#![allow(clippy::disallowed_methods, clippy::disallowed_macros, missing_docs)]

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::{Duration, Instant};
use tiergate_core::admit::block;
use tiergate_core::admit::bucket::Rate;
use tiergate_core::admit::policer::{Per, PolicerId, Settings};
use tiergate_core::class::{Class, ClassId};
use tiergate_core::control::Slots;
use tiergate_core::gate::{Arrival, Claim, Effect, Gate, Slot, Ticket, Verdict};
use tiergate_core::names::RuleId;
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::Spec;
use tiergate_core::schedule::{Grant, Load, Next, Policy, Schedule};
use tiergate_core::time::Moment;

const ROUNDS: usize = 21;
const REQUESTS: u32 = 20_000;

fn main() {
    println!("{:<44} {:>9} {:>9}", "", "median ns", "range ns");
    report("admitted at once, policed by its rule", || policed(Per::Rule, 1));
    for flows in [1_000, 1_000_000] {
        report(&format!("admitted at once, policed by flow, out of {flows}"), || {
            policed(Per::Flow { flows_max: 1_000_000 }, flows)
        });
    }
    report("admitted at once, with shedding", shed_none);
    report("a tick, while 100000 deadlines have passed", overdue);
    report("refused, queue full", || refused(None, false));
    report("refused, queue full, and what it is told", || refused(None, true));
    report("the same, counted by flow, out of 1000000", || refused(Some(1_000_000), true));
    report("refused because it is blocked, out of 10", || refused(Some(10), true));
    for (policy, name) in POLICIES {
        for classes in [2, 8] {
            report(&format!("{name}: who is next of {classes} classes"), || pick(policy, classes));
        }
        report(&format!("{name}: behind 1000 waiting, 8 classes"), || {
            behind(under(policy, 8), 8, 1_000)
        });
    }
    for classes in [2, 8] {
        report(&format!("admitted at once, {classes} classes"), || at_once(classes));
        for waiting in [10, 100, 1_000, 10_000, 100_000] {
            report(&format!("behind {waiting} waiting, {classes} classes"), || {
                behind(plan(classes), classes, waiting)
            });
        }
    }
}

const POLICIES: [(Policy, &str); 7] = [
    (Policy::Strict, "strict"),
    (Policy::Weighted, "weighted"),
    (Policy::Shared, "shared"),
    (Policy::Fixed, "fixed"),
    (Policy::Deadline, "deadline"),
    (Policy::Score { ageing: 1.0 }, "score"),
    (Policy::Fifo, "fifo"),
];

/// The plan with a policy of which every class has an equal part, and a fifth of that in reserve.
fn under(policy: Policy, classes: u16) -> Spec {
    let mut plan = plan(classes);
    plan.slots = Slots::Fixed(64);
    plan.sites[0].policy = policy;
    for class in &mut plan.classes {
        class.share = 1.0 / f64::from(classes);
        class.reserve = class.share / 5.0;
    }
    plan
}

/// One decision alone: time passes, who is next, and is told to be.
fn pick(policy: Policy, classes: u16) -> f64 {
    let mut schedule = Schedule::new(&under(policy, classes).build().expect("a valid plan"));
    let mut loads = vec![Load { waiting: 10, running: 3, ..Load::default() }; classes.into()];
    for (load, place) in loads.iter_mut().zip(0..) {
        load.next = Next { slots: 1, number: place, ..Next::default() };
    }
    let grant = Grant { slots: 1, estimate: 0.01 };
    let mut now = Moment::ZERO;
    let start = Instant::now();
    for _ in 0..REQUESTS {
        now = now + Duration::from_micros(100);
        schedule.advance(now, &loads, 64);
        if let Some(class) = black_box(schedule.pick(&loads, 64)) {
            schedule.granted(class, &loads, 64, grant);
            schedule.finished(class, grant, 0.012);
        }
    }
    start.elapsed().as_nanos() as f64 / f64::from(REQUESTS)
}

fn report(name: &str, mut round: impl FnMut() -> f64) {
    let mut times: Vec<f64> = (0..ROUNDS).map(|_| round()).collect();
    times.sort_by(f64::total_cmp);
    println!("{name:<44} {:>9.0} {:>4.0}-{:.0}", times[ROUNDS / 2], times[0], times[ROUNDS - 1]);
}

fn plan(classes: u16) -> Spec {
    Spec {
        classes: (0..classes)
            .map(|class| Class {
                deadline: Duration::from_secs(3600),
                minimum: 0.05,
                queue_len_max: u32::MAX,
                ..Class::named(format!("class {class}"))
            })
            .collect(),
        rules: (0..20).map(|rule| format!("rule-{rule}").into()).collect(),
        slots: Slots::default(),
        ..Spec::protective()
    }
}

fn arrival(number: u32, classes: u16) -> Arrival {
    Arrival {
        rule: Some(RuleId::at(number % 20)),
        ..Arrival::of(ClassId((number % u32::from(classes)) as u16))
    }
}

fn served(slot: &Slot, now: Moment) -> Outcome {
    Outcome { end: End::Served, first_byte: Some(now.since(slot.admitted())), bytes: 0, left: None }
}

fn at_once(classes: u16) -> f64 {
    let mut gate: Gate<u32> = Gate::new(plan(classes).build().expect("a valid plan"));
    pass_through(&mut gate, |number| arrival(number, classes))
}

/// The same with a look at whether the request is shed.
fn shed_none() -> f64 {
    let mut gate: Gate<u32> = Gate::new(
        Spec { shedding: Some(Duration::from_millis(100)), ..plan(2) }
            .build()
            .expect("a valid plan"),
    );
    pass_through(&mut gate, |number| {
        let connection = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Arrival { connection, requests: number % 8, ..arrival(number, 2) }
    })
}

/// The same under a policer that lets everybody through; the flows come in no order.
fn policed(per: Per, flows: u64) -> f64 {
    let policer = Settings {
        name: "p".to_owned(),
        key: None,
        rate: Rate::per_second(1_000_000),
        burst: 1_000_000,
        per,
        shares: Vec::new(),
        inbound: None,
        announce: false,
    };
    let mut gate: Gate<u32> =
        Gate::new(Spec { policers: vec![policer], ..plan(2) }.build().expect("a valid plan"));
    let police = |number: u32| {
        let flow =
            (u64::from(number) * 0x9e37_79b9 % flows + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Arrival { policer: Some(PolicerId(0)), flow, ..arrival(number, 2) }
    };
    // Once before, so that the memory of the table has been given by the system.
    pass_through(&mut gate, police);
    pass_through(&mut gate, police)
}

/// Requests that are refused, of so many flows that may be blocked: at ten a millisecond ten flows
/// are nearly always.
fn refused(flows: Option<u64>, told: bool) -> f64 {
    let block = flows.map(|_| block::Settings {
        after: 10,
        within: Duration::from_secs(10),
        lasting: Duration::from_secs(5),
        flows_max: 1_000_000,
    });
    let mut plan = Spec { slots: Slots::Fixed(1), block, ..plan(2) };
    plan.classes.iter_mut().for_each(|class| class.queue_len_max = 0);
    let mut gate: Gate<u32> = Gate::new(plan.build().expect("a valid plan"));
    let Verdict::Admit(_slot) = gate.arrive(Moment::ZERO, arrival(0, 2), || 0) else {
        panic!("one slot is free");
    };
    let flows = flows.unwrap_or(1);
    let mut round = || {
        let mut now = Moment::ZERO;
        let start = Instant::now();
        for number in 0..REQUESTS {
            now = now + Duration::from_micros(100);
            let flow =
                (u64::from(number) * 0x9e37_79b9 % flows + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let request = Arrival { flow, ..Arrival::of(ClassId(1)) };
            if let Verdict::Reject(reason) = gate.arrive(now, request, || number)
                && told
            {
                black_box(gate.refused(now, &request, reason));
            }
        }
        start.elapsed().as_nanos() as f64 / f64::from(REQUESTS)
    };
    // Once before, so that the memory of the table has been given by the system.
    round();
    round()
}

fn pass_through(gate: &mut Gate<u32>, arrival: impl Fn(u32) -> Arrival) -> f64 {
    let mut now = Moment::ZERO;
    let start = Instant::now();
    for number in 0..REQUESTS {
        now = now + Duration::from_micros(100);
        if let Verdict::Admit(slot) = gate.arrive(now, arrival(number), || number) {
            let outcome = served(&slot, now);
            gate.finish(black_box(now), slot, outcome);
        }
    }
    start.elapsed().as_nanos() as f64 / f64::from(REQUESTS)
}

/// All that wait are overdue at once; a tick ends some of the waits.
fn overdue() -> f64 {
    let spec = Spec { slots: Slots::Fixed(1), ..plan(2) };
    let mut gate: Gate<u32> = Gate::new(spec.build().expect("a valid plan"));
    let Verdict::Admit(_slot) = gate.arrive(Moment::ZERO, arrival(0, 2), || 0) else {
        panic!("one slot is free");
    };
    for number in 0..100_000 {
        let flow = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let request = Arrival { flow, ..arrival(number, 2) };
        black_box(gate.arrive(Moment::ZERO, request, || number));
    }
    let now = Moment::ZERO + Duration::from_secs(3601);
    let mut ticks = 0;
    let start = Instant::now();
    while gate.waiting() > 0 {
        gate.tick(now);
        ticks += 1;
        while gate.next_effect().is_some() {}
    }
    start.elapsed().as_nanos() as f64 / f64::from(ticks)
}

/// Every finish grants to a waiter and every grant is followed by an arrival, so that the backlog
/// keeps its length.
fn behind(plan: Spec, classes: u16, waiting: u32) -> f64 {
    let mut gate: Gate<u32> = Gate::new(plan.build().expect("a valid plan"));
    let mut now = Moment::ZERO;
    let mut running = VecDeque::new();
    let mut tickets: Vec<Option<Ticket>> = Vec::new();
    let mut number = 0;
    let arrive = |gate: &mut Gate<u32>,
                  now,
                  running: &mut VecDeque<Slot>,
                  tickets: &mut Vec<Option<Ticket>>,
                  number: &mut u32| {
        let place = tickets.len() as u32;
        match gate.arrive(now, arrival(*number, classes), || place) {
            Verdict::Admit(slot) => running.push_back(slot),
            Verdict::Queue(ticket) => tickets.push(Some(ticket)),
            Verdict::Reject(reason) => panic!("{reason:?}"),
        }
        *number += 1;
    };
    while gate.waiting() < waiting as usize {
        arrive(&mut gate, now, &mut running, &mut tickets, &mut number);
    }
    tickets.reserve(REQUESTS as usize * 2);
    let mut done = 0;
    let start = Instant::now();
    while done < REQUESTS {
        now = now + Duration::from_micros(100);
        arrive(&mut gate, now, &mut running, &mut tickets, &mut number);
        let Some(slot) = running.pop_front() else {
            break;
        };
        let outcome = served(&slot, now);
        gate.finish(black_box(now), slot, outcome);
        done += 1;
        while let Some(place) = gate.next_effect().and_then(Effect::into_wake) {
            let ticket = tickets[place as usize].take().expect("woken once");
            if let Claim::Admitted(slot) = gate.claim(ticket) {
                running.push_back(slot);
            }
        }
    }
    start.elapsed().as_nanos() as f64 / f64::from(done)
}
