//! Adaptive LIFO: first come, first served at rest, last come, first served under overload.

use crate::plans::{classes, plan, script, sources};
use crate::world::run;
use fastrand::Rng;
use tiergate_core::class::Order;
use tiergate_core::schedule::Policy;

/// At any moment one of the two ends of the backlog.
fn an_end(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let sources = sources(&mut rng, 2, |_, _| ());
    let make = |rng: &mut Rng| {
        let classes = classes(rng, |rng, class| {
            class.order = Order::AdaptiveLifo;
            class.deadline = std::time::Duration::from_millis(rng.u64(5..500));
        });
        plan(rng, Policy::Strict, classes)
    };
    run(&script(&mut rng, make, sources), seed, &mut ());
}

crate::property!(the_oldest_or_the_newest_goes_first, an_end);
