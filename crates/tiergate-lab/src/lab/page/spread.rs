//! One measure over several rounds: where its middle is and how far it reaches.

use crate::lab::result::{Better, ContenderResult, Round};

/// The rounds whose figures count.
pub(crate) fn valid(contender: &ContenderResult) -> impl Iterator<Item = &Round> {
    contender.rounds.iter().filter(|round| round.void.is_none())
}

/// A measure's values in the rounds that count, by its place; a value that is no number is missing.
pub(crate) fn values(contender: &ContenderResult, place: usize) -> Vec<Option<f64>> {
    let value = |round: &Round| round.values.get(place).copied().flatten();
    valid(contender).map(|round| value(round).filter(|v| v.is_finite())).collect()
}

/// Middle and reach of at least one round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    /// Half of the rounds were no better; `None`: in half of them or more there was no value.
    pub(crate) median: Option<f64>,
    /// Smallest and largest value; `None`: there was none.
    pub(crate) range: Option<(f64, f64)>,
    /// How many rounds.
    pub(crate) rounds: usize,
    /// In how many of them there was no value.
    pub(crate) missing: usize,
}

impl Spread {
    /// Of a contender's measure, by its place, over the rounds that count; `None`: there are none.
    pub(crate) fn of_measure(
        contender: &ContenderResult,
        place: usize,
        better: Better,
    ) -> Option<Self> {
        Self::of(&values(contender, place), better)
    }

    /// Of these rounds; `None`: there are none. A missing value counts as worse than every other:
    /// whoever answers nothing has no latency, whoever does not recover no time of recovery.
    pub(crate) fn of(rounds: &[Option<f64>], better: Better) -> Option<Self> {
        let mut present: Vec<f64> = rounds.iter().copied().flatten().collect();
        present.sort_by(f64::total_cmp);
        let range = present.first().copied().zip(present.last().copied());
        if better == Better::Higher {
            present.reverse();
        }
        let last = rounds.len().checked_sub(1)?;
        let middle = present.get(last / 2).zip(present.get(last.div_ceil(2)));
        Some(Self {
            median: middle.map(|(a, b)| f64::midpoint(*a, *b)),
            range,
            rounds: rounds.len(),
            missing: rounds.len() - present.len(),
        })
    }

    /// Half the distance from the smallest to the largest value.
    pub(crate) fn half(&self) -> f64 {
        self.range.map_or(0.0, |(min, max)| (max - min) / 2.0)
    }

    /// Smallest and largest value, where a missing one is infinitely bad.
    pub(crate) fn reach(&self, better: Better) -> (f64, f64) {
        let worst = match better {
            Better::Higher => f64::NEG_INFINITY,
            Better::Lower => f64::INFINITY,
        };
        let (min, max) = self.range.unwrap_or((worst, worst));
        if self.missing == 0 { (min, max) } else { (min.min(worst), max.max(worst)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_reach() {
        let of = |rounds: &[Option<f64>]| Spread::of(rounds, Better::Lower).unwrap();
        let three = of(&[Some(3.0), Some(1.0), Some(8.0)]);
        assert_eq!((three.median, three.range, three.half()), (Some(3.0), Some((1.0, 8.0)), 3.5));
        assert_eq!(of(&[Some(1.0), Some(2.0)]).median, Some(1.5));
        assert_eq!(Spread::of(&[], Better::Lower), None);
    }

    #[test]
    fn a_missing_value_is_the_worst_in_either_direction() {
        let rounds = [Some(1.0), None, Some(3.0)];
        let lower = Spread::of(&rounds, Better::Lower).unwrap();
        assert_eq!((lower.median, lower.missing), (Some(3.0), 1));
        assert_eq!(lower.reach(Better::Lower), (1.0, f64::INFINITY));
        let higher = Spread::of(&rounds, Better::Higher).unwrap();
        assert_eq!(higher.median, Some(1.0));
        assert_eq!(higher.reach(Better::Higher), (f64::NEG_INFINITY, 3.0));
        assert_eq!(Spread::of(&[None, Some(1.0)], Better::Lower).unwrap().median, None);
        let nothing = Spread::of(&[None], Better::Lower).unwrap();
        assert_eq!((nothing.range, nothing.half()), (None, 0.0));
        assert_eq!(nothing.reach(Better::Lower), (f64::INFINITY, f64::INFINITY));
    }
}
