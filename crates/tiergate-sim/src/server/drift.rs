//! Work that becomes more and less by itself.

use super::shape::Drift;
use crate::distribution::normal;
use fastrand::Rng;

/// Where it is.
#[derive(Debug, Default)]
pub(super) struct Level {
    /// In standard deviations; absent until it is looked at.
    at: Option<f64>,
    seen: u64,
}

impl Level {
    /// How many times its mean the work of a request is that comes now.
    pub(super) fn times(&mut self, now: u64, drift: Drift, rng: &mut Rng) -> f64 {
        let kept = match self.at {
            Some(_) => (-((now - self.seen) as f64) / (drift.over_s * 1e9)).exp(),
            None => 0.0,
        };
        let at = self.at.unwrap_or(0.0) * kept + (1.0 - kept * kept).sqrt() * normal(rng);
        (self.at, self.seen) = (Some(at), now);
        (drift.sd * at - drift.sd * drift.sd / 2.0).exp()
    }
}
