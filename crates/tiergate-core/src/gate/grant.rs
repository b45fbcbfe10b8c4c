//! Slots: given, described, and back with what the request has cost.

use super::{Gate, Slot};
use crate::backlog::Waiter;
use crate::class::ClassId;
use crate::outcome::Outcome;
use crate::schedule::Grant;
use crate::time::Moment;
use std::time::Duration;

impl<T> Gate<T> {
    /// Lets time pass for the schedule; before a load changes.
    pub(super) fn advance(&mut self, now: Moment) {
        if self.backlog.len() == 0 && self.schedule.rests() {
            return;
        }
        self.let_time_pass(now);
    }

    /// The same, also where nobody waits: somebody is about to.
    pub(super) fn let_time_pass(&mut self, now: Moment) {
        self.schedule.advance(now, &self.loads, self.limit.slots());
    }

    /// Gives slots to a request of the class that waits no more; after [`Gate::advance`].
    pub(super) fn grant(
        &mut self,
        now: Moment,
        class: ClassId,
        rule: Option<u32>,
        slots: u16,
    ) -> Grant {
        let grant = Grant { slots, estimate: self.costs.estimate(class, rule, slots) };
        self.schedule.granted(class, &self.loads, self.limit.slots(), grant);
        self.limit.pass(now, self.running);
        self.running += u32::from(slots);
        self.loads[class.index()].running += u32::from(slots);
        self.requests[class.index()] += 1;
        self.generations.granted();
        grant
    }

    /// The slot of a waiter that was granted one.
    pub(super) fn slot_of(&self, waiter: &Waiter<T>, admitted: Moment) -> Slot {
        Slot {
            class: waiter.class,
            generation: self.plan.generation,
            rule: waiter.rule,
            admitted,
            arrived: waiter.arrived,
            grant: Grant { slots: waiter.slots, estimate: waiter.estimate },
            turn: waiter.turn,
            charged: admitted >= self.since,
            preemptible: None,
        }
    }

    /// Puts right what the request was charged with.
    pub(super) fn settle_cost(
        &mut self,
        slot: &Slot,
        class: ClassId,
        held: Duration,
        outcome: &Outcome,
    ) {
        let current = slot.generation == self.plan.generation;
        let actual = self.costs.actual(held, slot.grant.slots, outcome);
        self.costs.learn(class, slot.rule.filter(|_| current), actual, outcome.end);
        let charged = current && slot.charged;
        let actual = if charged { actual } else { slot.grant.estimate };
        self.schedule.finished(class, slot.grant, actual);
        if let Some(turn) = slot.turn {
            self.backlog.corrected(turn, actual - slot.grant.estimate);
        }
    }

    pub(super) fn take_back(&mut self, slot: Slot, class: ClassId) {
        let slots = u32::from(slot.grant.slots);
        self.running -= slots;
        self.loads[class.index()].running -= slots;
        self.requests[class.index()] -= 1;
        self.generations.released(slot.generation);
        if let Some(key) = slot.preemptible {
            self.preemptible.remove(key);
        }
    }
}
