//! A token bucket for each flow: the same rate and burst for all, a bounded table of those that are
//! not full.
//!
//! The time that all share is counted in tokens: how many a bucket would have been given so far. A
//! bucket is then one number, the token time at which it is full again; `n` tokens are missing while
//! that is `n` ahead (the generic cell rate algorithm, ITU-T I.371). So a bucket that is full needs no
//! place in the table, and a change of the rate is a change of how fast the shared time runs: O(1), and
//! every flow keeps the tokens that it has.
//!
//! A flow that finds the table full of others that are not full is let through, and counted: it has
//! done nothing, and the slots protect the origin from it as from everybody.
//!
//! Bounds: over any time t a flow is given at most rate × t + burst and a thousandth of a token, by which
//! whoever was full is rounded up.

use super::bucket::{DAY_NANOS, Rate, Taken};
use crate::collections::FlowTable;
use crate::time::Moment;
use std::time::Duration;

/// A token in the units of token time. Thousandths: a million a second for 584 years fit 64 bits.
const TOKEN: u64 = 1000;

/// The buckets of all flows.
#[derive(Clone, Debug)]
pub(super) struct FlowBuckets {
    rate: Rate,
    burst: u64,
    /// Token time now, in whole thousandths, and what is beyond, in thousandths × nanoseconds a day.
    passed: u64,
    rest: u64,
    settled: Moment,
    table: FlowTable,
}

impl FlowBuckets {
    /// The highest rate of a flow: beyond it token time would not fit.
    pub(super) const RATE_MAX: Rate = Rate::per_second(1_000_000);

    /// Every flow's bucket is full. At most [`FlowBuckets::RATE_MAX`].
    pub(super) fn new(now: Moment, rate: Rate, burst: u32, flows_max: u32) -> Self {
        FlowBuckets {
            rate: rate.min(Self::RATE_MAX),
            burst: u64::from(burst) * TOKEN,
            passed: 0,
            rest: 0,
            settled: now,
            table: FlowTable::for_flows(flows_max),
        }
    }

    /// Another rate and another burst from now on: each flow keeps what it is missing, and at most the
    /// burst. O(flows) if that is smaller than it was.
    pub(super) fn reconfigure(&mut self, now: Moment, rate: Rate, burst: u32) {
        self.settle(now);
        self.rate = rate.min(Self::RATE_MAX);
        let former = std::mem::replace(&mut self.burst, u64::from(burst) * TOKEN);
        if self.burst < former {
            self.table.lower_to(self.passed.saturating_add(self.burst));
        }
    }

    /// Whether the table is as large as one for so many flows.
    pub(super) fn is_for(&self, flows_max: u32) -> bool {
        self.table.places() == FlowTable::places_for(flows_max)
    }

    /// Whether the flow gets a token, or would get one without. O(1).
    pub(super) fn has_token(&mut self, now: Moment, flow: u64) -> bool {
        self.settle(now);
        self.missing(flow) + TOKEN <= self.burst
    }

    /// Takes a token of the flow; `None` if its bucket is empty. O(1).
    pub(super) fn take(&mut self, now: Moment, flow: u64) -> Option<Taken> {
        self.settle(now);
        let passed = self.passed;
        let Some(full_at) = self.table.entry(flow, |full_at| full_at <= passed) else {
            return Some(Taken::Untracked);
        };
        if full_at.saturating_sub(passed) + TOKEN > self.burst {
            return None;
        }
        *full_at = passed.max(*full_at).saturating_add(TOKEN);
        Some(Taken::Own)
    }

    /// Whole tokens that the flow has.
    pub(super) fn tokens(&mut self, now: Moment, flow: u64) -> u32 {
        self.settle(now);
        (self.burst.saturating_sub(self.missing(flow)) / TOKEN) as u32
    }

    /// Whole tokens that a flow finds after a pause.
    pub(super) fn most(&self) -> u32 {
        (self.burst / TOKEN) as u32
    }

    /// How long until the flow has a token: zero if it has one.
    pub(super) fn next_token(&mut self, now: Moment, flow: u64) -> Duration {
        self.settle(now);
        let thousandths = (self.missing(flow) + TOKEN).saturating_sub(self.burst);
        match u128::from(thousandths) * u128::from(DAY_NANOS) {
            0 => Duration::ZERO,
            amount => self.rate.time_for(amount - u128::from(self.rest), 1),
        }
    }

    /// About how many flows are not full.
    pub(super) fn taken(&self) -> usize {
        let passed = self.passed;
        self.table.taken(|full_at| full_at <= passed)
    }

    /// What the flow's bucket is missing.
    fn missing(&self, flow: u64) -> u64 {
        self.table.number(flow).saturating_sub(self.passed)
    }

