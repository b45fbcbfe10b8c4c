//! Servers with a number of slots of their own, beside others that have what the plan says.

use super::*;
use tiergate_core::control::{Bounds, Cause, Quantile, ServiceTarget};
use tiergate_core::gate::Lends;

fn numbered(slots: Slots, servers: &[ServerId], numbers: &[(ServerId, u32)]) -> Gate<()> {
    let mut gate = Gate::new(plan(slots));
    gate.set_server_slots(PoolId::DEFAULT, numbers);
    gate.set_servers(at(0), PoolId::DEFAULT, servers);
    gate
}

fn slots(gate: &Gate<()>) -> Vec<u32> {
    states(gate).iter().map(|it| it.slots).collect()
}

fn is_own(gate: &Gate<()>) -> Vec<bool> {
    states(gate).iter().map(|it| it.is_own).collect()
}

/// Fills every slot, and so many more wait.
fn filled(gate: &mut Gate<()>, ms: u64, waiting: usize) -> (Vec<Slot>, Vec<Ticket>) {
    let (mut held, mut tickets) = (Vec::new(), Vec::new());
    while tickets.len() < waiting {
        match arrive(gate, ms, ALL) {
            Verdict::Admit(slot) => held.push(slot),
            verdict => tickets.push(queued(verdict)),
        }
    }
    (held, tickets)
}

/// Those that have been granted a slot meanwhile.
fn granted(gate: &mut Gate<()>, tickets: &mut Vec<Ticket>) -> Vec<Slot> {
    let mut slots = Vec::new();
    tickets.retain(|ticket| match gate.claim(*ticket) {
        Claim::Admitted(slot) => {
            slots.push(slot);
            false
        }
        _ => true,
    });
    slots
}

#[test]
fn a_server_has_its_own_number_and_the_others_what_the_plan_says() {
    let mut gate = numbered(Slots::Fixed(2), &[A, B, C], &[(B, 6), (C, 1)]);
    let (held, _) = filled(&mut gate, 0, 3);
    assert_eq!((slots(&gate), running(&gate)), (vec![2, 6, 1], vec![2, 6, 1]));
    assert_eq!((gate.slots(), held.len()), (9, 9));
    assert_eq!(is_own(&gate), [false, true, true]);
    let adaptive = numbered(Slots::default(), &[A, B], &[(B, 3)]);
    assert_eq!(slots(&adaptive), [Bounds::default().slots_start, 3]);
}

#[test]
fn the_smallest_share_in_use_is_next_whatever_the_numbers() {
    let mut gate = numbered(Slots::Fixed(1), &[A, B], &[(A, 1), (B, 4)]);
    let order: Vec<ServerId> =
        (0..5).map(|_| at_of(&admitted(arrive(&mut gate, 0, ALL)))).collect();
    assert_eq!(order, [B, B, B, A, B]);
}

#[test]
fn another_number_is_in_force_at_once_and_the_others_keep_what_they_have_found() {
    let start = Bounds { slots_start: 3, ..Bounds::default() };
    let mut gate = numbered(Slots::Adaptive(start.clone()), &[A, B], &[(B, 4)]);
    // The first takes whatever it gets, in 10 ms each.
    let (mut held, mut tickets) = filled(&mut gate, 0, 100);
    let mut ms = 0;
    while slots(&gate)[0] < 8 {
        ms += 10;
        assert!(ms < 60_000, "its limit grows");
        for slot in std::mem::take(&mut held) {
            gate.finish(at(ms), slot, served());
        }
        held = granted(&mut gate, &mut tickets);
        while tickets.len() < 100 {
            tickets.push(queued(arrive(&mut gate, ms, ALL)));
        }
        gate.tick(at(ms));
        while gate.next_effect().is_some() {}
    }
    let found = slots(&gate)[0];
    let there = |held: &[Slot]| held.iter().filter(|slot| slot.server() == Some(B)).count();
    assert_eq!((slots(&gate)[1], there(&held)), (4, 4));
    // More: free slots go to those that wait, with the plan.
    gate.set_server_slots(PoolId::DEFAULT, &[(B, 7)]);
    gate.reconfigure(at(ms), plan(Slots::Adaptive(start.clone())));
    held.extend(granted(&mut gate, &mut tickets));
    assert_eq!((slots(&gate), there(&held)), (vec![found, 7], 7));
    assert_eq!(gate.pool(PoolId::DEFAULT).and_then(|it| it.last_server()), Some((B, 7)));
    let (when, step) = gate.last_step().expect("it has changed");
    assert_eq!((when, step.cause, step.slots), (at(ms), Cause::Reload, found + 7));
    // Fewer: none is cut short, and none goes there until they are fewer.
    gate.set_server_slots(PoolId::DEFAULT, &[(B, 2)]);
    gate.set_servers(at(ms), PoolId::DEFAULT, &[A, B]);
    assert_eq!((slots(&gate), there(&held)), (vec![found, 2], 7));
    for left in [6, 5, 4, 3, 2, 2, 2] {
        let place = held.iter().position(|slot| slot.server() == Some(B)).expect("one of seven");
        gate.finish(at(ms), held.remove(place), served());
        held.extend(granted(&mut gate, &mut tickets));
        assert_eq!((running(&gate)[1], there(&held)), (left, left as usize));
    }
    // None: it finds its limit like the others.
    gate.set_server_slots(PoolId::DEFAULT, &[]);
    gate.reconfigure(at(ms), plan(Slots::Adaptive(start)));
    assert_eq!((slots(&gate), is_own(&gate)), (vec![found, 3], vec![false, false]));
}

