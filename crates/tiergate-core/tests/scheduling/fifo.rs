//! First come, first served, whatever the class.

use crate::plans::{classes, millis, plan, script, sources};
use crate::world::run;
use fastrand::Rng;
use tiergate_core::schedule::Policy;

fn in_order_of_arrival(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    // Deadlines that nobody reaches, and scores: neither matters.
    let sources = sources(&mut rng, 2, |rng, source| {
        let low = millis(rng.u64(10_000..1_000_000));
        (source.deadline, source.score) = (Some((low, low * 2)), (0, 10));
    });
    let make = |rng: &mut Rng| {
        let classes = classes(rng, |_, _| ());
        plan(rng, Policy::Fifo, classes)
    };
    run(&script(&mut rng, make, sources), seed, &mut ());
}

crate::property!(who_comes_first_is_served_first, in_order_of_arrival);