    fn settle(&mut self, now: Moment) {
        let nanos = now.since(self.settled).as_nanos() as u64;
        if nanos == 0 {
            return;
        }
        self.settled = now;
        let speed = self.rate.thousandths_per_day();
        // Nearly always within 64 bits, whose division takes a tenth of the time.
        let brought = nanos.checked_mul(speed).and_then(|brought| brought.checked_add(self.rest));
        let (whole, rest) = match brought {
            Some(brought) => (brought / DAY_NANOS, brought % DAY_NANOS),
            None => {
                let brought = u128::from(nanos) * u128::from(speed) + u128::from(self.rest);
                let day = u128::from(DAY_NANOS);
                ((brought / day).try_into().unwrap_or(u64::MAX), (brought % day) as u64)
            }
        };
        self.passed = self.passed.saturating_add(whole);
        self.rest = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn take(buckets: &mut FlowBuckets, now: Moment, flow: u64) -> bool {
        let taken = buckets.take(now, flow);
        assert_ne!(taken, Some(Taken::Untracked), "the table is full");
        taken.is_some()
    }

    #[test]
    fn each_flow_has_its_own_burst_and_rate() {
        let mut buckets = FlowBuckets::new(Moment::ZERO, Rate::per_minute(10), 3, 100);
        for flow in [1 << 40, 2 << 40] {
            let taken = (0..9).filter(|_| take(&mut buckets, Moment::ZERO, flow)).count();
            assert_eq!(taken, 3);
        }
        assert_eq!(buckets.next_token(Moment::ZERO, 1 << 40), SECOND * 6);
        assert_eq!(buckets.next_token(Moment::ZERO, 3 << 40), Duration::ZERO);
        let now = Moment::ZERO + SECOND * 6;
        assert!(!take(&mut buckets, now - Duration::from_nanos(1), 1 << 40));
        assert!(take(&mut buckets, now, 1 << 40));
        assert_eq!(buckets.tokens(now + SECOND * 3600, 2 << 40), 3);
    }

    #[test]
    fn a_slow_flow_has_its_whole_burst_at_any_moment() {
        for nanos in [1, 999, 123_456_789, 3_599_999_999_999] {
            let now = Moment::from_nanos(nanos);
            let mut buckets =
                FlowBuckets::new(Moment::ZERO, Rate::of_thousandths(1000, 3600), 2, 9);
            let taken = (0..9).filter(|_| take(&mut buckets, now, 7)).count();
            assert_eq!(taken, 2, "at {nanos} ns");
        }
    }

    #[test]
    fn a_rate_changes_for_all_and_takes_nothing_away() {
        let mut buckets = FlowBuckets::new(Moment::ZERO, Rate::per_second(1), 10, 100);
        for _ in 0..8 {
            assert!(take(&mut buckets, Moment::ZERO, 7 << 50));
        }
        buckets.reconfigure(Moment::ZERO + SECOND, Rate::per_second(3), 10);
        assert_eq!(buckets.tokens(Moment::ZERO + SECOND, 7 << 50), 3);
        assert_eq!(buckets.tokens(Moment::ZERO + SECOND * 2, 7 << 50), 6);
    }

    #[test]
    fn a_smaller_burst_makes_nobody_wait_longer_than_for_one_token() {
        let mut buckets = FlowBuckets::new(Moment::ZERO, Rate::per_second(1), 100, 100);
        while take(&mut buckets, Moment::ZERO, 7 << 50) {}
        buckets.reconfigure(Moment::ZERO, Rate::per_second(1), 5);
        assert_eq!(buckets.next_token(Moment::ZERO, 7 << 50), SECOND);
    }

    #[test]
    fn a_flow_is_forgotten_only_when_its_bucket_is_full() {
        let mut buckets = FlowBuckets::new(Moment::ZERO, Rate::per_second(1), 2, 10);
        let spread = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut tracked = Vec::new();
        let mut untracked = None;
        for number in 1..1000 {
            match buckets.take(Moment::ZERO, spread(number)) {
                Some(Taken::Untracked) => untracked = Some(spread(number)),
                Some(_) => tracked.push(spread(number)),
                None => panic!("every flow comes once"),
            }
        }
        assert!((10..=16).contains(&tracked.len()), "{}", tracked.len());
        let untracked = untracked.expect("a thousand flows do not fit");
        assert!(tracked.iter().all(|&flow| buckets.tokens(Moment::ZERO, flow) == 1));
        // A second later all are full again, and may go.
        let now = Moment::ZERO + SECOND;
        assert_eq!(buckets.taken(), tracked.len());
        assert!(take(&mut buckets, now, untracked));
        assert_eq!(buckets.taken(), 1);
    }

    #[test]
    fn the_end_of_time_does_not_overflow() {
        let mut buckets = FlowBuckets::new(Moment::ZERO, Rate::MAX, u32::MAX, 10);
        assert!(take(&mut buckets, Moment::ZERO, 7));
        assert!(take(&mut buckets, Moment::NEVER, 7));
    }
}
