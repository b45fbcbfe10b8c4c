//! Waiting: in which list, for how long, and how it ends.

use super::Arrival;
use super::pool::{Common, Pool};
use crate::admit::feasible;
use crate::backlog::{DROPS_MAX, Granted, Room, State, Ticket};
use crate::names::ClassId;
use crate::reason::Reason;
use crate::time::Moment;
use std::time::Duration;

/// Most waits that one look at deadlines ends, which holds the caller's lock for about a millisecond. The
/// next tick is due at once then.
const OVERDUE_MAX: usize = 1000;

/// Whether it begins something: neither its connection nor its session goes on.
fn is_newcomer(arrival: &Arrival) -> bool {
    !arrival.goes_on && !arrival.running
}

/// Whose places an arrival takes.
pub(super) struct Leaving {
    /// Of its own class: the first, how many, and why they leave.
    own: Option<(Ticket, usize, Reason)>,
    /// Of a class below or of its own, where too many wait in all.
    below: Option<Ticket>,
}

/// Whose turn it is.
#[derive(Clone, Copy)]
pub(super) struct Chosen {
    pub(super) class: ClassId,
    pub(super) rank: usize,
    pub(super) ticket: Ticket,
    /// How many slots it takes.
    pub(super) slots: u16,
    /// Whether its deadline has passed.
    pub(super) is_over: bool,
}

impl<T> Pool<T> {
    /// Which requests leave so that the arrival may wait, where `queue_len_max` may in all classes. O(classes²) where that
    /// many do, else O(1).
    ///
    /// # Errors
    /// Why it may not wait.
    pub(super) fn room(&self, arrival: &Arrival, queue_len_max: u32) -> Result<Leaving, Reason> {
        let outnumbering = if self.triggers.bars(self.classes.rank(arrival.class)) {
            Some(self.outnumbering(arrival).ok_or(Reason::BacklogTrigger)?)
        } else {
            None
        };
        let own = match self.backlog.room(arrival.class, arrival) {
            Room::Free => outnumbering.map(|ticket| (ticket, 1, Reason::BacklogTrigger)),
            Room::After(first, count) => Some((first, count, Reason::QueueFull)),
            Room::None => return Err(Reason::QueueFull),
        };
        let queue_len_max = match &self.shedding {
            Some(shedding) => {
                let places = shedding.places(&self.candidate(arrival));
                queue_len_max.min(places.max(self.limit.slots()))
            }
            None => queue_len_max,
        };
        let waiting = self.backlog.len() - own.map_or(0, |(_, count, _)| count);
        let below = if waiting >= queue_len_max as usize {
            let other = self.below(arrival.class, queue_len_max);
            let ticket = match other {
                Some(class) => self.backlog.worst(class),
                None if own.is_some() => None,
                None => match self.above_part(arrival.class, queue_len_max) {
                    Some(class) => self.backlog.worst(class),
                    None => self.backlog.displaced(arrival.class, arrival),
                },
            };
            Some(ticket.ok_or(Reason::QueueFull)?)
        } else {
            None
        };
        Ok(Leaving { own, below })
    }

    /// The request whose place the arrival takes although triggers refuse its class: one of a flow with more
    /// waiting, if what waits of the class is what pulls them. So a flow that keeps a backlog long has
    /// its own requests refused, and not those of others.
    fn outnumbering(&self, arrival: &Arrival) -> Option<Ticket> {
        let is_own = self.triggers.are_own(self.classes.rank(arrival.class));
        is_own.then(|| self.backlog.outnumbering(arrival.class, arrival))?
    }

    /// Of the classes below this one, of its site or gone from the plan, the least important that has
    /// anybody waiting and more than its part of so many places. O(classes²).
    fn below(&self, class: ClassId, places: u32) -> Option<ClassId> {
        let (rank, site) = (self.classes.rank(class), self.classes.at(class).settings.site);
        let loads = self.classes.loads();
        let below = self.classes.ranked().iter().enumerate().skip(rank + 1);
        let mut waits = below.filter(|&(rank, id)| {
            let other = &self.classes.at(*id).settings;
            loads[rank].waiting > 0
                && (other.site == site || !self.classes.is_planned(*id))
                && !self.schedule.keeps_places(rank, loads, places)
        });
        waits.next_back().map(|(_, id)| *id)
    }

    /// The class that makes room for one of this class, which has fewer than its part of so many places; `None` if
    /// none does. O(classes²).
    fn above_part(&self, class: ClassId, places: u32) -> Option<ClassId> {
        let rank = self.classes.rank(class);
        let other = self.schedule.makes_room(rank, self.classes.loads(), places)?;
        Some(self.classes.of_rank(other))
    }

