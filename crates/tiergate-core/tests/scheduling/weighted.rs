//! Weighted shares: the theorem's bound on unfairness, for costs that are known and for costs that are
//! learned; and what becomes of a class that comes back.

use crate::measure::{ByWeight, Taking};
use crate::plans::{classes, dearest, plan, script, sources};
use crate::script::{Script, Source};
use crate::state::{Req, State};
use crate::world::run;
use fastrand::Rng;
use tiergate_core::schedule::{Costing, Policy};

fn random(seed: u64, cost: Costing) -> Script {
    let mut rng = Rng::with_seed(seed);
    let mut sources = sources(&mut rng, 2, |rng, source| source.rule = Some(rng.u32(0..8)));
    // Requests of one rule cost about the same, and those of another what they like.
    for place in 0..sources.len() {
        let rule = sources[place].rule;
        let first = sources.iter().find(|source| source.rule == rule).expect("itself");
        sources[place].service = first.service;
    }
    // Long ones: what is guessed at first is small beside them.
    if cost == Costing::Seconds {
        let longer =
            |source: &mut Source| source.service = (source.service.0 * 10, source.service.1 * 10);
        sources.iter_mut().for_each(longer);
    }
    let make = |rng: &mut Rng| {
        let classes = classes(rng, |rng, class| class.weight = f64::from(rng.u32(1..=8)));
        tiergate_core::plan::Spec {
            cost,
            rules: crate::plans::rules(8),
            ..plan(rng, Policy::Weighted, classes)
        }
    };
    script(&mut rng, make, sources)
}

/// Each class of the first site.
fn by_class(state: &State) -> Vec<Taking> {
    let classes = state.plan.classes[..state.planned].iter().enumerate();
    let taking = |(place, class): (usize, &tiergate_core::class::Class)| Taking {
        weight: class.weight,
        owns: Box::new(move |_, req: &Req| req.class == place),
    };
    classes.map(taking).collect()
}

fn counts(seed: u64) {
    let mut watch = ByWeight::new(by_class, |_, _| 1.0, 1.0, |_| 1.0);
    run(&random(seed, Costing::Requests), seed, &mut watch);
}

fn work(seed: u64) {
    let mut script = random(seed, Costing::Seconds);
    // In one run of two some requests take several slots.
    let width = if seed.is_multiple_of(2) { 3 } else { 1 };
    script.sources.iter_mut().step_by(2).for_each(|source| source.slots = width);
    let largest = dearest(&script) * f64::from(width);
    let mut watch = ByWeight::new(
        by_class,
        |state, req| req.work(state.now),
        largest,
        |slots| f64::from(slots) + 1.0,
    );
    run(&script, seed, &mut watch);
}

fn bytes(seed: u64) {
    let mut script = random(seed, Costing::Bytes);
    let largest = 100_000;
    script.sources.iter_mut().for_each(|source| source.answer = largest);
    let cost = |state: &State, req: &Req| req.answered(state.now);
    let times = |slots| f64::from(slots) + 1.0;
    run(&script, seed, &mut ByWeight::new(by_class, cost, largest as f64, times));
}

crate::property!(bytes_are_shared_by_weight, bytes);
crate::property!(requests_are_shared_by_weight, counts);
crate::property!(work_is_shared_by_weight, work);
