//! Running requests that are preempted by more important ones.

use crate::busy::{MILLI, classes, plan};
use tiergate_core::class::ClassId;
use tiergate_core::gate::{Arrival, Claim, Effect, Gate, Slot, Ticket, Verdict};
use tiergate_core::names::SiteId;
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::Spec;
use tiergate_core::schedule::{Policy, Site};
use tiergate_core::time::Moment;

const NOW: Moment = Moment::ZERO;
const PREEMPTED: Outcome = Outcome::without_answer(End::Preempted);

/// Two preemptible classes below one that is not.
fn gate(slots: u32, change: impl Fn(&mut Spec)) -> Gate<u32> {
    let mut classes = classes(&["a", "b", "c"]);
    classes[1].preemptible = true;
    classes[2].preemptible = true;
    let mut plan = plan(Policy::Strict, slots, classes);
    change(&mut plan);
    Gate::new(plan.build().expect("a valid plan"))
}

fn admitted(gate: &mut Gate<u32>, class: u16, wake: Option<u32>) -> Slot {
    let Verdict::Admit(mut slot) = gate.arrive(NOW, Arrival::of(ClassId(class)), || 0) else {
        panic!("a slot is free");
    };
    if let Some(wake) = wake {
        assert!(gate.permit_preemption(NOW, &mut slot, wake));
        assert!(!gate.permit_preemption(NOW, &mut slot, wake), "once");
    }
    slot
}

