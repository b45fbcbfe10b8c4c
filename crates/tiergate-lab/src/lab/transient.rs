//! How something that is controlled gets from a step to its set point: what control theory calls overshoot and
//! settling time, and Abdelzaher's figure 4 shows. Pure.

use serde::Deserialize;

/// Seconds of which the mean is looked at: a single one has the noise of a hundred requests or two.
const MEAN_OF: usize = 3;

/// What it is to be brought to.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Target {
    /// The set point.
    value: f64,
    /// It has settled once it is off by no more than this for the rest of the time.
    within: f64,
}

impl Target {
    /// How far the highest mean of a few seconds is above the set point, as a part of it; 0: never above.
    pub(super) fn overshoot(self, seconds: &[f64]) -> Option<f64> {
        let highest = means(seconds).reduce(f64::max)?;
        Some(((highest - self.value) / self.value).max(0.0))
    }

    /// The second from which on every mean of a few seconds is at the set point. The last ones have too few
    /// seconds after them; what settles within these counts as not settled, and all seconds are given.
    pub(super) fn settling(self, seconds: &[f64]) -> Option<f64> {
        let off = |mean: f64| (mean - self.value).abs() > self.within;
        let count = means(seconds).count();
        let last = means(seconds).enumerate().filter(|(_, mean)| off(*mean)).last();
        let settled = last.map_or(0, |(n, _)| n + 1);
        (count > 0).then_some(if settled < count { settled } else { seconds.len() } as f64)
    }
}

/// The mean of each second and those after it.
fn means(seconds: &[f64]) -> impl Iterator<Item = f64> + '_ {
    seconds.windows(MEAN_OF).map(|window| window.iter().sum::<f64>() / MEAN_OF as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Target = Target { value: 0.5, within: 0.05 };

    #[test]
    fn what_settles_is_told_from_when_on() {
        let seconds = [1.0, 1.0, 1.0, 0.7, 0.5, 0.5, 0.55, 0.45, 0.5];
        assert_eq!(TARGET.overshoot(&seconds), Some(1.0));
        assert_eq!(TARGET.settling(&seconds), Some(4.0));
    }

    #[test]
    fn one_noisy_second_is_no_swing() {
        let seconds = [0.5, 0.5, 0.6, 0.45, 0.45, 0.5, 0.5];
        assert_eq!(TARGET.settling(&seconds), Some(0.0));
        assert!(TARGET.overshoot(&seconds).unwrap() < 0.1);
    }

    #[test]
    fn what_swings_has_not_settled() {
        let seconds = [0.5, 0.5, 0.5, 0.8, 0.8, 0.8];
        assert_eq!(TARGET.settling(&seconds), Some(6.0));
        assert_eq!(TARGET.settling(&[0.4; 5]), Some(5.0), "too low is off, too");
        assert_eq!(TARGET.overshoot(&[0.4; 5]), Some(0.0));
    }

    #[test]
    fn too_few_seconds_say_nothing() {
        assert_eq!((TARGET.overshoot(&[0.5; 2]), TARGET.settling(&[0.5; 2])), (None, None));
    }
}
