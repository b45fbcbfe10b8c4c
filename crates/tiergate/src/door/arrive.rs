//! A request at the door: what it is told.

use super::lock::Door;
use super::slot_guard::SlotGuard;
use super::waiting::Waiting;
use std::task::Context;
use tiergate_core::adapt::Adapted;
use tiergate_core::admit::policer::{PolicerId, Quota};
use tiergate_core::gate::{Arrival, Refused, Verdict};
use tiergate_core::names::{AdaptationId, ClassId};
use tiergate_core::reason::Reason;
use tiergate_core::stored::Instead;
use tiergate_core::time::Moment;

/// A request that is not refused: its slot, the wait for one, or a copy.
#[derive(Debug)]
pub enum Entry<'d> {
    /// The slot.
    Now(SlotGuard<'d>),
    /// The wait: see [`Waiting::wait`].
    Later(Waiting<'d>),
    /// Neither: the copy that is at hand is to be served.
    Stored(Instead),
}

/// What is left of the policer whose clients are told.
pub type Left = Option<(PolicerId, Quota)>;

impl Door {
    /// Takes a request to the gate. The task of `context` is woken when a wait is over.
    ///
    /// # Errors
    /// It is refused.
    pub fn arrive(
        &self,
        now: Moment,
        arrival: Arrival,
        context: &Context<'_>,
    ) -> Result<(Entry<'_>, Left), Refused> {
        let mut gate = self.gate();
        let answer = match gate.arrive_with_copy(now, arrival, || context.waker().clone()) {
            Err(instead) => Ok(Entry::Stored(instead)),
            Ok(Verdict::Admit(slot)) => Ok(Entry::Now(SlotGuard::new(self, slot))),
            Ok(Verdict::Queue(ticket)) => Ok(Entry::Later(Waiting::new(self, ticket))),
            Ok(Verdict::Reject(reason)) => Err(gate.refused(now, &arrival, reason)),
        };
        let answer = answer.map(|entry| (entry, gate.announced(now, &arrival)));
        // Others may have left for it, or have got what was kept for them.
        self.settle(gate, now);
        answer
    }

    /// Takes a request to the gate that no server can serve: it may have a copy.
    ///
    /// # Errors
    /// It is refused; `refused` says more of that than the gate can, if it is for the same reason.
    pub fn arrive_without_server(
        &self,
        now: Moment,
        arrival: Arrival,
        refused: Refused,
    ) -> Result<(Entry<'_>, Left), Refused> {
        let mut gate = self.gate();
        let answer = match gate.arrive_without_server(now, arrival, refused.reason) {
            Err(instead) => Ok((Entry::Stored(instead), gate.announced(now, &arrival))),
            Ok(reason) if reason != refused.reason => Err(gate.refused(now, &arrival, reason)),
            Ok(_) => Err(refused),
        };
        self.settle(gate, now);
        answer
    }

    /// Counts a request that had a slot and got a copy instead of an error.
    pub fn stored_after_failure(&self, arrival: &Arrival) {
        self.gate().stored_after_failure(arrival);
    }

    /// The level of a request's answer; see [`tiergate_core::gate::Gate::level`].
    pub fn level(
        &self,
        id: AdaptationId,
        class: ClassId,
        client: u64,
        is_running: bool,
    ) -> Option<Adapted> {
        self.gate().level(id, class, client, is_running)
    }

    /// Refuses a request whose body is still to be read, if it would be refused now.
    pub fn precheck(&self, now: Moment, arrival: Arrival) -> Option<Refused> {
        let mut gate = self.gate();
        let refused =
            gate.turn_away(now, arrival).map(|reason| gate.refused(now, &arrival, reason));
        self.settle(gate, now);
        refused
    }

    /// What the client of a request is told that had a slot and is refused for this reason.
    pub fn refused(&self, now: Moment, arrival: &Arrival, reason: Reason) -> Refused {
        self.gate().refused(now, arrival, reason)
    }
}
