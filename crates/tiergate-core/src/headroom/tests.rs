use super::*;
use crate::account::ClassAccount;
use crate::class::Class;
use crate::control::Slots;
use crate::names::SiteId;
use crate::plan::{Plan, Spec};
use crate::reason::Reason;
use crate::schedule::{Policy, Site};
use std::time::Duration;

fn plan(policy: Policy, classes: Vec<Class>) -> Plan {
    let sites = vec![Site { policy, ..Site::named("shop") }];
    let spec = Spec { classes, sites, slots: Slots::Fixed(100), ..Spec::protective() };
    spec.build().expect("a valid plan")
}

/// Loads in slots.
fn wants(slots: &[f64]) -> Vec<Demand> {
    let demand = |&slots| Demand { requests_per_second: slots * 10.0, slot_seconds: 0.1 };
    slots.iter().map(demand).collect()
}

#[track_caller]
fn are(found: &[Option<f64>], expected: &[Option<f64>]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        match (found, expected) {
            (Some(found), Some(expected)) => assert!((found - expected).abs() < 1e-3, "{found}"),
            _ => assert_eq!(found, expected),
        }
    }
}

fn named(names: &[&str]) -> Vec<Class> {
    names.iter().map(|name| Class::named(*name)).collect()
}

#[test]
fn by_importance_the_least_important_is_shed_first() {
    let plan = plan(Policy::Strict, named(&["checkout", "browse", "prefetch"]));
    let found = success_buffers(&plan, 100.0, &wants(&[10.0, 40.0, 50.0]));
    // Exactly full: prefetch has nothing left, browse twice, checkout ten times.
    are(&found, &[Some(9.0), Some(1.0), Some(0.0)]);
    assert!((failure_buffer(&found).expect("known") - 9.0).abs() < 1e-3);
    let found = success_buffers(&plan, 100.0, &wants(&[10.0, 40.0, 150.0]));
    are(&found, &[Some(9.0), Some(1.0), Some(-0.5)]);
    let found = success_buffers(&plan, 100.0, &wants(&[0.0, 200.0, 50.0]));
    are(&found, &[None, Some(-0.5), Some(-0.6)]);
    assert!((failure_buffer(&found).expect("known") + 0.5).abs() < 1e-3);
}

#[test]
fn a_guarantee_protects_the_least_important_and_costs_the_others() {
    let mut classes = named(&["checkout", "prefetch"]);
    classes[1].minimum = 0.2;
    let plan = plan(Policy::Strict, classes);
    let found = success_buffers(&plan, 100.0, &wants(&[40.0, 10.0]));
    // Both fit until 80 and 20: at twice the load.
    are(&found, &[Some(1.0), Some(1.0)]);
    let found = success_buffers(&plan, 100.0, &wants(&[10.0, 10.0]));
    are(&found, &[Some(7.0), Some(4.0)]);
}

#[test]
fn by_weight_those_that_want_little_are_shed_last() {
    let mut classes = named(&["a", "b"]);
    classes[0].weight = 3.0;
    let plan = plan(Policy::Weighted, classes);
    let found = success_buffers(&plan, 100.0, &wants(&[10.0, 90.0]));
    are(&found, &[Some(6.5), Some(0.0)]);
}

#[test]
fn fixed_shares_are_each_their_own_bound_and_one_queue_has_one() {
    let mut classes = named(&["a", "b"]);
    (classes[0].share, classes[1].share) = (0.5, 0.5);
    let fixed = plan(Policy::Fixed, classes);
    are(&success_buffers(&fixed, 100.0, &wants(&[10.0, 100.0])), &[Some(4.0), Some(-0.5)]);
    let queue = plan(Policy::Fifo, named(&["a", "b"]));
    are(&success_buffers(&queue, 100.0, &wants(&[10.0, 40.0])), &[Some(1.0), Some(1.0)]);
}

#[test]
fn a_reserve_is_kept_free_and_shares_are_lent() {
    let mut classes = named(&["a", "b"]);
    (classes[0].share, classes[0].reserve, classes[1].share) = (0.5, 0.3, 0.5);
    let plan = plan(Policy::Shared, classes);
    // At twice the load 10 of a's reserve of 30 are free and stay so: a has 20 slots and b the other 70.
    are(&success_buffers(&plan, 100.0, &wants(&[10.0, 35.0])), &[Some(4.0), Some(1.0)]);
}

