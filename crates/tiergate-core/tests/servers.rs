//! Servers with a limit each: the gate chooses the server with the slot, and none works on more than it has slots, whatever requests
//! are tried again elsewhere.

use proptest::prelude::*;
use std::time::Duration;
use tiergate_core::class::{Class, ClassId};
use tiergate_core::control::{Access, ServerSlots, Slots};
use tiergate_core::gate::{Arrival, Claim, Effect, Gate, Lends, Slot, Ticket, Verdict};
use tiergate_core::names::{PoolId, ResourceId, ServerId};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::{Plan, ResourceSettings, Spec};
use tiergate_core::time::Moment;

const ALL: ClassId = ClassId(0);
const BASIC: ClassId = ClassId(1);
const A: ServerId = ServerId(0);
const B: ServerId = ServerId(1);
const C: ServerId = ServerId(2);

fn at(ms: u64) -> Moment {
    Moment::from_millis(ms)
}

fn served() -> Outcome {
    Outcome::without_answer(End::Served)
}

/// Premium and basic, which wait for as long as it takes, in order of arrival.
fn spec(slots: Slots) -> Spec {
    let class = |name: &str| Class {
        deadline: Duration::from_secs(36_000),
        patience: false,
        fair: false,
        ..Class::named(name)
    };
    let classes = ["premium", "basic"].map(class).to_vec();
    Spec { classes, slots, slots_per_server: true, ..Spec::protective() }
}

fn plan(slots: Slots) -> Plan {
    spec(slots).build().expect("a valid plan")
}

fn gate(slots: u32, servers: &[ServerId]) -> Gate<()> {
    let mut gate = Gate::new(plan(Slots::Fixed(slots)));
    gate.set_servers(at(0), PoolId::DEFAULT, servers);
    gate
}

fn arrive(gate: &mut Gate<()>, ms: u64, class: ClassId) -> Verdict {
    gate.arrive(at(ms), Arrival::of(class), || ())
}

fn admitted(verdict: Verdict) -> Slot {
    match verdict {
        Verdict::Admit(slot) => slot,
        verdict => panic!("{verdict:?}"),
    }
}

fn queued(verdict: Verdict) -> Ticket {
    match verdict {
        Verdict::Queue(ticket) => ticket,
        verdict => panic!("{verdict:?}"),
    }
}

fn claimed(gate: &mut Gate<()>, ticket: Ticket) -> Slot {
    match gate.claim(ticket) {
        Claim::Admitted(slot) => slot,
        claim => panic!("{claim:?}"),
    }
}

fn states(gate: &Gate<()>) -> Vec<ServerSlots> {
    gate.pool(PoolId::DEFAULT).expect("there is one").servers().collect()
}

fn running(gate: &Gate<()>) -> Vec<u32> {
    states(gate).iter().map(|it| it.running).collect()
}

fn at_of(slot: &Slot) -> ServerId {
    slot.server().expect("servers have limits of their own")
}

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
    assert_eq!(running(&gate), [8, 8]);
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

/// What becomes of one request in the random runs.
#[derive(Debug)]
enum Held {
    Slot(Slot),
    /// It waits for a slot of another server than this.
    Transfer(Slot, ServerId),
}

