//! Which server a request gets a slot of, and which servers there are.

use super::*;
use tiergate_core::gate::Lends;

#[test]
fn each_server_has_so_many_slots_and_the_emptiest_is_next() {
    let mut gate = gate(2, &[A, B]);
    let slots: Vec<Slot> = (0..4).map(|_| admitted(arrive(&mut gate, 0, ALL))).collect();
    assert_eq!(slots.iter().map(at_of).collect::<Vec<_>>(), [A, B, A, B], "equals take turns");
    assert_eq!((gate.slots(), gate.running()), (4, 4));
    let ticket = queued(arrive(&mut gate, 0, ALL));
    let [_a, b, ..] = <[Slot; 4]>::try_from(slots).expect("four");
    gate.finish(at(10), b, served());
    assert_eq!(at_of(&claimed(&mut gate, ticket)), B, "whose slot came free");
}

#[test]
fn without_the_key_or_without_servers_all_share_the_slots() {
    let spec = Spec { slots_per_server: false, ..spec(Slots::Fixed(3)) };
    let mut shared: Gate<()> = Gate::new(spec.build().expect("a valid plan"));
    shared.set_servers(at(0), PoolId::DEFAULT, &[A, B]);
    let mut unnamed: Gate<()> = Gate::new(plan(Slots::Fixed(3)));
    for gate in [&mut shared, &mut unnamed] {
        let slots: Vec<Slot> = (0..3).map(|_| admitted(arrive(gate, 0, ALL))).collect();
        queued(arrive(gate, 0, ALL));
        assert!(slots.iter().all(|slot| slot.server().is_none()));
        assert_eq!((gate.slots(), states(gate).len()), (3, 0));
    }
}

#[test]
fn a_server_that_may_not_get_requests_gets_none_and_one_that_is_tried_gets_one() {
    let mut gate = gate(2, &[A, B]);
    gate.set_access(at(0), PoolId::DEFAULT, &[(A, Access::Closed)]);
    let [one, _two] = [(); 2].map(|()| admitted(arrive(&mut gate, 0, ALL)));
    let tickets = [(); 3].map(|()| queued(arrive(&mut gate, 0, ALL)));
    assert_eq!(running(&gate), [0, 2]);
    gate.set_access(at(10), PoolId::DEFAULT, &[(A, Access::Once)]);
    assert_eq!(running(&gate), [1, 2]);
    let tried = claimed(&mut gate, tickets[0]);
    assert_eq!(at_of(&tried), A);
    assert_eq!(gate.claim(tickets[1]), Claim::Waiting);
    gate.finish(at(20), tried, served());
    assert_eq!(running(&gate), [0, 2], "nothing was said of how that went");
    gate.finish(at(20), one, served());
    assert_eq!(at_of(&claimed(&mut gate, tickets[1])), B);
    gate.set_access(at(30), PoolId::DEFAULT, &[(A, Access::Open)]);
    assert_eq!(at_of(&claimed(&mut gate, tickets[2])), A);
}

#[test]
fn unlike_servers_get_what_each_can_take() {
    // One works on 4 requests at once and one on 20, each for 50 ms; both are found from the same start.
    let mut gate: Gate<()> = Gate::new(plan(Slots::default()));
    gate.set_servers(at(0), PoolId::DEFAULT, &[A, B]);
    let workers = [4, 20];
    let mut inside: [Vec<(u64, Slot)>; 2] = [Vec::new(), Vec::new()];
    let mut tickets = Vec::new();
    let mut rng = fastrand::Rng::with_seed(1);
    let mut sum = [0_u64; 2];
    let steps = 120_000;
    for ms in 0..steps {
        while tickets.len() < 100 {
            match arrive(&mut gate, ms, ALL) {
                Verdict::Admit(slot) => inside[at_of(&slot).index()].push((0, slot)),
                Verdict::Queue(ticket) => tickets.push(ticket),
                Verdict::Reject(reason) => panic!("{reason:?}"),
            }
        }
        for server in 0..2 {
            // In order of arrival; those that are worked on end by chance.
            let mut place = 0;
            for _ in 0..workers[server].min(inside[server].len()) {
                if rng.u32(0..50) == 0 {
                    let (_, slot) = inside[server].remove(place);
                    gate.finish(at(ms), slot, served());
                } else {
                    place += 1;
                }
            }
        }
        tickets.retain(|ticket| match gate.claim(*ticket) {
            Claim::Admitted(slot) => {
                inside[at_of(&slot).index()].push((ms, slot));
                false
            }
            Claim::Waiting => true,
            Claim::Rejected(reason) => panic!("{reason:?}"),
        });
        if ms % 100 == 0 {
            gate.tick(at(ms));
        }
        while gate.next_effect().is_some() {}
        if ms >= steps / 4 {
            states(&gate).iter().zip(&mut sum).for_each(|(it, sum)| *sum += u64::from(it.slots));
        }
    }
    let mean = sum.map(|sum| sum as f64 / (steps * 3 / 4) as f64);
    assert!((3.0..8.0).contains(&mean[0]), "{mean:?}");
    assert!((18.0..32.0).contains(&mean[1]), "{mean:?}");
}

