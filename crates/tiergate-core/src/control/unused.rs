//! A limit that does not bind: how much of it is in use, and when to look below that.
//!
//! Clients whose number is bounded (a pool of connections, a load generator) never fill a limit that is
//! above that number, whatever the origin can do: all of them queue at the origin, where no class comes
//! first, and nothing corrects the limit, because throughput is measured only while it binds. So where
//! the origin seems to have too much to do, the limit goes below what is in use for a window, or for some periods where few come. If that finds nothing, the next look comes after twice the time.
//!
//! Source: ours; the growing interval is that of exponential backoff.

use crate::time::Moment;
use std::time::Duration;

/// Time between looks: at first this many periods, at most so long.
const PERIODS: u32 = 2;
const WAIT_MAX: Duration = Duration::from_secs(600);
/// A look lasts for so many periods at most, also where all of what it leaves is in use now and then: few come then, and its window would last for minutes.
const LOOK_PERIODS: u32 = 8;

/// The most requests in progress in each period, and when to look below that.
#[derive(Clone, Debug, Default)]
pub(super) struct Unused {
    peak: u32,
    until: Moment,
    next: Moment,
    wait: Duration,
    looking: bool,
    look_until: Moment,
}

impl Unused {
    /// So many requests are in progress.
    pub(super) fn see(&mut self, running: u32) {
        self.peak = self.peak.max(running);
    }

    /// The most that were in progress in the period that has just ended; the next one takes `period`.
    pub(super) fn peak(&mut self, now: Moment, period: Duration) -> Option<u32> {
        if now < self.until {
            return None;
        }
        let peak = std::mem::take(&mut self.peak);
        let has_begun = self.until > Moment::ZERO;
        self.until = now + period;
        has_begun.then_some(peak)
    }

    /// Whether to look now; asked only while something speaks for a look. The first time it is asked, only the wait begins.
    pub(super) fn looks(&mut self, now: Moment, period: Duration) -> bool {
        if self.wait.is_zero() {
            self.wait = PERIODS * period;
            self.next = now + self.wait;
        }
        self.looking = now >= self.next;
        if self.looking {
            self.look_until = now + LOOK_PERIODS * period;
            self.wait = (2 * self.wait).min(WAIT_MAX);
            self.next = now + self.wait;
        }
        self.looking
    }

    /// Whether a look has lasted for too long, if there is one.
    pub(super) fn is_look_over(&self, now: Moment) -> bool {
        now >= self.look_until
    }

    /// Ends a look that is not needed any more. Whether there was one.
    pub(super) fn ends_look(&mut self) -> bool {
        std::mem::take(&mut self.looking)
    }

    /// A window is complete, in which the limit is known well or is not. One that is known without a look starts the waits anew.
    /// Whether it was a look.
    pub(super) fn measured(&mut self, is_known: bool) -> bool {
        let was_look = self.ends_look();
        if is_known && !was_look {
            self.wait = Duration::ZERO;
        }
        was_look
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(1);

    fn at(second: u64) -> Moment {
        Moment::from_millis(second * 1000)
    }

    /// The seconds in which it looks, if it is asked in each of so many.
    fn looks(unused: &mut Unused, seconds: std::ops::Range<u64>) -> Vec<u64> {
        seconds.filter(|second| unused.looks(at(*second), PERIOD)).collect()
    }

    #[test]
    fn looks_that_find_nothing_come_ever_less_often() {
        let mut unused = Unused::default();
        assert_eq!(looks(&mut unused, 0..70), [2, 6, 14, 30, 62]);
        assert_eq!(looks(&mut unused, 70..3000).len(), 7, "at 126, 254, 510, 1022, 1622, ...");
    }

    #[test]
    fn a_look_is_over_in_time() {
        let mut unused = Unused::default();
        assert_eq!(looks(&mut unused, 0..3), [2]);
        assert_eq!([9, 10].map(|second| unused.is_look_over(at(second))), [false, true]);
    }

    #[test]
    fn a_limit_that_is_found_right_without_a_look_begins_anew() {
        let mut unused = Unused::default();
        assert_eq!(looks(&mut unused, 0..3), [2]);
        unused.measured(true);
        assert_eq!(looks(&mut unused, 3..7), [6], "the window was the look");
        unused.measured(false);
        unused.measured(false);
        assert_eq!(looks(&mut unused, 7..15), [14], "not known well");
        unused.measured(false);
        unused.measured(true);
        assert_eq!(looks(&mut unused, 15..22), [17, 21]);
    }

    #[test]
    fn the_peak_is_that_of_a_period() {
        let mut unused = Unused::default();

        unused.see(9);
        assert_eq!(unused.peak(at(1), PERIOD), None, "the first begins");
        unused.see(5);
        unused.see(3);
        assert_eq!(unused.peak(at(2), PERIOD), Some(5));
        assert_eq!(unused.peak(at(2), PERIOD), None);
        assert_eq!(unused.peak(at(3), PERIOD), Some(0));
    }
}
