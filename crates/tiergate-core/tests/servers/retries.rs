//! Requests that go to another server than the one whose slot they have.

use super::*;
use tiergate_core::gate::Effect;
use tiergate_core::schedule::{Policy, Site};

#[test]
fn a_retry_gives_its_slot_back_and_is_the_next_at_another_server() {
    let mut gate = gate(1, &[A, B]);
    let mut a = admitted(arrive(&mut gate, 0, ALL));
    let b = admitted(arrive(&mut gate, 0, ALL));
    let tickets = [(); 2].map(|()| queued(arrive(&mut gate, 0, ALL)));
    gate.transfer(at(10), &mut a, &[A], ());
    assert!(!gate.is_transferred(at(10), &mut a));
    assert_eq!(gate.lent(), 1, "it is in progress without a slot");
    assert_eq!(gate.claim(tickets[0]), Claim::Waiting, "it may be gone");
    gate.set_access(at(15), PoolId::DEFAULT, &[(A, Access::Open)]);
    let first = claimed(&mut gate, tickets[0]);
    assert_eq!((at_of(&first), a.server()), (A, None), "its slot goes to the next");
    while gate.next_effect().is_some() {}
    gate.finish(at(20), b, served());
    assert_eq!(gate.next_effect(), Some(Effect::Wake(())));
    assert_eq!(gate.claim(tickets[1]), Claim::Waiting, "it has had its turn before");
    assert!(gate.is_transferred(at(20), &mut a));
    assert_eq!((at_of(&a), a.admitted()), (B, at(20)));
    assert_eq!((running(&gate), gate.running()), (vec![1, 1], 2));
    gate.finish(at(30), a, served());
    gate.finish(at(30), first, served());
    let last = claimed(&mut gate, tickets[1]);
    gate.finish(at(30), last, served());
    assert_eq!(gate.running(), 0);
}

#[test]
fn a_server_that_is_gone_draws_one_request_at_a_time() {
    let mut gate = gate(8, &[A, B]);
    let mut slots: Vec<Slot> = (0..16).map(|_| admitted(arrive(&mut gate, 0, ALL))).collect();
    let tickets: Vec<Ticket> = (0..100).map(|_| queued(arrive(&mut gate, 0, ALL))).collect();
    let is_open = [(A, Access::Open), (B, Access::Open)];
    let mut drawn = 0;
    for step in 0..10 {
        let now = at(10 + 100 * step);
        for slot in slots.iter_mut().filter(|slot| slot.server() == Some(A)) {
            drawn += 1;
            gate.transfer(now, slot, &[A], ());
        }
        assert_eq!(running(&gate), [0, 8]);
        gate.set_access(now, PoolId::DEFAULT, &is_open);
        let claims = tickets.iter().map(|ticket| gate.claim(*ticket));
        let granted = claims.filter_map(|claim| match claim {
            Claim::Admitted(slot) => Some(slot),
            _ => None,
        });
        slots.extend(granted.collect::<Vec<_>>());
    }
    assert_eq!(drawn, 8 + 9, "those that it had, and one each time that it is told to be well");
    assert_eq!(running(&gate), [1, 8]);
    // The one that it has is answered.
    let there = slots.iter().position(|slot| slot.server() == Some(A)).expect("one");
    gate.finish(at(2000), slots.swap_remove(there), served());
    assert_eq!(running(&gate), [2, 8], "its slots come back gradually");
}

#[test]
fn a_server_that_answers_errors_has_been_reached() {
    for end in [End::Error, End::Pushback] {
        let mut gate = gate(8, &[A, B]);
        let mut slot = admitted(arrive(&mut gate, 0, ALL));
        gate.transfer(at(10), &mut slot, &[A], ());
        assert!(gate.is_transferred(at(10), &mut slot));
        gate.set_access(at(20), PoolId::DEFAULT, &[(A, Access::Open)]);
        let there = [(); 8].map(|()| admitted(arrive(&mut gate, 20, ALL)));
        assert_eq!(states(&gate)[0].access, Access::Closed, "one has gone there");
        let there = there.into_iter().find(|slot| slot.server() == Some(A)).expect("one");
        let first_byte = Some(Duration::from_millis(5));
        gate.finish(at(30), there, Outcome { first_byte, ..Outcome::without_answer(end) });
        assert_eq!(states(&gate)[0].access, Access::Open, "{end:?}");
    }
}

