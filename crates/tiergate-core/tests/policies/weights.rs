//! Weighted: work in proportion to weights; a class back from idle.

use crate::busy::{Busy, MILLI, Work, classes, plan};
use std::time::Duration;
use tiergate_core::outcome::End;
use tiergate_core::schedule::{Costing, Policy};
use tiergate_core::time::Moment;

fn busy(weights: &[f64], slots: u32, cost: Costing, work: Vec<Work>) -> Busy {
    let mut classes = classes(&["a", "b", "c"][..weights.len()]);
    for (class, &weight) in classes.iter_mut().zip(weights) {
        class.weight = weight;
    }
    let plan = tiergate_core::plan::Spec { cost, ..plan(Policy::Weighted, slots, classes) };
    Busy::new(plan, work)
}

fn at(seconds: u64) -> Moment {
    Moment::from_millis(seconds * 1000)
}

#[test]
fn work_is_shared_three_to_one_though_costs_differ_a_hundredfold() {
    for slots in [1, 4, 32] {
        for services in [[1, 100], [100, 1], [10, 10]] {
            let work = services.map(|ms| Work::taking(MILLI * ms)).to_vec();
            let mut busy = busy(&[3.0, 1.0], slots, Costing::Seconds, work);
            busy.add(0, 100);
            busy.add(1, 100);
            busy.run(at(if slots == 1 { 100 } else { 30 }));
            let part = busy.part_since(&[Duration::ZERO; 2], 0);
            assert!((part / 0.75 - 1.0).abs() < 0.02, "{slots} slots, {services:?}: {part}");
        }
    }
}

#[test]
fn work_is_shared_though_costs_differ_inside_a_class_too() {
    // A rule's mean says little here; what is put right at the end makes the shares.
    let mixed = Work { services: vec![MILLI, MILLI * 5, MILLI * 200], ..Work::taking(MILLI) };
    let mut busy = busy(
        &[3.0, 1.0, 2.0],
        6,
        Costing::Seconds,
        vec![mixed.clone(), Work::taking(MILLI * 3), mixed],
    );
    (0..3).for_each(|class| busy.add(class, 50));
    busy.run(at(60));
    for (class, part) in [0.5, 1.0 / 6.0, 1.0 / 3.0].into_iter().enumerate() {
        let found = busy.part_since(&[Duration::ZERO; 3], class);
        assert!((found / part - 1.0).abs() < 0.02, "class {class}: {found}");
    }
}

/// What clients break off teaches nothing of what requests cost, but is charged with what it was.
#[test]
fn an_estimate_that_stays_wrong_is_put_right_each_time() {
    let broken_off = Work { end: End::Cancelled, ..Work::taking(MILLI * 50) };
    let mut busy = busy(&[1.0, 1.0], 4, Costing::Seconds, vec![broken_off, Work::taking(MILLI)]);
    busy.add(0, 20);
    busy.add(1, 20);
    busy.run(at(60));
    let part = busy.part_since(&[Duration::ZERO; 2], 0);
    assert!((part / 0.5 - 1.0).abs() < 0.02, "{part}");
}

#[test]
fn requests_and_bytes_are_shared_where_they_are_what_counts() {
    let work =
        [(1, 900), (9, 100)].map(|(ms, bytes)| Work { bytes, ..Work::taking(MILLI * ms) }).to_vec();
    let mut by_count = busy(&[3.0, 1.0], 4, Costing::Requests, work.clone());
    let mut by_bytes = busy(&[3.0, 1.0], 4, Costing::Bytes, work);
    for busy in [&mut by_count, &mut by_bytes] {
        busy.add(0, 50);
        busy.add(1, 50);
        busy.run(at(100));
    }
    let ratio = by_count.served[0] as f64 / by_count.served[1] as f64;
    assert!((ratio / 3.0 - 1.0).abs() < 0.02, "{ratio}");
    let bytes = by_bytes.served[0] as f64 * 900.0 / (by_bytes.served[1] as f64 * 100.0);
    assert!((bytes / 3.0 - 1.0).abs() < 0.02, "{bytes}");
}

#[test]
fn several_slots_are_several_times_the_work() {
    let work = vec![Work { slots: 4, ..Work::taking(MILLI * 7) }, Work::taking(MILLI * 5)];
    let mut busy = busy(&[1.0, 1.0], 8, Costing::Seconds, work);
    busy.add(0, 20);
    busy.add(1, 20);
    busy.run(at(200));
    let part = busy.part_since(&[Duration::ZERO; 2], 0);
    assert!((part / 0.5 - 1.0).abs() < 0.02, "{part}");
}

/// A class that was idle, or alone, for long gets its part from then on, and neither more nor less.
#[test]
fn a_class_back_from_idle_neither_bursts_nor_pays() {
    for (idle, alone) in [(0, 1), (1, 0)] {
        let work = vec![Work::taking(MILLI * 2), Work::taking(MILLI * 20)];
        let mut busy = busy(&[3.0, 1.0], 4, Costing::Seconds, work);
        busy.add(alone, 40);
        busy.run(at(100));
        assert_eq!(busy.served[idle], 0);
        busy.add(idle, 40);
        for second in 1..5 {
            let before = busy.held.clone();
            busy.run(at(100 + second));
            let part = busy.part_since(&before, 0);
            // Over a second of four slots, a request of 20 ms is half a percent.
            assert!((part - 0.75).abs() < 0.04, "{idle} was idle, second {second}: {part}");
        }
        // It stops, and comes back.
        busy.active[idle] = false;
        busy.run(at(200));
        busy.active[idle] = true;
        busy.add(idle, 40);
        let before = busy.held.clone();
        busy.run(at(201));
        let part = busy.part_since(&before, 0);
        assert!((part - 0.75).abs() < 0.04, "{idle} paused: {part}");
    }
}

#[test]
fn what_a_class_does_not_use_is_the_others() {
    let work = vec![Work::taking(MILLI * 10); 2];
    let mut busy = busy(&[3.0, 1.0], 4, Costing::Seconds, work);
    busy.add(0, 1);
    busy.add(1, 40);
    busy.run(at(20));
    assert!(busy.slots_of(0) > 0.45 && busy.slots_of(1) > 2.9, "{:?}", busy.held);
    assert_eq!(busy.idle, Duration::ZERO);
}