#[test]
fn sites_have_their_parts_first() {
    let sites = vec![
        Site { weight: 1.0, ..Site::named("shop") },
        Site { weight: 1.0, ..Site::named("blog") },
    ];
    let mut classes = named(&["checkout", "browse", "posts"]);
    for (class, site) in classes.iter_mut().zip([0, 0, 1]) {
        class.site = SiteId(site);
    }
    let between_sites = Policy::Weighted;
    let slots = Slots::Fixed(100);
    let spec = Spec { sites, classes, between_sites, slots, ..Spec::protective() };
    let plan = spec.build().expect("a valid plan");
    let found = success_buffers(&plan, 100.0, &wants(&[10.0, 15.0, 50.0]));
    // The shop has its 50 at twice the load, of which checkout takes 20; its browse is then full. Posts are full at
    // 4/3 of the load, when the shop takes a third.
    are(&found, &[Some(4.0), Some(1.0), Some(0.3333)]);
}

#[test]
fn the_background_has_no_buffer_and_tiny_loads_have_the_largest() {
    let mut classes = named(&["a", "mirror"]);
    classes[1].background = true;
    let plan = plan(Policy::Strict, classes);
    are(&success_buffers(&plan, 100.0, &wants(&[0.001, 70.0])), &[Some(BUFFER_MAX), None]);
    assert_eq!(failure_buffer(&[None, None]), None);
}

#[test]
fn bounds_are_relative_to_what_is_in_use() {
    assert_eq!(bounded_buffer(100.0, 400.0), Some(3.0));
    assert_eq!(bounded_buffer(0.0, 400.0), None);
    assert_eq!(bounded_buffer(1.0, 400.0), Some(BUFFER_MAX));
    assert!(bounded_buffer(500.0, 400.0).is_some_and(|it| it < 0.0));
}

/// Nothing is given twice, nobody gets more than it wants, and work is conserved but for reserves and fixed shares.
#[test]
fn allocations_hand_out_what_there_is() {
    let mut seed = 7u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as f64 / (1u64 << 31) as f64
    };
    for _ in 0..2000 {
        let terms: Vec<_> = (0..4)
            .map(|_| {
                let share = random() / 4.0;
                let reserve = share * random();
                crate::schedule::Terms {
                    minimum: random() / 4.0,
                    weight: 0.1 + random(),
                    share,
                    reserve,
                }
            })
            .collect();
        let wanted: Vec<f64> = (0..4).map(|_| random() * 60.0).collect();
        let all: f64 = wanted.iter().sum();
        for policy in
            [Policy::Strict, Policy::Weighted, Policy::Shared, Policy::Fixed, Policy::Fifo]
        {
            let gets = allocation(policy, &terms, &wanted, 100.0, 100.0);
            assert!(gets.iter().zip(&wanted).all(|(got, d)| *got >= 0.0 && *got <= d + 1e-9));
            let given: f64 = gets.iter().sum();
            assert!(given <= 100.0 + 1e-9, "{policy:?}: {given}");
            if !matches!(policy, Policy::Fixed | Policy::Shared) {
                assert!((given - all.min(100.0)).abs() < 1e-9, "{policy:?}: {given} of {all}");
            }
        }
    }
}

#[test]
fn demand_is_what_asked_for_slots_times_how_long_they_were_held() {
    let mut before = ClassAccount { arrived: 1_000, ..ClassAccount::default() };
    before.service.record(Duration::from_secs(9));
    let mut now = ClassAccount { arrived: 1_500, ..before.clone() };
    now.refused[Reason::Policed.index()] = 100;
    now.refused[Reason::QueueFull.index()] = 200;
    (0..200).for_each(|_| now.service.record(Duration::from_millis(50)));
    let demand = Demand::between(&before, &now, Duration::from_secs(10), 2.0);
    assert_eq!(demand.requests_per_second, 40.0);
    assert!((demand.slots() - 4.0).abs() < 1e-9);
    // None ended: by those before.
    let all_shed = ClassAccount { arrived: 1_100, ..before.clone() };
    let demand = Demand::between(&before, &all_shed, Duration::from_secs(10), 1.0);
    assert!((demand.slots() - 90.0).abs() < 1e-6);
}
