//! Waiting: in which list, for how long, and how it ends.

use super::{Arrival, Gate};
use crate::backlog::{DROPS_MAX, Room, State, Ticket, list_of};
use crate::class::ClassId;
use crate::reason::Reason;
use crate::time::Moment;
use std::time::Duration;

impl<T> Gate<T> {
    /// Whether a request of the class would be served before its deadline. It stands behind its own
    /// list; that those of running sessions go first shows in how fast the other list is served.
    pub(super) fn is_feasible(&self, class: ClassId, running: bool, patience: Duration) -> bool {
        let waiting = self.backlog.len_of_list(class, running);
        self.drains[list_of(class, running)].is_feasible(waiting, patience, self.limit.slots())
    }

    /// Lets time pass for what is known of how fast a list is served; before the list changes.
    pub(super) fn count_drain(&mut self, now: Moment, class: ClassId, running: bool) {
        let waiting = self.backlog.len_of_list(class, running) > 0;
        self.drains[list_of(class, running)].pass(now, waiting);
    }

    /// Gives free slots to waiters in the policy's order.
    pub(super) fn dispatch(&mut self, now: Moment) {
        while self.running < self.limit.slots() {
            let Some(class) = self.strict.pick(&self.loads, self.limit.slots()) else {
                break;
            };
            self.drop_delayed(now, class);
            let ticket = self.backlog.first(now, class).expect("the load counts its waiters");
            let waiter = self.backlog.waiter(ticket).expect("just found");
            let (arrived, running, late) = (waiter.arrived, waiter.running, waiter.late);
            self.count_drain(now, class, running);
            if !late {
                self.drains[list_of(class, running)].served();
            }
            self.leaves(class);
            self.backlog.served(ticket, 1.0);
            // The slot is described by the entry until its owner claims it.
            let slot = self.grant(now, class, arrived);
            let wake = self.backlog.settle(ticket, State::Granted(slot.admitted));
            self.wakes.push(wake);
        }
    }

    /// Refuses whoever waited past the deadline.
    pub(super) fn expire(&mut self, now: Moment) {
        while let Some(ticket) = self.backlog.expired(now) {
            let class = self.refuse_waiter(now, ticket, Reason::DeadlineExpired);
            self.triggers.changed(class, &self.loads);
        }
    }

    /// Refuses those whose delay CoDel does not let stand, before one of the class is served. O(1).
    fn drop_delayed(&mut self, now: Moment, class: ClassId) {
        for _ in 0..DROPS_MAX {
            let Some(ticket) = self.backlog.delayed(now, class) else {
                break;
            };
            self.refuse_waiter(now, ticket, Reason::Delayed);
            self.triggers.changed(class, &self.loads);
        }
    }

    /// Refuses those whose place an arrival takes, if it is to wait; whether it is. The tokens that they
    /// took stay taken. The caller tells the triggers.
    pub(super) fn make_room(&mut self, now: Moment, class: ClassId, arrival: &Arrival) -> bool {
        for left in 0.. {
            match self.backlog.room(class, arrival, left) {
                Room::Free => break,
                Room::None => return false,
                Room::After(ticket) => self.refuse_waiter(now, ticket, Reason::QueueFull),
            };
        }
        true
    }

    /// One fewer of the class waits.
    pub(super) fn leaves(&mut self, class: ClassId) {
        self.loads[class.index()].waiting -= 1;
        self.triggers.changed(class, &self.loads);
    }

    /// Ends a wait with a refusal; the caller tells the triggers. Returns the waiter's class.
    fn refuse_waiter(&mut self, now: Moment, ticket: Ticket, reason: Reason) -> ClassId {
        let waiter = self.backlog.waiter(ticket).expect("the backlog knows who waits in it");
        let (class, running, flow) = (waiter.class, waiter.running, waiter.flow);
        self.count_drain(now, class, running);
        self.loads[class.index()].waiting -= 1;
        self.account.refused(class, reason);
        self.count_refusal(now, class, running, flow, reason);
        let wake = self.backlog.settle(ticket, State::Refused(reason));
        self.wakes.push(wake);
        class
    }
}
