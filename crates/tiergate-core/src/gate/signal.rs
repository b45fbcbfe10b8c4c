//! What clients are told: how long a refused one should stay away, what one has left of a policer; and
//! which clients are blocked because they ignore it.

use super::pool::{Common, Pool};
use super::{Arrival, Gate, Refused};
use crate::admit::policer::Quota;
use crate::names::{ClassId, LaneId, PolicerId};
use crate::reason::Reason;
use crate::time::Moment;
use std::time::Duration;

impl<T> Gate<T> {
    /// What the client can be told of a refusal that was just given. It counts nothing. O(1), and the
    /// partitions of a policer; for [`Reason::BacklogTrigger`] O(triggers × classes).
    pub fn refused(&mut self, now: Moment, arrival: &Arrival, reason: Reason) -> Refused {
        let (now, pool, common) = self.at(now, arrival.pool);
        let class = pool.classes.entered(arrival.class);
        let mut refused = Refused::of(reason);
        match reason {
            Reason::QueueFull
            | Reason::DeadlineInfeasible
            | Reason::LastingOverload
            | Reason::DeadlineExpired
            | Reason::QueueDelay
            | Reason::Shed
            | Reason::Preempted => {
                refused.wait =
                    pool.drain_time(now, pool.lanes.of(class, arrival.resource), arrival.running);
            }
            Reason::BacklogTrigger => refused.wait = pool.trigger_time(now, class),
            Reason::Policed | Reason::SitePoliced => {
                let found = self.quota(now, arrival);
                refused.wait = found.map_or(Duration::ZERO, |(_, quota)| quota.wait);
                refused.policer = found;
            }
            Reason::Blocked => {
                let left = common.blocking.as_ref().and_then(|it| it.left(now, arrival.flow));
                refused.wait = left.unwrap_or(Duration::ZERO);
            }
            // Nothing says when it will be let in again.
            Reason::Level
            | Reason::Rule
            | Reason::OriginDown
            | Reason::ConnectionsFull
            | Reason::Draining
            | Reason::Reconfigured => {}
        }
        refused
    }

    /// What the request has left of the first policer that it comes under and whose clients are told
    /// ([`announce`]); `None` if there is none.
    ///
    /// [`announce`]: crate::admit::policer::Settings::announce
    pub fn announced(&mut self, now: Moment, arrival: &Arrival) -> Option<(PolicerId, Quota)> {
        if self.common.plan.policers.is_empty() {
            return None;
        }
        let (now, pool, common) = self.at(now, arrival.pool);
        let class = pool.classes.entered(arrival.class);
        let under = pool.policers_of(common, class, arrival)?;
        let told = |id: &PolicerId| common.plan.policer(*id).is_some_and(|it| it.announce);
        let policer = under.policers().find(told)?;
        Some((policer, common.policers.quota(now, policer, under)))
    }
}

impl<T> Pool<T> {
    /// Whether the request is refused because its flow was refused too often. Never, where it belongs
    /// to a running session or to the most important of several classes.
    pub(super) fn is_blocked(&self, common: &Common<T>, now: Moment, arrival: &Arrival) -> bool {
        let Some(blocking) = &common.blocking else {
            return false;
        };
        !self.is_spared(common, arrival.class, arrival.running)
            && blocking.left(now, arrival.flow).is_some()
    }

    /// Notes a refusal, if it is of those after which a flow is blocked: for want of capacity or of a
    /// token, which the client could have made up for by waiting.
    pub(super) fn count_refusal(
        &self,
        common: &mut Common<T>,
        now: Moment,
        class: ClassId,
        running: bool,
        flow: u64,
        reason: Reason,
    ) {
        let is_policed = matches!(reason, Reason::Policed | Reason::SitePoliced);
        let counts = is_policed || reason.is_for_want_of_capacity();
        let spared = self.is_spared(common, class, running);
        if let Some(blocking) = common.blocking.as_mut().filter(|_| counts && !spared)
            && let Some(until) = blocking.refused(now, flow)
        {
            common.effects.block(flow, until);
        }
    }

    fn is_spared(&self, common: &Common<T>, class: ClassId, running: bool) -> bool {
        running || self.classes.rank(class) == 0 && common.plan.classes.len() > 1
    }

    /// How long it takes to serve what waits in a list.
    fn drain_time(&mut self, now: Moment, lane: LaneId, running: bool) -> Duration {
        self.count_drain(now, lane, running);
        let waiting = self.backlog.len_of_list(lane, running);
        time_to_serve(waiting, self.lanes.at(lane).drain(running).per_second())
    }

    /// How long it takes until the backlogs for which the class is refused are short enough.
    fn trigger_time(&mut self, now: Moment, class: ClassId) -> Duration {
        let lists = |lane: LaneId| [(lane, true), (lane, false)];
        for (lane, running) in self.lanes.ids().flat_map(lists) {
            self.count_drain(now, lane, running);
        }
        let rank = self.classes.rank(class);
        let times = self.triggers.excess(rank, self.classes.loads()).map(|(of, excess)| {
            let rates = self.lanes.ids().flat_map(lists).filter_map(|(id, running)| {
                let lane = self.lanes.at(id);
                let waits = self.backlog.len_of_list(id, running) > 0;
                let waits =
                    waits && lane.resource.is_none() && of.has(self.classes.rank(lane.class));
                waits.then(|| lane.drain(running).per_second()).flatten()
            });
            time_to_serve(excess, rates.reduce(|sum, rate| sum + rate))
        });
        times.max().unwrap_or(Duration::ZERO)
    }
}

/// Zero if it is not known how many are served in a second.
fn time_to_serve(count: u32, per_second: Option<f64>) -> Duration {
    match per_second {
        Some(rate) if count > 0 => {
            Duration::try_from_secs_f64(f64::from(count) / rate).unwrap_or(Duration::MAX)
        }
        _ => Duration::ZERO,
    }
}
