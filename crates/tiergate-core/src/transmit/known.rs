//! Connections whose late packets say something of the link.
//!
//! One of which a packet was in time not long ago is not behind a link of its own that is slower. While there are such, only theirs count; where a packet of
//! another is late, one of those is looked for, and as many such in a row as are no chance count all the same.

use crate::time::Moment;
use std::time::Duration;

/// A packet in time says so for so long. So many connections are remembered.
const KNOWN: Duration = Duration::from_secs(5);
const KNOWN_MAX: usize = 16;
/// For so long one of those is looked for.
const OTHERS: Duration = Duration::from_millis(50);

/// Those of which a packet was in time.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// Which, and when.
    flows: [(u64, Moment); KNOWN_MAX],
    next: usize,
    /// How many late ones said nothing since one was in time, and when the last did.
    ignored: u32,
    ignored_at: Moment,
}

impl Known {
    /// None so far.
    pub(super) fn new() -> Self {
        Known {
            flows: [(0, Moment::NEVER); KNOWN_MAX],
            next: 0,
            ignored: 0,
            ignored_at: Moment::ZERO,
        }
    }

    /// Whether it says something if a packet of that flow is late; `enough`: so many that said nothing say something. O(1).
    pub(super) fn counts(&self, now: Moment, flow: u64, enough: u32) -> bool {
        let is_recent = |at: Moment| at != Moment::NEVER && now.since(at) < KNOWN;
        let mut recent = self.flows.iter().filter(|(_, at)| is_recent(*at)).peekable();
        recent.peek().is_none() || self.ignored >= enough || recent.any(|(known, _)| *known == flow)
    }

    /// Whether only one that counts is to be watched, as one that does not was late, or one that does at that time.
    pub(super) fn seeks(&self, now: Moment, late_at: Option<Moment>) -> bool {
        now < self.ignored_at + OTHERS || late_at.is_some_and(|at| now < at + OTHERS)
    }

    /// A packet was late that says nothing by itself.
    pub(super) fn ignores(&mut self, now: Moment) {
        if now >= self.ignored_at + OTHERS {
            (self.ignored, self.ignored_at) = (self.ignored + 1, now);
        }
    }

    /// A packet of that flow was in time.
    pub(super) fn is_in_time(&mut self, now: Moment, flow: u64) {
        let place = self.flows.iter().position(|(known, _)| *known == flow);
        let place = place.unwrap_or_else(|| {
            self.next = (self.next + 1) % KNOWN_MAX;
            self.next
        });
        self.flows[place] = (flow, now);
        (self.ignored, self.ignored_at) = (0, Moment::ZERO);
    }

    /// A packet of that flow was late and counts: until another of it is in time, the others say more.
    pub(super) fn is_late(&mut self, flow: u64) {
        let own = self.flows.iter_mut().filter(|(known, _)| *known == flow);
        own.for_each(|it| it.1 = Moment::NEVER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_that_was_never_in_time_counts_only_after_enough_of_them() {
        let mut known = Known::new();
        let at = Moment::from_millis;
        assert!(known.counts(at(0), 2, 3), "none is known");
        known.is_in_time(at(0), 1);
        assert!(known.counts(at(1), 1, 3) && !known.counts(at(1), 2, 3));
        for number in 1..=3 {
            known.ignores(at(100 * number));
            known.ignores(at(100 * number + 1));
            assert!(known.seeks(at(100 * number + 49), None));
            assert_eq!(known.counts(at(100 * number), 2, 3), number == 3);
        }
        known.is_in_time(at(400), 1);
        assert!(!known.counts(at(401), 2, 3) && !known.seeks(at(401), None));
        assert!(known.seeks(at(401), Some(at(400))));
        known.is_late(1);
        assert!(known.counts(at(402), 2, 3), "none is known any more");
        known.is_in_time(at(403), 1);
        assert!(known.counts(at(403) + KNOWN, 2, 3), "that was long ago");
    }
}
