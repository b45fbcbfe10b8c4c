//! Shared and fixed capacity, and strict priority beside them.

use crate::busy::{Busy, MILLI, Work, classes, plan};
use std::time::Duration;
use tiergate_core::class::ClassId;
use tiergate_core::control::{Bounds, Slots};
use tiergate_core::gate::{Arrival, Effect, Gate, Verdict};
use tiergate_core::plan::Plan;
use tiergate_core::schedule::Policy;
use tiergate_core::time::Moment;

fn shared(policy: Policy, slots: u32, shares: &[(f64, f64)]) -> Plan {
    let mut classes = classes(&["a", "b", "c"][..shares.len()]);
    for (class, &(share, reserve)) in classes.iter_mut().zip(shares) {
        (class.share, class.reserve) = (share, reserve);
    }
    plan(policy, slots, classes)
}

fn busy(plan: Plan, clients: &[usize], seconds: u64) -> Busy {
    let services = [7, 10, 13].map(|ms| Work::taking(MILLI * ms));
    let mut busy = Busy::new(plan, services[..clients.len()].to_vec());
    for (class, &count) in clients.iter().enumerate() {
        busy.add(class, count);
    }
    busy.run(Moment::from_millis(seconds * 1000));
    busy
}

#[test]
fn a_fixed_share_is_had_and_never_exceeded_whoever_else_asks() {
    for clients in [[50, 50], [50, 0], [0, 50]] {
        let busy = busy(shared(Policy::Fixed, 10, &[(0.3, 0.0), (0.7, 0.0)]), &clients, 20);
        for (class, whole) in [3, 7].into_iter().enumerate() {
            let expected = if clients[class] > 0 { whole } else { 0 };
            assert_eq!(busy.most[class], expected, "{clients:?}");
            let held = busy.slots_of(class);
            assert!((held - f64::from(expected)).abs() < 0.03, "{clients:?}: {held}");
        }
    }
}

#[test]
fn fractions_of_fixed_slots_are_had_over_time() {
    for (slots, shares) in
        [(1, [0.1, 0.9]), (1, [0.5, 0.2]), (3, [0.5, 0.5]), (2, [0.7, 0.3]), (7, [0.05, 0.4])]
    {
        for clients in [[50, 50], [50, 0]] {
            let plan = shared(Policy::Fixed, slots, &shares.map(|share| (share, 0.0)));
            let busy = busy(plan, &clients, 100);
            for class in 0..2 {
                let share = if clients[class] > 0 { shares[class] } else { 0.0 };
                let held = busy.slots_of(class) / f64::from(slots);
                assert!((held - share).abs() < 0.011, "{slots}, {shares:?}: {class} has {held}");
            }
        }
    }
}

#[test]
fn who_asked_for_nothing_has_saved_nothing_up() {
    let plan = shared(Policy::Fixed, 1, &[(0.1, 0.0), (0.9, 0.0)]);
    let mut busy = busy(plan, &[0, 20], 50);
    busy.add(0, 20);
    busy.run(Moment::from_millis(60_000));
    // A tenth of ten seconds, and one request.
    assert!(busy.held[0] <= MILLI * 1_010, "{:?}", busy.held[0]);
}

#[test]
fn what_is_not_used_is_lent_and_comes_back() {
    let plan = shared(Policy::Shared, 10, &[(0.3, 0.0), (0.7, 0.0)]);
    let mut busy = busy(plan, &[50, 0], 10);
    assert_eq!((busy.most[0], busy.idle), (10, Duration::ZERO));
    busy.add(1, 50);
    busy.run(Moment::from_millis(10_020));
    let running: Vec<u32> = busy.gate.states().map(|state| state.running).collect();
    assert_eq!(running, [3, 7], "within one service time");
    let before = busy.held.clone();
    busy.run(Moment::from_millis(30_000));
    let part = busy.part_since(&before, 0);
    assert!((part - 0.3).abs() < 0.01, "{part}");
}

