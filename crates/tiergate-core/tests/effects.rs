//! Effects: what the gate asks its shell to do, and in which order.

use std::collections::VecDeque;
use std::time::Duration;
use tiergate_core::admit::block;
use tiergate_core::class::ClassId;
use tiergate_core::control::{Cause, Slots};
use tiergate_core::gate::{Arrival, Claim, Effect, Gate, Verdict};
use tiergate_core::names::PoolId;
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::{Plan, Spec};
use tiergate_core::reason::Reason;
use tiergate_core::time::Moment;

const ARRIVAL: Arrival = Arrival { flow: 7, ..Arrival::of(ClassId(0)) };

fn plan(slots: u32) -> Plan {
    spec(slots).build().expect("a valid plan")
}

fn spec(slots: u32) -> Spec {
    Spec { slots: Slots::Fixed(slots), ..Spec::protective() }
}

fn effects(gate: &mut Gate<u32>) -> Vec<Effect<u32>> {
    std::iter::from_fn(|| gate.next_effect()).collect()
}

#[test]
fn wakes_come_before_the_slots_that_a_reload_brings_and_each_is_said_once() {
    let mut gate: Gate<u32> = Gate::new(plan(1));
    let now = Moment::ZERO;
    for number in 0..3 {
        let _slot = gate.arrive(now, ARRIVAL, || number);
    }
    assert_eq!(effects(&mut gate), []);
    gate.reconfigure(now, plan(7));
    gate.reconfigure(now, plan(3));
    let said = effects(&mut gate);
    let slots = Effect::SlotsChanged {
        pool: PoolId::DEFAULT,
        resource: None,
        slots: 3,
        cause: Cause::Reload,
    };
    assert_eq!(said, [Effect::Wake(2), Effect::Wake(1), slots]);
    assert_eq!(effects(&mut gate), []);
    gate.reconfigure(now, plan(9));
    gate.reconfigure(now, plan(3));
    assert_eq!(effects(&mut gate), [], "as many as were said last");
}

#[test]
fn each_step_of_the_adaptive_limit_is_said() {
    let mut gate: Gate<u32> = Gate::new(Spec::protective().build().expect("a valid plan"));
    let (mut now, mut said) = (Moment::ZERO, gate.slots());
    let (mut held, mut tickets) = (VecDeque::new(), VecDeque::new());
    for _ in 0..5_000 {
        loop {
            match gate.arrive(now, ARRIVAL, || 0) {
                Verdict::Admit(slot) => held.push_back(slot),
                Verdict::Queue(ticket) => break tickets.push_back(ticket),
                Verdict::Reject(reason) => panic!("{reason:?}"),
            }
        }
        now = now + Duration::from_millis(1);
        let outcome = Outcome { end: End::Served, first_byte: None, bytes: 0, left: None };
        gate.finish(now, held.pop_front().expect("every slot is in use"), outcome);
        while let Some(effect) = gate.next_effect() {
            match effect {
                Effect::Wake(_) => {
                    let ticket = tickets.pop_front().expect("it waits");
                    let Claim::Admitted(slot) = gate.claim(ticket) else { panic!("first come") };
                    held.push_back(slot);
                }
                Effect::SlotsChanged { slots, cause, .. } => {
                    let (at, step) = gate.last_step().expect("it changed");
                    assert_eq!((at, step.slots, step.cause), (now, slots, cause));
                    said = slots;
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(said, gate.slots());
    }
    assert_ne!(said, 10, "it has learned something");
}

#[test]
fn a_flow_that_is_refused_too_often_is_said_to_be_blocked_until_the_gate_lets_it_in() {
    let settings = block::Settings {
        after: 3,
        within: Duration::from_secs(10),
        lasting: Duration::from_secs(5),
        flows_max: 100,
    };
    let mut gate: Gate<u32> =
        Gate::new(Spec { block: Some(settings), ..spec(1) }.build().expect("a valid plan"));
    let now = Moment::from_millis(1);
    let _slot = gate.arrive(now, ARRIVAL, || 0);
    let hopeless = Arrival { deadline: Some(Duration::ZERO), ..ARRIVAL };
    let mut verdicts: Vec<Verdict> = Vec::new();
    let mut said = Vec::new();
    for _ in 0..5 {
        let ticket = gate.arrive(now, hopeless, || 1);
        gate.tick(now);
        said.extend(effects(&mut gate).into_iter().filter(|it| !matches!(it, Effect::Wake(_))));
        verdicts.push(ticket);
    }
    let until = Moment::from_millis(5001);
    assert_eq!(said, [Effect::Block { flow: 7, until }], "{verdicts:?}");
    let blocked = Verdict::Reject(Reason::Blocked);
    assert_eq!(verdicts[3..], [blocked, Verdict::Reject(Reason::Blocked)]);
    gate.reconfigure(now, plan(1));
    assert_eq!(effects(&mut gate), [Effect::UnblockAll]);
}

#[test]
fn blocks_that_nobody_takes_are_bounded() {
    let settings = block::Settings {
        after: 1,
        within: Duration::from_secs(10),
        lasting: Duration::from_secs(5),
        flows_max: 1000,
    };
    let mut gate: Gate<u32> =
        Gate::new(Spec { block: Some(settings), ..spec(1) }.build().expect("a valid plan"));
    let now = Moment::from_millis(1);
    let _slot = gate.arrive(now, ARRIVAL, || 0);
    for flow in 1..500 {
        let hopeless = Arrival { deadline: Some(Duration::ZERO), flow: flow << 40, ..ARRIVAL };
        let _ticket = gate.arrive(now, hopeless, || 1);
        gate.tick(now);
    }
    let blocks = effects(&mut gate).into_iter().filter(|it| matches!(it, Effect::Block { .. }));
    assert_eq!(blocks.count(), 64);
}
