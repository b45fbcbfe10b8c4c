//! Fixed capacity: a class has its share of the slots and never more, whoever else is idle.

use crate::choice::whole;
use crate::plans::{longest, script, sources};
use crate::script::{Script, Watch};
use crate::shared::with_shares;
use crate::state::{Req, State};
use crate::world::run;
use fastrand::Rng;
use tiergate_core::schedule::Policy;
use tiergate_core::time::Moment;

/// Nobody is started beyond the share of its class.
struct NeverMore;

impl Watch for NeverMore {
    fn started(&mut self, state: &State, req: &Req) {
        let share = state.plan.classes[req.class].share;
        // One that is gone has no share, and gets what is left.
        assert!(
            state.is_gone(req)
                || state.held(&[req.class]) <= whole(share, f64::from(state.slots()))
        );
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

/// Shares of any part of the slots: over any stretch of time a class holds no more than its share, one
/// slot-second that it saved up, and one request; and no less, by as much, while it has requests waiting.
struct OverTime {
    /// By class: slot-seconds held beyond the share, their least and, since it waits, their most.
    beyond: Vec<(f64, f64, Option<f64>)>,
    at: Moment,
    longest: f64,
}

impl OverTime {
    fn pass(&mut self, state: &State) {
        let seconds = state.now.since(self.at).as_secs_f64();
        self.at = state.now;
        for (place, class) in state.plan.classes.iter().enumerate() {
            let share = class.share * f64::from(state.slots());
            let waits = state.waiting_of(&[place]).next().is_some();
            let (beyond, least, most) = &mut self.beyond[place];
            *beyond += (f64::from(state.held(&[place])) - share) * seconds;
            *least = least.min(*beyond);
            *most = if waits { Some(most.unwrap_or(*beyond).max(*beyond)) } else { None };
            // A slot of a broken share is one slot for part of the time.
            let bound = 1.0 + share.ceil() * self.longest;
            assert!(*beyond - *least <= bound, "{place} holds {} too much", *beyond - *least);
            if let Some(most) = most {
                assert!(*most - *beyond <= bound, "{place} lacks {}", *most - *beyond);
            }
        }
    }
}

impl Watch for OverTime {
    fn started(&mut self, state: &State, req: &Req) {
        let before = state.running.len() - 1;
        debug_assert_eq!(state.running[before].id, req.id);
        self.pass(&State { running: state.running[..before].to_vec(), ..state.clone() });
    }

    fn ended(&mut self, state: &State, req: &Req, in_service: bool) {
        let mut before = state.clone();
        if in_service { &mut before.running } else { &mut before.waiting }.push(req.clone());
        self.pass(&before);
    }
}

fn over_time(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let sources = sources(&mut rng, 2, |_, _| ());
    let make = |rng: &mut Rng| {
        let mut plan = with_shares(rng, Policy::Fixed);
        let parts: Vec<f64> = plan.classes.iter().map(|_| 0.05 + rng.f64()).collect();
        let all: f64 = parts.iter().sum();
        for (class, part) in plan.classes.iter_mut().zip(parts) {
            (class.share, class.reserve) = (part / all, 0.0);
        }
        plan
    };
    let mut script = Script { reloads: Vec::new(), ..script(&mut rng, make, sources) };
    // Long enough that a slot-second more or less shows.
    script.arrivals = 300;
    for source in &mut script.sources {
        source.service = (source.service.0 * 20, source.service.1 * 20);
        source.pause *= 20;
    }
    let beyond = vec![(0.0, 0.0, None); script.plan.classes.len()];
    let longest = longest(&script).as_secs_f64();
    run(&script, seed, &mut OverTime { beyond, at: Moment::ZERO, longest });
}

crate::property!(broken_shares_hold_over_time, over_time);
crate::property!(no_class_has_more_than_its_share, never_more);