fn queued(gate: &mut Gate<u32>, class: u16, wake: u32) -> Ticket {
    match gate.arrive(NOW, Arrival::of(ClassId(class)), || wake) {
        Verdict::Queue(ticket) => ticket,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_youngest_of_the_least_important_is_broken_off_one_for_each_that_waits() {
    let mut gate = gate(5, |_| {});
    let slots = [(1, 10), (2, 20), (2, 21), (1, 11)]
        .map(|(class, wake)| (wake, admitted(&mut gate, class, Some(wake))));
    let safe = admitted(&mut gate, 2, None);
    let mut order = Vec::new();
    for wake in 0..5 {
        let _ticket = queued(&mut gate, 0, wake);
        gate.tick(NOW);
        order.extend(std::iter::from_fn(|| gate.next_effect().and_then(Effect::into_wake)));
        assert_eq!(order.len(), (wake as usize + 1).min(4));
    }
    assert_eq!(order, [21, 20, 11, 10], "and the one that is not safe to repeat goes on");
    assert!(!gate.is_preempted(&safe));
    let mut served = Vec::new();
    for (_, slot) in slots {
        assert!(gate.is_preempted(&slot));
        gate.finish(NOW, slot, PREEMPTED);
        served.extend(std::iter::from_fn(|| gate.next_effect().and_then(Effect::into_wake)));
    }
    assert_eq!(served, [0, 1, 2, 3]);
    assert_eq!(gate.account().classes[2].finished[End::Preempted.index()], 2);
    gate.finish(NOW, safe, PREEMPTED);
}

#[test]
fn nobody_is_broken_off_for_its_own_class_or_one_below_or_a_minimum() {
    let mut gate = gate(2, |plan| plan.classes[2].minimum = 0.5);
    let own = admitted(&mut gate, 1, Some(10));
    let sure = admitted(&mut gate, 2, Some(20));
    for class in [1, 2] {
        let _ticket = queued(&mut gate, class, class.into());
    }
    assert_eq!(gate.next_effect(), None);
    let _ticket = queued(&mut gate, 0, 0);
    assert_eq!(
        gate.next_effect(),
        Some(Effect::Wake(10)),
        "the other has no more than it is sure of"
    );
    assert!(gate.is_preempted(&own) && !gate.is_preempted(&sure));
    gate.finish(NOW, own, PREEMPTED);
    gate.finish(NOW, sure, PREEMPTED);
}

/// With three fifths of a slot it is owed one at times, and would get back at once what it gave: it and the class above would
/// go on like that without end.
#[test]
fn what_is_guaranteed_in_part_is_not_taken_back_again_and_again() {
    let of_class = |plan: &mut Spec| plan.classes[2].minimum = 0.3;
    let of_site = |plan: &mut Spec| {
        plan.sites.push(Site { minimum: 0.3, policy: Policy::Weighted, ..Site::named("below") });
        plan.classes[2].site = SiteId(1);
        plan.between_sites = Policy::Strict;
    };
    for change in [&of_class as &dyn Fn(&mut Spec), &of_site] {
        let mut gate = gate(2, change);
        let [old, young] = [20, 21].map(|wake| admitted(&mut gate, 2, Some(wake)));
        for wake in 0..3 {
            queued(&mut gate, 0, wake);
            queued(&mut gate, 2, 10 + wake);
        }
        gate.tick(NOW + MILLI * 900);
        let mut woken = Vec::new();
        let mut effects = |gate: &mut Gate<u32>| {
            woken.extend(std::iter::from_fn(|| gate.next_effect().and_then(Effect::into_wake)));
        };
        effects(&mut gate);
        gate.finish(NOW + MILLI * 901, young, PREEMPTED);
        effects(&mut gate);
        gate.tick(NOW + MILLI * 1800);
        effects(&mut gate);
        assert_eq!(woken, [21, 0], "one is taken, and goes to the class above");
        gate.finish(NOW + MILLI * 1800, old, PREEMPTED);
    }
}

/// How many of class c's four requests, of so many slots each, are preempted at most for one of class a after another.
fn given_up(policy: Policy, slots: u32, each: u16, change: impl Fn(&mut Spec)) -> usize {
    let mut gate = gate(slots, |plan| {
        plan.sites[0].policy = policy;
        change(plan);
    });
    let arrival = Arrival { slots: each, ..Arrival::of(ClassId(2)) };
    let mut low = Vec::new();
    for wake in 100..104 {
        let Verdict::Admit(mut slot) = gate.arrive(NOW, arrival, || 0) else {
            panic!("slots are free");
        };
        assert!(gate.permit_preemption(NOW, &mut slot, wake));
        low.push((wake, slot));
    }
    let _more = (0..4).map(|_| gate.arrive(NOW, arrival, || 99)).collect::<Vec<_>>();
    let _high: Vec<Ticket> = (0..20).map(|wake| queued(&mut gate, 0, wake)).collect();
    let mut count = 0;
    while let Some(effect) = gate.next_effect() {
        let Some(place) = low.iter().position(|(wake, _)| Some(*wake) == effect.into_wake()) else {
            continue;
        };
        count += 1;
        gate.finish(NOW, low.swap_remove(place).1, PREEMPTED);
    }
    for (_, slot) in low {
        gate.finish(NOW, slot, PREEMPTED);
    }
    count
}

#[test]
fn what_is_left_is_what_is_guaranteed_whatever_a_request_takes() {
    let quarter = |plan: &mut Spec| plan.classes[2].minimum = 0.25;
    assert_eq!(given_up(Policy::Strict, 4, 1, quarter), 3, "one of four");
    assert_eq!(given_up(Policy::Strict, 8, 2, quarter), 3, "two of eight");
    // Of sixteen slots three: a request takes four.
    let fifth = |plan: &mut Spec| plan.classes[2].minimum = 0.2;
    assert_eq!(given_up(Policy::Strict, 16, 4, fifth), 3, "four of sixteen");
    let half = |plan: &mut Spec| plan.classes[2].minimum = 0.3;
    assert_eq!(given_up(Policy::Strict, 12, 3, half), 2, "six of twelve");
}

#[test]
fn by_weight_a_class_keeps_its_part_among_those_that_have_requests() {
    let weights = |low: f64| {
        move |plan: &mut Spec| {
            plan.classes[0].weight = 3.0;
            plan.classes[1].weight = 100.0;
            plan.classes[2].weight = low;
        }
    };
    assert_eq!(given_up(Policy::Weighted, 4, 1, weights(1.0)), 3);
    assert_eq!(given_up(Policy::Weighted, 4, 1, weights(3.0)), 2);
}

#[test]
fn who_says_so_late_is_broken_off_at_once_and_a_reload_loses_nobody() {
    let mut gate = gate(2, |_| {});
    let mut late = admitted(&mut gate, 1, None);
    let other = admitted(&mut gate, 2, None);
    let ticket = queued(&mut gate, 0, 0);
    assert_eq!(gate.next_effect(), None);
    assert!(gate.permit_preemption(NOW, &mut late, 10));
    assert_eq!(gate.next_effect().and_then(Effect::into_wake), Some(10));
    let mut plan = (**gate.plan()).clone();
    plan.classes.remove(1);
    gate.reconfigure(NOW, plan.build().expect("a valid plan"));
    assert!(gate.is_preempted(&late), "under another plan too");
    gate.finish(NOW, late, PREEMPTED);
    assert_eq!(gate.next_effect(), Some(Effect::Wake(0)));
    let Claim::Admitted(slot) = gate.claim(ticket) else { panic!("it was granted") };
    let next = queued(&mut gate, 0, 1);
    assert_eq!(gate.next_effect(), None, "no preemptible request is left");
    gate.cancel(NOW, next);
    gate.finish(NOW, other, PREEMPTED);
    gate.finish(NOW, slot, PREEMPTED);
    assert_eq!(gate.running(), 0);
}

#[test]
fn whoever_has_begun_to_answer_is_left_alone_and_another_goes_instead() {
    let mut gate = gate(2, |_| {});
    let older = admitted(&mut gate, 2, Some(20));
    let mut younger = admitted(&mut gate, 2, Some(21));
    let _ticket = queued(&mut gate, 0, 0);
    assert_eq!(gate.next_effect(), Some(Effect::Wake(21)));
    gate.forbid_preemption(NOW, &mut younger);
    assert_eq!(gate.next_effect(), Some(Effect::Wake(20)));
    assert!(gate.is_preempted(&older) && !gate.is_preempted(&younger));
    gate.finish(NOW, older, PREEMPTED);
    assert_eq!(gate.next_effect(), Some(Effect::Wake(0)), "the one that waits has the slot");
    gate.finish(NOW, younger, Outcome::without_answer(End::Served));
}