#[test]
fn another_limit_for_all_leaves_servers_with_a_number_alone() {
    let mut gate = numbered(Slots::Fixed(2), &[A, B], &[(B, 4)]);
    gate.reconfigure(at(10), plan(Slots::Fixed(5)));
    assert_eq!(slots(&gate), [5, 4]);
    gate.reconfigure(at(10), plan(Slots::default()));
    assert_eq!(slots(&gate), [10, 4]);
}

#[test]
fn numbers_are_in_force_with_the_plan_that_gives_servers_limits() {
    let shared = Spec { slots_per_server: false, ..spec(Slots::Fixed(1)) };
    let mut gate: Gate<()> = Gate::new(shared.build().expect("a valid plan"));
    gate.set_servers(at(0), PoolId::DEFAULT, &[A, B]);
    let (_held, mut tickets) = filled(&mut gate, 0, 100);
    gate.set_server_slots(PoolId::DEFAULT, &[(A, 2), (B, 3)]);
    assert_eq!(gate.slots(), 1, "not before");
    gate.reconfigure(at(10), plan(Slots::Fixed(50)));
    let granted = granted(&mut gate, &mut tickets);
    assert_eq!((running(&gate), granted.len()), (vec![2, 3], 5), "and never fifty");
}

#[test]
fn a_pool_that_is_not_known_yet_has_no_numbers() {
    let mut gate = numbered(Slots::Fixed(2), &[A], &[]);
    gate.set_server_slots(PoolId(7), &[(A, 5)]);
    gate.set_servers(at(0), PoolId::DEFAULT, &[A, B]);
    assert_eq!(slots(&gate), [2, 2]);
}

#[test]
fn no_slot_is_lent_at_a_server_with_a_number() {
    let mut gate = numbered(Slots::default(), &[A, B], &[(B, 4)]);
    let (mut held, _) = filled(&mut gate, 0, 30);
    let so_far = Outcome::without_answer(End::Cancelled);
    for slot in &mut held {
        let server = at_of(slot);
        assert_eq!(gate.lend(at(100), slot, Lends::Takes, &so_far), server == A, "at {server:?}");
    }
}

#[test]
fn what_hangs_at_a_server_with_a_number_keeps_its_slot_and_what_hangs_elsewhere_does_not() {
    let start = Bounds { slots_start: 4, slots_min: 4, slots_max: 4 };
    for is_later in [false, true] {
        let numbers = [(B, 4)];
        let before = if is_later { &[][..] } else { &numbers };
        let mut gate = numbered(Slots::Adaptive(start.clone()), &[A, B], before);
        let hangs = [(); 4].map(|()| admitted(arrive(&mut gate, 0, ALL)));
        assert_eq!(running(&gate), [2, 2]);
        // Also those that began while it had none.
        gate.set_server_slots(PoolId::DEFAULT, &numbers);
        gate.set_servers(at(1), PoolId::DEFAULT, &[A, B]);
        for step in 1..400 {
            let now = step * 10;
            let others = [(); 4].map(|()| admitted(arrive(&mut gate, now, ALL)));
            for slot in others {
                gate.finish(at(now + 5), slot, served());
            }
            gate.tick(at(now + 5));
        }
        assert_eq!((running(&gate), gate.lent()), (vec![0, 2], 2), "later: {is_later}");
        for slot in hangs {
            gate.finish(at(5_000), slot, served());
        }
        assert_eq!((running(&gate), gate.lent()), (vec![0, 0], 0));
    }
}

#[test]
fn a_service_target_moves_no_number() {
    let target = ServiceTarget { time: Duration::from_millis(50), quantile: Quantile::P95 };
    let mut spec = spec(Slots::Adaptive(Bounds { slots_start: 8, ..Bounds::default() }));
    spec.classes[0].service_target = Some(target);
    let mut gate: Gate<()> = Gate::new(spec.build().expect("a valid plan"));
    gate.set_server_slots(PoolId::DEFAULT, &[(B, 8)]);
    gate.set_servers(at(0), PoolId::DEFAULT, &[A, B]);
    // The more at once, the later each answer: with five it would be in time.
    let (mut held, mut tickets) = filled(&mut gate, 0, 40);
    let mut elsewhere = 0;
    for step in 1..200 {
        let now = at(100 * step);
        let at_once = running(&gate);
        for slot in std::mem::take(&mut held) {
            elsewhere += u64::from(at_of(&slot) != B);
            let first_byte = Some(Duration::from_millis(10) * at_once[at_of(&slot).index()]);
            gate.finish(now, slot, Outcome { first_byte, ..served() });
        }
        held = granted(&mut gate, &mut tickets);
        let (more, waiting) = filled(&mut gate, 100 * step, 40 - tickets.len());
        held.extend(more);
        tickets.extend(waiting);
        gate.tick(now);
        assert_eq!(slots(&gate)[1], 8);
    }
    assert!(slots(&gate)[0] < 8, "{:?}", slots(&gate));
    // Nor is it said to be missed where nothing could be done about it.
    let target = gate.states().next().and_then(|class| class.target).expect("it has one");
    assert!((1..=elsewhere).contains(&target.answers), "{} of {elsewhere}", target.answers);
}
