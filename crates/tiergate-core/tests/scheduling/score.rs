//! By score: whoever has most points goes first; with ageing nobody is overtaken for ever.

use crate::plans::{classes, plan, script, sources};
use crate::script::{Script, Watch};
use crate::state::{Req, State};
use crate::world::run;
use fastrand::Rng;
use std::time::Duration;
use tiergate_core::class::Order;
use tiergate_core::schedule::Policy;

/// Highest score of a request, in points.
const POINTS: u32 = 10;

fn random(seed: u64, ageing: f64) -> Script {
    let mut rng = Rng::with_seed(seed);
    let sources = sources(&mut rng, 2, |rng, source| {
        let low = rng.u32(0..=POINTS);
        source.score = (low, rng.u32(low..=POINTS));
    });
    let make = |rng: &mut Rng| {
        let classes = classes(rng, |_, class| class.order = Order::Score);
        plan(rng, Policy::Score { ageing }, classes)
    };
    script(&mut rng, make, sources)
}

/// The bound on starvation: a request is overtaken only by those that came before it has aged by the
/// points that it lacked.
struct Starving {
    ageing: f64,
}

impl Watch for Starving {
    fn started(&mut self, state: &State, req: &Req) {
        // Those of classes that are gone come after all others.
        for other in state.waiting.iter().filter(|other| !state.is_gone(other)) {
            let lacks = (f64::from(POINTS) - other.score as f64 / 1e6).max(0.0);
            let bound = other.arrived + Duration::from_secs_f64(lacks / self.ageing + 1e-6);
            assert!(
                req.arrived <= bound,
                "request {} still waits for one that came {:?} later",
                other.id,
                req.arrived.since(other.arrived)
            );
        }
    }
}

fn most_points_first(seed: u64) {
    run(&random(seed, 0.0), seed, &mut ());
}

fn nobody_starves(seed: u64) {
    // From points that are hardly worth waiting for to a few milliseconds each.
    let ageing = [1.0, 50.0, 1000.0][seed as usize % 3];
    let mut starving = Starving { ageing };
    run(&random(seed, ageing), seed, &mut starving);
}

crate::property!(who_has_most_points_goes_first, most_points_first);
crate::property!(with_ageing_the_wait_is_bounded, nobody_starves);
