//! Laws that go by latency: what they have in common.

use std::fmt::Debug;
use tiergate_core::control::{Bounds, Completion, Law, Step};
use tiergate_core::outcome::End;
use tiergate_core::time::Moment;

/// A window of answers: 100 ms and 10 answers at least.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Mean latency, in seconds.
    pub(super) latency_s: f64,
    /// Most requests in progress at once.
    pub(super) running_max: u32,
}

/// The window under way.
#[derive(Debug, Default)]
pub(super) struct Samples {
    sum_s: f64,
    count: u32,
    since: Moment,
    running_max: u32,
}

impl Samples {
    /// Adds the end of a request; the window if it is over.
    pub(super) fn add(&mut self, completion: &Completion<'_>) -> Option<Window> {
        let Completion { now, admitted, outcome, load, .. } = *completion;
        self.running_max = self.running_max.max(load.running);
        if outcome.end == End::Served {
            self.sum_s += outcome.first_byte.unwrap_or_else(|| now.since(admitted)).as_secs_f64();
            self.count += 1;
        }
        if self.count < 10 || now.since(self.since).as_millis() < 100 {
            return None;
        }
        let latency_s = self.sum_s / f64::from(self.count);
        let Samples { running_max, .. } =
            std::mem::replace(self, Samples { since: now, ..Samples::default() });
        Some(Window { latency_s, running_max })
    }
}

/// What a law makes of each window.
pub(super) trait Rule: Debug + Send {
    /// The limit after a window; it is kept within the bounds.
    fn next(&mut self, limit: f64, window: Window) -> f64;
}

/// A law that sets the limit after each window.
#[derive(Debug)]
pub(super) struct Sampled<R> {
    bounds: Bounds,
    limit: f64,
    samples: Samples,
    rule: R,
}

impl<R> Sampled<R> {
    pub(super) fn new(bounds: Bounds, rule: R) -> Self {
        let limit = f64::from(bounds.slots_start);
        Sampled { bounds, limit, samples: Samples::default(), rule }
    }
}

impl<R: Rule> Law for Sampled<R> {
    fn slots(&self) -> u32 {
        self.limit as u32
    }

    fn finished(&mut self, completion: &Completion<'_>) -> Option<Step> {
        let window = self.samples.add(completion)?;
        let before = self.slots();
        let Bounds { slots_min, slots_max, .. } = self.bounds;
        let next = self.rule.next(self.limit, window);
        self.limit = next.clamp(f64::from(slots_min), f64::from(slots_max));
        Step::between(before, self.slots())
    }
}
