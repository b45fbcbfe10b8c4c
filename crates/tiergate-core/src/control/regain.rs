//! Recovery of lost capacity: one of two machines that failed is restarted, a cache is warm again. Hardly
//! anything shows it but a probe far above the limit, because the few slots left are as busy as before.
//! [`Regain`] remembers how many slots were right and says when to probe for them: the longer ago they
//! were, the less often, so that capacity that is gone for good costs ever less.
//!
//! Source: ours; the growing interval is that of exponential backoff.

use crate::time::Moment;
use std::time::Duration;

/// A limit that fell by less, in ln, is regained by the usual probes above it.
const LN_FELL: f64 = 0.4;
/// A probe goes to twice the limit at most: recovery shows there, and without it the overload is slight.
const LN_FAR: f64 = std::f64::consts::LN_2;
/// How much the remembered slots fade, in ln, with each window in which the limit is right: a single one
/// that chance drove too high is forgotten.
const LN_FADING: f64 = 0.01;
/// Time between probes: this part of the time since the remembered slots were right, and at least this
/// many times as long as a probe takes.
const PART: f64 = 1.0 / 8.0;
const PROBES: u32 = 4;

/// How many slots were right, and when to probe whether they are again.
#[derive(Clone, Debug)]
pub(super) struct Regain {
    /// ln of the most slots that were right.
    ln_slots: f64,
    /// When so many were right for the last time.
    left: Moment,
    /// When to probe next.
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

    /// Whether this many slots, or more, were right.
    pub(super) fn is_near(&self, ln_slots: f64) -> bool {
        self.ln_slots < ln_slots + LN_FELL
    }

    /// ln of the slots that the next window should probe, if it is time; the limit is right at `ln_slots`,
    /// far fewer than before.
    pub(super) fn probe(&self, now: Moment, ln_slots: f64) -> Option<f64> {
        (now >= self.next).then(|| self.ln_slots.min(ln_slots + LN_FAR))
    }

    /// A probe that took this long showed nothing.
    pub(super) fn in_vain(&mut self, now: Moment, took: Duration) {
        self.next = now + now.since(self.left).mul_f64(PART).max(PROBES * took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOK: Duration = Duration::from_millis(100);

    fn seconds(seconds: f64) -> Moment {
        Moment::ZERO + Duration::from_secs_f64(seconds)
    }

    /// Moments in seconds, and slots, of all probes while the limit stays at `slots` after 16 were right
    /// until second 10. None of them finds anything.
    fn probes(slots: f64, until_s: f64) -> Vec<(f64, f64)> {
        let mut regain = Regain::new();
        assert!(regain.settled(seconds(10.0), 16_f64.ln()));
        let mut probes = Vec::new();
        let mut at = 10.1;
        while at < until_s {
            if !regain.settled(seconds(at), slots.ln())
                && let Some(ln_slots) = regain.probe(seconds(at), slots.ln())
            {
                probes.push((at, ln_slots.exp()));
                regain.in_vain(seconds(at), TOOK);
            }
            at += 0.1;
        }
        probes
    }

    #[test]
    fn what_was_lost_long_ago_is_probed_for_ever_less_often() {
        let probes = probes(8.0, 10_000.0);
        let early = probes.iter().filter(|(at, _)| *at < 18.0).count();
        assert!((8..=16).contains(&early), "{early} probes in the first eight seconds: {probes:?}");
        let late = probes.iter().filter(|(at, _)| *at > 1000.0).count();
        assert!((10..=20).contains(&late), "{late} probes between 1,000 and 10,000 s");
        assert!(probes.windows(2).all(|two| two[1].0 - two[0].0 > 0.39), "{probes:?}");
    }

    #[test]
    fn a_probe_goes_to_what_was_right_but_not_beyond_twice_the_limit() {
        for (slots, at) in [(8.0, 16.0), (3.0, 6.0), (10.0, 16.0)] {
            let probes = probes(slots, 20.0);
            assert!(probes.len() > 5, "{probes:?}");
            assert!(probes.iter().all(|(_, slots)| (slots - at).abs() < 1e-9), "{probes:?}");
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
    fn a_limit_that_is_near_what_was_right_needs_no_probe() {
        assert_eq!(probes(12.0, 1000.0), []);
        assert_eq!(probes(20.0, 1000.0), []);
    }
}
