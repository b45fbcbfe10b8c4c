//! What a plan says of one class's backlog, and in which order it puts its waiters.

use super::flows::Flow;
use super::waiter::Waiter;
use crate::class::{Class, Codel, Late, Order, WhenFull};
use crate::classify::score::Score;
use crate::collections::Rank;
use crate::plan::Plan;
use crate::schedule::Policy;
use crate::time::Moment;

/// The part of a [`Class`] that its backlog goes by.
#[derive(Clone, Debug)]
pub(crate) struct Discipline {
    pub(super) order: Order,
    pub(super) fair: bool,
    pub(super) codel: Option<Codel>,
    pub(super) when_full: WhenFull,
    pub(super) late: Late,
    pub(super) len_max: u32,
    pub(super) bytes_max: u64,
    /// Points a second that a waiting request gains, where requests are served by score.
    pub(super) ageing: f64,
}

impl Discipline {
    /// That of a plan's class. The ageing is that of the class's site, if its policy is by score, or else
    /// of the policy between sites.
    pub(crate) fn of_plan(plan: &Plan, class: &Class) -> Self {
        let ageing = match (plan.site_of(class).policy, plan.between_sites) {
            (Policy::Score { ageing }, _) | (_, Policy::Score { ageing }) => ageing,
            _ => 0.0,
        };
        Discipline {
            order: class.order,
            fair: class.fair,
            codel: class.codel,
            when_full: class.when_full,
            late: class.late,
            len_max: class.queue_len_max,
            bytes_max: class.queue_bytes_max,
            ageing,
        }
    }

    /// Whether a waiter of a class has another place in its lists under `other`.
    pub(super) fn places_otherwise(&self, other: &Discipline) -> bool {
        let places = |it: &Discipline| (it.order, it.fair, it.when_full, it.ageing.to_bits());
        places(self) != places(other)
    }

    /// Whether flows take turns: only where the order leaves open who is next. By deadline and by
    /// score it says so of every two requests, and turns would break what it promises: that each
    /// deadline is met if any order could, that no request is served before one of a higher score.
    pub(super) fn has_turns(&self) -> bool {
        self.fair && matches!(self.order, Order::Fifo | Order::AdaptiveLifo)
    }

    /// What tells a flow from others of the class: nothing where they all are one.
    pub(super) fn flow_key(&self, flow: u64) -> u64 {
        if self.fair { flow } else { 0 }
    }

    /// A flow's place by how many of its requests wait. Of several flows as long as each other that one
    /// goes first whose requests the class lets go first: the one that began to wait last where new
    /// requests are refused, else the one that began first.
    pub(super) fn size_rank(&self, flow: &Flow) -> Rank {
        let tie = match self.when_full {
            WhenFull::RefuseNew => u64::MAX - flow.since,
            WhenFull::DropOldest | WhenFull::DropLeast => flow.since,
        };
        (u64::from(u32::MAX - flow.waiters.len()), tie)
    }

    /// A waiter's place among those of its class, where the order is by rank; it never changes.
    pub(super) fn rank<T>(&self, waiter: &Waiter<T>) -> Option<Rank> {
        let Waiter { deadline, score, arrived, sequence, .. } = *waiter;
        match self.order {
            Order::Fifo | Order::AdaptiveLifo => None,
            Order::Deadline => Some((deadline.nanos(), sequence)),
            Order::Score => Some((aged(score, arrived, self.ageing), sequence)),
        }
    }
}

/// Orders by score, highest first, where each gains `ageing` points a second: the lower, the sooner.
/// All age alike, so that `score + ageing × (now − arrived)` puts any two in the same order at every
/// moment; the part that they share, `ageing × now`, is left out.
///
/// Exact to a millionth of a point. Saturates after 9×10¹² points of ageing: at 1,000 points a second
/// after centuries.
pub(crate) fn aged(score: Score, arrived: Moment, ageing: f64) -> u64 {
    let gain_millionths_per_s = (ageing * 1e6) as i128;
    let missed = gain_millionths_per_s * i128::from(arrived.nanos()) / 1_000_000_000;
    let value = i128::from(score.millionths()) - missed;
    (i128::from(i64::MAX) - value).clamp(0, i128::from(u64::MAX)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::score::Points;
    use std::time::Duration;

    #[test]
    fn a_point_is_made_up_for_in_the_time_that_the_ageing_says() {
        let score = |text| Score::of(Points::parse(text).unwrap());
        let at = |s| Moment::ZERO + Duration::from_secs_f64(s);
        let low = aged(score("1"), at(5.0), 0.5);
        assert!(aged(score("3"), at(8.9), 0.5) < low, "3.9 s gain less than two points");
        assert!(aged(score("3"), at(9.1), 0.5) > low, "4.1 s gain more");
        assert_eq!(aged(score("3"), at(9.0), 0.5), low);
        assert!(aged(score("3"), at(1e6), 0.0) < aged(score("1"), at(0.0), 0.0));
        let (late, sooner) = (Moment::from_nanos(u64::MAX / 2), Moment::from_nanos(1 << 62));
        assert!(aged(score("0"), late, 1000.0) > aged(score("0"), sooner, 1000.0));
    }
}
