//! A request's arrival: admitted, queued or refused.

use super::grant::Given;
use super::pool::{Common, Pool};
use super::{Arrival, Gate, Holds, Slot, Ticket, Verdict};
use crate::admit::importance::Candidate;
use crate::admit::policer::{Quota, Under};
use crate::backlog;
use crate::names::{ClassId, LaneId, PolicerId};
use crate::reason::Reason;
use crate::schedule::Next;
use crate::stored::{Instead, Role};
use crate::time::Moment;
use std::time::Duration;

impl<T> Gate<T> {
    /// Decides about a request for which there is no copy. `wake` is called only if it must wait.
    ///
    /// Cost: O(classes) when it gets a slot at once, and no allocation; O(log waiting) to queue.
    pub fn arrive(&mut self, now: Moment, arrival: Arrival, wake: impl FnOnce() -> T) -> Verdict {
        let arrival = Arrival { copy: Role::None, ..arrival };
        self.arrive_with_copy(now, arrival, wake).expect("it has no copy")
    }

    /// Decides about a request as [`Gate::arrive`], with the copy that may be at hand ([`Arrival::copy`]). If it waits, its ticket is
    /// claimed by [`Gate::claim_with_copy`].
    ///
    /// # Errors
    /// The copy is to be served.
    pub fn arrive_with_copy(
        &mut self,
        now: Moment,
        mut arrival: Arrival,
        wake: impl FnOnce() -> T,
    ) -> Result<Verdict, Instead> {
        let (now, pool, common) = self.at(now, arrival.pool);
        arrival.class = pool.classes.entered(arrival.class);
        pool.arrive(common, now, &arrival, wake)
    }

    /// Refuses, and counts, a request that would be refused if it came now: a body that is still to be
    /// read is not worth it. `None`: it may come, and [`Gate::arrive`] may say otherwise then. It takes
    /// no tokens. O(1).
    pub fn turn_away(&mut self, now: Moment, arrival: Arrival) -> Option<Reason> {
        let (now, pool, common) = self.at(now, arrival.pool);
        pool.turn_away(common, now, arrival)
    }

    /// What the request has left of the policer that would refuse it now, or else of the first that
    /// applies to it; `None` if there is none. O(1), and the partitions.
    pub fn quota(&mut self, now: Moment, arrival: &Arrival) -> Option<(PolicerId, Quota)> {
        let (now, pool, common) = self.at(now, arrival.pool);
        let class = pool.classes.entered(arrival.class);
        let under = pool.policers_of(common, class, arrival)?;
        let policer = common.policers.bar(now, under);
        let policer = policer.or_else(|| under.policers().next())?;
        Some((policer, common.policers.quota(now, policer, under)))
    }

    /// Counts a request that is refused before it reaches the backlog, for a reason the gate cannot
    /// see (its rule refuses it, no origin is up).
    pub fn refuse(&mut self, arrival: Arrival, reason: Reason) {
        self.pool_of_mut(arrival.pool).refuse(arrival, reason);
    }
}

impl<T> Pool<T> {
    /// Its class is one that has a rank here.
    fn arrive(
        &mut self,
        common: &mut Common<T>,
        now: Moment,
        arrival: &Arrival,
        wake: impl FnOnce() -> T,
    ) -> Result<Verdict, Instead> {
        let class = arrival.class;
        self.account.arrived(class, arrival.rule);
        if self.is_blocked(common, now, arrival) {
            return Ok(self.reject(common, now, arrival, Reason::Blocked));
        }
        if arrival.adapted.is_some_and(|it| it.level == 0) {
            return self.turn_down(common, now, arrival, Reason::Level);
        }
        self.catch_up(common, now);
        if self.shedding.is_some()
            && let request = self.candidate(arrival)
            && self.shedding.as_mut().is_some_and(|shedding| shedding.is_shed(&request))
        {
            return self.turn_down(common, now, arrival, Reason::Shed);
        }
        let at_once = self.is_admitted(now, arrival);
        if let Some(reason) = self.bar(common, now, arrival, at_once) {
            return self.turn_down(common, now, arrival, reason);
        }
        // Last of all: whoever is refused for another reason has used up nothing.
        if let Err(reason) = self.police(common, now, arrival) {
            return Ok(self.reject(common, now, arrival, reason));
        }
        // Who is refused is nobody for whom others make room.
        self.note_foreground(now, self.lane_of(arrival));
        if !at_once && arrival.copy == Role::Both {
            return Err(self.serve_copy(arrival, Instead::Wait));
        }
        common.adapting.came(arrival.adapted, class);
        if at_once {
            return Ok(Verdict::Admit(self.admit(now, arrival)));
        }
        let leaving = self.room(arrival, common.plan.queue_len_max).expect("`bar` has found room");
        self.make_room(common, now, leaving);
        self.account.classes[class.index()].queued += 1;
        let ticket = self.wait(common, now, arrival, false, wake);
        Ok(Verdict::Queue(Ticket { pool: self.id, waiter: ticket }))
    }

