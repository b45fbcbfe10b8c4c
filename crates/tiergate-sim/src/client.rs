//! Client populations: who sends which requests, how often, and how long they wait.

use crate::asked::{Asked, Known};
use crate::distribution::{Distribution, exponential};
use fastrand::Rng;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Clients that behave alike. What they send is named by its class, or, in a scenario for a policy
/// file, by requests that the policy classifies.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Population {
    /// What it is called, where that matters to somebody.
    #[serde(default)]
    pub name: String,
    /// The class's name; not for a policy file.
    #[serde(default)]
    pub class: String,
    /// The requests; only for a policy file. A session sends them in order, others at random.
    #[serde(default)]
    pub request: Vec<Asked>,
    /// The host that they ask for.
    #[serde(default)]
    pub host: String,
    /// Header fields of all of its requests.
    #[serde(default)]
    pub header: BTreeMap<String, String>,
    /// Where its clients are: an address, or a network.
    #[serde(default = "anywhere")]
    pub clients: String,
    /// What else is known of them.
    #[serde(default)]
    pub known: Known,
    /// How requests come about.
    pub arrivals: Arrivals,
    /// How long a client waits for the whole answer before it leaves.
    #[serde(default = "patience")]
    pub patience_ms: f64,
    /// How often a client tries again after a refusal or a failure.
    #[serde(default)]
    pub retries: u32,
    /// How long it waits before it tries again, on average.
    #[serde(default = "retry_after")]
    pub retry_after_ms: f64,
    /// Whether its requests go straight to the server, past every gateway.
    #[serde(default)]
    pub direct: bool,
    /// When the population begins, in seconds.
    #[serde(default)]
    pub from_s: f64,
    /// When it ends.
    #[serde(default = "forever")]
    pub to_s: f64,
}

fn anywhere() -> String {
    "198.18.0.1".to_owned()
}

/// People leave a page that does not come within some seconds.
fn patience() -> f64 {
    8000.0
}

fn retry_after() -> f64 {
    1000.0
}

fn forever() -> f64 {
    f64::INFINITY
}

impl Population {
    /// Clients that send requests of a class, without retries, from the beginning to the end.
    pub fn of(class: impl Into<String>, arrivals: Arrivals, patience_ms: f64) -> Self {
        Population {
            name: String::new(),
            class: class.into(),
            request: Vec::new(),
            host: String::new(),
            header: BTreeMap::new(),
            clients: anywhere(),
            known: Known::default(),
            arrivals,
            patience_ms,
            retries: 0,
            retry_after_ms: retry_after(),
            direct: false,
            from_s: 0.0,
            to_s: forever(),
        }
    }
}

/// How requests come about.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
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
    /// As a log tells: not for scenarios.
    #[serde(skip)]
    Replay,
}

impl Arrivals {
    /// Its rate over time, where it has one.
    pub fn rate(&self) -> Option<&Profile> {
        match self {
            Arrivals::Poisson { rate }
            | Arrivals::Constant { rate }
            | Arrivals::Sessions { rate, .. } => Some(rate),
            Arrivals::Closed { .. } | Arrivals::Replay => None,
        }
    }
}

/// A rate in requests/s: one number, points `[second, rate]` joined by steps or ramps, or a file with
/// one rate a line.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "must be a rate: a number such as 200, { points = [[0, 50], [10, 400]], ramp = true }, \
                 or { rate_file = \"rates.txt\", line_s = 1, scale = 1 }"
)]
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
    /// As it was counted somewhere.
    File {
        /// One rate a line, in requests/s, plain or compressed by gzip; `#` begins a comment.
        rate_file: PathBuf,
        /// How many seconds of the simulation a line stands for.
        #[serde(default = "crate::asked::one")]
        line_s: f64,
        /// By how much each rate is multiplied.
        #[serde(default = "crate::asked::one")]
        scale: f64,
    },
}

/// Most lines of a file of rates.
pub const RATES_MAX: usize = 1_000_000;

/// Reads a file of rates: one number a line.
///
/// # Errors
/// The line, from 1, and what is wrong with it.
pub fn rates(text: &str) -> Result<Vec<f64>, (usize, String)> {
    let mut rates = Vec::new();
    for (place, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let rate = line.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate >= 0.0);
        let wrong = || (place + 1, format!("must be a rate, 0 or more, got {line:?}"));
        rates.push(rate.ok_or_else(wrong)?);
        if rates.len() > RATES_MAX {
            return Err((place + 1, format!("must have at most {RATES_MAX} rates")));
        }
    }
    match rates.iter().any(|rate| *rate > 0.0) {
        true => Ok(rates),
        false => Err((1, "must have a rate above 0".to_owned())),
    }
}

impl Profile {
    /// The rate at `second`. A file has none until it is read: see [`crate::files`].
    pub fn at(&self, second: f64) -> f64 {
        let (points, ramp) = match self {
            Profile::Flat(rate) => return *rate,
            Profile::File { .. } => return 0.0,
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
            Profile::File { .. } => 0.0,
        }
    }

    /// Time to the next arrival after `second`: at random (thinning) or evenly. `highest`:
    /// [`Profile::highest`], which takes a while to find.
    pub(crate) fn next(
        &self,
        second: f64,
        random: bool,
        highest: f64,
        rng: &mut Rng,
    ) -> Option<f64> {
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

    #[test]
    fn a_file_of_rates_says_where_it_is_wrong() {
        assert_eq!(rates("# requests/s\n10\n\n0\n2.5\n"), Ok(vec![10.0, 0.0, 2.5]));
        assert_eq!(rates("1\nx\n").unwrap_err().0, 2);
        assert_eq!(rates("1\n2\n-1\n").unwrap_err().0, 3);
        assert!(rates("0\n").is_err() && rates("").is_err() && rates("inf").is_err());
    }
}
