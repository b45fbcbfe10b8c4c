//! Waiting: in which list, for how long, and how it ends.

use super::Arrival;
use super::grant::Given;
use super::pool::{Common, Pool};
use super::stored::is_replaced;
use crate::admit::feasible;
use crate::backlog::{DROPS_MAX, Granted, Room, State, Ticket};
use crate::names::{ClassId, LaneId, ResourceId};
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
    lane: LaneId,
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
        let bars = self.triggers.bars(self.classes.rank(arrival.class)) && !arrival.running;
        let outnumbering = if bars {
            Some(self.outnumbering(arrival).ok_or(Reason::BacklogTrigger)?)
        } else {
            None
        };
        let lane = self.lane_of(arrival);
        let own = match self.backlog.room(lane, arrival) {
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
        let resource = self.lanes.at(lane).resource;
        let waiting = self.waiting_beside(resource) - own.map_or(0, |(_, count, _)| count);
        let below = if waiting >= queue_len_max as usize {
            let other = self.below(arrival.class, resource, queue_len_max);
            let ticket = match other {
                Some(class) => self.backlog.worst(self.lanes.of(class, resource)),
                None if own.is_some() => None,
                None => match self.above_part(arrival.class, resource, queue_len_max) {
                    Some(class) => self.backlog.worst(self.lanes.of(class, resource)),
                    None => self.backlog.displaced(lane, arrival),
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
        is_own.then(|| self.backlog.outnumbering(self.lane_of(arrival), arrival))?
    }

    /// Of the classes below this one, of its site or gone from the plan, the least important that has
    /// anybody waiting for the same and more than its part of so many places. O(classes²).
    fn below(&self, class: ClassId, resource: Option<ResourceId>, places: u32) -> Option<ClassId> {
        let (rank, site) = (self.classes.rank(class), self.classes.at(class).settings.site);
        let loads = &*self.loads_beside(resource);
        let below = self.classes.ranked().iter().enumerate().skip(rank + 1);
        let mut waits = below.filter(|&(rank, id)| {
            let other = &self.classes.at(*id).settings;
            loads[rank].waiting > 0
                // What is in the background keeps nobody's place, of whatever site.
                && (other.background
                    || (other.site == site || !self.classes.is_planned(*id))
                        && !self.schedule.keeps_places(rank, loads, places))
        });
        waits.next_back().map(|(_, id)| *id)
    }

    /// The class that makes room for one of this class, which has fewer than its part of so many places; `None` if
    /// none does. O(classes²).
    fn above_part(
        &self,
        class: ClassId,
        resource: Option<ResourceId>,
        places: u32,
    ) -> Option<ClassId> {
        if self.classes.at(class).settings.background {
            return None;
        }
        let (rank, loads) = (self.classes.rank(class), self.loads_beside(resource));
        let other = self.schedule.makes_room(rank, &loads, places)?;
        Some(self.classes.of_rank(other))
    }

    /// Why the request may not wait: it would not be served before its deadline or, while an overload lasts,
    /// not much sooner. It stands behind those of its own list that its class's order puts before it; that those of
    /// running sessions go first shows in how fast the other list is served.
    pub(super) fn infeasible(
        &self,
        common: &Common<T>,
        now: Moment,
        arrival: &Arrival,
    ) -> Option<Reason> {
        let id = self.lane_of(arrival);
        if self.lanes.at(id).is_background {
            // It waits for as long as others come: how fast it was served lately says nothing.
            return None;
        }
        let ahead = self.backlog.ahead(id, arrival);
        let (record, lane) = (self.classes.at(arrival.class), self.lanes.at(id));
        let (drain, slots) = (lane.drain(arrival.running), self.slots_for(id));
        let pause = self.stalls.pause(now);
        let is_newcomer = is_newcomer(arrival);
        let patience = feasible::patience(self.patience(arrival), is_newcomer);
        if !drain.is_feasible(ahead, patience, slots, pause) {
            return Some(Reason::DeadlineInfeasible);
        }
        if !self.keeps_short(common, arrival) {
            return None;
        }
        let (lasting, queue) = match record.queue_of {
            Some(first) => (&self.lanes.at(self.lanes.of(first, lane.resource)).lasting, first),
            None => (self.backlog.lasting(id, arrival).unwrap_or(&lane.lasting), arrival.class),
        };
        let of_queue = self.classes.at(queue);
        let answer = match record.queue_of {
            Some(_) => of_queue.answers.mean(),
            None => record.patience.answer(),
        };
        let deadline = record.settings.deadline;
        let short = lasting.deadline(now, deadline, answer, is_newcomer, of_queue.idle);
        let waits = short >= patience || drain.is_feasible(ahead, short, slots, pause);
        (!waits).then_some(Reason::LastingOverload)
    }

    /// Whether an overload that lasts makes the queue short that the arrival would wait in. Shedding has an aim of
    /// its own, as has a policer whose rate keeps the queue at a length; and a request that brings its deadline has said how long its
    /// client waits.
    fn keeps_short(&self, common: &Common<T>, arrival: &Arrival) -> bool {
        self.shedding.is_none()
            && !self.is_kept_for(common, arrival)
            && arrival.deadline.is_none()
            && self.classes.at(arrival.class).is_unknown()
    }

    /// Whether a policer that the request is subject to keeps the queue at a length, which is short enough for it.
    fn is_kept_for(&self, common: &Common<T>, arrival: &Arrival) -> bool {
        self.kept.is_some_and(|kept| {
            2 * kept.wait <= self.classes.at(arrival.class).settings.deadline
                && self
                    .policers_of(common, arrival.class, arrival)
                    .is_some_and(|under| under.policers().any(|it| it == kept.by))
        })
    }

    /// Notes that an arrival was refused since it is not feasible, for that reason.
    pub(super) fn note_infeasible(
        &mut self,
        common: &Common<T>,
        now: Moment,
        arrival: &Arrival,
        reason: Reason,
    ) {
        self.classes.at_mut(arrival.class).patience.refused();
        if self.keeps_short(common, arrival) {
            let record = self.classes.at(arrival.class);
            let (deadline, queue_of) = (record.settings.deadline, record.queue_of);
            let idle = self.classes.at(queue_of.unwrap_or(arrival.class)).idle;
            let id = self.lane_of(arrival);
            let lasting = match queue_of {
                Some(first) => {
                    let of_queue = self.lanes.of(first, self.lanes.at(id).resource);
                    &mut self.lanes.at_mut(of_queue).lasting
                }
                None => {
                    let lane = self.lanes.at_mut(id);
                    self.backlog.lasting_mut(id, arrival).unwrap_or(&mut lane.lasting)
                }
            };
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
        self.look_at_resources(now);
        self.look_at_background(now);
        loop {
            self.serve_transfers(common, now);
            if !self.limit.has_free() {
                break;
            }
            let Some(next) = self.next_in_time(common, now, &mut overdue_left) else {
                break;
            };
            let Chosen { class, lane, ticket, slots, .. } = next;
            let waiter = self.backlog.waiter(ticket).expect("just found");
            let (flow, running, rule, arrived) =
                (waiter.flow, waiter.running, waiter.rule, waiter.arrived);
            let (late, again) = (waiter.late, waiter.again);
            self.count_drain(now, lane, running);
            if !late {
                self.lanes.at_mut(lane).drain_mut(running).served();
            }
            self.leaves(lane);
            if !again {
                self.has_waited(now, lane, flow, running, now.since(arrived));
            }
            if self.lanes.only(class).is_none() {
                let estimate = self.costs.estimate(class, rule, slots);
                self.note_lane_turn(class, lane, estimate);
            }
            let Given { grant, seat, beside, found, found_there } =
                self.grant(now, lane, rule, slots);
            if !again {
                self.account.granted(class, now.since(arrived));
            }
            self.backlog.served(ticket, grant.estimate);
            // The slot is described by the entry until its owner claims it.
            let lineup = self.lineup;
            let place = if beside { None } else { self.begins(now, lane, slots, seat) };
            let granted = Granted { at: now, found, found_there, seat, beside, lineup, place };
            let wake = self.backlog.settle(ticket, State::Granted(granted));
            common.effects.wake(wake);
        }
        self.limit.note_kept(now, self.ready() > 0 || self.keeps_from_background());
        self.note_kept_resources(now);
        self.reclaim(common, now);
    }

    /// Who is served next, whether so many slots are free or not; `None` if nobody may have a slot.
    pub(super) fn next(&mut self, now: Moment) -> Option<Chosen> {
        if self.schedule.looks_at_requests() {
            self.look_at_requests(now);
        }
        let rank = self.schedule.pick(self.classes.loads(), self.limit.slots())?;
        let class = self.classes.of_rank(rank);
        let lane = self.lane_in_turn(now, class);
        let ticket = self.backlog.first(now, lane).expect("the load counts its waiters");
        let waiter = self.backlog.waiter(ticket).expect("just found");
        let (slots, is_over) = (waiter.slots, waiter.deadline < now);
        Some(Chosen { class, rank, lane, ticket, slots, is_over })
    }

    /// Brings up to date whom each class would serve next. O(classes).
    pub(super) fn look_at_requests(&mut self, now: Moment) {
        for rank in 0..self.classes.loads().len() {
            if self.classes.loads()[rank].waiting > 0 {
                let lane = self.lane_in_turn(now, self.classes.of_rank(rank));
                let next = self.backlog.key(now, lane);
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
        let (class, lane, running) = (waiter.class, waiter.lane, waiter.running);
        let waited = now.since(waiter.arrived);
        self.count_drain(now, lane, running);
        if self.backlog.stays_late(now, ticket) {
            return;
        }
        let waiting = self.backlog.len_of_list(lane, running);
        self.refuse_waiter(common, now, ticket, Reason::DeadlineExpired);
        let slots = self.slots_for(lane);
        let deadline = self.classes.at(class).deadline(None);
        if !self.stalls.is_stalled(now) {
            let drain = self.lanes.at_mut(lane).drain_mut(running);
            drain.expired(now, waited, deadline, waiting, slots);
        }
        self.classes.at_mut(class).patience.refused();
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
            let delayed = if drops_left > 0 { self.backlog.delayed(now, next.lane) } else { None };
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
        now: Moment,
        lane: LaneId,
        flow: u64,
        running: bool,
        waited: Duration,
    ) {
        if running || self.shedding.is_none() || self.was_held_up(lane, now - waited) {
            return;
        }
        let class = self.lanes.at(lane).class;
        if let Some(shedding) = &mut self.shedding {
            shedding.waited(self.classes.rank(class), flow, waited);
        }
    }

    /// One fewer waits in the lane.
    pub(super) fn leaves(&mut self, lane: LaneId) {
        self.parts(lane);
        self.note_waiting(self.lanes.at(lane).class);
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
        let (lane, adapted) = (waiter.lane, waiter.adapted);
        let (again, waited) = (waiter.again, now.since(waiter.arrived));
        let stored = waiter.copy.is_some_and(|until| now <= until) && is_replaced(reason);
        if matches!(reason, Reason::DeadlineExpired | Reason::QueueDelay) {
            self.has_waited(now, lane, flow, running, waited);
        }
        self.count_drain(now, lane, running);
        self.parts(lane);
        if stored {
            // Its owner finds out whether the copy is still true.
            let wake = self.backlog.settle(ticket, State::Stored(reason));
            common.effects.wake(wake);
            return class;
        }
        if !again {
            self.account.refused(class, reason);
        }
        let needs_resource = self.lanes.at(lane).resource.is_some();
        common.adapting.gave_up(adapted, needs_resource, reason);
        self.count_refusal(common, now, class, running, flow, reason);
        let wake = self.backlog.settle(ticket, State::Refused(reason));
        common.effects.wake(wake);
        class
    }
}
