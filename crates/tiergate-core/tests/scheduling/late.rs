//! Those whose deadline has passed, where they are served last instead of refused: after all that are
//! not late, until they have waited twice their deadline (`inside` and `choice` check each grant, `world`
//! each refusal).

use crate::plans::{classes, millis, plan, script, sources};
use crate::script::Watch;
use crate::state::{Req, State};
use crate::world::run;
use fastrand::Rng;
use std::cell::Cell;
use tiergate_core::class::{Late, Order};
use tiergate_core::schedule::Policy;

thread_local! {
    /// Late requests that were served, by all runs of a thread.
    static SERVED_LATE: Cell<u32> = const { Cell::new(0) };
}

struct CountLate;

impl Watch for CountLate {
    fn started(&mut self, state: &State, req: &Req) {
        SERVED_LATE.set(SERVED_LATE.get() + u32::from(state.is_late(req)));
    }
}

fn last(seed: u64, policy: Policy) {
    let mut rng = Rng::with_seed(seed);
    let sources = sources(&mut rng, 2, |_, _| ());
    let make = |rng: &mut Rng| {
        let classes = classes(rng, |rng, class| {
            class.late = Late::Last;
            class.deadline = millis(rng.u64(5..=60));
            class.order = if policy == Policy::Deadline { Order::Deadline } else { Order::Fifo };
        });
        plan(rng, policy, classes)
    };
    run(&script(&mut rng, make, sources), seed, &mut CountLate);
}

crate::property!(the_late_go_last_in_their_class, |seed| last(seed, Policy::Strict));
crate::property!(the_late_go_last_of_all_by_deadline, |seed| last(seed, Policy::Deadline));

#[test]
fn some_are_served_late() {
    (1..20).for_each(|seed| last(seed, Policy::Strict));
    assert!(SERVED_LATE.get() > 0, "the properties above have shown nothing");
}
