//! Client populations: who sends requests of a class, how often, and how long they wait.

use crate::distribution::{Distribution, exponential};
use fastrand::Rng;
use serde::Deserialize;

/// Clients that send requests of one class.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Population {
    /// The class's name.
    pub class: String,
    /// How requests come about.
    pub arrivals: Arrivals,
    /// How long a client waits for the whole answer before it leaves.
    pub patience_ms: f64,
    /// How often a client tries again after a refusal or a failure.
    #[serde(default)]
    pub retries: u32,
    /// How long it waits before it tries again, on average.
    #[serde(default = "retry_after")]
    pub retry_after_ms: f64,
    /// When the population begins, in seconds.
    #[serde(default)]
    pub from_s: f64,
    /// When it ends.
    #[serde(default = "forever")]
    pub to_s: f64,
}

fn retry_after() -> f64 {
    1000.0
}

fn forever() -> f64 {
    f64::INFINITY
}

/// How requests come about.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Arrivals {
    /// Open loop, at random: the clients do not know of each other.
    Poisson {
        /// The rate over time.
        rate: Profile,
    },
    /// Open loop, evenly spaced.
    Constant {
        /// The rate over time.
        rate: Profile,
    },
    /// Closed loop: each user waits for the answer, thinks, and sends the next.
    Closed {
        /// How many users.
        users: u32,
        /// Time between an answer and the next request.
        think: Distribution,
    },
    /// Sessions come open loop, at random; in each, a request follows the answer to the one before
    /// after a think time. A session that does not get an answer is broken off.
    Sessions {
        /// Sessions a second over time.
        rate: Profile,
        /// Requests of a whole session.
        requests: u32,
        /// Time between an answer and the next request.
        think: Distribution,
        /// How much more work than one is drawn each request is, in order; then 1.
        #[serde(default)]
        work: Vec<f64>,
        /// The first request, from 0, that carries a cookie which says that the session is important;
        /// absent: none does.
        #[serde(default)]
        important_from: Option<u32>,
    },
}

/// A rate in requests/s: one number, or points `[second, rate]` joined by steps or ramps.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Profile {
    /// Always the same.
    Flat(f64),
    /// Changes at given times.
    Points {
        /// `[second, rate]`, in order of time.
        points: Vec<[f64; 2]>,
        /// Whether the rate moves evenly from point to point instead of jumping.
        #[serde(default)]
        ramp: bool,
    },
}

impl Profile {
    /// The rate at `second`.
    pub fn at(&self, second: f64) -> f64 {
        let (points, ramp) = match self {
            Profile::Flat(rate) => return *rate,
            Profile::Points { points, ramp } => (points, *ramp),
        };
        let after = points.partition_point(|point| point[0] <= second);
        let Some(&[from, low]) = after.checked_sub(1).and_then(|place| points.get(place)) else {
            return 0.0;
        };
        match points.get(after) {
            Some(&[to, high]) if ramp => low + (high - low) * (second - from) / (to - from),
            _ => low,
        }
    }

    /// The highest rate ever.
    pub fn highest(&self) -> f64 {
        match self {
            Profile::Flat(rate) => *rate,
            Profile::Points { points, .. } => {
                points.iter().map(|point| point[1]).fold(0.0, f64::max)
            }
        }
    }

    /// Time to the next arrival after `second`: at random (thinning) or evenly.
    pub(crate) fn next(&self, second: f64, random: bool, rng: &mut Rng) -> Option<f64> {
        let highest = self.highest();
        if highest <= 0.0 {
            return None;
        }
        let mut at = second;
        // Bounded: a profile that is zero for ever after ends the population.
        for _ in 0..1_000_000 {
            at += if random { exponential(rng) } else { 1.0 } / highest;
            if rng.f64() * highest < self.at(at) {
                return Some(at);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_steps_and_ramps() {
        let mut profile = Profile::Points { points: vec![[1.0, 10.0], [3.0, 30.0]], ramp: false };
        assert_eq!(profile.at(0.5), 0.0);
        assert_eq!(profile.at(2.0), 10.0);
        assert_eq!(profile.at(9.0), 30.0);
        if let Profile::Points { ramp, .. } = &mut profile {
            *ramp = true;
        }
        assert_eq!(profile.at(2.0), 20.0);
        assert_eq!(profile.at(9.0), 30.0);
    }
}
