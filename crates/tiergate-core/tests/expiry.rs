//! Deadlines that pass in great numbers at once, and deadlines that pass between two ticks.

use std::time::Duration;
use tiergate_core::class::{Class, ClassId, Late};
use tiergate_core::control::Slots;
use tiergate_core::gate::{Arrival, Claim, Effect, Gate, Slot, Ticket, Verdict};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::Spec;
use tiergate_core::reason::Reason;
use tiergate_core::time::Moment;

/// Waits that one call may end.
const A_CALL: usize = 2000;

/// One slot, which is taken, and so many waiting behind it for 100 ms.
fn crowd(count: usize, late: Late) -> (Gate<usize>, Slot, Vec<Ticket>) {
    let class = Class {
        deadline: Duration::from_millis(100),
        queue_len_max: u32::MAX,
        late,
        ..Class::named("c")
    };
    let spec = Spec { classes: vec![class], slots: Slots::Fixed(1), ..Spec::protective() };
    let mut gate = Gate::new(spec.build().expect("a valid plan"));
    let arrival = |flow| Arrival { flow, ..Arrival::of(ClassId(0)) };
    let Verdict::Admit(slot) = gate.arrive(Moment::ZERO, arrival(0), || 0) else {
        panic!("the slot is free")
    };
    let wait = |place: usize| match gate.arrive(Moment::ZERO, arrival(place as u64 / 3), || place) {
        Verdict::Queue(ticket) => ticket,
        other => panic!("{other:?}"),
    };
    let tickets = (0..count).map(wait).collect();
    (gate, slot, tickets)
}

fn outcome() -> Outcome {
    Outcome::without_answer(End::Served)
}

/// Takes the news: how many were refused, and the slots of those that were not.
fn news(gate: &mut Gate<usize>, tickets: &[Ticket]) -> (usize, Vec<Slot>) {
    let (mut expired, mut slots) = (0, Vec::new());
    while let Some(place) = gate.next_effect().and_then(Effect::into_wake) {
        match gate.claim(tickets[place]) {
            Claim::Rejected(reason) => {
                assert_eq!(reason, Reason::DeadlineExpired);
                expired += 1;
            }
            Claim::Admitted(slot) => slots.push(slot),
            Claim::Waiting => panic!("woken for nothing"),
        }
    }
    (expired, slots)
}

#[test]
fn a_call_ends_a_bounded_number_of_waits_and_the_next_is_due_at_once() {
    const COUNT: usize = 20_000;
    let (mut gate, slot, tickets) = crowd(COUNT, Late::Refuse);
    let now = Moment::from_millis(150);
    let mut ended = 0;
    let mut calls = 0;
    loop {
        let next = gate.tick(now);
        let (expired, slots) = news(&mut gate, &tickets);
        assert!(expired <= A_CALL && slots.is_empty(), "{expired} in one call");
        ended += expired;
        calls += 1;
        if ended == COUNT {
            assert_eq!(next, Moment::NEVER);
            break;
        }
        assert!(next <= now, "more are due");
        assert!(calls < COUNT / 100, "a call ends too few");
    }
    gate.finish(now, slot, outcome());
    let account = &gate.account().classes[0];
    assert_eq!(account.refused[Reason::DeadlineExpired.index()], COUNT as u64);
}

#[test]
fn nobody_is_admitted_past_its_deadline_whoever_comes_before_the_tick() {
    const COUNT: usize = 20_000;
    let (mut gate, slot, mut tickets) = crowd(COUNT, Late::Refuse);
    let now = Moment::from_millis(101);
    // One that may wait for longer stands behind all of them.
    let patient = Arrival {
        deadline: Some(Duration::from_secs(100)),
        flow: 1 << 40,
        ..Arrival::of(ClassId(0))
    };
    let Verdict::Queue(ticket) = gate.arrive(Moment::from_millis(1), patient, || COUNT) else {
        panic!("the slot is taken")
    };
    tickets.push(ticket);
    gate.finish(now, slot, outcome());
    let (mut ended, mut slots) = news(&mut gate, &tickets);
    assert!(ended <= A_CALL, "{ended} in one call");
    // A slot is free while some wait whose time is over: it is for who may still have it.
    for _ in 0..COUNT {
        let next = gate.tick(now);
        let (expired, admitted) = news(&mut gate, &tickets);
        ended += expired;
        slots.extend(admitted);
        if ended == COUNT {
            break;
        }
        assert!(next <= now, "more are due");
    }
    assert_eq!((ended, slots.len(), gate.waiting()), (COUNT, 1, 0));
    assert_eq!(slots[0].waited(), Duration::from_millis(100), "the patient one");
    gate.finish(now, slots.remove(0), outcome());
}

/// The same one by one: the slot comes free after the deadline and before the tick.
#[test]
fn a_tick_that_comes_late_admits_nobody_past_its_deadline() {
    let (mut gate, slot, tickets) = crowd(3, Late::Refuse);
    gate.finish(Moment::from_millis(101), slot, outcome());
    assert_eq!(news(&mut gate, &tickets).0, 3);
    assert_eq!((gate.running(), gate.waiting()), (0, 0));
    // At the deadline is in time.
    let (mut gate, slot, tickets) = crowd(1, Late::Refuse);
    gate.finish(Moment::from_millis(100), slot, outcome());
    let (expired, slots) = news(&mut gate, &tickets);
    assert_eq!((expired, slots.len()), (0, 1));
    gate.finish(Moment::from_millis(100), slots.into_iter().next().expect("one"), outcome());
}

#[test]
fn those_that_become_late_are_bounded_too_and_go_last() {
    const COUNT: usize = 20_000;
    let (mut gate, slot, mut tickets) = crowd(COUNT, Late::Last);
    let now = Moment::from_millis(101);
    let on_time = Arrival { flow: 1 << 40, ..Arrival::of(ClassId(0)) };
    let Verdict::Queue(ticket) = gate.arrive(Moment::from_millis(50), on_time, || COUNT) else {
        panic!("the slot is taken")
    };
    tickets.push(ticket);
    gate.finish(now, slot, outcome());
    let mut slots = news(&mut gate, &tickets).1;
    assert_eq!(slots.len(), 0, "a call moves a bounded number, and these come first");
    let mut ticks = 0;
    while slots.is_empty() {
        assert!(gate.tick(now) <= now || gate.running() == 1);
        slots.extend(news(&mut gate, &tickets).1);
        ticks += 1;
    }
    assert!((COUNT / A_CALL - 1..=COUNT / 500).contains(&ticks), "{ticks}");
    assert_eq!(slots[0].waited(), Duration::from_millis(51), "who is not late goes first");
    gate.finish(now, slots.remove(0), outcome());
    let slots = news(&mut gate, &tickets).1;
    assert_eq!(slots[0].waited(), Duration::from_millis(101), "then a late one");
    gate.finish(now, slots.into_iter().next().expect("one"), outcome());
}
