//! CoDel: a delay that stands is brought down by dropping a few of those that waited longest, ever more
//! often while it stands.
//!
//! Source: RFC 8289, §5 (the pseudo-code) and appendix A; a list of a flow each, as RFC 8290 (FQ-CoDel)
//! §4.2. We depart from it in three things. Flows of which one request waits are a list together
//! ([`Shared`]): of packets a flow has many, of requests often one, and the RFC, which never drops the last
//! one of a flow, would let any delay stand. A backlog is never emptied by a drop: the last request stays,
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

/// What the latest delay weighs in the mean.
const LATEST: f64 = 1.0 / 8.0;

/// The law for flows of which one request waits, of a whole queue. It goes by their mean delay: they are not
/// served in the order in which they came, so that one that is served at once, as the first of a new flow is,
/// says nothing of the others.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shared {
    law: Law,
    /// Seconds; `None`: none was served since the queue was empty.
    mean_s: Option<f64>,
}

impl Shared {
    /// Whether the only waiter of its flow, which has waited for `sojourn` and is to be served, is dropped
    /// now; `is_last`: no other flow waits with one. It waits for no more than the next slot then, which takes as long as it
    /// does, and so would they all where one flow keeps the slots full: it is for that flow's own law to shorten
    /// its queue. As [`Law::drops`].
    pub(super) fn drops(
        &mut self,
        codel: &Codel,
        now: Moment,
        sojourn: Duration,
        is_last: bool,
    ) -> bool {
        let latest_s = sojourn.as_secs_f64();
        let mean_s = self.mean_s.get_or_insert(latest_s);
        *mean_s += (latest_s - *mean_s) * LATEST;
        let mean = Duration::from_secs_f64(*mean_s);
        let is_spared = sojourn < codel.target && mean >= codel.target;
        !is_spared && self.law.drops(codel, now, mean, is_last)
    }

    /// The queue is empty.
    pub(super) fn rests(&mut self) {
        self.law.rests();
        self.mean_s = None;
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

    /// Those that wait long are a backlog that stands, also where a few are served at once in between, as new
    /// flows are.
    #[test]
    fn a_few_that_are_served_at_once_do_not_hide_a_delay_that_stands() {
        let mut law = Shared::default();
        let drops = |law: &mut Shared, ms: u64, sojourn_ms| {
            law.drops(&CODEL, at(ms), Duration::from_millis(sojourn_ms), false)
        };
        let found: Vec<u64> =
            (0..400).filter(|&ms| drops(&mut law, ms, if ms % 10 == 0 { 0 } else { 50 })).collect();
        assert!(found.len() > 3 && found[0] >= 100, "{found:?}");
        assert!(
            found.iter().all(|ms| ms % 10 != 0),
            "whoever is served at once is not dropped: {found:?}"
        );
        let found = (400..800).filter(|&ms| drops(&mut law, ms, if ms % 10 == 0 { 50 } else { 0 }));
        assert_eq!(found.count(), 0, "a few that wait long are none");
    }
}
