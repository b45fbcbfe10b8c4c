//! Sites above classes: one policy between sites, and each site's own inside it.

use crate::measure::{ByWeight, Taking, WithinOneService, of_sites};
use crate::plans::{classes, longest, millis, parts, plan, script, sources};
use crate::state::{Req, State};
use crate::world::run;
use fastrand::Rng;
use tiergate_core::class::Order;
use tiergate_core::control::Slots;
use tiergate_core::plan::Spec;
use tiergate_core::schedule::{Policy, Site, SiteId};

fn with_sites(rng: &mut Rng, between: Policy, inside: &[Policy]) -> Spec {
    let classes = classes(rng, |_, _| ());
    let mut plan = plan(rng, Policy::Strict, classes);
    let count = rng.usize(1..=3);
    let slots = rng.u32(count as u32..=count as u32 + 5);
    plan.slots = Slots::Fixed(slots);
    plan.between_sites = between;
    let more = parts(rng, slots - count as u32, count);
    plan.sites = (0..count)
        .map(|place| {
            let share = f64::from(more[place] + 1) / f64::from(slots);
            Site {
                policy: inside[rng.usize(0..inside.len())],
                minimum: if rng.bool() { share } else { 0.0 },
                weight: f64::from(rng.u32(1..=5)),
                share,
                reserve: if rng.bool() { share } else { 0.0 },
                ..Site::named(["x", "y", "z"][place])
            }
        })
        .collect();
    let count_of_classes = plan.classes.len() as f64;
    for class in &mut plan.classes {
        let site = rng.usize(0..count);
        class.site = SiteId(site as u16);
        class.order = match plan.sites[site].policy {
            Policy::Deadline => Order::Deadline,
            Policy::Score { .. } => Order::Score,
            _ => Order::Fifo,
        };
        class.minimum = if rng.bool() { rng.f64() / count_of_classes } else { 0.0 };
    }
    plan
}

const INSIDE: [Policy; 5] = [
    Policy::Strict,
    Policy::Weighted,
    Policy::Deadline,
    Policy::Score { ageing: 50.0 },
    Policy::Fifo,
];

fn run_with(seed: u64, between: Policy, inside: &[Policy]) {
    let mut rng = Rng::with_seed(seed);
    let sources = sources(&mut rng, 2, |rng, source| {
        source.score = (0, rng.u32(0..=5));
        let low = millis(rng.u64(1..=100_000));
        source.deadline = Some((low, low * 5));
    });
    let script = script(&mut rng, |rng| with_sites(rng, between, inside), sources);
    run(&script, seed, &mut WithinOneService::new(of_sites, longest(&script)));
}

crate::property!(strict_between_sites, |seed| run_with(seed, Policy::Strict, &INSIDE));
crate::property!(shared_between_sites, |seed| run_with(seed, Policy::Shared, &INSIDE));
crate::property!(fixed_between_sites, |seed| run_with(seed, Policy::Fixed, &INSIDE));

// Policies that compare requests, at both levels: as if there were no sites.
crate::property!(requests_are_compared_between_sites, |seed| {
    let policy =
        [Policy::Deadline, Policy::Score { ageing: 50.0 }, Policy::Fifo][seed as usize % 3];
    run_with(seed, policy, &[policy]);
});

fn by_site(state: &State) -> Vec<Taking> {
    let taking = |(place, classes): (usize, Vec<usize>)| Taking {
        weight: state.plan.sites[place].weight,
        owns: Box::new(move |_: &State, req: &Req| classes.contains(&req.class)),
    };
    state.sites().into_iter().enumerate().map(taking).collect()
}

/// The classes of the first site: fair among themselves whatever it gets.
fn by_class(state: &State) -> Vec<Taking> {
    let taking = |place: usize| Taking {
        weight: state.plan.classes[place].weight,
        owns: Box::new(move |_: &State, req: &Req| req.class == place),
    };
    state.sites()[0].iter().copied().map(taking).collect()
}

fn weighted(seed: u64, inside: &[Policy], takers: fn(&State) -> Vec<Taking>) {
    let mut rng = Rng::with_seed(seed);
    let sources = sources(&mut rng, 2, |_, _| ());
    let script = script(&mut rng, |rng| with_sites(rng, Policy::Weighted, inside), sources);
    run(&script, seed, &mut ByWeight::new(takers, |_, _| 1.0, 1.0, |_| 1.0));
}

crate::property!(weighted_between_sites, |seed| weighted(seed, &INSIDE, by_site));
crate::property!(weighted_inside_weighted_sites, |seed| weighted(
    seed,
    &[Policy::Weighted],
    by_class
));
