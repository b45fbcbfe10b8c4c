//! Capacity that was there a while ago may come back: a machine of two that failed is restarted, a
//! cache is warm again. Hardly anything tells so but a look far above the limit, because the few slots
//! left are as busy as before. [`Regain`] remembers how many slots were right and says when to look whether they
//! are again: the longer ago that was, the less often, so that what is gone for good costs ever less.
//!
//! Source: ours; the growing interval is that of exponential backoff.

use crate::time::Moment;
use std::time::Duration;

/// A limit that fell by less, in ln, is regained by the usual looks above it.
const LN_FELL: f64 = 0.4;
/// A look goes to twice the limit at most: what comes back shows, and what does not is overloaded
/// little.
const LN_FAR: f64 = std::f64::consts::LN_2;
/// What was right fades by so much, in ln, with each window in which the limit is: a single one that
/// chance drove too high is forgotten.
const LN_FADING: f64 = 0.01;
/// From one look to the next it takes this part of the time since so many slots were right, and at
/// least so many times as long as the look.
const PART: f64 = 1.0 / 8.0;
const LOOKS: u32 = 4;

/// How many slots were right, and when to look whether they are again.
#[derive(Clone, Debug)]
pub(super) struct Regain {
    /// ln of the most slots that were right.
    ln_slots: f64,
    /// When so many were right for the last time.
    left: Moment,
    /// When to look next.
    next: Moment,
}

impl Regain {
    /// Nothing is remembered.
    pub(super) fn new() -> Self {
        Regain { ln_slots: f64::NEG_INFINITY, left: Moment::ZERO, next: Moment::ZERO }
    }

    /// The limit is known to be right at `ln_slots`: is that about what was right so far? If not, it has
    /// fallen.
    pub(super) fn settled(&mut self, now: Moment, ln_slots: f64) -> bool {
        let right = self.is_near(ln_slots);
        if right {
            self.ln_slots = ln_slots.max(self.ln_slots - LN_FADING);
            self.left = now;
            self.next = now;
        }
        right
    }

    /// Whether so many slots, or more, were right.
    pub(super) fn is_near(&self, ln_slots: f64) -> bool {
        self.ln_slots < ln_slots + LN_FELL
    }

    /// ln of the slots at which the next window had better look, if it is time; the limit is right at
    /// `ln_slots`, far fewer than before.
    pub(super) fn look(&self, now: Moment, ln_slots: f64) -> Option<f64> {
        (now >= self.next).then(|| self.ln_slots.min(ln_slots + LN_FAR))
    }

    /// A look that took so long showed nothing.
    pub(super) fn in_vain(&mut self, now: Moment, took: Duration) {
        self.next = now + now.since(self.left).mul_f64(PART).max(LOOKS * took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOK: Duration = Duration::from_millis(100);

    fn seconds(seconds: f64) -> Moment {
        Moment::ZERO + Duration::from_secs_f64(seconds)
    }

    /// Moments in seconds, and slots, of all looks while the limit stays at `slots` after 16 were right
    /// until second 10. None of them finds anything.
    fn looks(slots: f64, until_s: f64) -> Vec<(f64, f64)> {
        let mut regain = Regain::new();
        assert!(regain.settled(seconds(10.0), 16_f64.ln()));
        let mut looks = Vec::new();
        let mut at = 10.1;
        while at < until_s {
            if !regain.settled(seconds(at), slots.ln())
                && let Some(ln_slots) = regain.look(seconds(at), slots.ln())
            {
                looks.push((at, ln_slots.exp()));
                regain.in_vain(seconds(at), TOOK);
            }
            at += 0.1;
        }
        looks
    }

    #[test]
    fn what_was_lost_long_ago_is_looked_for_ever_less_often() {
        let looks = looks(8.0, 10_000.0);
        let early = looks.iter().filter(|(at, _)| *at < 18.0).count();
        assert!((8..=16).contains(&early), "{early} looks in the first eight seconds: {looks:?}");
        let late = looks.iter().filter(|(at, _)| *at > 1000.0).count();
        assert!((10..=20).contains(&late), "{late} looks between 1,000 and 10,000 s");
        assert!(looks.windows(2).all(|two| two[1].0 - two[0].0 > 0.39), "{looks:?}");
    }

    #[test]
    fn a_look_goes_to_what_was_right_but_not_beyond_twice_the_limit() {
        for (slots, at) in [(8.0, 16.0), (3.0, 6.0), (10.0, 16.0)] {
            let looks = looks(slots, 20.0);
            assert!(looks.len() > 5, "{looks:?}");
            assert!(looks.iter().all(|(_, slots)| (slots - at).abs() < 1e-9), "{looks:?}");
        }
    }

    #[test]
    fn a_limit_that_was_too_high_by_chance_is_forgotten() {
        let mut regain = Regain::new();
        for (second, slots) in [(1.0, 30.0_f64), (2.0, 21.0), (3.0, 21.0)] {
            assert!(regain.settled(seconds(second), slots.ln()), "{slots}");
        }
        for window in 0..40 {
            assert!(regain.settled(seconds(4.0 + f64::from(window)), 21_f64.ln()));
        }
        assert!(regain.settled(seconds(50.0), 16_f64.ln()), "16 is near 21");
    }

    #[test]
    fn a_limit_that_is_near_what_was_right_needs_no_look() {
        assert_eq!(looks(12.0, 1000.0), []);
        assert_eq!(looks(20.0, 1000.0), []);
    }
}
