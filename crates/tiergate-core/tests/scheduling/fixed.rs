//! Fixed capacity: a class has its share of the slots and never more, whoever else is idle.

use crate::plans::{script, sources};
use crate::shared::with_shares;
use crate::state::{Req, State};
use crate::world::{Watch, run};
use crate::choice::whole;
use fastrand::Rng;
use tiergate_core::schedule::Policy;

/// Nobody is started beyond the share of its class.
struct NeverMore;

impl Watch for NeverMore {
    fn started(&mut self, state: &State, req: &Req) {
        let share = state.plan.classes[req.class].share;
        assert!(state.held(&[req.class]) <= whole(share, f64::from(state.slots())));
    }
}

fn never_more(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let sources = sources(&mut rng, 2, |_, _| ());
    let make = |rng: &mut Rng| {
        let mut plan = with_shares(rng, Policy::Fixed);
        plan.classes.iter_mut().for_each(|class| class.reserve = 0.0);
        plan
    };
    run(&script(&mut rng, make, sources), seed, &mut NeverMore);
}

crate::property!(no_class_has_more_than_its_share, never_more);
