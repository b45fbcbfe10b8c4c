//! Waiting: in which list, for how long, and how it ends.

use super::Gate;
use crate::backlog::{State, Ticket, list_of};
use crate::class::ClassId;
use crate::control::Limit;
use crate::reason::Reason;
use crate::schedule::Next;
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

    /// Whether no more may wait in all.
    pub(super) fn is_crowded(&self) -> bool {
        self.backlog.len() >= self.plan.queue_len_max as usize
    }

    /// Of the classes below this one, of its site, the least important that has anybody waiting.
    /// O(classes).
    pub(super) fn below(&self, class: ClassId) -> Option<ClassId> {
        let site = self.plan.classes[class.index()].site;
        let below = (class.index() + 1..self.loads.len()).rev();
        let waits =
            |&class: &usize| self.loads[class].waiting > 0 && self.plan.classes[class].site == site;
        below.into_iter().find(waits).map(|class| ClassId(class as u16))
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

    /// Gives free slots to waiters in the policy's order, until there is none or nobody may have one. A
    /// request that is next and takes more slots than are free waits until they are, and nobody else gets
    /// them meanwhile: else narrower ones, even of less important classes, would take each slot as it
    /// comes free, and it would never be served. What is kept for it so is less than what it
    /// takes, and for no longer than its deadline and those that run. The gate then says so to the limit.
    pub(super) fn dispatch(&mut self, now: Moment) {
        while self.has_free_slot() {
            let Some((class, slots)) = self.next(now) else {
                break;
            };
            if !self.fits(slots) {
                break;
            }
            let ticket = self.backlog.first(now, class).expect("it was just asked");
            let waiter = self.backlog.waiter(ticket).expect("just found");
            let (running, rule, arrived) = (waiter.running, waiter.rule, waiter.arrived);
            self.count_drain(now, class, running);
            self.drains[list_of(class, running)].served();
            self.leaves(class);
            // The slot is described by the entry until its owner claims it.
            let grant = self.grant(now, class, rule, slots);
            self.account.granted(class, now.since(arrived));
            self.backlog.charge(ticket, grant.estimate);
            let wake = self.backlog.settle(ticket, State::Granted(now));
            self.wakes.push(wake);
        }
        self.note_kept(now);
        self.interrupt(now);
    }

    /// The class that is served next and the slots that its next request takes, whether they are free or
    /// not; `None` if nobody may have a slot.
    pub(super) fn next(&mut self, now: Moment) -> Option<(ClassId, u16)> {
        if self.schedule.looks_at_requests() {
            self.look_at_requests(now);
        }
        let class = self.schedule.pick(&self.loads, self.limit.slots())?;
        let ticket = self.backlog.first(now, class).expect("the load counts its waiters");
        let waiter = self.backlog.waiter(ticket).expect("just found");
        Some((class, waiter.slots))
    }

    /// Brings up to date whom each class would serve next. O(classes).
    pub(super) fn look_at_requests(&mut self, now: Moment) {
        for class in 0..self.loads.len() {
            if self.loads[class].waiting > 0 {
                let id = ClassId(class as u16);
                let ticket = self.backlog.first(now, id).expect("the load counts its waiters");
                let key = self.backlog.key(now, id).expect("it has a first");
                let waiter = self.backlog.waiter(ticket).expect("just found");
                self.loads[class].next = Next {
                    slots: waiter.slots,
                    late: key.late,
                    arrived: key.arrived,
                    number: key.sequence,
                    deadline: key.deadline,
                    score: key.score,
                };
            }
        }
    }

    /// Whether a request that takes so many slots may have them now; one that takes more than there are
    /// may if nobody else runs.
    pub(super) fn fits(&self, slots: u16) -> bool {
        self.running == 0 || self.running + u32::from(slots) <= self.limit.slots()
    }

    /// Tells the limit whether the slots that are free now are kept: time in which they are says nothing
    /// of an idle origin.
    fn note_kept(&mut self, now: Moment) {
        let kept = self.backlog.len() > 0 && self.running < self.limit.slots();
        if let Limit::Adaptive(limit) = &mut self.limit {
            limit.pass(now, self.running);
            limit.keep(kept, self.running);
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
