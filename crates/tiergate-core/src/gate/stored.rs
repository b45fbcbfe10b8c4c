//! Copies instead of waits and refusals.

use super::pool::{Common, Pool};
use super::{Arrival, Gate, Verdict};
use crate::reason::Reason;
use crate::stored::{Instead, Role};
use crate::time::Moment;

/// Whether a copy is served instead of a refusal for this reason: the server has too much to do, or there is none. What a rule or a policer
/// refuses is refused whatever the load.
pub(super) const fn is_replaced(reason: Reason) -> bool {
    reason.is_for_want_of_capacity() || matches!(reason, Reason::Level | Reason::OriginDown)
}

impl<T> Gate<T> {
    /// Refuses, and counts, a request that cannot go to any server for a reason that the gate does not see, and for which there may be a
    /// copy ([`Arrival::copy`]). O(1), and the partitions of policers.
    ///
    /// # Errors
    /// The copy is to be served.
    pub fn arrive_without_server(
        &mut self,
        now: Moment,
        mut arrival: Arrival,
        reason: Reason,
    ) -> Result<Reason, Instead> {
        let (now, pool, common) = self.at(now, arrival.pool);
        arrival.class = pool.classes.entered(arrival.class);
        let barred = if common.draining {
            Some(Reason::Draining)
        } else {
            pool.is_blocked(common, now, &arrival).then_some(Reason::Blocked)
        };
        if arrival.copy == Role::None || barred.is_some() {
            pool.refuse(arrival, reason);
            return Ok(reason);
        }
        pool.account.arrived(arrival.class, arrival.rule);
        match pool.turn_down(common, now, &arrival, reason)? {
            Verdict::Reject(reason) => Ok(reason),
            _ => unreachable!("it was turned down"),
        }
    }

    /// A request that had a slot, and got the copy that was at hand instead of an error. O(1).
    pub fn stored_after_failure(&mut self, arrival: &Arrival) {
        let pool = self.pool_of_mut(arrival.pool);
        let class = pool.classes.entered(arrival.class);
        pool.account.stored(class, Instead::Failure);
    }
}

impl<T> Pool<T> {
    /// Refuses a request that has been counted as arrived.
    ///
    /// # Errors
    /// It gets its copy instead, as far as policers let it.
    pub(super) fn turn_down(
        &mut self,
        common: &mut Common<T>,
        now: Moment,
        arrival: &Arrival,
        reason: Reason,
    ) -> Result<Verdict, Instead> {
        if arrival.copy == Role::None || !is_replaced(reason) {
            return Ok(self.reject(common, now, arrival, reason));
        }
        if let Err(policed) = self.police(common, now, arrival) {
            return Ok(self.reject(common, now, arrival, policed));
        }
        if reason == Reason::Level {
            // The law counts on it that such a request does not use the server.
            common.adapting.refused(arrival.adapted, arrival.class, false, reason);
        }
        Err(self.serve_copy(arrival, Instead::Refusal))
    }

    pub(super) fn serve_copy(&mut self, arrival: &Arrival, instead: Instead) -> Instead {
        self.account.stored(arrival.class, instead);
        instead
    }
}
