//! First come, first served, whatever the class.

use crate::plans::{classes, plan, script, sources};
use crate::world::run;
use fastrand::Rng;
use tiergate_core::schedule::Policy;

fn in_order_of_arrival(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let sources = sources(&mut rng, 2, |_, _| ());
    let make = |rng: &mut Rng| {
        let classes = classes(rng, |_, _| ());
        plan(rng, Policy::Fifo, classes)
    };
    run(&script(&mut rng, make, sources), seed, &mut ());
}

crate::property!(who_comes_first_is_served_first, in_order_of_arrival);