#[test]
fn a_reserve_is_never_lent() {
    let plan = || shared(Policy::Shared, 10, &[(0.5, 0.2), (0.5, 0.0)]);
    let alone = busy(plan(), &[0, 50], 10);
    assert_eq!(alone.most[1], 8);
    let mut both = busy(plan(), &[1, 50], 10);
    assert_eq!(both.most[1], 8);
    // Two come at once and find their slots; the third waits like everybody.
    both.active[0] = false;
    both.run(Moment::from_millis(11_000));
    for place in 0..3 {
        let verdict = both.gate.arrive(both.now, Arrival::of(ClassId(0)), || usize::MAX);
        assert_eq!(matches!(verdict, Verdict::Admit(_)), place < 2, "{place}: {verdict:?}");
    }
}

#[test]
fn a_fraction_of_a_reserve_is_kept_over_time() {
    for (slots, reserve) in [(1, 0.1), (10, 0.15), (3, 0.5)] {
        let plan = shared(Policy::Shared, slots, &[(0.5, reserve), (0.5, 0.0)]);
        let busy = busy(plan, &[0, 50], 100);
        let held = busy.slots_of(1) / f64::from(slots);
        assert!((held - (1.0 - reserve)).abs() < 0.01, "{slots} slots, {reserve}: {held}");
    }
}

#[test]
fn shares_hold_beside_reserves() {
    for slots in [1, 4, 10, 25] {
        let plan = shared(Policy::Shared, slots, &[(0.5, 0.1), (0.3, 0.3), (0.2, 0.05)]);
        let busy = busy(plan, &[60, 60, 60], 200);
        for (class, share) in [0.5, 0.3, 0.2].into_iter().enumerate() {
            let held = busy.slots_of(class) / f64::from(slots);
            assert!((held - share).abs() < 0.02, "{slots} slots: class {class} has {held}");
        }
    }
}

#[test]
fn strict_is_strict() {
    let busy = busy(plan(Policy::Strict, 4, classes(&["a", "b", "c"])), &[20, 20, 20], 5);
    assert!(busy.served[0] > 0);
    assert_eq!(busy.served[1..], [0, 0]);
}

/// The first comes, whatever its class.
#[test]
fn fifo_is_first_come_first_served() {
    let mut gate: Gate<u32> = Gate::new(plan(Policy::Fifo, 1, classes(&["a", "b", "c"])));
    let mut arrive =
        |class| gate.arrive(Moment::ZERO, Arrival::of(ClassId(class)), || class.into());
    let Verdict::Admit(slot) = arrive(0) else { panic!("one slot is free") };
    let tickets: Vec<_> = [2, 0, 1, 2, 1, 0].map(|class| (class, arrive(class))).into();
    let mut slot = Some(slot);
    for (class, verdict) in tickets {
        let Verdict::Queue(ticket) = verdict else { panic!("none is free") };
        let outcome =
            tiergate_core::outcome::Outcome::without_answer(tiergate_core::outcome::End::Served);
        gate.finish(Moment::ZERO, slot.take().expect("one runs"), outcome);
        assert_eq!(gate.next_effect().and_then(Effect::into_wake), Some(u32::from(class)));
        match gate.claim(ticket) {
            tiergate_core::gate::Claim::Admitted(next) => slot = Some(next),
            other => panic!("{other:?}"),
        }
    }
    assert!(slot.is_some());
}

/// Slots that are kept free are no sign of an idle origin, nor is what is held without them all that it
/// can do: the limit still finds the knee.
#[test]
fn the_adaptive_limit_is_found_beside_reserves() {
    for (policy, shares) in [
        (Policy::Shared, [(0.5, 0.2), (0.5, 0.0)]),
        (Policy::Fixed, [(0.4, 0.0), (0.5, 0.0)]),
        (Policy::Shared, [(0.5, 0.0), (0.5, 0.0)]),
    ] {
        let mut plan = shared(policy, 1, &shares);
        plan.slots = Slots::Adaptive(Bounds::default());
        let clients: &[usize] = if policy == Policy::Fixed { &[400, 400] } else { &[0, 800] };
        // Forty workers: what is beyond waits at the origin.
        let mut busy = Busy::new(plan, vec![Work::taking(MILLI * 10); 2]);
        busy.workers = Some(40);
        for (class, &count) in clients.iter().enumerate() {
            busy.add(class, count);
        }
        busy.run(Moment::from_millis(60_000));
        let held = busy.gate.running();
        assert!((30..=60).contains(&held), "{policy:?}: {held} of {}", busy.gate.slots());
    }
}
