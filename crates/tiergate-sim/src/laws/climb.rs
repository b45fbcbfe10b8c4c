//! Hill climbing on throughput: windows at the limit and a quarter above it, in turn; a step up when
//! the throughput grew by more than half as much, a step down otherwise.

use tiergate_core::control::{Bounds, Completion, Law, Step};
use tiergate_core::outcome::End;
use tiergate_core::time::Moment;

/// The paired climb, without memory: what the product's law is when it forgets every pair.
#[derive(Debug)]
pub(super) struct Climb {
    bounds: Bounds,
    base: f64,
    above: bool,
    rate_base: f64,
    served: u32,
    since: Moment,
    latency_s: f64,
}

const RATIO: f64 = 1.25;

impl Climb {
    pub(super) fn new(bounds: Bounds) -> Self {
        Climb {
            base: f64::from(bounds.slots_start),
            bounds,
            above: false,
            rate_base: 0.0,
            served: 0,
            since: Moment::ZERO,
            latency_s: 0.0,
        }
    }
}

impl Law for Climb {
    fn slots(&self) -> u32 {
        let base = self.base as u32;
        if self.above { ((self.base * RATIO) as u32).max(base + 1) } else { base }
    }

    fn finished(&mut self, completion: &Completion<'_>) -> Option<Step> {
        let Completion { now, admitted, outcome, load, .. } = *completion;
        if outcome.end == End::Served {
            self.latency_s += (now.since(admitted).as_secs_f64() - self.latency_s) / 32.0;
            self.served += 1;
        }
        if load.waiting == 0 {
            self.served = 0;
            self.since = now;
            return None;
        }
        let elapsed_s = now.since(self.since).as_secs_f64();
        if self.served < 50 || elapsed_s < (2.0 * self.latency_s).max(0.025) {
            return None;
        }
        let rate = f64::from(self.served) / elapsed_s;
        self.served = 0;
        self.since = now;
        let before = self.slots();
        if self.above {
            let ratio = f64::from(before) / self.base;
            let grew = (rate / self.rate_base).ln() > 0.5 * ratio.ln();
            let base = if grew { self.base * ratio } else { self.base * 0.95 };
            let Bounds { slots_min, slots_max, .. } = self.bounds;
            self.base = base.clamp(f64::from(slots_min), f64::from(slots_max));
        } else {
            self.rate_base = rate;
        }
        self.above = !self.above;
        Step::between(before, self.slots())
    }
}
