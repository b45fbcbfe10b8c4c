//! Strict priority: nobody is served while somebody more important waits (`choice` checks each grant).

use crate::plans::{classes, plan, script, sources};
use crate::script::Script;
use crate::world::run;
use fastrand::Rng;
use tiergate_core::schedule::Policy;

fn random(seed: u64) -> Script {
    let mut rng = Rng::with_seed(seed);
    let sources = sources(&mut rng, 2, |rng, source| source.sessions = rng.u8(0..50));
    let make = |rng: &mut Rng| {
        let classes = classes(rng, |_, _| ());
        plan(rng, Policy::Strict, classes)
    };
    script(&mut rng, make, sources)
}

crate::property!(the_most_important_goes_first, |seed| run(&random(seed), seed, &mut ()));
