//! Requests that take several slots.

use crate::busy::{Busy, MILLI, Work, classes, plan};
use std::time::Duration;
use tiergate_core::schedule::Policy;
use tiergate_core::time::Moment;

fn busy(policy: Policy, slots: u32, widths: [u16; 2], change: impl Fn(&mut Busy)) -> Busy {
    let mut classes = classes(&["a", "b"]);
    classes.iter_mut().for_each(|class| class.share = 0.5);
    let work = widths.map(|slots| Work { slots, ..Work::taking(MILLI * 10) }).to_vec();
    let mut busy = Busy::new(plan(policy, slots, classes), work);
    change(&mut busy);
    busy
}

#[test]
fn the_slots_held_never_exceed_the_limit() {
    for policy in [Policy::Strict, Policy::Weighted, Policy::Shared, Policy::Fifo] {
        let mut busy = busy(policy, 10, [3, 4], |_| {});
        busy.add(0, 10);
        busy.add(1, 10);
        for milli in 0..500 {
            busy.run(Moment::from_millis(milli));
            assert!(busy.gate.running() <= 10);
            let held: Vec<_> = busy.gate.states().map(|it| (it.running, it.requests)).collect();
            assert_eq!([held[0].0, held[1].0], [held[0].1 * 3, held[1].1 * 4]);
        }
    }
}

/// The important class's wide requests are not starved by narrow ones that would fit before.
#[test]
fn a_wide_request_that_is_next_gets_its_slots() {
    let mut busy = busy(Policy::Strict, 4, [3, 1], |_| {});
    busy.add(1, 50);
    busy.run(Moment::from_millis(1_005));
    busy.add(0, 1);
    // Those that run end within a service time, and then it is served.
    busy.run(Moment::from_millis(1_018));
    assert_eq!(busy.gate.states().next().expect("class a").requests, 1);
    busy.active[0] = false;
    let (idle, before) = (busy.idle, busy.served[1]);
    busy.run(Moment::from_millis(3_000));
    assert_eq!(busy.served[0], 1);
    assert!(busy.served[1] > before + 700, "the others go on");
    assert!(busy.idle - idle <= MILLI * 30, "{:?}", busy.idle - idle);
}

#[test]
fn one_wider_than_the_limit_runs_alone() {
    for policy in [Policy::Strict, Policy::Weighted, Policy::Shared, Policy::Fixed, Policy::Fifo] {
        let mut busy = busy(policy, 4, [9, 1], |_| {});
        busy.add(0, 2);
        busy.run(Moment::from_millis(1_000));
        assert!(busy.served[0] > if policy == Policy::Fixed { 15 } else { 95 }, "{policy:?}");
        assert_eq!(busy.most[0], 9);
    }
}

/// With capacity fixed, a request wider than its class's share runs alone in its class and is paid for
/// afterwards; the other class has its own share all the time.
#[test]
fn one_wider_than_its_share_is_paid_for() {
    let mut busy = busy(Policy::Fixed, 8, [6, 1], |_| {});
    busy.add(0, 5);
    busy.run(Moment::from_millis(50_000));
    assert!((busy.slots_of(0) - 4.0).abs() < 0.1, "{}", busy.slots_of(0));
    assert_eq!(busy.gate.states().nth(1).map(|it| it.running), Some(0));
    assert_ne!(busy.idle, Duration::ZERO);
}
