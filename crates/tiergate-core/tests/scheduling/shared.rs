//! Shared capacity: each has its share within one service time, what it does not use is lent, and a
//! reserve never is.

use crate::measure::{WithinOneService, shares};
use crate::plans::{classes, longest, parts, plan, script, sources};
use crate::script::Script;
use crate::world::run;
use fastrand::Rng;
use tiergate_core::control::Slots;
use tiergate_core::plan::Spec;
use tiergate_core::schedule::Policy;

pub(crate) fn with_shares(rng: &mut Rng, policy: Policy) -> Spec {
    let classes = classes(rng, |_, _| ());
    let count = classes.len() as u32;
    let mut plan = plan(rng, policy, classes);
    let slots = rng.u32(count..=count + 6);
    plan.slots = Slots::Fixed(slots);
    // Every class has a slot; the others are anybody's.
    let more = parts(rng, slots - count, count as usize);
    for (class, more) in plan.classes.iter_mut().zip(more) {
        let share = more + 1;
        let reserve = if rng.bool() { rng.u32(0..=share) } else { 0 };
        class.share = f64::from(share) / f64::from(slots);
        class.reserve = f64::from(reserve) / f64::from(slots);
    }
    plan
}

fn random(seed: u64) -> Script {
    let mut rng = Rng::with_seed(seed);
    let sources = sources(&mut rng, 2, |_, _| ());
    script(&mut rng, |rng| with_shares(rng, Policy::Shared), sources)
}

fn keeps_shares(seed: u64) {
    let script = random(seed);
    run(&script, seed, &mut WithinOneService::new(shares, longest(&script)));
}

crate::property!(shares_come_back_and_reserves_stay, keeps_shares);