#[test]
fn a_server_that_hangs_keeps_what_it_has_and_gets_no_more() {
    let mut gate: Gate<()> = Gate::new(plan(Slots::default()));
    gate.set_servers(at(0), PoolId::DEFAULT, &[A, B]);
    let (mut hangs, mut works, mut tickets) = (Vec::new(), Vec::new(), Vec::new());
    let mut served_count = 0;
    for ms in 0..20_000 {
        while tickets.len() < 5 {
            match arrive(&mut gate, ms, ALL) {
                Verdict::Admit(slot) if at_of(&slot) == A => hangs.push(slot),
                Verdict::Admit(slot) => works.push((ms, slot)),
                Verdict::Queue(ticket) => tickets.push(ticket),
                Verdict::Reject(reason) => panic!("{reason:?}"),
            }
        }
        while works.first().is_some_and(|(since, _)| since + 10 <= ms) {
            served_count += 1;
            gate.finish(at(ms), works.remove(0).1, served());
        }
        gate.tick(at(ms));
        tickets.retain(|ticket| match gate.claim(*ticket) {
            Claim::Admitted(slot) if at_of(&slot) == A => {
                hangs.push(slot);
                false
            }
            Claim::Admitted(slot) => {
                works.push((ms, slot));
                false
            }
            Claim::Waiting => true,
            Claim::Rejected(reason) => panic!("{reason:?}"),
        });
        while gate.next_effect().is_some() {}
    }
    assert!(served_count > 1_000, "{served_count}");
    assert!(hangs.len() <= 15, "{} hang", hangs.len());
}

#[test]
fn an_upload_keeps_its_slot_at_its_server() {
    let mut gate: Gate<()> = Gate::new(plan(Slots::default()));
    gate.set_servers(at(0), PoolId::DEFAULT, &[A]);
    let mut slot = admitted(arrive(&mut gate, 0, ALL));
    let so_far = Outcome::without_answer(End::Cancelled);
    assert!(!gate.lend(at(100), &mut slot, Lends::Sends, &so_far));
    assert!(gate.lend(at(100), &mut slot, Lends::Takes, &so_far));
    gate.transfer(at(110), &mut slot, &[A], ());
    assert!(gate.is_transferred(at(110), &mut slot), "it needs none");
    gate.finish(at(120), slot, served());
    assert_eq!((gate.running(), gate.lent()), (0, 0));
}

#[test]
fn servers_that_stay_keep_their_limits_over_a_change_and_those_that_go_end_what_they_have() {
    let mut gate = gate(1, &[A, B]);
    let [a, _b] = [(); 2].map(|()| admitted(arrive(&mut gate, 0, ALL)));
    let ticket = queued(arrive(&mut gate, 0, ALL));
    gate.set_servers(at(10), PoolId::DEFAULT, &[B, C]);
    assert_eq!(at_of(&claimed(&mut gate, ticket)), C);
    assert_eq!((running(&gate), gate.running(), gate.slots()), (vec![1, 1], 3, 3));
    let next = queued(arrive(&mut gate, 20, ALL));
    gate.finish(at(30), a, served());
    assert_eq!(
        (gate.claim(next), gate.slots()),
        (Claim::Waiting, 2),
        "it is not the pool's any more"
    );
}
