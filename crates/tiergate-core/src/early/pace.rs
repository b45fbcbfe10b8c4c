//! How the rate of a limit follows the one that a controller wants, where each change makes the bucket full again.
//!
//! A limit that is too low drops what the gateway would serve; one that is too high only leaves more for the gateway to refuse. So it follows upwards at once, and a little beyond, so that the next step finds it
//! there already; downwards only when it is far off, and not often. A change is worth the bursts: no more than one a [`PAUSE`] goes down, and those that go up are by a tenth each.
//!
//! Source: ours.

use crate::admit::bucket::Rate;
use crate::time::Moment;
use std::time::Duration;

/// How far beyond the wanted rate it is set.
const BEYOND: f64 = 1.1;
/// It goes down from so many times the wanted rate.
const FAR: f64 = 1.25;
/// Not more often than that.
pub const PAUSE: Duration = Duration::from_secs(10);

/// The rate that is in force.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    rate: Rate,
    since: Moment,
}

impl Pace {
    /// The first rate. `most`: that of the policy, which is what is wanted where nothing controls it, and kept exactly.
    pub fn new(now: Moment, wanted: Rate, most: Rate) -> Pace {
        Pace { rate: beyond(wanted, most), since: now }
    }

    /// The rate to have in force from now on: the former one, or another.
    pub fn follow(&mut self, now: Moment, wanted: Rate, most: Rate) -> Rate {
        let wanted = wanted.min(most);
        let is_free = wanted == most && self.rate != most;
        let is_low = wanted > self.rate;
        let is_far = self.rate.tokens_per_second() > FAR * wanted.tokens_per_second();
        let is_down = self.rate > most || is_far && now.since(self.since) >= PAUSE;
        if is_free || is_low || is_down {
            *self = Pace::new(now, wanted, most);
        }
        self.rate
    }
}

fn beyond(wanted: Rate, most: Rate) -> Rate {
    Rate::of_per_second(BEYOND * wanted.tokens_per_second()).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Rate = Rate::per_second(1000);

    #[test]
    fn what_nothing_controls_is_exact_and_follows_the_policy_at_once() {
        let mut pace = Pace::new(Moment::ZERO, MOST, MOST);
        assert_eq!(pace.follow(Moment::ZERO, MOST, MOST), MOST);
        for other in [Rate::per_second(10), Rate::per_second(2000)] {
            assert_eq!(pace.follow(Moment::ZERO, other, other), other);
        }
    }

    #[test]
    fn it_is_never_below_what_is_wanted_and_changes_seldom() {
        let mut pace = Pace::new(Moment::ZERO, MOST, MOST);
        let (mut changes, mut last) = (0, MOST);
        // A controller that never rests: a wave of two minutes between 100 and 900, for an hour.
        for second in 0..3600_u32 {
            let wave = f64::from(second % 120) * std::f64::consts::TAU / 120.0;
            let wanted = Rate::of_per_second(500.0 + 400.0 * wave.sin());
            let now = Moment::from_millis(u64::from(second) * 1000);
            let rate = pace.follow(now, wanted, MOST);
            assert!(rate >= wanted, "{second}: {rate:?} of {wanted:?}");
            changes += u32::from(rate != last);
            last = rate;
        }
        // Ten seconds apart downwards; upwards from 100 to 900 in steps of a tenth or more.
        assert!((60..30 * 30).contains(&changes), "{changes}");
        // It comes down to what stays.
        let later = Moment::from_millis(3_700_000);
        let rate = pace.follow(later, Rate::per_second(20), MOST);
        assert_eq!(rate, Rate::per_second(22));
        assert_eq!(pace.follow(later, Rate::per_second(20), MOST), rate, "no change");
        // Not so soon again.
        let soon = later + Duration::from_secs(9);
        assert_eq!(pace.follow(soon, Rate::per_second(1), MOST), rate);
        let then = later + Duration::from_secs(10);
        assert_eq!(pace.follow(then, Rate::default(), MOST), Rate::default());
    }

    #[test]
    fn a_policy_with_less_is_followed_at_once() {
        let mut pace = Pace::new(Moment::ZERO, Rate::per_second(500), MOST);
        let less = Rate::per_second(100);
        assert_eq!(pace.follow(Moment::ZERO, Rate::per_second(50), less), Rate::per_second(55));
    }
}
