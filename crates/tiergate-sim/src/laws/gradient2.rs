//! Netflix's gradient: the limit follows the ratio of a long mean of the latency to the latest.

use super::sampled::{Rule, Window};

/// Netflix `Gradient2Limit`, its defaults: tolerance 1.5, queue 4, smoothing 0.2, long window 600.
/// Source: `com.netflix.concurrency.limits.limit.Gradient2Limit`.
#[derive(Debug, Default)]
pub(super) struct Gradient2 {
    long_s: f64,
    windows: f64,
}

impl Rule for Gradient2 {
    fn next(&mut self, limit: f64, window: Window) -> f64 {
        let short_s = window.latency_s;
        // A plain mean for the first ten windows, then exponential over 600.
        self.windows += 1.0;
        let factor = if self.windows <= 10.0 { 1.0 / self.windows } else { 2.0 / 601.0 };
        self.long_s += (short_s - self.long_s) * factor;
        if self.long_s / short_s > 2.0 {
            self.long_s *= 0.95;
        }
        if f64::from(window.running_max) < limit / 2.0 {
            return limit;
        }
        let gradient = (1.5 * self.long_s / short_s).clamp(0.5, 1.0);
        limit * 0.8 + (limit * gradient + 4.0) * 0.2
    }
}