    /// Why the request may not wait: it would not be served before its deadline or, while an overload lasts,
    /// not much sooner. It stands behind those of its own list that its class's order puts before it; that those of
    /// running sessions go first shows in how fast the other list is served.
    pub(super) fn infeasible(&self, now: Moment, arrival: &Arrival) -> Option<Reason> {
        let ahead = self.backlog.ahead(arrival.class, arrival);
        let record = self.classes.at(arrival.class);
        let (drain, slots) = (record.drain(arrival.running), self.limit.slots());
        let pause = self.stalls.pause(now);
        let is_newcomer = is_newcomer(arrival);
        let patience = feasible::patience(self.patience(arrival), is_newcomer);
        if !drain.is_feasible(ahead, patience, slots, pause) {
            return Some(Reason::DeadlineInfeasible);
        }
        if !self.keeps_short(arrival) {
            return None;
        }
        let lasting = self.backlog.lasting(arrival).unwrap_or(&record.lasting);
        let (deadline, answer) = (record.settings.deadline, record.patience.answer());
        let short = lasting.deadline(now, deadline, answer, is_newcomer, record.idle);
        let waits = short >= patience || drain.is_feasible(ahead, short, slots, pause);
        (!waits).then_some(Reason::LastingOverload)
    }

    /// Whether an overload that lasts makes the queue short that the arrival would wait in. Shedding has an aim of
    /// its own, and a request that brings its deadline has said how long its client waits.
    fn keeps_short(&self, arrival: &Arrival) -> bool {
        self.shedding.is_none()
            && arrival.deadline.is_none()
            && self.classes.at(arrival.class).is_unknown()
    }

    /// Notes that an arrival was refused since it is not feasible, for that reason.
    pub(super) fn note_infeasible(&mut self, now: Moment, arrival: &Arrival, reason: Reason) {
        self.classes.at_mut(arrival.class).patience.refused();
        if self.keeps_short(arrival) {
            let record = self.classes.at_mut(arrival.class);
            let (deadline, idle) = (record.settings.deadline, record.idle);
            let lasting = self.backlog.lasting_mut(arrival).unwrap_or(&mut record.lasting);
            let is_short = reason == Reason::LastingOverload;
            lasting.refused(now, deadline, is_newcomer(arrival), is_short, idle);
        }
    }

    /// Gives free slots to waiters in the policy's order, until there is none or nobody may have one. A
    /// request that is next and takes more slots than are free waits until they are, and nobody else gets
    /// them meanwhile: else narrower ones, even of less important classes, would take each slot as it
    /// comes free, and it would never be served. What is kept for it so is less than what it
    /// takes, and for no longer than its deadline and those that run. The gate then says so to the limit.
    ///
    /// Nobody gets a slot whose time is over, whether a tick has come since or not. If very many are next
    /// whose time is over, slots stay free until the tick that is due.
    pub(super) fn dispatch(&mut self, common: &mut Common<T>, now: Moment) {
        let mut overdue_left = OVERDUE_MAX;
        while self.limit.has_free() {
            let Some(next) = self.next_in_time(common, now, &mut overdue_left) else {
                break;
            };
            let Chosen { class, ticket, slots, .. } = next;
            let waiter = self.backlog.waiter(ticket).expect("just found");
            let (flow, running, rule, arrived) =
                (waiter.flow, waiter.running, waiter.rule, waiter.arrived);
            let (late, again) = (waiter.late, waiter.again);
            self.count_drain(now, class, running);
            if !late {
                self.classes.at_mut(class).drain_mut(running).served();
            }
            self.leaves(class);
            let grant = self.grant(now, class, rule, slots);
            if !again {
                self.account.granted(class, now.since(arrived));
                self.has_waited(class, flow, running, now.since(arrived));
            }
            self.backlog.served(ticket, grant.estimate);
            // The slot is described by the entry until its owner claims it.
            let (found, lineup) = (self.limit.running(), self.lineup);
            let place = self.begins(now, class, slots);
            let granted = Granted { at: now, found, lineup, place };
            let wake = self.backlog.settle(ticket, State::Granted(granted));
            common.effects.wake(wake);
        }
        self.limit.note_kept(now, self.backlog.len() > 0);
        self.reclaim(common, now);
    }

    /// Who is served next, whether so many slots are free or not; `None` if nobody may have a slot.
    pub(super) fn next(&mut self, now: Moment) -> Option<Chosen> {
        if self.schedule.looks_at_requests() {
            self.look_at_requests(now);
        }
        let rank = self.schedule.pick(self.classes.loads(), self.limit.slots())?;
        let class = self.classes.of_rank(rank);
        let ticket = self.backlog.first(now, class).expect("the load counts its waiters");
        let waiter = self.backlog.waiter(ticket).expect("just found");
        Some(Chosen { class, rank, ticket, slots: waiter.slots, is_over: waiter.deadline < now })
    }

    /// Brings up to date whom each class would serve next. O(classes).
    pub(super) fn look_at_requests(&mut self, now: Moment) {
        for rank in 0..self.classes.loads().len() {
            if self.classes.loads()[rank].waiting > 0 {
                let next = self.backlog.key(now, self.classes.of_rank(rank));
                self.classes.loads_mut()[rank].next = next.expect("the load counts its waiters");
            }
        }
    }

