//! Random runs: what holds whatever happens.

use super::*;
use proptest::prelude::*;
use tiergate_core::names::ResourceId;
use tiergate_core::plan::ResourceSettings;

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
    // Those that have a number of their own, and what each had in progress before.
    let mut numbers: [Option<u32>; 5] = [None; 5];
    let mut before = [0; 5];
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
            98 => {
                numbers[rng.usize(0..5)] = rng.bool().then(|| rng.u32(1..5));
                let own = (0..5).map(ServerId).zip(numbers);
                let own: Vec<_> = own.filter_map(|(id, number)| Some((id, number?))).collect();
                gate.set_server_slots(PoolId::DEFAULT, &own);
                match rng.bool() {
                    true => gate.set_servers(now, PoolId::DEFAULT, &servers),
                    false => {
                        let is_per_server = gate.plan().is_per_server(PoolId::DEFAULT);
                        gate.reconfigure(now, per_server(is_per_server));
                    }
                }
            }
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
            let index = it.server.index();
            assert_eq!(it.slots, numbers[index].unwrap_or(slots), "{is_told}: {it:?}");
            // Where a reload has left it fewer, what it has in progress goes on.
            assert!(it.running <= it.slots.max(before[index]), "{is_told}: {it:?}");
            before[index] = it.running;
        }
        let is_plain = !seed.is_multiple_of(2) && !seed.is_multiple_of(3);
        if is_plain {
            for it in &states {
                let there = |held: &&Held| matches!(held, Held::Slot(slot) if slot.server() == Some(it.server));
                assert_eq!(held.iter().filter(there).count(), it.running as usize, "{is_told}");
            }
        }
        let is_free = |it: &ServerSlots| it.access == Access::Open && it.running < it.usable;
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
