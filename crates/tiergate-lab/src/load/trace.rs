//! Arrivals as they were counted somewhere: a rate that changes as a trace does.

use crate::units;
use fastrand::Rng;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Most rates of a trace.
const RATES_MAX: usize = 100_000;

/// Rates one after another, each lasting as long as the others. Only their proportion to the
/// highest counts: at its height the trace has the rate of the population's step.
///
/// A Poisson process of the highest rate is thinned out, which gives exactly a Poisson process of the
/// changing rate.
///
/// Source: P. Lewis, G. Shedler, "Simulation of Nonhomogeneous Poisson Processes by Thinning" (1979).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Trace {
    /// The rates, in any unit, none negative.
    pub(crate) rates: Vec<f64>,
    /// How long all of them last.
    #[serde(with = "units::text")]
    pub(crate) lasting: Duration,
}

impl Trace {
    /// Reads numbers, one a line; lines that begin with `#` are comments.
    pub(crate) fn read(text: &str, lasting: Duration) -> Result<Self, String> {
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        let rate = |line: &str| line.trim().parse().map_err(|_| format!("not a rate: {line:?}"));
        let trace = Self { rates: lines.map(rate).collect::<Result<_, String>>()?, lasting };
        trace.check().map_err(String::from).map(|()| trace)
    }

    /// Whether it can be played.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let rates = &self.rates;
        if !(1..=RATES_MAX).contains(&rates.len()) || self.lasting.is_zero() {
            return Err("trace: 1 to 100000 rates over more than no time are needed");
        }
        if rates.iter().any(|rate| !rate.is_finite() || *rate < 0.0) || self.highest() <= 0.0 {
            return Err("trace: rates must be numbers from 0, not all of them 0");
        }
        Ok(())
    }

    fn highest(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }

    /// Whether an arrival at that time since the beginning takes place. After the trace's end its
    /// last rate goes on.
    pub(super) fn keeps(&self, at: Duration, random: &mut Rng) -> bool {
        let place = at.as_secs_f64() / self.lasting.as_secs_f64() * self.rates.len() as f64;
        let rate = self.rates[(place as usize).min(self.rates.len() - 1)];
        random.f64() * self.highest() < rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_follow_the_trace() {
        let trace = Trace::read("# made up\n10\n40\n\n20\n", Duration::from_secs(3)).unwrap();
        let mut random = Rng::with_seed(5);
        let mut kept = |millis| {
            let at = Duration::from_millis(millis);
            (0..10_000).filter(|_| trace.keeps(at, &mut random)).count()
        };
        let counts = [kept(500), kept(1500), kept(2500), kept(9000)];
        assert_eq!(counts[1], 10_000, "at its height nothing is left out");
        for (count, expected) in [(counts[0], 2500_usize), (counts[2], 5000), (counts[3], 5000)] {
            assert!(count.abs_diff(expected) < 250, "{counts:?}");
        }
    }

    #[test]
    fn what_is_no_trace_is_refused() {
        let second = Duration::from_secs(1);
        for text in ["", "# only\n", "1\nx\n", "0\n0\n", "-1\n2\n", "inf\n"] {
            assert!(Trace::read(text, second).is_err(), "{text:?}");
        }
        assert!(Trace::read("1\n", Duration::ZERO).is_err());
    }
}