#[test]
fn a_retry_goes_before_its_own_class_and_not_before_one_above() {
    let mut gate = gate(1, &[A, B]);
    let mut a = admitted(arrive(&mut gate, 0, BASIC));
    let b = admitted(arrive(&mut gate, 0, ALL));
    let basic = queued(arrive(&mut gate, 0, BASIC));
    let above = queued(arrive(&mut gate, 0, ALL));
    gate.transfer(at(10), &mut a, &[A], ());
    gate.finish(at(20), b, served());
    let b = claimed(&mut gate, above);
    assert!(!gate.is_transferred(at(20), &mut a));
    gate.finish(at(30), b, served());
    assert_eq!(gate.claim(basic), Claim::Waiting);
    assert!(gate.is_transferred(at(30), &mut a));
    assert_eq!(at_of(&a), B);
}

#[test]
fn two_that_each_want_the_others_server_do_not_wait_for_ever() {
    let mut gate = gate(1, &[A, B]);
    let [mut a, mut b] = [(); 2].map(|()| admitted(arrive(&mut gate, 0, ALL)));
    gate.transfer(at(10), &mut a, &[A], ());
    gate.transfer(at(10), &mut b, &[B], ());
    gate.set_access(at(10), PoolId::DEFAULT, &[(A, Access::Open), (B, Access::Open)]);
    assert!(gate.is_transferred(at(10), &mut a) && gate.is_transferred(at(10), &mut b));
    assert_eq!((at_of(&a), at_of(&b)), (B, A));
    gate.finish(at(20), a, served());
    gate.finish(at(20), b, served());
    assert_eq!((gate.running(), gate.state(ALL)), (0, Default::default()));
}

#[test]
fn a_retry_that_gives_up_gives_back_what_it_was_given_and_no_more() {
    let mut gate = gate(1, &[A, B]);
    let [mut a, b] = [(); 2].map(|()| admitted(arrive(&mut gate, 0, ALL)));
    gate.transfer(at(10), &mut a, &[A], ());
    gate.finish(at(20), a, Outcome::without_answer(End::Cancelled));
    assert_eq!((running(&gate), gate.running()), (vec![0, 1], 1));
    gate.set_access(at(30), PoolId::DEFAULT, &[(A, Access::Open)]);
    let mut a = admitted(arrive(&mut gate, 30, ALL));
    gate.transfer(at(30), &mut a, &[A], ());
    gate.finish(at(40), b, served());
    assert_eq!(running(&gate), [0, 1], "it has a slot that it does not know of");
    gate.finish(at(50), a, Outcome::without_answer(End::Cancelled));
    assert_eq!((gate.running(), gate.state(ALL)), (0, Default::default()));
}

#[test]
fn a_retry_that_gives_up_is_not_charged_for_its_wait() {
    for is_granted in [false, true] {
        // Two classes of equal weight, and one slot at each of two servers.
        let site = Site { policy: Policy::Weighted, ..Site::named("default") };
        let spec = Spec { sites: vec![site], ..spec(Slots::Fixed(1)) };
        let mut gate: Gate<()> = Gate::new(spec.build().expect("a valid plan"));
        gate.set_servers(at(0), PoolId::DEFAULT, &[A, B]);
        let mut a = admitted(arrive(&mut gate, 0, ALL));
        let b = admitted(arrive(&mut gate, 0, BASIC));
        assert_eq!((at_of(&a), at_of(&b)), (A, B));
        gate.transfer(at(10), &mut a, &[A], ());
        gate.set_access(at(10), PoolId::DEFAULT, &[(A, Access::Closed)]);
        let mut tickets: Vec<_> = (0..40)
            .map(|place| (place % 2, queued(arrive(&mut gate, 20, ClassId(place % 2)))))
            .collect();
        let cancelled = Outcome::without_answer(End::Cancelled);
        // The first gives up after 10 s: it has had a slot for 10 ms, or for 30 if it was given another. The second had one for 10 s.
        if is_granted {
            gate.finish(at(9_990), b, served());
            gate.finish(at(10_010), a, cancelled);
        } else {
            gate.finish(at(9_990), a, cancelled);
            gate.finish(at(10_010), b, served());
        }
        let service = &gate.account().classes[ALL.index()].service;
        let longest = service.quantile(1.0).expect("one has ended");
        assert!(longest < Duration::from_millis(40), "{longest:?} in a slot");
        // So it is the first one's turn for as long: 10 s of 100 ms each.
        for step in 0..18 {
            let claims = tickets.iter().map(|(_, ticket)| gate.claim(*ticket)).enumerate();
            let mut granted = claims.filter_map(|(place, claim)| match claim {
                Claim::Admitted(slot) => Some((place, slot)),
                _ => None,
            });
            let (place, slot) = granted.next().expect("one is next");
            drop(granted);
            assert_eq!(tickets.remove(place).0, 0, "at {step}, granted {is_granted}");
            gate.finish(at(10_110 + 100 * step), slot, served());
        }
    }
}
