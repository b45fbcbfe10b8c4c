//! When requests are to be sent: fixed in advance, whatever the server does.

use crate::units;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How arrivals are spread over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Arrivals {
    /// Independent of each other, as those of many people.
    #[default]
    Poisson,
    /// Evenly spaced.
    Constant,
}

/// A rate that lasts for a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    /// Requests (sessions) a second; 0 is a pause.
    pub(crate) rate: f64,
    /// How long.
    #[serde(with = "units::text")]
    pub(crate) lasting: Duration,
}

/// When each step of a population ends.
pub(super) struct Ends(Vec<Duration>);

impl Ends {
    /// The ends of those steps, one after another.
    pub(super) fn of(steps: &[Step]) -> Self {
        let ends = steps.iter().scan(Duration::ZERO, |end, step| {
            *end += step.lasting;
            Some(*end)
        });
        Self(ends.collect())
    }

    /// The step during which that time since the beginning lies; `None` after the last.
    pub(super) fn step_at(&self, at: Duration) -> Option<usize> {
        let step = self.0.partition_point(|end| *end <= at);
        (step < self.0.len()).then_some(step)
    }
}

/// A draw from the exponential distribution of mean 1. Not by rand_distr, whose method draws other numbers from a seed: the lab's results are kept and
/// compared by seed.
pub(crate) fn exponential(random: &mut fastrand::Rng) -> f64 {
    // 1 - u lies in (0, 1], whose logarithm is finite.
    -(1.0 - random.f64()).ln()
}

/// The intended sending times of a population, in order.
pub(crate) struct Schedule {
    steps: Vec<Step>,
    arrivals: Arrivals,
    random: fastrand::Rng,
    step: usize,
    step_begin: Duration,
    /// Since the step began.
    elapsed: Duration,
}

impl Schedule {
    /// The times of `steps`, one after another.
    pub(crate) fn new(steps: &[Step], arrivals: Arrivals, seed: u64) -> Self {
        let (step_begin, elapsed) = (Duration::ZERO, Duration::ZERO);
        let random = fastrand::Rng::with_seed(seed);
        Self { steps: steps.to_vec(), arrivals, random, step: 0, step_begin, elapsed }
    }

    /// Time until the next arrival; `None` at rate 0.
    fn gap(&mut self, rate: f64) -> Option<Duration> {
        let mean = 1.0 / rate;
        let gap = match self.arrivals {
            Arrivals::Constant => mean,
            Arrivals::Poisson => mean * exponential(&mut self.random),
        };
        // A day is as good as never and keeps the sum in range.
        (rate > 0.0).then(|| Duration::from_secs_f64(gap.min(86_400.0)))
    }
}

impl Iterator for Schedule {
    /// Number of the step, and time since the schedule began.
    type Item = (usize, Duration);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let step = *self.steps.get(self.step)?;
            if let Some(gap) = self.gap(step.rate) {
                self.elapsed += gap;
                if self.elapsed <= step.lasting {
                    return Some((self.step, self.step_begin + self.elapsed));
                }
            }
            self.step += 1;
            self.step_begin += step.lasting;
            self.elapsed = Duration::ZERO;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: [Step; 3] = [
        Step { rate: 100.0, lasting: Duration::from_secs(10) },
        Step { rate: 0.0, lasting: Duration::from_secs(5) },
        Step { rate: 1000.0, lasting: Duration::from_secs(10) },
    ];

    fn counts(arrivals: Arrivals) -> [usize; 3] {
        let mut counts = [0; 3];
        let mut last = Duration::ZERO;
        for (step, at) in Schedule::new(&STEPS, arrivals, 3) {
            let begin = [0, 10, 15][step];
            assert!(at >= last && at >= Duration::from_secs(begin));
            assert!(at <= Duration::from_secs(begin) + STEPS[step].lasting);
            last = at;
            counts[step] += 1;
        }
        counts
    }

    #[test]
    fn constant_arrivals_are_exact() {
        assert_eq!(counts(Arrivals::Constant), [1000, 0, 10_000]);
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_the_spread() {
        let [slow, pause, fast] = counts(Arrivals::Poisson);
        // Within four standard deviations of the Poisson distribution.
        assert!(slow.abs_diff(1000) < 127 && fast.abs_diff(10_000) < 400, "{slow} {fast}");
        assert_eq!(pause, 0);
        let times: Vec<f64> = Schedule::new(&STEPS[..1], Arrivals::Poisson, 3)
            .map(|(_, at)| at.as_secs_f64())
            .collect();
        let gaps: Vec<f64> = times.windows(2).map(|w| w[1] - w[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let deviation =
            (gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        // Exponential gaps deviate by their mean; even ones by nothing.
        assert!((0.85..1.15).contains(&(deviation / mean)), "{deviation} {mean}");
    }

    #[test]
    fn a_time_lies_in_one_step() {
        let at = |seconds| Ends::of(&STEPS).step_at(Duration::from_secs_f64(seconds));
        assert_eq!([at(0.0), at(9.9), at(10.0), at(15.0)], [Some(0), Some(0), Some(1), Some(2)]);
        assert_eq!((at(24.9), at(25.0)), (Some(2), None));
    }

    #[test]
    fn a_seed_repeats_a_schedule() {
        let times = |seed| Schedule::new(&STEPS, Arrivals::Poisson, seed).collect::<Vec<_>>();
        assert_eq!(times(1), times(1));
        assert_ne!(times(1), times(2));
    }
}
