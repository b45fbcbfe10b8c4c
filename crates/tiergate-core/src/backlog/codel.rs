//! CoDel: a delay that stands is brought down by dropping a few of those that waited longest, ever more
//! often while it stands.
//!
//! Source: RFC 8289, §5 (the pseudo-code) and appendix A; a list of a flow each, as RFC 8290 (FQ-CoDel)
//! §4.2. We depart from it in two things. A backlog is never emptied by a drop: the last request stays,
//! where the RFC keeps one packet of full size. And at most [`DROPS_MAX`] leave before one is served: the
//! RFC lets the law catch up in one go after a pause, which would hold a lock for as long.

use crate::class::Codel;
use crate::time::Moment;
use std::time::Duration;

/// Most requests that are dropped before one is served.
pub(crate) const DROPS_MAX: usize = 8;

/// Within so many intervals of the last drop, dropping goes on about as often as it was.
const RESUMED: u32 = 16;

/// The state of one list.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Law {
    /// Since it waits too long: when that has lasted for the interval.
    above_until: Option<Moment>,
    is_dropping: bool,
    drop_next: Moment,
    /// Drops since dropping began, and how many there were when it began.
    count: u32,
    count_before: u32,
}

impl Law {
    /// Whether the longest waiter of the list, which has waited for `sojourn`, is dropped now. Call
    /// whenever one of the list is to be served, and again after a drop. O(1).
    pub(super) fn drops(
        &mut self,
        codel: &Codel,
        now: Moment,
        sojourn: Duration,
        is_last: bool,
    ) -> bool {
        let stands = self.stands(codel, now, sojourn, is_last);
        if !self.is_dropping {
            if stands {
                self.begin(codel, now);
            }
            return stands;
        }
        self.is_dropping = stands;
        let drops = stands && now >= self.drop_next;
        if drops {
            self.count = self.count.saturating_add(1);
            self.drop_next = self.drop_next + self.pause(codel);
        }
        drops
    }

    /// Nobody of the list waits any more: whatever delay stood is gone. Who is dropped after the next that
    /// stands, and how often, goes on from what it was, as after any delay below the target.
    pub(super) fn rests(&mut self) {
        self.above_until = None;
        self.is_dropping = false;
    }

    /// Whether the delay has been above the target for an interval.
    fn stands(&mut self, codel: &Codel, now: Moment, sojourn: Duration, is_last: bool) -> bool {
        if sojourn < codel.target || is_last {
            self.above_until = None;
            return false;
        }
        now >= *self.above_until.get_or_insert(now + codel.interval)
    }

    fn begin(&mut self, codel: &Codel, now: Moment) {
        self.is_dropping = true;
        let more = self.count.saturating_sub(self.count_before);
        let is_resumed = now.since(self.drop_next) < codel.interval * RESUMED;
        self.count = if more > 1 && is_resumed { more } else { 1 };
        self.count_before = self.count;
        self.drop_next = now + self.pause(codel);
    }

    /// The control law: pauses shrink with the root of the drops, so that throughput falls linearly.
    fn pause(&self, codel: &Codel) -> Duration {
        codel.interval.div_f64(f64::from(self.count).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODEL: Codel =
        Codel { target: Duration::from_millis(5), interval: Duration::from_millis(100) };

    fn at(ms: u64) -> Moment {
        Moment::from_millis(ms)
    }

    /// When requests are dropped if one is to be served every millisecond from `begin` to `end`.
    fn drops(law: &mut Law, begin: u64, end: u64, sojourn_ms: u64) -> Vec<u64> {
        let sojourn = Duration::from_millis(sojourn_ms);
        (begin..end).filter(|&ms| law.drops(&CODEL, at(ms), sojourn, false)).collect()
    }

    #[test]
    fn a_burst_shorter_than_the_interval_is_borne() {
        let mut law = Law::default();
        assert_eq!(drops(&mut law, 0, 100, 50), []);
        assert_eq!(drops(&mut law, 100, 101, 4), [], "below the target for once");
        assert_eq!(drops(&mut law, 101, 200, 50), []);
        assert_eq!(drops(&mut law, 200, 202, 50), [201]);
    }

    #[test]
    fn drops_come_at_intervals_that_shrink_with_the_root_of_their_number() {
        let mut law = Law::default();
        let found = drops(&mut law, 0, 700, 50);
        let mut due = 100.0;
        let mut expected = vec![100];
        for count in 1..found.len() {
            due += 100.0 / (count as f64).sqrt();
            expected.push(due.ceil() as u64);
        }
        assert_eq!(found, expected);
        assert!(found.len() > 10);
    }

    #[test]
    fn dropping_ends_below_the_target_and_is_resumed_where_it_was() {
        let mut law = Law::default();
        let before = drops(&mut law, 0, 1000, 50).len();
        assert_eq!(drops(&mut law, 1000, 1100, 4), []);
        let after = drops(&mut law, 1100, 1300, 50);
        assert_eq!(after[0], 1200, "an interval is borne again");
        assert!(after.len() > 5, "{after:?}, {before} before");
        let mut law = Law::default();
        drops(&mut law, 0, 1000, 50);
        drops(&mut law, 1000, 5000, 4);
        assert_eq!(drops(&mut law, 5000, 5200, 50), [5100], "after long it begins anew");
    }

    #[test]
    fn an_empty_list_forgets_the_delay() {
        let mut law = Law::default();
        assert_eq!(drops(&mut law, 0, 100, 50), []);
        law.rests();
        assert_eq!(drops(&mut law, 110, 220, 50), [210]);
        law.rests();
        assert_eq!(drops(&mut law, 230, 330, 50), [], "dropping goes on no sooner either");
    }

    #[test]
    fn the_last_one_stays() {
        let mut law = Law::default();
        let long = Duration::from_secs(1);
        assert!((0..1000).all(|ms| !law.drops(&CODEL, at(ms), long, true)));
    }
}
