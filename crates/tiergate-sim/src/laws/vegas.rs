//! TCP Vegas for requests: the limit holds an estimated queue between two bounds.

use super::sampled::{Rule, Window};

/// Netflix `VegasLimit`, its defaults: queue between 3 and 6 times log10 of the limit; the baseline
/// is the lowest latency, forgotten every 30 windows so that it can rise.
/// Source: `com.netflix.concurrency.limits.limit.VegasLimit`.
#[derive(Debug)]
pub(super) struct Vegas {
    lowest_s: f64,
    windows: u32,
}

impl Default for Vegas {
    fn default() -> Self {
        Vegas { lowest_s: f64::INFINITY, windows: 0 }
    }
}

impl Rule for Vegas {
    fn next(&mut self, limit: f64, window: Window) -> f64 {
        let Window { latency_s, running_max } = window;
        self.windows += 1;
        if self.windows.is_multiple_of(30) {
            self.lowest_s = latency_s;
        }
        self.lowest_s = self.lowest_s.min(latency_s);
        if f64::from(running_max) * 2.0 < limit {
            return limit;
        }
        let step = limit.log10().max(1.0);
        let queue = (limit * (1.0 - self.lowest_s / latency_s)).ceil();
        limit
            + if queue <= step {
                6.0 * step
            } else if queue < 3.0 * step {
                step
            } else if queue > 6.0 * step {
                -step
            } else {
                0.0
            }
    }
}
