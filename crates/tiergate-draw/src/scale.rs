//! From values to places along an axis, and the round values that are marked on it.

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
    /// The marked values, ascending.
    pub ticks: Vec<f64>,
}

impl Scale {
    /// From 0 to a round value that is not less than the largest, with about five marks.
    pub fn linear(largest: f64) -> Self {
        let largest = largest.max(1e-3);
        let step = round_up(largest / 5.0);
        Self::stepped((largest / step).ceil() * step, step)
    }

    /// From 0 to `high`, with a mark at each step.
    pub fn stepped(high: f64, step: f64) -> Self {
        let count = (high / step + 1e-9) as usize;
        let ticks = (0..=count).map(|n| n as f64 * step).collect();
        Self { low: 0.0, high, logarithmic: false, ticks }
    }

    /// By the logarithm, from a round value to a round value, with at most seven marks. Values that are
    /// not above 0 have no place on it.
    pub fn logarithmic(values: impl Iterator<Item = f64>) -> Self {
        let positive = values.filter(|value| *value > 0.0);
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

    /// Whether it is by the logarithm.
    pub fn is_logarithmic(&self) -> bool {
        self.logarithmic
    }

    /// 0.0 at the lowest value of the axis, 1.0 at the highest; what is beyond them is put there.
    pub fn at(&self, value: f64) -> f64 {
        let (low, high, value) = if self.logarithmic {
            (self.low.ln(), self.high.ln(), value.max(self.low).ln())
        } else {
            (self.low, self.high, value)
        };
        ((value - low) / (high - low)).clamp(0.0, 1.0)
    }
}

/// Round values along an axis from 0 to `end`, about `count` of them.
pub fn steps(end: f64, count: f64) -> Vec<f64> {
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

    #[test]
    fn linear_axes_begin_at_nothing() {
        assert_eq!(Scale::linear(391.0).ticks, [0.0, 100.0, 200.0, 300.0, 400.0]);
        let none = Scale::linear(0.0);
        assert!(none.at(0.0) == 0.0 && none.high > 0.0);
        let share = Scale::stepped(1.04, 0.2);
        assert_eq!((share.at(0.52), share.at(1.04), share.ticks.len()), (0.5, 1.0, 6));
        assert_eq!(steps(60.0, 4.0), [0.0, 20.0, 40.0, 60.0]);
    }

    #[test]
    fn logarithmic_axes_lie_between_round_values() {
        let of = |values: &[f64]| Scale::logarithmic(values.iter().copied());
        let ms = of(&[41.0, 950.0]);
        assert_eq!((ms.at(20.0), ms.at(1000.0)), (0.0, 1.0));
        assert_eq!(ms.ticks, [20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]);
        assert!((ms.at(200.0) - 0.5886).abs() < 1e-3);
        assert_eq!(of(&[0.5, 90_000.0]).ticks.len(), 6);
        // Equal, none, or nothing but zeros: still an axis.
        for odd in [&[40.0, 40.0][..], &[10.0], &[], &[0.0]] {
            let odd = of(odd);
            assert!(odd.high > odd.low && odd.at(40.0).is_finite(), "{odd:?}");
        }
    }
}
