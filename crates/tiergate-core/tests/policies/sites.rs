//! Sites above classes.

use crate::busy::{Busy, MILLI, Work, classes, plan};
use tiergate_core::plan::Spec;
use tiergate_core::schedule::{Policy, Site, SiteId};
use tiergate_core::time::Moment;

/// Two classes of each of two sites, whose classes alternate in importance.
fn busy(between: Policy, sites: [Site; 2], change: impl Fn(&mut Spec)) -> Busy {
    let mut plan = plan(Policy::Strict, 10, classes(&["a1", "b1", "a2", "b2"]));
    for (place, class) in plan.classes.iter_mut().enumerate() {
        class.site = SiteId(place as u16 % 2);
    }
    (plan.sites, plan.between_sites) = (sites.to_vec(), between);
    change(&mut plan);
    Busy::new(plan, [3, 10, 20, 7].map(|ms| Work::taking(MILLI * ms)).to_vec())
}

fn parts(busy: &mut Busy, clients: [usize; 4]) -> [f64; 4] {
    for (class, count) in clients.into_iter().enumerate() {
        busy.add(class, count);
    }
    busy.run(Moment::from_millis(60_000));
    [0, 1, 2, 3].map(|class| busy.slots_of(class) / 10.0)
}

fn close(found: [f64; 4], expected: [f64; 4]) {
    let near = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 0.02);
    assert!(near, "{found:?}, not {expected:?}");
}

#[test]
fn each_site_keeps_its_own_policy_in_its_part() {
    let a = Site { weight: 3.0, policy: Policy::Weighted, ..Site::named("a") };
    let b = Site { weight: 1.0, ..Site::named("b") };
    let mut busy = busy(Policy::Weighted, [a, b], |plan| {
        plan.classes[0].weight = 2.0;
        plan.classes[3].minimum = 0.2;
    });
    close(parts(&mut busy, [50; 4]), [0.5, 0.2, 0.25, 0.05]);
}

#[test]
fn fixed_sites_do_not_lend_and_lend_inside() {
    let sites = ["a", "b"].map(|name| Site { share: 0.5, ..Site::named(name) });
    let mut busy = busy(Policy::Fixed, sites, |_| {});
    close(parts(&mut busy, [0, 0, 50, 50]), [0.0, 0.0, 0.5, 0.5]);
    assert_eq!(busy.most, [0, 0, 5, 5]);
}

#[test]
fn classes_of_fixed_capacity_leave_the_rest_to_other_sites() {
    let a = Site { policy: Policy::Fixed, ..Site::named("a") };
    let mut busy = busy(Policy::Strict, [a, Site::named("b")], |plan| {
        plan.classes[0].share = 0.2;
        plan.classes[2].share = 0.15;
    });
    close(parts(&mut busy, [50; 4]), [0.2, 0.65, 0.15, 0.0]);
}

#[test]
fn a_site_s_reserve_is_kept_for_its_classes() {
    let a = Site { share: 0.4, reserve: 0.4, ..Site::named("a") };
    let b = Site { share: 0.6, ..Site::named("b") };
    let mut busy = busy(Policy::Shared, [a, b], |_| {});
    close(parts(&mut busy, [0, 50, 0, 50]), [0.0, 0.6, 0.0, 0.0]);
    busy.add(2, 50);
    busy.run(Moment::from_millis(60_100));
    let running: Vec<u32> = busy.gate.states().map(|state| state.running).collect();
    assert_eq!(running, [0, 6, 4, 0]);
}

#[test]
fn a_site_back_from_idle_neither_bursts_nor_pays() {
    let sites = ["a", "b"].map(Site::named);
    let mut busy = busy(Policy::Weighted, sites, |_| {});
    busy.add(0, 50);
    busy.run(Moment::from_millis(30_000));
    busy.add(3, 50);
    let before = busy.held.clone();
    busy.run(Moment::from_millis(31_000));
    let part = busy.part_since(&before, 0);
    assert!((part - 0.5).abs() < 0.02, "{part}");
}
