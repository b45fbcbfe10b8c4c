//! From values to places along an axis, and the round values that are marked on it.

use crate::lab::page::judge::is_latency;
use crate::lab::page::words::unit as unit_of;
use crate::lab::result::Unit;
use crate::units::thousands;

/// A vertical axis: latencies by their logarithm, everything else from nothing.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
    /// The marked values, ascending.
    pub(super) ticks: Vec<f64>,
}

impl Scale {
    /// An axis that all these values fit on.
    pub(super) fn of(unit: Unit, values: impl Iterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.filter(|v| v.is_finite()).collect();
        let largest = values.iter().copied().fold(0.0, f64::max);
        let positive = values.iter().copied().filter(|v| *v > 0.0);
        match unit {
            unit if is_latency(unit) => Self::logarithmic(positive),
            Unit::Share if (0.3..1.5).contains(&largest) => Self::linear(largest.max(1.0), 0.2),
            _ => {
                let step = round_up(largest.max(1e-3) / 5.0);
                Self::linear((largest.max(1e-3) / step).ceil() * step, step)
            }
        }
    }

    /// 0.0 at the lowest value of the axis, 1.0 at the highest; what is beyond them is put there.
    pub(super) fn at(&self, value: f64) -> f64 {
        let (low, high, value) = if self.logarithmic {
            (self.low.ln(), self.high.ln(), value.max(self.low).ln())
        } else {
            (self.low, self.high, value)
        };
        ((value - low) / (high - low)).clamp(0.0, 1.0)
    }

    /// What the values are in, as a caption says it.
    pub(super) fn caption(&self, unit: Unit) -> String {
        let log = if self.logarithmic { ", logarithmic" } else { "" };
        format!("({}{log})", unit_of(unit))
    }

    fn linear(high: f64, step: f64) -> Self {
        let count = (high / step + 1e-9) as usize;
        let ticks = (0..=count).map(|n| n as f64 * step).collect();
        Self { low: 0.0, high, logarithmic: false, ticks }
    }

    /// From a round value to a round value, with at most seven marks.
    fn logarithmic(positive: impl Iterator<Item = f64>) -> Self {
        let (low, high) = positive.fold((f64::MAX, 0.0), |(l, h), v| (v.min(l), v.max(h)));
        let (low, high) = if high > 0.0 { (round_down(low), round_up(high)) } else { (1.0, 10.0) };
        let high = if high > low { high } else { round_up(low * 1.5) };
        let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
        let among = |factors: &[f64]| -> Vec<f64> {
            let all = decades.clone().flat_map(|n| factors.iter().map(move |f| f * power(n)));
            all.filter(|v| *v >= low * 0.999 && *v <= high * 1.001).collect()
        };
        let ticks = [&[1.0, 2.0, 5.0][..], &[1.0, 3.0], &[1.0]].map(among);
        let few = ticks.into_iter().find(|ticks| ticks.len() <= 7);
        Self { low, high, logarithmic: true, ticks: few.unwrap_or_default() }
    }
}

/// A marked value, without its unit and without zeros that say nothing.
pub(super) fn label(value: f64, unit: Unit) -> String {
    let value = if unit == Unit::Share { value * 100.0 } else { value };
    let rounded = (value * 1e6).round() / 1e6;
    if rounded >= 1e3 { thousands(rounded as u64) } else { rounded.to_string() }
}

/// Round values along an axis from 0 to `end`, about `count` of them.
pub(super) fn steps(end: f64, count: f64) -> Vec<f64> {
    let step = round_up(end / count);
    (0..=(end / step + 1e-9) as usize).map(|n| n as f64 * step).collect()
}

/// The next of 1, 2, 5, 10, 20, …, upwards.
fn round_up(value: f64) -> f64 {
    let decade = power(value.log10().floor() as i32);
    let factor = [1.0, 2.0, 5.0].into_iter().find(|f| f * decade >= value * 0.999);
    factor.unwrap_or(10.0) * decade
}

/// The next of 1, 2, 5, 10, 20, …, downwards.
fn round_down(value: f64) -> f64 {
    let decade = power(value.log10().floor() as i32);
    let factor = [5.0, 2.0].into_iter().find(|f| f * decade <= value * 1.001);
    factor.unwrap_or(1.0) * decade
}

fn power(of_ten: i32) -> f64 {
    10f64.powi(of_ten)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale(unit: Unit, values: &[f64]) -> Scale {
        Scale::of(unit, values.iter().copied())
    }

    #[test]
    fn shares_go_to_a_hundred_per_cent() {
        let share = scale(Unit::Share, &[0.2, 0.9]);
        assert_eq!((share.at(0.0), share.at(0.5), share.at(1.0)), (0.0, 0.5, 1.0));
        let labels: Vec<_> = share.ticks.iter().map(|t| label(*t, Unit::Share)).collect();
        assert_eq!(labels, ["0", "20", "40", "60", "80", "100"]);
        let goodput = scale(Unit::Share, &[1.04]);
        assert_eq!((goodput.at(1.04), goodput.ticks.len()), (1.0, 6));
        assert_eq!(scale(Unit::Share, &[0.018]).ticks.last(), Some(&0.02));
    }

    #[test]
    fn latencies_are_logarithmic_between_round_values() {
        let ms = scale(Unit::Ms, &[41.0, 950.0]);
        assert_eq!((ms.at(20.0), ms.at(1000.0)), (0.0, 1.0));
        assert_eq!(ms.ticks, [20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]);
        assert_eq!(label(1000.0, Unit::Ms), "1,000");
        assert!((ms.at(200.0) - 0.5886).abs() < 1e-3);
        assert_eq!(scale(Unit::Ms, &[0.5, 90_000.0]).ticks.len(), 6);
        // Equal, none, or nothing but zeros: still an axis.
        for odd in [&[40.0, 40.0][..], &[10.0], &[], &[0.0]] {
            let odd = scale(Unit::Ms, odd);
            assert!(odd.high > odd.low && odd.at(40.0).is_finite(), "{odd:?}");
        }
    }

    #[test]
    fn others_begin_at_nothing() {
        assert_eq!(scale(Unit::Rate, &[30.0, 391.0]).ticks, [0.0, 100.0, 200.0, 300.0, 400.0]);
        assert_eq!(label(0.3, Unit::S), "0.3");
        let none = scale(Unit::Rate, &[]);
        assert!(none.at(0.0) == 0.0 && none.high > 0.0);
        assert_eq!(steps(60.0, 4.0), [0.0, 20.0, 40.0, 60.0]);
    }
}
