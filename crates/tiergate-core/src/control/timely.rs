//! The share of a window's answers that came in time for their clients, as far as it is not chance.
//!
//! Where many clients leave whatever the limit is, a window has few answers in time, and their number says little: a limit that
//! went by it alone would wander, and upward, because too few slots cost more than too many. So the share of a window counts as the usual one
//! but for what the difference is more than chance would make it.
//!
//! Source: ours; the shrinkage is that of James and Stein (1961), beyond two standard errors.

/// Weight of the latest window in the usual share.
const LATEST_WEIGHT: f64 = 1.0 / 8.0;
/// A difference of two standard errors is chance. (Of one: clients that leave on purpose drive the limit up in one of ten runs.)
const CHANCE: f64 = 4.0;
/// Answers in time that a window without any counts for, so that its share has a logarithm.
const GOOD_MIN: f64 = 0.5;

/// The usual share of answers in time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timely {
    ln_usual: f64,
}

impl Timely {
    /// ln of the share of a window with so many answers, of which some were in time, and what it adds to the variance of
    /// ln of the throughput. O(1).
    pub(super) fn share(&mut self, good: u32, served: u32) -> (f64, f64) {
        let (good, served) = (f64::from(good).max(GOOD_MIN), f64::from(served).max(1.0));
        let ln_share = (good / served).ln().min(0.0);
        let variance = (1.0 / good - 1.0 / served).max(0.0);
        let usual = self.ln_usual;
        let off = ln_share - usual;
        self.ln_usual += off * LATEST_WEIGHT;
        let kept = if off == 0.0 { 0.0 } else { (1.0 - CHANCE * variance / (off * off)).max(0.0) };
        (usual + off * kept, variance * kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nobody_leaves_it_is_all_of_them() {
        let mut timely = Timely::default();
        assert!((0..10).all(|_| timely.share(240, 240) == (0.0, 0.0)));
    }

    #[test]
    fn a_share_that_differs_by_chance_is_the_usual_one() {
        let mut timely = Timely::default();
        for _ in 0..50 {
            timely.share(96, 240);
        }
        let of = |good| timely.clone().share(good, 240);
        let (usual, _) = of(96);
        for good in [84, 90, 102, 108] {
            let (share, variance) = of(good);
            assert!((share - usual).abs() < 1e-6 && variance == 0.0, "{good}");
        }
        let (many, _) = of(216);
        assert!(many > 0.8 * 0.9_f64.ln() + 0.2 * usual, "{many}");
    }

    #[test]
    fn one_without_any_has_a_share() {
        let (share, variance) = Timely::default().share(0, 100);
        assert!(share < -3.0 && share.is_finite() && variance > 1.0);
    }
}
