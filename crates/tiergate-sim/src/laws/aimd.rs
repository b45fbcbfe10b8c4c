//! Additive increase, multiplicative decrease: down by a tenth when latency exceeds twice the lowest
//! of the last minute, else up by one in ten.

use super::sampled::{Rule, Window};

/// AIMD on latency. Source: Netflix `AIMDLimit` (backoff 0.9), with a threshold that needs no
/// setting: twice the lowest window of the last 600.
#[derive(Debug)]
pub(super) struct Aimd {
    lowest_s: f64,
    lowest_next_s: f64,
    windows: u32,
}

impl Default for Aimd {
    fn default() -> Self {
        Aimd { lowest_s: f64::INFINITY, lowest_next_s: f64::INFINITY, windows: 0 }
    }
}

impl Rule for Aimd {
    fn next(&mut self, limit: f64, window: Window) -> f64 {
        let Window { latency_s, running_max } = window;
        self.windows += 1;
        self.lowest_next_s = self.lowest_next_s.min(latency_s);
        self.lowest_s = self.lowest_s.min(latency_s);
        if self.windows.is_multiple_of(600) {
            self.lowest_s = std::mem::replace(&mut self.lowest_next_s, f64::INFINITY);
        }
        if latency_s > 2.0 * self.lowest_s {
            limit * 0.9
        } else if f64::from(running_max) * 2.0 >= limit {
            limit + (limit * 0.1).max(1.0)
        } else {
            limit
        }
    }
}
