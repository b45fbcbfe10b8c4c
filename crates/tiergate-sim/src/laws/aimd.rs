//! Additive increase, multiplicative decrease: down by a tenth when latency exceeds twice the lowest
//! of the last minute, else up by one in ten.

use super::Law;
use super::gradient::Samples;
use tiergate_core::control::adaptive::{Load, Settings};
use tiergate_core::outcome::Outcome;
use tiergate_core::time::Moment;

/// AIMD on latency. Source: Netflix `AIMDLimit` (backoff 0.9), with a threshold that needs no
/// setting: twice the lowest window of the last 600.
#[derive(Debug)]
pub(super) struct Aimd {
    settings: Settings,
    limit: f64,
    lowest_s: f64,
    lowest_next_s: f64,
    windows: u32,
    samples: Samples,
}

impl Aimd {
    pub(super) fn new(settings: &Settings) -> Self {
        Aimd {
            settings: settings.clone(),
            limit: f64::from(settings.slots_start),
            lowest_s: f64::INFINITY,
            lowest_next_s: f64::INFINITY,
            windows: 0,
            samples: Samples::default(),
        }
    }
}

impl Law for Aimd {
    fn slots(&self) -> u32 {
        self.limit as u32
    }

    fn admitted(&mut self, _now: Moment, _load: Load) {}

    fn finished(&mut self, now: Moment, admitted: Moment, outcome: &Outcome, load: Load) {
        let Some(sample_s) = self.samples.add(now, admitted, outcome, load) else {
            return;
        };
        self.windows += 1;
        self.lowest_next_s = self.lowest_next_s.min(sample_s);
        self.lowest_s = self.lowest_s.min(sample_s);
        if self.windows.is_multiple_of(600) {
            self.lowest_s = std::mem::replace(&mut self.lowest_next_s, f64::INFINITY);
        }
        let running = std::mem::take(&mut self.samples.running_max);
        if sample_s > 2.0 * self.lowest_s {
            self.limit *= 0.9;
        } else if f64::from(running) * 2.0 >= self.limit {
            self.limit += (self.limit * 0.1).max(1.0);
        }
        self.limit = self
            .limit
            .clamp(f64::from(self.settings.slots_min), f64::from(self.settings.slots_max));
    }
}
