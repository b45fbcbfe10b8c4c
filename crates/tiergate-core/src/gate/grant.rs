//! Slots: given, described, and back with what the request has cost.

use super::pool::Pool;
use super::{Holds, Slot};
use crate::backlog::{Granted, Waiter};
use crate::control::Seat;
use crate::names::{LaneId, RuleId};
use crate::outcome::Outcome;
use crate::schedule::Grant;
use crate::time::Moment;

/// What a request was given.
pub(super) struct Given {
    pub(super) grant: Grant,
    /// Whose slots, where each server has its own.
    pub(super) seat: Option<Seat>,
    /// They are none of the limit's ([`super::background`]).
    pub(super) beside: bool,
    /// Slots in use there with it, and of the resource that it needs.
    pub(super) found: u32,
    pub(super) found_there: u32,
}

impl<T> Pool<T> {
    /// Lets time pass for the schedule; before a load changes.
    pub(super) fn advance(&mut self, now: Moment) {
        if self.ready() == 0 && self.schedule.rests() {
            return;
        }
        self.let_time_pass(now);
    }

    /// The same, also where nobody waits: somebody is about to.
    pub(super) fn let_time_pass(&mut self, now: Moment) {
        self.schedule.advance(now, self.classes.loads(), self.limit.slots());
    }

    /// Gives slots to a request of the lane that waits no more; after [`Pool::advance`].
    pub(super) fn grant(
        &mut self,
        now: Moment,
        lane: LaneId,
        rule: Option<RuleId>,
        slots: u16,
    ) -> Given {
        let class = self.lanes.at(lane).class;
        let grant = Grant { slots, estimate: self.costs.estimate(class, rule, slots) };
        let rank = self.classes.rank(class);
        let beside = self.is_beside(lane);
        if !beside {
            self.schedule.granted(rank, self.classes.loads(), self.limit.slots(), grant);
        }
        let seat = if beside { None } else { self.limit.grant(now, slots) };
        self.progressed(now);
        *self.classes.loads_mut()[rank].held(beside) += u32::from(slots);
        self.classes.at_mut(class).requests += 1;
        let (found, found_there) = (self.limit.running_at(seat), self.takes_resource(now, lane));
        self.look_at_background(now);
        Given { grant, seat, beside, found, found_there }
    }

    /// The slot of a waiter that was granted one, when so many slots were in use with it.
    pub(super) fn slot_of(&self, waiter: &Waiter<T>, granted: Granted) -> Slot {
        let Granted { at: admitted, found, found_there, seat, beside, lineup, place } = granted;
        Slot {
            pool: self.id,
            class: waiter.class,
            lane: waiter.lane,
            adapted: waiter.adapted,
            rule: waiter.rule,
            flow: waiter.flow,
            admitted,
            holds: Holds::granted(seat, beside),
            lineup,
            found,
            found_there,
            arrived: waiter.arrived,
            grant: Grant { slots: waiter.slots, estimate: waiter.estimate },
            turn: waiter.turn,
            preemptible: None,
            slow: None,
            slow_beside: false,
            place,
        }
    }

    /// Puts right what the request was charged with.
    pub(super) fn settle_cost(&mut self, now: Moment, slot: &Slot, outcome: &Outcome) {
        let Slot { class, rule, grant, .. } = *slot;
        // It is not charged for a wait.
        let held = match slot.transfer() {
            Some(key) => self.transfers.held(now, slot.admitted, key),
            None => self.lent_since(slot).unwrap_or(now).since(slot.admitted),
        };
        if let Some(shedding) = &mut self.shedding {
            shedding.held(slot.flow, grant.slots, held);
        }
        let actual = self.costs.actual(held, grant.slots, outcome);
        self.costs.learn(class, rule, actual, outcome.end);
        self.settle_charge(now, slot, actual);
    }

    /// Charges the request with what it has cost, in place of what was expected.
    pub(super) fn settle_charge(&mut self, now: Moment, slot: &Slot, actual: f64) {
        let Slot { class, grant, .. } = *slot;
        let is_charged = slot.admitted >= self.classes.at(class).charged_since;
        let actual = if is_charged { actual } else { grant.estimate };
        if !slot.is_beside() {
            self.schedule.finished(self.classes.rank(class), grant, actual);
        }
        if let Some(turn) = slot.turn {
            self.backlog.ended(now, turn, grant.estimate, actual);
        }
    }

    pub(super) fn take_back(&mut self, now: Moment, slot: &mut Slot) {
        if self.gives_up_transfer(slot) {
            // It held none.
        } else if !self.gives_up_lent(slot) && !self.is_written_off(slot) {
            if !slot.is_beside() {
                self.limit.take_back(slot.seat(), slot.grant.slots);
            }
            self.gives_resource(slot.lane);
            *self.classes.load_mut(slot.class).held(slot.is_beside()) -=
                u32::from(slot.grant.slots);
        }
        self.overtaken.ends(now, slot.place);
        self.classes.at_mut(slot.class).requests -= 1;
        if let Some(key) = slot.preemptible {
            self.preemptible.remove(key);
        }
        if let Some(key) = slot.slow {
            self.slow_of(slot).remove(key);
        }
    }
}
