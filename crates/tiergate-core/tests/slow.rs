//! Slow clients at the gate: a share of the slots is all that they may hold while others wait.

use std::time::Duration;
use tiergate_core::class::{Class, ClassId};
use tiergate_core::control::Slots;
use tiergate_core::gate::{Arrival, Claim, Effect, Gate, Slot, Ticket, Verdict};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::Spec;
use tiergate_core::time::Moment;

const NOW: Moment = Moment::from_nanos(1_000_000);
const TOP: ClassId = ClassId(0);
const LEAST: ClassId = ClassId(1);

/// Two classes over eight slots.
fn gate(slow_slots_max: f64) -> Gate<&'static str> {
    let classes = vec![Class::named("top"), Class::named("least")];
    let spec = Spec { classes, slots: Slots::Fixed(8), slow_slots_max, ..Spec::protective() };
    Gate::new(spec.build().expect("a valid plan"))
}

fn admitted(gate: &mut Gate<&'static str>, class: ClassId) -> Slot {
    match gate.arrive(NOW, Arrival::of(class), || "never") {
        Verdict::Admit(slot) => slot,
        other => panic!("{other:?}"),
    }
}

fn waiting(gate: &mut Gate<&'static str>, class: ClassId) -> Ticket {
    match gate.arrive(NOW, Arrival::of(class), || "granted") {
        Verdict::Queue(ticket) => ticket,
        other => panic!("{other:?}"),
    }
}

/// Who is woken now.
fn woken(gate: &mut Gate<&'static str>) -> Vec<&'static str> {
    let effects = std::iter::from_fn(|| gate.next_effect());
    let wakes = effects.filter_map(|effect| match effect {
        Effect::Wake(who) => Some(who),
        _ => None,
    });
    wakes.collect()
}

fn to_end(gate: &Gate<&'static str>, slots: &[Slot]) -> Vec<usize> {
    (0..slots.len()).filter(|&place| gate.is_to_end(&slots[place])).collect()
}

#[test]
fn beyond_their_share_slow_requests_end_when_others_wait_the_slowest_of_the_least_first() {
    let mut gate = gate(0.25);
    let classes = [LEAST, TOP, LEAST, TOP, LEAST, LEAST, LEAST, LEAST];
    let mut slots: Vec<Slot> = classes.map(|class| admitted(&mut gate, class)).into();
    slots.iter_mut().for_each(|slot| gate.slows(NOW, slot, "slow"));
    assert_eq!(woken(&mut gate), [""; 0], "nobody waits");
    let first = waiting(&mut gate, LEAST);
    assert_eq!(woken(&mut gate), ["slow"]);
    assert_eq!(to_end(&gate, &slots), [0]);
    let second = waiting(&mut gate, TOP);
    assert_eq!(to_end(&gate, &slots), [0, 2], "one for each that waits");
    // Whoever comes back to speed now is not spared.
    gate.quickens(&mut slots[0]);
    assert_eq!(to_end(&gate, &slots), [0, 2]);
    gate.finish(NOW, slots.remove(0), Outcome::without_answer(End::Cancelled));
    assert!(matches!(gate.claim(second), Claim::Admitted(_)));
    assert!(matches!(gate.claim(first), Claim::Waiting));
    // As many more as there are above the share, and then no more.
    let more: Vec<Ticket> = (0..6).map(|_| waiting(&mut gate, TOP)).collect();
    assert_eq!(
        to_end(&gate, &slots),
        [1, 3, 4, 5, 6],
        "two of eight may stay, and there are no more of the least"
    );
    assert_eq!(more.len(), 6);
}

#[test]
fn within_their_share_slow_requests_stay_and_so_do_those_that_are_fast_again() {
    let mut gate = gate(0.25);
    let mut slots: Vec<Slot> = (0..8).map(|_| admitted(&mut gate, LEAST)).collect();
    slots[..2].iter_mut().for_each(|slot| gate.slows(NOW, slot, "slow"));
    let ticket = waiting(&mut gate, TOP);
    assert_eq!(woken(&mut gate), [""; 0]);
    gate.cancel(NOW, ticket);
    slots[2..].iter_mut().for_each(|slot| gate.slows(NOW, slot, "slow"));
    slots[..6].iter_mut().for_each(|slot| gate.quickens(slot));
    waiting(&mut gate, TOP);
    assert_eq!(woken(&mut gate), [""; 0]);
    // It counts when they become slow, too.
    gate.slows(NOW, &mut slots[0], "slow");
    assert_eq!(to_end(&gate, &slots), [6]);
}

#[test]
fn with_no_share_every_slow_request_gives_way() {
    let mut gate = gate(0.0);
    let mut slots: Vec<Slot> = (0..8).map(|_| admitted(&mut gate, TOP)).collect();
    gate.slows(NOW, &mut slots[3], "slow");
    let ticket = waiting(&mut gate, LEAST);
    assert_eq!(to_end(&gate, &slots), [3]);
    let later = Duration::from_millis(1);
    gate.finish(NOW + later, slots.remove(3), Outcome::without_answer(End::Cancelled));
    assert!(matches!(gate.claim(ticket), Claim::Admitted(_)));
}

#[test]
fn requests_whose_clients_have_left_share_the_bound_and_end_before_slow_ones_the_last_first() {
    let mut gate = gate(0.25);
    let mut slots: Vec<Slot> = (0..8).map(|_| admitted(&mut gate, LEAST)).collect();
    slots[..3].iter_mut().for_each(|slot| gate.slows(NOW, slot, "slow"));
    slots[3..6].iter_mut().for_each(|slot| gate.overstays(NOW, slot, "left"));
    gate.overstays(NOW, &mut slots[0], "said before");
    assert_eq!(woken(&mut gate), [""; 0], "nobody waits");
    waiting(&mut gate, LEAST);
    waiting(&mut gate, LEAST);
    assert_eq!(woken(&mut gate), ["left", "left"]);
    assert_eq!(to_end(&gate, &slots), [4, 5]);
    waiting(&mut gate, LEAST);
    waiting(&mut gate, LEAST);
    assert_eq!(to_end(&gate, &slots), [0, 3, 4, 5], "then the slow one that was first");
    waiting(&mut gate, TOP);
    assert_eq!(woken(&mut gate), ["slow", "left"], "the latest first; two of eight may stay");
}