fn random_run(seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let slots = rng.u32(1..4);
    let resources = vec![ResourceSettings {
        name: "db".into(),
        pool: PoolId::DEFAULT,
        slots: Slots::Fixed(rng.u32(1..5)),
    }];
    let resource = rng.bool().then_some(ResourceId(0));
    let per_server = |is_per_server| {
        let resources = if resource.is_some() { resources.clone() } else { Vec::new() };
        let spec = Spec { slots_per_server: is_per_server, resources, ..spec(Slots::Fixed(slots)) };
        spec.build().expect("a valid plan")
    };
    let mut servers = vec![A, B, C];
    let mut access = [Access::Open; 5];
    let mut gate: Gate<()> = Gate::new(per_server(true));
    gate.set_servers(at(0), PoolId::DEFAULT, &servers);
    let (mut held, mut tickets): (Vec<Held>, Vec<Ticket>) = (Vec::new(), Vec::new());
    // What was granted under another setting, or at servers that have gone, is bounded by nobody.
    for ms in 0..400 {
        let now = at(ms);
        match rng.u32(0..100) {
            0..40 => {
                let class = [ALL, BASIC][rng.usize(0..2)];
                let resource = resource.filter(|_| rng.bool());
                match gate.arrive(now, Arrival { resource, ..Arrival::of(class) }, || ()) {
                    Verdict::Admit(slot) => held.push(Held::Slot(slot)),
                    Verdict::Queue(ticket) => tickets.push(ticket),
                    Verdict::Reject(reason) => panic!("{reason:?}"),
                }
            }
            40..70 if !held.is_empty() => match held.swap_remove(rng.usize(0..held.len())) {
                Held::Slot(slot) | Held::Transfer(slot, _) => gate.finish(now, slot, served()),
            },
            70..85 if !held.is_empty() => match held.swap_remove(rng.usize(0..held.len())) {
                Held::Slot(mut slot) => {
                    let from = slot.server().unwrap_or(A);
                    gate.transfer(now, &mut slot, &[from], ());
                    held.push(Held::Transfer(slot, from));
                }
                transfer => held.push(transfer),
            },
            85..88 if !tickets.is_empty() => {
                gate.cancel(now, tickets.swap_remove(rng.usize(0..tickets.len())));
            }
            88..95 => {
                let server = servers[rng.usize(0..servers.len())];
                let to = [Access::Open, Access::Open, Access::Once, Access::Closed];
                access[server.index()] = to[rng.usize(0..4)];
                gate.set_access(now, PoolId::DEFAULT, &[(server, access[server.index()])]);
            }
            95 => {
                rng.shuffle(&mut servers);
                let other = ServerId(rng.u16(0..5));
                if !servers.contains(&other) {
                    servers[0] = other;
                    gate.set_servers(now, PoolId::DEFAULT, &servers);
                    gate.set_access(now, PoolId::DEFAULT, &[(other, Access::Open)]);
                }
            }
            96 if seed.is_multiple_of(2) => {
                let is_per_server = gate.plan().is_per_server(PoolId::DEFAULT);
                gate.reconfigure(now, per_server(!is_per_server));
            }
            97 if seed.is_multiple_of(3) => gate.moved(now, PoolId::DEFAULT),
            _ => {
                gate.tick(now);
            }
        }
        let mut waiting = Vec::new();
        for ticket in tickets {
            match gate.claim(ticket) {
                Claim::Admitted(slot) => held.push(Held::Slot(slot)),
                Claim::Waiting => waiting.push(ticket),
                Claim::Rejected(reason) => panic!("{reason:?}"),
            }
        }
        tickets = waiting;
        let moved_on = |it| match it {
            Held::Transfer(mut slot, from) => match gate.is_transferred(now, &mut slot) {
                true => {
                    // While servers share a limit, the shell chooses.
                    let is_elsewhere = slot.server() != Some(from) || seed.is_multiple_of(2);
                    assert!(is_elsewhere, "seed {seed} at {ms}");
                    Held::Slot(slot)
                }
                false => Held::Transfer(slot, from),
            },
            it => it,
        };
        held = held.into_iter().map(moved_on).collect();
        while gate.next_effect().is_some() {}
        let is_told = format!("seed {seed} at {ms}");
        let states = states(&gate);
        for it in &states {
            assert!(it.running <= slots, "{is_told}: {it:?}");
        }
        let is_plain = !seed.is_multiple_of(2) && !seed.is_multiple_of(3);
        if is_plain {
            for it in &states {
                let there = |held: &&Held| matches!(held, Held::Slot(slot) if slot.server() == Some(it.server));
                assert_eq!(held.iter().filter(there).count(), it.running as usize, "{is_told}");
            }
        }
        let is_free = |it: &ServerSlots| it.access == Access::Open && it.running < slots;
        if resource.is_none() && states.iter().any(is_free) {
            assert!(tickets.is_empty(), "{is_told}: a slot is free");
        }
    }
    let now = at(500);
    for it in held {
        let (Held::Slot(slot) | Held::Transfer(slot, _)) = it;
        gate.finish(now, slot, served());
    }
    tickets.into_iter().for_each(|ticket| gate.cancel(now, ticket));
    for class in [ALL, BASIC] {
        assert_eq!(gate.state(class), Default::default(), "seed {seed}");
    }
    assert_eq!((gate.running(), gate.waiting()), (0, 0), "seed {seed}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_server_has_more_than_its_slots_and_no_free_slot_is_withheld(seed: u64) {
        random_run(seed);
    }
}
