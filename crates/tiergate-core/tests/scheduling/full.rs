//! A full backlog: who leaves it. Bounds by number and by bytes.

use crate::plans::{classes, plan, script, sources};
use crate::script::Watch;
use crate::state::{Req, State};
use crate::world::run;
use fastrand::Rng;
use tiergate_core::class::WhenFull;
use tiergate_core::schedule::Policy;

/// The ones that leave are those that the policy names first; nobody of a running session as long as
/// somebody else could.
struct WhoLeaves;

impl Watch for WhoLeaves {
    fn displaced(&mut self, state: &State, victims: &[Req], new: &Req) {
        let class = &state.plan.classes[new.class];
        let is_victim = |req: &Req| victims.iter().any(|victim| victim.id == req.id);
        let own = std::slice::from_ref(&new.class);
        let bytes: u64 = state.waiting_of(own).map(|req| u64::from(req.bytes)).sum();
        if is_victim(new) && bytes + u64::from(new.bytes) > class.queue_bytes_max {
            // Those that would have had to go may have been too small, or too many.
            return;
        }
        // Who leaves before whom; the new one is the last to come.
        let mut all: Vec<&Req> = state.waiting_of(own).collect();
        all.push(new);
        match class.when_full {
            WhenFull::RefuseNew => all.reverse(),
            WhenFull::DropOldest => {}
            WhenFull::DropLeast => {
                all.reverse();
                all.sort_by_key(|req| req.score);
            }
        }
        all.sort_by_key(|req| req.session);
        let (first, rest) = all.split_at(victims.len());
        assert!(first.iter().all(|req| is_victim(req)), "{victims:?} left before {first:?}");
        assert!(rest.iter().all(|req| !is_victim(req)));
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
