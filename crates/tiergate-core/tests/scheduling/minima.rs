//! Strict priority with minimum shares: what is lent comes back within one service time, and beyond the
//! minimums the order is strict.

use crate::measure::{WithinOneService, minimums};
use crate::plans::{class, classes, longest, parts, plan, script, sources};
use crate::script::{Script, Source};
use crate::world::run;
use fastrand::Rng;
use tiergate_core::control::Slots;
use tiergate_core::plan::Spec;
use tiergate_core::schedule::Policy;
use tiergate_core::time::Moment;

/// Minimums of whole slots, or of any part.
fn with_minimums(rng: &mut Rng, is_whole: bool) -> Spec {
    let classes = classes(rng, |_, _| ());
    let mut plan = plan(rng, Policy::Strict, classes);
    let slots = rng.u32(1..=8);
    plan.slots = Slots::Fixed(slots);
    let parts = parts(rng, slots, plan.classes.len());
    for (class, part) in plan.classes.iter_mut().zip(parts) {
        let broken = if is_whole || part == 0 { 0.0 } else { rng.f64() };
        class.minimum = (f64::from(part) - broken) / f64::from(slots);
    }
    plan
}

fn random(seed: u64, is_whole: bool) -> Script {
    let mut rng = Rng::with_seed(seed);
    let sources = sources(&mut rng, 2, |_, _| ());
    script(&mut rng, |rng| with_minimums(rng, is_whole), sources)
}

fn keeps_minimums(seed: u64, is_whole: bool) {
    let script = random(seed, is_whole);
    run(&script, seed, &mut WithinOneService::new(minimums, longest(&script)));
}

crate::property!(whole_minimums_are_there_within_one_service_time, |seed| keeps_minimums(
    seed, true
));
crate::property!(broken_minimums_do_not_keep_whole_ones_waiting, |seed| keeps_minimums(
    seed, false
));

/// 58 % of 50 slots are 29, which `0.58 * 50.0` is not: a share in percent is whole all the same.
#[test]
fn whole_slots_of_a_decimal_share_are_whole() {
    for (percent, slots) in [(58, 50), (29, 100), (57, 100), (7, 100)] {
        let mut classes = vec![class("a"), class("b")];
        classes[1].minimum = f64::from(percent) / 100.0;
        let mut plan = plan(&mut Rng::with_seed(1), Policy::Strict, classes);
        plan.slots = Slots::Fixed(slots);
        let sources = ["a", "b"].map(|name| Source { users: slots + 10, ..Source::of(name, 0) });
        let until = Moment::from_millis(100);
        let script = Script {
            plan,
            reloads: Vec::new(),
            sources: sources.to_vec(),
            arrivals: u32::MAX,
            until,
            cancelled: 0,
        };
        run(&script, 1, &mut WithinOneService::new(minimums, longest(&script)));
    }
}
