//! Gradient laws: the limit follows the ratio of a baseline latency to the latest.

use super::Law;
use tiergate_core::control::adaptive::{Load, Settings};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::time::Moment;

/// Latency of one window of samples.
#[derive(Debug, Default)]
pub(super) struct Samples {
    sum_s: f64,
    count: u32,
    since: Moment,
    pub(super) running_max: u32,
}

impl Samples {
    /// Adds an answer; the mean when the window is over (100 ms and 10 samples).
    pub(super) fn add(
        &mut self,
        now: Moment,
        admitted: Moment,
        outcome: &Outcome,
        load: Load,
    ) -> Option<f64> {
        self.running_max = self.running_max.max(load.running);
        if outcome.end == End::Served {
            self.sum_s += outcome.first_byte.unwrap_or_else(|| now.since(admitted)).as_secs_f64();
            self.count += 1;
        }
        if self.count < 10 || now.since(self.since).as_millis() < 100 {
            return None;
        }
        let mean = self.sum_s / f64::from(self.count);
        self.sum_s = 0.0;
        self.count = 0;
        self.since = now;
        Some(mean)
    }
}

/// Netflix `Gradient2Limit`, its defaults: tolerance 1.5, queue 4, smoothing 0.2, long window 600.
/// Source: `com.netflix.concurrency.limits.limit.Gradient2Limit`.
#[derive(Debug)]
pub(super) struct Gradient2 {
    settings: Settings,
    limit: f64,
    long_s: f64,
    seen: f64,
    samples: Samples,
}

impl Gradient2 {
    pub(super) fn new(settings: &Settings) -> Self {
        Gradient2 {
            settings: settings.clone(),
            limit: f64::from(settings.slots_start),
            long_s: 0.0,
            seen: 0.0,
            samples: Samples::default(),
        }
    }
}

impl Law for Gradient2 {
    fn slots(&self) -> u32 {
        self.limit as u32
    }

    fn admitted(&mut self, _now: Moment, _load: Load) {}

    fn finished(&mut self, now: Moment, admitted: Moment, outcome: &Outcome, load: Load) {
        let Some(short_s) = self.samples.add(now, admitted, outcome, load) else {
            return;
        };
        // A plain mean for the first ten windows, then exponential over 600.
        self.seen += 1.0;
        let factor = if self.seen <= 10.0 { 1.0 / self.seen } else { 2.0 / 601.0 };
        self.long_s += (short_s - self.long_s) * factor;
        if self.long_s / short_s > 2.0 {
            self.long_s *= 0.95;
        }
        let running = std::mem::take(&mut self.samples.running_max);
        if f64::from(running) < self.limit / 2.0 {
            return;
        }
        let gradient = (1.5 * self.long_s / short_s).clamp(0.5, 1.0);
        self.limit = self.limit * 0.8 + (self.limit * gradient + 4.0) * 0.2;
        self.limit = self
            .limit
            .clamp(f64::from(self.settings.slots_min), f64::from(self.settings.slots_max));
    }
}

/// Envoy's gradient controller, its defaults: every 60 s the limit falls to 3 until 50 answers give
/// a new minimum; buffer 25 %; gradient 0.5 to 2.
/// Source: Envoy, `adaptive_concurrency/controller/gradient_controller.cc`.
#[derive(Debug)]
pub(super) struct Envoy {
    settings: Settings,
    limit: f64,
    minimum_s: f64,
    measuring: Option<(f64, u32)>,
    measured: Moment,
    samples: Samples,
}

impl Envoy {
    pub(super) fn new(settings: &Settings) -> Self {
        Envoy {
            settings: settings.clone(),
            limit: 3.0,
            minimum_s: 0.0,
            measuring: Some((0.0, 0)),
            measured: Moment::ZERO,
            samples: Samples::default(),
        }
    }
}

impl Law for Envoy {
    fn slots(&self) -> u32 {
        match self.measuring {
            Some(_) => 3,
            None => self.limit as u32,
        }
    }

    fn admitted(&mut self, _now: Moment, _load: Load) {}

    fn finished(&mut self, now: Moment, admitted: Moment, outcome: &Outcome, load: Load) {
        if let Some((sum_s, count)) = &mut self.measuring {
            if outcome.end == End::Served && admitted >= self.measured {
                *sum_s += now.since(admitted).as_secs_f64();
                *count += 1;
            }
            if *count >= 50 {
                self.minimum_s = *sum_s / f64::from(*count);
                self.measuring = None;
                self.measured = now;
            }
            return;
        }
        if now.since(self.measured).as_secs() >= 60 {
            self.measuring = Some((0.0, 0));
            self.measured = now;
            return;
        }
        if let Some(sample_s) = self.samples.add(now, admitted, outcome, load) {
            let gradient = (self.minimum_s * 1.25 / sample_s).clamp(0.5, 2.0);
            self.limit = (gradient * self.limit + self.limit.sqrt())
                .clamp(3.0, f64::from(self.settings.slots_max).min(1000.0));
        }
    }
}
