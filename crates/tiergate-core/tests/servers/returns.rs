//! A server that comes back gets its slots back gradually.

use super::*;

/// One that is full beside a full one, and so many requests that wait.
struct World {
    gate: Gate<()>,
    held: Vec<Slot>,
    tickets: Vec<Ticket>,
}

impl World {
    fn full(slots: u32) -> Self {
        let mut gate = gate(slots, &[A, B]);
        let held = (0..2 * slots).map(|_| admitted(arrive(&mut gate, 0, ALL))).collect();
        let tickets = (0..1_000).map(|_| queued(arrive(&mut gate, 0, ALL))).collect();
        World { gate, held, tickets }
    }

    fn claim(&mut self) {
        let World { gate, held, tickets } = self;
        tickets.retain(|ticket| match gate.claim(*ticket) {
            Claim::Admitted(slot) => {
                held.push(slot);
                false
            }
            _ => true,
        });
    }

    /// Whatever the first server has cannot reach it.
    fn fails(&mut self, ms: u64) {
        for slot in self.held.iter_mut().filter(|slot| slot.server() == Some(A)) {
            self.gate.transfer(at(ms), slot, &[A], ());
        }
        self.tells(ms, Access::Open);
    }

    fn tells(&mut self, ms: u64, access: Access) {
        self.gate.set_access(at(ms), PoolId::DEFAULT, &[(A, access), (B, Access::Open)]);
        self.claim();
    }

    /// A request of the first server is answered; how many it has then.
    fn answered(&mut self, ms: u64, end: End) -> u32 {
        let place = self.held.iter().position(|slot| slot.server() == Some(A)).expect("one there");
        let first_byte = Some(Duration::from_millis(1));
        let outcome = Outcome { first_byte, ..Outcome::without_answer(end) };
        self.gate.finish(at(ms), self.held.swap_remove(place), outcome);
        self.claim();
        running(&self.gate)[0]
    }

    fn usable(&self) -> u32 {
        states(&self.gate)[0].usable
    }
}

#[test]
fn it_may_have_twice_as_many_after_each_round_of_good_answers() {
    let mut world = World::full(20);
    world.fails(10);
    assert_eq!(running(&world.gate), [1, 20], "it is tried with one");
    let found: Vec<u32> = (0..31).map(|_| world.answered(20, End::Served)).collect();
    let expected = [(1, 2), (2, 4), (4, 8), (8, 16), (16, 20)];
    let expected = expected.into_iter().scan(0, |passed, (answers, most)| {
        *passed += answers;
        Some((*passed, most))
    });
    for (answers, most) in expected {
        assert_eq!(found[answers - 1], most, "after {answers} good answers: {found:?}");
    }
    assert!(found.windows(2).all(|pair| pair[0] <= pair[1]), "{found:?}");
    assert_eq!(world.gate.slots(), 40);
}

#[test]
fn errors_are_no_round_and_after_ten_seconds_it_has_all() {
    let mut world = World::full(20);
    world.fails(10);
    for _ in 0..50 {
        assert_eq!(world.answered(20, End::Error), 2);
    }
    world.tells(10_000, Access::Open);
    assert_eq!(world.usable(), 2);
    world.tells(10_020, Access::Open);
    assert_eq!((world.usable(), running(&world.gate)[0]), (20, 20));
}

#[test]
fn one_that_fails_again_begins_anew() {
    let mut world = World::full(20);
    world.fails(10);
    (0..3).for_each(|_| _ = world.answered(20, End::Served));
    assert_eq!(running(&world.gate)[0], 4);
    world.fails(30);
    assert_eq!(running(&world.gate)[0], 1);
    assert_eq!(world.answered(40, End::Served), 2);
}

#[test]
fn a_busy_server_of_which_one_connection_failed_loses_nothing() {
    let mut world = World::full(20);
    let World { gate, held, .. } = &mut world;
    let slot = held.iter_mut().find(|slot| slot.server() == Some(A)).expect("one there");
    gate.transfer(at(10), slot, &[A], ());
    assert_eq!(world.usable(), 19);
    assert_eq!(world.answered(20, End::Served), 20);
}

#[test]
fn one_that_was_out_of_rotation_comes_back_so_too() {
    let mut world = World::full(20);
    world.tells(10, Access::Closed);
    (0..20).for_each(|_| _ = world.answered(20, End::Served));
    assert_eq!(running(&world.gate), [0, 20]);
    world.tells(30, Access::Once);
    assert_eq!(running(&world.gate), [1, 20]);
    world.answered(40, End::Served);
    world.tells(50, Access::Open);
    assert_eq!(running(&world.gate), [2, 20]);
    world.answered(60, End::Served);
    assert_eq!(world.answered(60, End::Served), 4);
    // As long as it may get requests, it is not told anew.
    world.tells(70, Access::Open);
    assert_eq!(running(&world.gate), [4, 20]);
}

#[test]
fn a_limit_that_is_found_while_serving_is_not_lowered_by_it() {
    let mut gate: Gate<()> = Gate::new(plan(Slots::default()));
    gate.set_servers(at(0), PoolId::DEFAULT, &[A]);
    let before = states(&gate)[0].slots;
    let mut tickets: Vec<Ticket> = Vec::new();
    gate.set_access(at(0), PoolId::DEFAULT, &[(A, Access::Closed)]);
    tickets.extend((0..50).map(|_| queued(arrive(&mut gate, 0, ALL))));
    gate.set_access(at(10), PoolId::DEFAULT, &[(A, Access::Open)]);
    assert_eq!(
        (running(&gate)[0], states(&gate)[0].usable, states(&gate)[0].slots),
        (2, 2, before)
    );
}