    /// The request waits from now on; `again`: it was counted before.
    pub(super) fn wait(
        &mut self,
        common: &mut Common<T>,
        now: Moment,
        arrival: &Arrival,
        again: bool,
        wake: impl FnOnce() -> T,
    ) -> backlog::Ticket {
        let (class, deadline) = (arrival.class, now + self.patience(arrival));
        let lane = self.lane_of(arrival);
        if self.ready() == 0 {
            self.let_time_pass(now);
        }
        self.joins(lane);
        // After a displacement as many wait as before: triggers see no shorter backlog in between.
        self.note_waiting(class);
        let ticket = self.backlog.push(now, lane, arrival, deadline, wake());
        if again {
            self.backlog.waits_again(ticket);
        }
        // Whoever comes may be served before those for whom free slots are kept, or instead of others that
        // run.
        self.dispatch(common, now);
        ticket
    }

    /// Whether the request gets a slot at once: there is one, and if anybody waited that could have it, it
    /// would be this request's turn. After [`Pool::advance`]; those that wait have had theirs.
    pub(super) fn is_admitted(&mut self, now: Moment, arrival: &Arrival) -> bool {
        // Nobody who may have a free slot waits: every change ends in `dispatch`.
        if !self.limit.has_free() || !self.limit.fits(arrival.width()) {
            return false;
        }
        let lane = self.lane_of(arrival);
        if !self.has_resource(lane) || self.is_background_full(lane) {
            return false;
        }
        if self.ready() == 0 && !self.schedule.keeps_free() {
            return true;
        }
        // A class's own order is kept by its backlog alone.
        let class = arrival.class;
        if self.classes.load(class).waiting > 0 {
            return false;
        }
        if self.schedule.looks_at_requests() {
            self.look_at_requests(now);
        }
        let deadline = now + self.patience(arrival);
        let load = self.classes.load_mut(class);
        load.waiting = 1;
        load.next = Next {
            slots: arrival.width(),
            late: false,
            arrived: now,
            number: u64::MAX,
            deadline,
            score: arrival.score,
        };
        let picked = self.schedule.pick(self.classes.loads(), self.limit.slots());
        self.classes.load_mut(class).waiting = 0;
        picked == Some(self.classes.rank(class))
    }

    #[inline]
    fn admit(&mut self, now: Moment, arrival: &Arrival) -> Slot {
        let class = arrival.class;
        let record = self.classes.at_mut(class);
        record.idle = now;
        record.patience.idle();
        if let Some(first) = record.queue_of {
            self.classes.at_mut(first).idle = now;
        }
        self.account.classes[class.index()].admitted_at_once += 1;
        self.account.granted(class, Duration::ZERO);
        self.has_waited(now, self.lane_of(arrival), arrival.flow, arrival.running, Duration::ZERO);
        self.grant_at_once(now, arrival)
    }

    #[inline]
    pub(super) fn grant_at_once(&mut self, now: Moment, arrival: &Arrival) -> Slot {
        let class = arrival.class;
        let lane = self.lane_of(arrival);
        let given = self.grant(now, lane, arrival.rule, arrival.width());
        let Given { grant, seat, beside, found, found_there } = given;
        let place = if beside { None } else { self.begins(now, lane, grant.slots, seat) };
        Slot {
            flow: arrival.flow,
            pool: self.id,
            class,
            lane,
            adapted: arrival.adapted,
            rule: arrival.rule,
            admitted: now,
            holds: Holds::granted(seat, beside),
            lineup: self.lineup,
            found,
            found_there,
            arrived: now,
            grant,
            turn: None,
            preemptible: None,
            slow: None,
            slow_beside: false,
            place,
        }
    }

    /// The lane that the request waits in.
    pub(super) fn lane_of(&self, arrival: &Arrival) -> LaneId {
        self.lanes.of(arrival.class, arrival.resource)
    }

    /// How long the request may wait.
    pub(super) fn patience(&self, arrival: &Arrival) -> Duration {
        self.classes.at(arrival.class).deadline(arrival.deadline)
    }

    /// Lets time pass before an arrival is looked at: a slot that was kept until now goes to whom it was
    /// kept for.
    pub(super) fn catch_up(&mut self, common: &mut Common<T>, now: Moment) {
        self.advance(now);
        let is_let_in = self.look_at_background(now);
        if (is_let_in || self.schedule.keeps_free()) && self.ready() > 0 {
            self.dispatch(common, now);
        }
    }

