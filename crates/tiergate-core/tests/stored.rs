//! Copies at the gate: when they are served, and that every request is counted once.

use proptest::prelude::*;
use std::time::Duration;
use tiergate_core::admit::block;
use tiergate_core::admit::bucket::Rate;
use tiergate_core::admit::policer::{Per, PolicerId, Settings};
use tiergate_core::class::{Class, ClassId};
use tiergate_core::control::Slots;
use tiergate_core::gate::{Arrival, Claim, Gate, Slot, Ticket, Verdict};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::Spec;
use tiergate_core::reason::Reason;
use tiergate_core::stored::{Instead, Role};
use tiergate_core::time::Moment;

fn spec(slots: u32, queue_len_max: u32) -> Spec {
    let deadline = Duration::from_millis(100);
    let class = Class { deadline, queue_len_max, ..Class::named("c") };
    Spec { classes: vec![class], slots: Slots::Fixed(slots), ..Spec::protective() }
}

fn gate(slots: u32, queue_len_max: u32) -> Gate<()> {
    Gate::new(spec(slots, queue_len_max).build().expect("a valid plan"))
}

fn with(copy: Role) -> Arrival {
    Arrival { copy, copy_until: Moment::from_millis(3_600_000), ..Arrival::of(ClassId(0)) }
}

fn arrive(gate: &mut Gate<()>, now: Moment, copy: Role) -> Result<Verdict, Instead> {
    gate.arrive_with_copy(now, with(copy), || ())
}

fn served() -> Outcome {
    Outcome::without_answer(End::Served)
}

/// Those that got copies, by [`Instead`], and those that were refused.
fn counts(gate: &Gate<()>) -> ([u64; Instead::COUNT], u64) {
    let account = &gate.account().classes[0];
    (account.stored, account.refused_total())
}

#[test]
fn a_request_that_can_be_served_at_once_goes_to_the_server_whatever_copy_there_is() {
    let mut gate = gate(3, 0);
    for role in [Role::None, Role::Refusal, Role::Both] {
        let verdict = arrive(&mut gate, Moment::ZERO, role);
        assert!(matches!(verdict, Ok(Verdict::Admit(_))), "{role:?}: {verdict:?}");
    }
    assert_eq!(counts(&gate), ([0, 0, 0], 0));
}

#[test]
fn a_copy_is_served_instead_of_a_wait_and_of_a_refusal_and_only_that_counts() {
    let mut gate = gate(1, 1);
    let now = Moment::ZERO;
    let _slot = arrive(&mut gate, now, Role::None).expect("a slot is free");
    assert_eq!(arrive(&mut gate, now, Role::Both), Err(Instead::Wait));
    let waits = arrive(&mut gate, now, Role::Refusal);
    assert!(matches!(waits, Ok(Verdict::Queue(_))), "the one that brings a new copy");
    assert_eq!(arrive(&mut gate, now, Role::Refusal), Err(Instead::Refusal), "the queue is full");
    assert_eq!(arrive(&mut gate, now, Role::Both), Err(Instead::Refusal));
    let without = arrive(&mut gate, now, Role::None);
    assert_eq!(without, Ok(Verdict::Reject(Reason::QueueFull)));
    assert_eq!(counts(&gate), ([1, 2, 0], 1));
    let account = &gate.account().classes[0];
    assert_eq!((account.arrived, account.admitted_at_once, account.queued), (6, 1, 1));
}

#[test]
fn a_wait_that_would_end_with_a_refusal_ends_with_the_copy() {
    let mut gate = gate(1, 10);
    let _slot = arrive(&mut gate, Moment::ZERO, Role::None).expect("a slot is free");
    let Ok(Verdict::Queue(with_copy)) = arrive(&mut gate, Moment::ZERO, Role::Refusal) else {
        panic!("it waits")
    };
    let Ok(Verdict::Queue(without)) = arrive(&mut gate, Moment::ZERO, Role::None) else {
        panic!("it waits")
    };
    assert_eq!(gate.claim_with_copy(with_copy, || true), Ok(Claim::Waiting));
    gate.tick(Moment::from_millis(101));
    assert_eq!(gate.claim_with_copy(with_copy, || true), Err(Instead::Refusal));
    assert_eq!(
        gate.claim_with_copy(without, || true),
        Ok(Claim::Rejected(Reason::DeadlineExpired))
    );
    assert_eq!(counts(&gate), ([0, 1, 0], 1));
}

