//! Requests that take several slots: the one that is next keeps what is free until it fits, so that narrow
//! ones do not pass it for ever (`world` checks each grant and each idle slot).

use crate::plans::{classes, plan, script, sources};
use crate::world::run;
use fastrand::Rng;
use tiergate_core::class::Order;
use tiergate_core::control::Slots;
use tiergate_core::schedule::Policy;

fn several_slots(seed: u64, policy: Policy) {
    let mut rng = Rng::with_seed(seed);
    let sources = sources(&mut rng, 2, |rng, source| source.slots = rng.u16(1..=5));
    let make = |rng: &mut Rng| {
        let classes = classes(rng, |rng, class| {
            class.weight = f64::from(rng.u32(1..=4));
            class.order = if policy == Policy::Deadline { Order::Deadline } else { Order::Fifo };
        });
        let mut plan = plan(rng, policy, classes);
        plan.slots = Slots::Fixed(rng.u32(3..=8));
        plan
    };
    run(&script(&mut rng, make, sources), seed, &mut ());
}

crate::property!(strict_by_width, |seed| several_slots(seed, Policy::Strict));
crate::property!(weighted_by_width, |seed| several_slots(seed, Policy::Weighted));
crate::property!(in_order_by_width, |seed| several_slots(seed, Policy::Fifo));