    fn turn_away(
        &mut self,
        common: &mut Common<T>,
        now: Moment,
        mut arrival: Arrival,
    ) -> Option<Reason> {
        let class = self.classes.entered(arrival.class);
        arrival.class = class;
        let candidate = self.shedding.is_some().then(|| self.candidate(&arrival));
        let barred = if self.is_blocked(common, now, &arrival) {
            Some(Reason::Blocked)
        } else if arrival.adapted.is_some_and(|it| it.level == 0) {
            Some(Reason::Level)
        } else if let Some((shedding, request)) = self.shedding.as_mut().zip(candidate)
            && shedding.turns_away(&request)
        {
            Some(Reason::Shed)
        } else {
            self.catch_up(common, now);
            let at_once = self.is_admitted(now, &arrival);
            self.bar(common, now, &arrival, at_once)
        };
        let reason = match barred {
            Some(reason) => reason,
            None => {
                let under = self.policers_of(common, class, &arrival)?;
                let policer = common.policers.bar(now, under)?;
                common.policers.refuse(policer)
            }
        };
        self.refuse(arrival, reason);
        let needs_resource = self.needs_resource(&arrival);
        common.adapting.refused(arrival.adapted, class, needs_resource, reason);
        self.count_refusal(common, now, class, arrival.running, arrival.flow, reason);
        Some(reason)
    }

    pub(super) fn refuse(&mut self, arrival: Arrival, reason: Reason) {
        let class = self.classes.entered(arrival.class);
        self.account.arrived(class, arrival.rule);
        self.account.refused(class, reason);
    }

    /// Why the request may neither have a slot nor wait for one, policers apart. `at_once`: whether it
    /// may have one now.
    fn bar(
        &mut self,
        common: &Common<T>,
        now: Moment,
        arrival: &Arrival,
        at_once: bool,
    ) -> Option<Reason> {
        if common.draining {
            return Some(Reason::Draining);
        }
        if at_once {
            return None;
        }
        if let Err(reason) = self.room(arrival, common.plan.queue_len_max) {
            return Some(reason);
        }
        self.count_drain(now, self.lane_of(arrival), arrival.running);
        let reason = self.infeasible(common, now, arrival)?;
        self.note_infeasible(common, now, arrival, reason);
        Some(reason)
    }

    /// Takes the request's tokens.
    ///
    /// # Errors
    /// There are none left.
    pub(super) fn police(
        &self,
        common: &mut Common<T>,
        now: Moment,
        arrival: &Arrival,
    ) -> Result<(), Reason> {
        let Some(under) = self.policers_of(common, arrival.class, arrival) else { return Ok(()) };
        common.policers.take(now, under).map_err(|policer| common.policers.refuse(policer))
    }

    /// The policers that apply to a request.
    pub(super) fn policers_of(
        &self,
        common: &Common<T>,
        class: ClassId,
        arrival: &Arrival,
    ) -> Option<Under> {
        let by_class = self.classes.at(class).settings.policer;
        common.policers.under(arrival.policer, by_class, class, arrival.flow)
    }

    pub(super) fn reject(
        &mut self,
        common: &mut Common<T>,
        now: Moment,
        arrival: &Arrival,
        reason: Reason,
    ) -> Verdict {
        self.account.refused(arrival.class, reason);
        let needs_resource = self.needs_resource(arrival);
        common.adapting.refused(arrival.adapted, arrival.class, needs_resource, reason);
        self.count_refusal(common, now, arrival.class, arrival.running, arrival.flow, reason);
        Verdict::Reject(reason)
    }
}

impl<T> Pool<T> {
    /// Whether the request needs something of this pool beside a slot.
    fn needs_resource(&self, arrival: &Arrival) -> bool {
        self.lanes.at(self.lane_of(arrival)).resource.is_some()
    }

    /// A request as shedding sees it. O(classes).
    pub(super) fn candidate(&self, arrival: &Arrival) -> Candidate {
        let Arrival { class, flow, importance, running, requests, connection, .. } = *arrival;
        let rank = self.classes.rank(class);
        let loads = self.classes.loads();
        let is_within_part = self.schedule.is_within_part(rank, loads);
        let waiting = (0..loads.len()).filter(|&rank| loads[rank].waiting > 0);
        let lanes = waiting.flat_map(|rank| self.lanes.of_class(self.classes.of_rank(rank)));
        let ready = lanes.filter(|lane| !self.lanes.at(*lane).is_held_up);
        let ahead = ready.map(|lane| self.backlog.turns(lane, flow)).sum();
        Candidate { importance, rank, flow, is_within_part, ahead, running, requests, connection }
    }
}
