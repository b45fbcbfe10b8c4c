//! Envoy's gradient: the limit follows the ratio of a measured minimum of the latency to the latest.

use super::sampled::Samples;
use tiergate_core::control::{Bounds, Completion, Law, Step};
use tiergate_core::outcome::End;
use tiergate_core::time::Moment;

/// Envoy's gradient controller, its defaults: every 60 s the limit falls to 3 until 50 answers give
/// a new minimum; buffer 25 %; gradient 0.5 to 2.
/// Source: Envoy, `adaptive_concurrency/controller/gradient_controller.cc`.
#[derive(Debug)]
pub(super) struct Envoy {
    slots_max: f64,
    limit: f64,
    minimum_s: f64,
    measuring: Option<(f64, u32)>,
    measured: Moment,
    samples: Samples,
}

impl Envoy {
    pub(super) fn new(bounds: &Bounds) -> Self {
        Envoy {
            slots_max: f64::from(bounds.slots_max).min(1000.0),
            limit: 3.0,
            minimum_s: 0.0,
            measuring: Some((0.0, 0)),
            measured: Moment::ZERO,
            samples: Samples::default(),
        }
    }

    fn count(&mut self, completion: &Completion<'_>) {
        let Completion { now, admitted, outcome, .. } = *completion;
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
        } else if now.since(self.measured).as_secs() >= 60 {
            self.measuring = Some((0.0, 0));
            self.measured = now;
        } else if let Some(window) = self.samples.add(completion) {
            let gradient = (self.minimum_s * 1.25 / window.latency_s).clamp(0.5, 2.0);
            self.limit = (gradient * self.limit + self.limit.sqrt()).clamp(3.0, self.slots_max);
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

    fn finished(&mut self, completion: &Completion<'_>) -> Option<Step> {
        let before = self.slots();
        self.count(completion);
        Step::between(before, self.slots())
    }
}
