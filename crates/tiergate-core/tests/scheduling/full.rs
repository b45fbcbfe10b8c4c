//! A full backlog: who leaves it. Bounds by number and by bytes.

use crate::plans::{classes, plan, script, sources};
use crate::state::{Req, State};
use crate::world::{Watch, run};
use fastrand::Rng;
use tiergate_core::class::WhenFull;
use tiergate_core::schedule::Policy;

/// The one that leaves is the one that the policy names; of those that do not belong to a running
/// session, unless all do.
struct WhoLeaves;

impl Watch for WhoLeaves {
    fn displaced(&mut self, state: &State, victim: &Req, new: &Req) {
        let class = &state.plan.classes[new.class];
        let mut all: Vec<&Req> = state.waiting_of(std::slice::from_ref(&new.class)).collect();
        if all.iter().all(|req| req.id != new.id) {
            all.push(new);
        }
        if victim.session {
            assert!(all.iter().all(|req| req.session), "one without a session could leave");
        }
        all.retain(|req| req.session == victim.session);
        // In order of arrival; the new one is the last.
        let expected = match class.when_full {
            WhenFull::RefuseNew => all.last(),
            WhenFull::DropOldest => all.first(),
            WhenFull::DropLeast => all.iter().rev().min_by_key(|req| req.score),
        };
        let expected = expected.expect("at least the victim").id;
        assert_eq!(victim.id, expected, "{:?} of {all:?}", class.when_full);
    }
}

fn who_leaves(seed: u64, bytes: bool) {
    let mut rng = Rng::with_seed(seed);
    let sessions = if rng.bool() { 30 } else { 0 };
    let sources = sources(&mut rng, 2, |rng, source| {
        source.score = (0, rng.u32(0..=3));
        source.sessions = sessions;
        source.bytes = if bytes { 1000 } else { 0 };
    });
    let make = |rng: &mut Rng| {
        let classes = classes(rng, |rng, class| {
            class.when_full =
                [WhenFull::RefuseNew, WhenFull::DropOldest, WhenFull::DropLeast][rng.usize(0..3)];
            class.queue_len_max = if bytes { 10_000 } else { rng.u32(0..=6) };
            class.queue_bytes_max = if bytes { rng.u64(0..=4000) } else { u64::MAX };
        });
        plan(rng, Policy::Strict, classes)
    };
    run(&script(&mut rng, make, sources), seed, &mut WhoLeaves);
}

crate::property!(the_right_one_leaves_a_full_backlog, |seed| who_leaves(seed, false));
crate::property!(the_right_ones_leave_for_bytes, |seed| who_leaves(seed, true));
