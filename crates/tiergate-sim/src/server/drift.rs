//! Work that becomes more and less by itself.

use super::shape::Drift;
use crate::distribution::normal;
use fastrand::Rng;

/// Steps in the time over which it drifts.
const STEPS: f64 = 32.0;

/// Where it is. It has its own chance, and moves step by step whether requests come or not, so that it is the same whatever
/// the limit: else the best of many limits would be the one with the most luck.
#[derive(Debug)]
pub(super) struct Level {
    rng: Rng,
    /// In standard deviations.
    at: f64,
    steps: u64,
}

impl Level {
    pub(super) fn new(seed: u64) -> Self {
        Level { rng: Rng::with_seed(seed), at: 0.0, steps: 0 }
    }

    /// How many times its mean the work of a request is that comes now.
    pub(super) fn times(&mut self, now: u64, drift: Drift) -> f64 {
        let steps = 1 + (now as f64 * STEPS / (drift.over_s * 1e9)) as u64;
        let kept = (-1.0 / STEPS).exp();
        for step in self.steps..steps {
            let (kept, moved) =
                if step == 0 { (0.0, 1.0) } else { (kept, (1.0 - kept * kept).sqrt()) };
            self.at = self.at * kept + moved * normal(&mut self.rng);
        }
        self.steps = steps;
        (drift.sd * self.at - drift.sd * drift.sd / 2.0).exp()
    }
}
