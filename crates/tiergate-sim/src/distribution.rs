//! Random durations and the few random numbers that a simulation draws.
//!
//! Not by rand_distr: its ziggurat method draws other numbers from a seed, which would change every published result of a seed (README, docs/results,
//! ADRs, tests), and it wants the generators of rand, where ours is fastrand's. It would replace two functions of one line.

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;

/// How long something takes. All parameters in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Distribution {
    /// Always the same.
    Constant {
        /// The duration.
        mean_ms: f64,
    },
    /// Evenly between two bounds.
    Uniform {
        /// Lower bound.
        low_ms: f64,
        /// Upper bound.
        high_ms: f64,
    },
    /// Exponential: coefficient of variation 1.
    Exponential {
        /// The mean.
        mean_ms: f64,
    },
    /// Log-normal, by mean and coefficient of variation.
    Lognormal {
        /// The mean.
        mean_ms: f64,
        /// Standard deviation over mean.
        cv: f64,
    },
    /// Two exponentials: most requests short, a share of them long.
    Bimodal {
        /// Mean of the short ones.
        short_ms: f64,
        /// Mean of the long ones.
        long_ms: f64,
        /// Share of the long ones, 0.0 to 1.0.
        long_share: f64,
    },
}

impl Distribution {
    /// No time at all.
    pub const NONE: Distribution = Distribution::Constant { mean_ms: 0.0 };

    /// Draws a duration, in nanoseconds.
    pub fn draw(&self, rng: &mut Rng) -> f64 {
        let ms = match *self {
            Distribution::Constant { mean_ms } => mean_ms,
            Distribution::Uniform { low_ms, high_ms } => low_ms + (high_ms - low_ms) * rng.f64(),
            Distribution::Exponential { mean_ms } => mean_ms * exponential(rng),
            Distribution::Lognormal { mean_ms, cv } => {
                let variance = (1.0 + cv * cv).ln();
                mean_ms * (variance.sqrt() * normal(rng) - variance / 2.0).exp()
            }
            Distribution::Bimodal { short_ms, long_ms, long_share } => {
                let mean = if rng.f64() < long_share { long_ms } else { short_ms };
                mean * exponential(rng)
            }
        };
        ms * 1e6
    }

    /// The mean, in seconds.
    pub fn mean(&self) -> f64 {
        let ms = match *self {
            Distribution::Constant { mean_ms }
            | Distribution::Exponential { mean_ms }
            | Distribution::Lognormal { mean_ms, .. } => mean_ms,
            Distribution::Uniform { low_ms, high_ms } => f64::midpoint(low_ms, high_ms),
            Distribution::Bimodal { short_ms, long_ms, long_share } => {
                short_ms + (long_ms - short_ms) * long_share
            }
        };
        ms / 1e3
    }
}

/// An exponential number with mean 1.
pub(crate) fn exponential(rng: &mut Rng) -> f64 {
    -(1.0 - rng.f64()).ln()
}

/// A standard normal number (Box and Muller's method).
pub(crate) fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (TAU * rng.f64()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_distribution_has_the_mean_that_it_claims() {
        let mut rng = Rng::with_seed(1);
        for distribution in [
            Distribution::Constant { mean_ms: 7.0 },
            Distribution::Uniform { low_ms: 2.0, high_ms: 6.0 },
            Distribution::Exponential { mean_ms: 3.0 },
            Distribution::Lognormal { mean_ms: 10.0, cv: 1.5 },
            Distribution::Bimodal { short_ms: 2.0, long_ms: 100.0, long_share: 0.1 },
        ] {
            let draws = 400_000;
            let sum: f64 = (0..draws).map(|_| distribution.draw(&mut rng)).sum();
            let mean = sum / f64::from(draws) / 1e9;
            let error = (mean / distribution.mean() - 1.0).abs();
            assert!(error < 0.02, "{distribution:?}: {mean}");
        }
    }
}