#[test]
fn a_copy_that_is_too_old_or_gone_when_the_wait_ends_is_not_served() {
    let until = |millis| Arrival { copy_until: Moment::from_millis(millis), ..with(Role::Refusal) };
    for (millis, is_there, is_served) in
        [(100, true, false), (101, true, true), (101, false, false)]
    {
        let mut gate = gate(1, 10);
        let _slot = arrive(&mut gate, Moment::ZERO, Role::None).expect("a slot is free");
        let waits = gate.arrive_with_copy(Moment::ZERO, until(millis), || ());
        let Ok(Verdict::Queue(ticket)) = waits else { panic!("it waits") };
        gate.tick(Moment::from_millis(101));
        let claim = gate.claim_with_copy(ticket, || is_there);
        let expected = match is_served {
            true => Err(Instead::Refusal),
            false => Ok(Claim::Rejected(Reason::DeadlineExpired)),
        };
        assert_eq!(claim, expected, "until {millis} ms, there: {is_there}");
        assert_eq!(counts(&gate), ([0, u64::from(is_served), 0], u64::from(!is_served)));
    }
}

#[test]
fn one_who_leaves_before_it_takes_its_copy_is_counted_once() {
    let mut gate = gate(1, 10);
    let _slot = arrive(&mut gate, Moment::ZERO, Role::None).expect("a slot is free");
    let Ok(Verdict::Queue(ticket)) = arrive(&mut gate, Moment::ZERO, Role::Refusal) else {
        panic!("it waits")
    };
    gate.tick(Moment::from_millis(101));
    gate.cancel(Moment::from_millis(101), ticket);
    assert_eq!(counts(&gate), ([0, 1, 0], 0));
    assert_eq!(gate.account().classes[0].cancelled_waiting, 0);
}

#[test]
fn a_slot_that_comes_free_goes_to_whom_waits_with_a_copy() {
    let mut gate = gate(1, 10);
    let Ok(Verdict::Admit(slot)) = arrive(&mut gate, Moment::ZERO, Role::None) else {
        panic!("a slot is free")
    };
    let Ok(Verdict::Queue(ticket)) = arrive(&mut gate, Moment::ZERO, Role::Refusal) else {
        panic!("it waits")
    };
    gate.finish(Moment::from_millis(10), slot, served());
    assert!(matches!(gate.claim_with_copy(ticket, || true), Ok(Claim::Admitted(_))));
    assert_eq!(counts(&gate), ([0, 0, 0], 0));
}

#[test]
fn clients_that_a_policer_or_a_block_refuses_get_no_copy() {
    let policer = Settings {
        name: "few".to_owned(),
        key: None,
        rate: Rate::per_minute(1),
        burst: 2,
        per: Per::Rule,
        shares: Vec::new(),
        inbound: None,
        announce: false,
    };
    let mut spec = spec(1, 0);
    spec.policers = vec![policer];
    spec.classes[0].policer = Some(PolicerId(0));
    let mut gate: Gate<()> = Gate::new(spec.build().expect("a valid plan"));
    let now = Moment::ZERO;
    let _slot = arrive(&mut gate, now, Role::None).expect("a slot is free");
    assert_eq!(arrive(&mut gate, now, Role::Both), Err(Instead::Refusal), "it has taken a token");
    let policed = Ok(Verdict::Reject(Reason::Policed));
    assert_eq!(arrive(&mut gate, now, Role::Both), policed);
    let down = gate.arrive_without_server(now, with(Role::Both), Reason::OriginDown);
    assert_eq!(down, Ok(Reason::Policed));
    assert_eq!(counts(&gate), ([0, 1, 0], 2));
}

#[test]
fn refusals_that_are_replaced_block_nobody() {
    let second = Duration::from_secs(1);
    let blocking = block::Settings { after: 3, within: second, lasting: second, flows_max: 10 };
    let mut spec = spec(1, 0);
    spec.block = Some(blocking);
    let mut gate: Gate<()> = Gate::new(spec.build().expect("a valid plan"));
    let _slot = arrive(&mut gate, Moment::ZERO, Role::None).expect("a slot is free");
    for _ in 0..50 {
        assert_eq!(arrive(&mut gate, Moment::ZERO, Role::Both), Err(Instead::Refusal));
    }
    for _ in 0..10 {
        let _ = arrive(&mut gate, Moment::ZERO, Role::None);
    }
    let blocked = Ok(Verdict::Reject(Reason::Blocked));
    assert_eq!(arrive(&mut gate, Moment::ZERO, Role::Both), blocked, "a copy is no way out");
}