    /// Ends the waits whose time is over, up to [`OVERDUE_MAX`].
    pub(super) fn expire(&mut self, common: &mut Common<T>, now: Moment) {
        for _ in 0..OVERDUE_MAX {
            let Some(ticket) = self.backlog.overdue(now) else {
                return;
            };
            self.time_is_over(common, now, ticket);
        }
    }

    /// The time of a waiter is over: it is refused, or late from now on.
    fn time_is_over(&mut self, common: &mut Common<T>, now: Moment, ticket: Ticket) {
        let waiter = self.backlog.waiter(ticket).expect("it waits");
        let (class, running, waited) = (waiter.class, waiter.running, now.since(waiter.arrived));
        self.count_drain(now, class, running);
        if self.backlog.stays_late(now, ticket) {
            return;
        }
        let waiting = self.backlog.len_of_list(class, running);
        self.refuse_waiter(common, now, ticket, Reason::DeadlineExpired);
        let (record, slots) = (self.classes.at_mut(class), self.limit.slots());
        let deadline = record.deadline(None);
        if !self.stalls.is_stalled(now) {
            record.drain_mut(running).expired(now, waited, deadline, waiting, slots);
        }
        record.patience.refused();
        self.note_waiting(class);
    }

    /// Who is served next and fits, when those have gone whose time is over, of whom no more than are left
    /// to go, and those whose delay CoDel does not let stand. Each class that is next is asked: its law goes
    /// by every request that it serves. O(classes) for each.
    fn next_in_time(
        &mut self,
        common: &mut Common<T>,
        now: Moment,
        overdue_left: &mut usize,
    ) -> Option<Chosen> {
        let mut drops_left = DROPS_MAX;
        loop {
            let next = self.next(now)?;
            if next.is_over {
                *overdue_left = overdue_left.checked_sub(1)?;
                self.time_is_over(common, now, next.ticket);
                continue;
            }
            if !self.limit.fits(next.slots) {
                return None;
            }
            let delayed = if drops_left > 0 { self.backlog.delayed(now, next.class) } else { None };
            let Some(delayed) = delayed else {
                return Some(next);
            };
            drops_left -= 1;
            self.refuse_waiter(common, now, delayed, Reason::QueueDelay);
            self.note_waiting(next.class);
        }
    }

    /// Refuses those whose places an arrival takes. The tokens that they took stay taken. The caller tells
    /// the triggers of the arrival's class.
    pub(super) fn make_room(
        &mut self,
        common: &mut Common<T>,
        now: Moment,
        Leaving { own, below }: Leaving,
    ) {
        if let Some((first, count, reason)) = own {
            let mut next = Some(first);
            for _ in 0..count {
                let ticket = next.expect("so many were counted");
                next = self.backlog.beside(ticket);
                self.refuse_waiter(common, now, ticket, reason);
            }
        }
        if let Some(ticket) = below {
            let class = self.refuse_waiter(common, now, ticket, Reason::QueueFull);
            self.note_waiting(class);
        }
    }

    /// Tells shedding how long a request of the flow has waited. Those that others displace say nothing of that, and those of
    /// running sessions, which go first, nothing of the others.
    pub(super) fn has_waited(
        &mut self,
        class: ClassId,
        flow: u64,
        running: bool,
        waited: Duration,
    ) {
        if let Some(shedding) = &mut self.shedding
            && !running
        {
            shedding.waited(self.classes.rank(class), flow, waited);
        }
    }

    /// One fewer of the class waits.
    pub(super) fn leaves(&mut self, class: ClassId) {
        self.classes.load_mut(class).waiting -= 1;
        self.note_waiting(class);
    }

    /// Tells the triggers that more or fewer of the class wait.
    pub(super) fn note_waiting(&mut self, class: ClassId) {
        self.triggers.changed(self.classes.rank(class), self.classes.loads());
    }

    /// Ends a wait with a refusal; the caller tells the triggers. Returns the waiter's class.
    fn refuse_waiter(
        &mut self,
        common: &mut Common<T>,
        now: Moment,
        ticket: Ticket,
        reason: Reason,
    ) -> ClassId {
        let waiter = self.backlog.waiter(ticket).expect("the backlog knows who waits in it");
        let (class, running, flow) = (waiter.class, waiter.running, waiter.flow);
        let (again, waited) = (waiter.again, now.since(waiter.arrived));
        if matches!(reason, Reason::DeadlineExpired | Reason::QueueDelay) {
            self.has_waited(class, flow, running, waited);
        }
        self.count_drain(now, class, running);
        self.classes.load_mut(class).waiting -= 1;
        if !again {
            self.account.refused(class, reason);
        }
        self.count_refusal(common, now, class, running, flow, reason);
        let wake = self.backlog.settle(ticket, State::Refused(reason));
        common.effects.wake(wake);
        class
    }
}
