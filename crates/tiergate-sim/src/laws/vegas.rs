//! TCP Vegas for requests: the limit holds an estimated queue between two bounds.

use super::Law;
use super::gradient::Samples;
use tiergate_core::control::adaptive::{Load, Settings};
use tiergate_core::outcome::Outcome;
use tiergate_core::time::Moment;

/// Netflix `VegasLimit`, its defaults: queue between 3 and 6 times log10 of the limit; the baseline
/// is the lowest latency, forgotten every 30 windows so that it can rise.
/// Source: `com.netflix.concurrency.limits.limit.VegasLimit`.
#[derive(Debug)]
pub(super) struct Vegas {
    settings: Settings,
    limit: f64,
    lowest_s: f64,
    windows: u32,
    samples: Samples,
}

impl Vegas {
    pub(super) fn new(settings: &Settings) -> Self {
        Vegas {
            settings: settings.clone(),
            limit: f64::from(settings.slots_start),
            lowest_s: f64::INFINITY,
            windows: 0,
            samples: Samples::default(),
        }
    }
}

impl Law for Vegas {
    fn slots(&self) -> u32 {
        self.limit as u32
    }

    fn admitted(&mut self, _now: Moment, _load: Load) {}

    fn finished(&mut self, now: Moment, admitted: Moment, outcome: &Outcome, load: Load) {
        let Some(sample_s) = self.samples.add(now, admitted, outcome, load) else {
            return;
        };
        self.windows += 1;
        if self.windows.is_multiple_of(30) {
            self.lowest_s = sample_s;
        }
        self.lowest_s = self.lowest_s.min(sample_s);
        let running = std::mem::take(&mut self.samples.running_max);
        if f64::from(running) * 2.0 < self.limit {
            return;
        }
        let step = self.limit.log10().max(1.0);
        let queue = (self.limit * (1.0 - self.lowest_s / sample_s)).ceil();
        self.limit += if queue <= step {
            6.0 * step
        } else if queue < 3.0 * step {
            step
        } else if queue > 6.0 * step {
            -step
        } else {
            0.0
        };
        self.limit = self
            .limit
            .clamp(f64::from(self.settings.slots_min), f64::from(self.settings.slots_max));
    }
}