#[test]
fn without_a_server_there_is_a_copy_or_a_refusal_but_not_while_the_gateway_drains() {
    let mut gate = gate(1, 1);
    let down = |gate: &mut Gate<()>, copy| {
        gate.arrive_without_server(Moment::ZERO, with(copy), Reason::OriginDown)
    };
    assert_eq!(down(&mut gate, Role::Both), Err(Instead::Refusal));
    assert_eq!(down(&mut gate, Role::Refusal), Err(Instead::Refusal));
    assert_eq!(down(&mut gate, Role::None), Ok(Reason::OriginDown));
    gate.drain();
    assert_eq!(down(&mut gate, Role::Both), Ok(Reason::OriginDown));
    let draining = Ok(Verdict::Reject(Reason::Draining));
    assert_eq!(arrive(&mut gate, Moment::ZERO, Role::Both), draining);
    let account = &gate.account().classes[0];
    assert_eq!((account.arrived, account.stored, account.refused_total()), (5, [0, 2, 0], 3));
}

#[test]
fn a_failure_that_is_replaced_is_counted_as_finished_too() {
    let mut gate = gate(1, 1);
    let Ok(Verdict::Admit(slot)) = arrive(&mut gate, Moment::ZERO, Role::Both) else {
        panic!("a slot is free")
    };
    gate.finish(Moment::from_millis(5), slot, Outcome::without_answer(End::Failed));
    gate.stored_after_failure(&with(Role::Both));
    let account = &gate.account().classes[0];
    assert_eq!((account.arrived, account.finished_total(), account.stored), (1, 1, [0, 0, 1]));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Arrive(Role),
    Finish(usize),
    Leave(usize),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let role = prop::sample::select(vec![Role::None, Role::Both, Role::Refusal]);
    prop_oneof![
        4 => role.prop_map(Step::Arrive),
        2 => any::<usize>().prop_map(Step::Finish),
        1 => any::<usize>().prop_map(Step::Leave),
        1 => (1..80u64).prop_map(Step::Pass),
    ]
}

/// What waits: its ticket, and whether it has a copy.
type Waits = Vec<(Ticket, Role)>;

fn take_news(gate: &mut Gate<()>, waits: &mut Waits, slots: &mut Vec<Slot>, copies: &mut u64) {
    while gate.next_effect().is_some() {}
    waits.retain(|(ticket, role)| match gate.claim_with_copy(*ticket, || true) {
        Ok(Claim::Waiting) => true,
        Ok(Claim::Admitted(slot)) => {
            slots.push(slot);
            false
        }
        Ok(Claim::Rejected(_)) => {
            assert_eq!(*role, Role::None, "a copy is better than a refusal");
            false
        }
        Err(_) => {
            assert_ne!(*role, Role::None);
            *copies += 1;
            false
        }
    });
}

proptest! {
    #[test]
    fn every_request_ends_once(steps in prop::collection::vec(step(), 1..120), slots in 1..4u32, queue in 0..5u32) {
        let mut gate = gate(slots, queue);
        let mut now = Moment::ZERO;
        let (mut waits, mut running, mut copies) = (Waits::new(), Vec::new(), 0);
        for step in steps {
            match step {
                Step::Arrive(role) => match arrive(&mut gate, now, role) {
                    Ok(Verdict::Admit(slot)) => running.push(slot),
                    Ok(Verdict::Queue(ticket)) => {
                        prop_assert_ne!(role, Role::Both);
                        waits.push((ticket, role));
                    }
                    Ok(Verdict::Reject(_)) => prop_assert_eq!(role, Role::None),
                    Err(instead) => {
                        prop_assert!(role == Role::Both || instead == Instead::Refusal && role == Role::Refusal);
                        copies += 1;
                    }
                },
                Step::Finish(place) if !running.is_empty() => {
                    let slot = running.swap_remove(place % running.len());
                    gate.finish(now, slot, served());
                }
                Step::Leave(place) if !waits.is_empty() => {
                    let (ticket, _) = waits.swap_remove(place % waits.len());
                    gate.cancel(now, ticket);
                }
                Step::Pass(millis) => {
                    now = now + Duration::from_millis(millis);
                    gate.tick(now);
                }
                _ => {}
            }
            take_news(&mut gate, &mut waits, &mut running, &mut copies);
        }
        let account = &gate.account().classes[0];
        let stored: u64 = account.stored.iter().sum();
        prop_assert_eq!(stored, copies);
        let ended = account.finished_total() + account.refused_total() + account.cancelled_waiting + stored;
        prop_assert_eq!(account.arrived, ended + (waits.len() + running.len()) as u64);
    }
}
