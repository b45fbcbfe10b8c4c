//! Waiting: in which list, for how long, and how it ends.

use super::Gate;
use crate::backlog::{State, Ticket, list_of};
use crate::class::ClassId;
use crate::reason::Reason;
use crate::time::Moment;
use std::time::Duration;

impl<T> Gate<T> {
    /// Whether no more of the class may wait.
    pub(super) fn is_full(&self, class: ClassId) -> bool {
        self.backlog.len_of(class) >= self.plan.classes[class.index()].queue_len_max
    }

    /// Whether a request may take the place of one that waits, where no more may: a running session's
    /// takes that of a request without one.
    pub(super) fn is_displacing(&self, class: ClassId, running: bool) -> bool {
        running && self.backlog.len_of_list(class, false) > 0
    }

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
            let ticket = self.backlog.first(class).expect("the load counts this class's waiters");
            let waiter = self.backlog.waiter(ticket).expect("just found");
            let (arrived, running) = (waiter.arrived, waiter.running);
            self.count_drain(now, class, running);
            self.drains[list_of(class, running)].served();
            self.leaves(class);
            // The slot is described by the entry until its owner claims it.
            let slot = self.grant(now, class, arrived);
            let wake = self.backlog.settle(ticket, State::Granted(slot.admitted));
            self.wakes.push(wake);
        }
    }

    /// Refuses whoever waited past the deadline.
    pub(super) fn expire(&mut self, now: Moment) {
        while let Some((deadline, ticket)) = self.backlog.next_deadline() {
            if deadline > now {
                break;
            }
            let class = self.refuse_waiter(now, ticket, Reason::DeadlineExpired);
            self.triggers.changed(class, &self.loads);
        }
    }

    /// Refuses the newest waiter of the class without a running session, whose place is wanted. The
    /// tokens that it took stay taken. The caller tells the triggers.
    ///
    /// # Panics
    /// If there is none: see [`Gate::is_displacing`].
    pub(super) fn displace(&mut self, now: Moment, class: ClassId) {
        let newest = self.backlog.newest(class).expect("whoever comes in full displaces one");
        self.refuse_waiter(now, newest, Reason::QueueFull);
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
