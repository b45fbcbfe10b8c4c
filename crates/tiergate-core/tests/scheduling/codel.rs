//! CoDel: who has waited longest is dropped, but only once a delay above the target has stood for an
//! interval, and never the last.

use crate::plans::{classes, millis, plan, script, sources};
use crate::script::{Script, Watch};
use crate::state::{Req, State};
use crate::world::run;
use fastrand::Rng;
use std::cell::Cell;
use tiergate_core::class::Codel;
use tiergate_core::schedule::Policy;
use tiergate_core::time::Moment;

thread_local! {
    /// Requests that were dropped, by all runs of a thread.
    static DROPPED: Cell<u32> = const { Cell::new(0) };
}

/// By class, when it was last served within the target, or nobody waited.
struct Standing(Vec<Moment>);

impl Watch for Standing {
    fn started(&mut self, state: &State, req: &Req) {
        let codel = state.plan.classes[req.class].codel.expect("every class has it");
        if state.now.since(req.arrived) < codel.target {
            self.0[req.class] = state.now;
        }
    }

    fn delayed(&mut self, state: &State, req: &Req) {
        DROPPED.set(DROPPED.get() + 1);
        let codel = state.plan.classes[req.class].codel.expect("every class has it");
        let waited = state.now.since(req.arrived);
        assert!(waited >= codel.target, "{req:?} was dropped after {waited:?}");
        let stood = state.now.since(self.0[req.class]);
        assert!(stood >= codel.interval, "{req:?} was dropped when a delay stood for {stood:?}");
        let mut peers = state.waiting_of(std::slice::from_ref(&req.class));
        assert_eq!(peers.next().map(|first| first.id), Some(req.id), "another waited longer");
        assert!(peers.next().is_some(), "{req:?} was the last");
    }

    fn settled(&mut self, state: &State) {
        for (class, last) in self.0.iter_mut().enumerate() {
            if state.waiting_of(&[class]).next().is_none() {
                *last = state.now;
            }
        }
    }
}

fn only_what_stands(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let sources = sources(&mut rng, 2, |_, _| ());
    let make = |rng: &mut Rng| {
        let classes = classes(rng, |rng, class| {
            let (target, interval) = (millis(rng.u64(1..=20)), millis(rng.u64(5..=80)));
            class.codel = Some(Codel { target, interval });
        });
        let policy = [Policy::Strict, Policy::Weighted, Policy::Fifo][rng.usize(0..3)];
        plan(rng, policy, classes)
    };
    let script = Script { reloads: Vec::new(), ..script(&mut rng, make, sources) };
    let classes = script.plan.classes.len();
    run(&script, seed, &mut Standing(vec![Moment::ZERO; classes]));
}

crate::property!(only_a_delay_that_stands_is_dropped, only_what_stands);

#[test]
fn some_are_dropped() {
    (1..40).for_each(only_what_stands);
    assert!(DROPPED.get() > 20, "the property above has shown nothing");
}
