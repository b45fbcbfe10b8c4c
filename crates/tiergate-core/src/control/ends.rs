//! How the requests of a window ended: whether nearly all of them failed.

use crate::admit::groups::{group, left_out};

/// Fewest failures, and failures for each answer, at which nearly all fail.
const FAILURES_MIN: u32 = 8;
const FAILURES_PER_KEPT: u32 = 3;
/// Groups of flows: what one address does must not lower the limit for all.
const GROUPS: usize = 16;

/// Answers in time, and requests that ended without one.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    kept: u32,
    failed: u32,
}

impl Count {
    fn add(&mut self, more: Count) {
        self.kept += more.kept;
        self.failed += more.failed;
    }

    fn is_failing(&self) -> bool {
        self.failed >= FAILURES_MIN && self.failed > FAILURES_PER_KEPT * self.kept
    }

    fn share(&self) -> f32 {
        self.failed as f32 / (self.failed + self.kept).max(1) as f32
    }
}

/// Ends by group of flows.
#[derive(Clone, Debug, Default)]
pub(super) struct Ends {
    all: Count,
    groups: [Count; GROUPS],
}

impl Ends {
    /// Counts so many requests of a flow. O(1).
    pub(super) fn add(&mut self, flow: u64, has_failed: bool, requests: u32) {
        let count = match has_failed {
            true => Count { kept: 0, failed: requests },
            false => Count { kept: requests, failed: 0 },
        };
        self.all.add(count);
        self.groups[group(flow, GROUPS)].add(count);
    }

    /// Whether nearly all failed, also without the groups that fail most. A comparison, and O(groups) where nearly all failed.
    pub(super) fn are_failures(&self) -> bool {
        self.all.is_failing() && self.of_most().is_failing()
    }

    fn of_most(&self) -> Count {
        let mut seen = self.groups;
        seen.sort_unstable_by(|one, other| one.share().total_cmp(&other.share()));
        let is_seen = |count: &&Count| count.kept + count.failed > 0;
        let many = seen.iter().filter(is_seen).count();
        let mut sum = Count::default();
        let most = seen.iter().filter(is_seen).take(many - left_out(many));
        most.for_each(|count| sum.add(*count));
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of so many flows each has this many failures and answers, and one more has other numbers.
    fn ends(flows: u64, each: (u32, u32), one: (u32, u32)) -> bool {
        let mut ends = Ends::default();
        let counts = (1..=flows).map(|flow| (flow, each)).chain([(0, one)]);
        for (flow, (failed, kept)) in counts {
            ends.add(flow, true, failed);
            ends.add(flow, false, kept);
        }
        ends.are_failures()
    }

    #[test]
    fn nearly_all_must_fail() {
        assert!(ends(0, (0, 0), (8, 2)), "one address alone: a proxy, perhaps");
        assert!(!ends(0, (0, 0), (7, 0)) && !ends(0, (0, 0), (9, 3)));
        assert!(ends(20, (4, 1), (4, 1)) && !ends(20, (3, 1), (3, 1)));
    }

    #[test]
    fn what_one_address_provokes_is_not_the_origins_doing() {
        for flows in [1, 2, 3, 10, 100] {
            assert!(!ends(flows, (0, 3), (1_000, 0)), "beside {flows}");
            assert!(ends(flows, (30, 1), (1_000, 0)), "beside {flows} that fail as well");
        }
    }
}
