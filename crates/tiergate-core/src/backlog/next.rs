//! Which request of a class is next, what its service is charged, and which has waited too long.

use super::class_queue::{COST_MIN, QUEUES, Served, lane_of, queue_of};
use super::flows::{Flow, FlowTurn};
use super::queues::Backlog;
use super::waiter::{Ticket, Waiter};
use crate::arrival::Arrival;
use crate::class::{Late, Order};
use crate::collections::Rank;
use crate::names::LaneId;
use crate::schedule::Next;
use crate::time::Moment;

/// What the next of a lane is compared by with those of others of its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Standing {
    late: bool,
    newcomer: bool,
    rank: Rank,
}

impl<T> Backlog<T> {
    /// The request that the class's order serves next. O(1); the order of a list may change by it.
    pub(crate) fn first(&mut self, now: Moment, lane: LaneId) -> Option<Ticket> {
        self.now = now;
        let place = self.queues_of(lane).iter().position(|queue| queue.len > 0)?;
        let mut queue = (lane.index() * QUEUES + place) as u32;
        if self.gives_way(queue) {
            queue = queue_of(lane, false, false);
        }
        let index = match self.heaps.order.first(queue) {
            Some(index) => index,
            None => self.first_of_turn(now, queue),
        };
        Some(self.ticket(index))
    }

    /// Whether the flow that is next in a queue, that of running sessions, leaves its turn to those of its class
    /// that belong to none. O(1).
    fn gives_way(&self, queue: u32) -> bool {
        let lane = lane_of(queue);
        let others = queue_of(lane, false, false);
        if queue != queue_of(lane, true, false) || self.queue(others).len == 0 {
            return false;
        }
        let flow = self.flows.at(self.flow_in_turn(queue));
        let served = self.served[lane.index()].as_ref();
        let turns = served.map_or(1, |served| served.turns_to_leave(flow.cost));
        flow.gave_way < turns
            && self.asks_much(queue, flow)
            && self.queue(others).flows > u32::from(self.waiting_flow(others, flow.key).is_some())
    }

    /// Whether a flow of running sessions has much of what they ask for, or was served much lately.
    fn asks_much(&self, queue: u32, flow: &Flow) -> bool {
        let served = self.served[lane_of(queue).index()].as_ref();
        self.queue(queue).is_crowded_by(flow) || served.is_some_and(|it| it.is_much(flow.key))
    }

    /// The flow of the one that is next in a queue, in which some wait.
    fn flow_in_turn(&self, queue: u32) -> u32 {
        let by_order = self.heaps.order.first(queue).map(|index| self.waiters[index].account);
        by_order.or_else(|| self.heaps.turns.first(queue)).expect("a waiter's flow has a turn")
    }

    /// What the class's next is chosen by, among other classes'. As [`Backlog::first`].
    pub(crate) fn key(&mut self, now: Moment, lane: LaneId) -> Option<Next> {
        let ticket = self.first(now, lane)?;
        let waiter = &self.waiters[ticket.0.index()];
        let Waiter { slots, late, arrived, deadline, score, sequence: number, .. } = *waiter;
        Some(Next { slots, late, arrived, number, deadline, score })
    }

    /// Where the one that is next in a lane stands among those that are next in others of its class, whose order is the same: the least
    /// goes first. `turn`: where the lane's turns have got to. As [`Backlog::first`].
    pub(crate) fn standing(&mut self, now: Moment, lane: LaneId, turn: f64) -> Option<Standing> {
        let ticket = self.first(now, lane)?;
        let waiter = &self.waiters[ticket.0.index()];
        let discipline = &self.disciplines[lane.index()];
        let turns = if discipline.has_turns() { turn.to_bits() } else { 0 };
        let rank = discipline.rank(waiter).unwrap_or((turns, waiter.sequence));
        Some(Standing { late: waiter.late, newcomer: !waiter.running, rank })
    }

    /// How many flows wait in a lane. O(1).
    pub(crate) fn flows_of(&self, lane: LaneId) -> u32 {
        self.queues_of(lane).iter().map(|queue| queue.flows).sum()
    }

    /// How many of its list would be served before an arrival, at most, if they all cost the same: all
    /// that wait; but where flows take turns only so many of each other flow as of its own, itself
    /// counted. Nothing where the order may put it before all others: by deadline, by score, or last come
    /// first served. O(1).
    pub(crate) fn ahead(&self, lane: LaneId, arrival: &Arrival) -> u32 {
        if matches!(self.disciplines[lane.index()].order, Order::Deadline | Order::Score) {
            return 0;
        }
        let place = queue_of(lane, arrival.running, false);
        let queue = self.queue(place);
        let flow = self.flow_of(place, arrival).map(|number| self.flows.at(number));
        if flow.is_some_and(|flow| flow.is_lifo) {
            return 0;
        }
        let own = flow.map_or(0, |flow| flow.waiters.len());
        let others = queue.flows - u32::from(own > 0);
        queue.len.min(own.saturating_add(others.saturating_mul(own + 1)))
    }

    /// How many of a class wait, of each other flow at most as many as of this one with one more where flows take turns. O(1).
    pub(crate) fn turns(&self, lane: LaneId, flow: u64) -> u32 {
        let len = self.len_of(lane);
        if !self.disciplines[lane.index()].has_turns() {
            return len;
        }
        let lists = [(true, false), (false, false), (false, true)];
        let lists = lists.map(|(running, late)| queue_of(lane, running, late));
        let own_of = |list| self.waiting_flow(list, flow).map(|it| self.flows.at(it).waiters.len());
        let own: u32 = lists.into_iter().filter_map(own_of).sum();
        let flows: u32 = lists.into_iter().map(|list| self.queue(list).flows).sum();
        len.min(flows.saturating_mul(own + 1))
    }

    /// Of the flow whose turn it is: its longest waiter or, while it is overloaded, the last.
    ///
    /// Overloaded: the longest waiter has waited for more than a quarter of its patience; no more, when
    /// less than an eighth. A list that is served faster than that never stands long enough to notice.
    /// From there on, first come first served would serve each request after most of its client's
    /// patience, and last come first served serves those that came now at once, while those that
    /// waited long go on to their deadlines, which they would have met too late to be of use.
    /// Judged by flow, so that one flow's overload leaves the others' order alone.
    ///
    /// Source: Maurer, "Fail at Scale", ACM Queue 13 (2015): adaptive LIFO with controlled delay.
    /// There a queue counts as standing if it was not empty for 100 ms; here patience is known.
    fn first_of_turn(&mut self, now: Moment, queue: u32) -> u32 {
        let number = self.heaps.turns.first(queue).expect("a waiter's flow has a turn");
        let flow = self.flows.at_mut(number);
        let first = flow.waiters.first().expect("a flow with a turn has waiters");
        let waiter = &self.waiters[first];
        let is_adaptive = self.disciplines[waiter.lane.index()].order == Order::AdaptiveLifo;
        let waited = now.since(waiter.arrived);
        let patience = waiter.deadline.since(waiter.arrived);
        flow.is_lifo = is_adaptive && waited > patience / if flow.is_lifo { 8 } else { 4 };
        if flow.is_lifo { flow.waiters.last().unwrap_or(first) } else { first }
    }

    /// The one that CoDel drops before another of the class is served. Call up to
    /// [`super::DROPS_MAX`] times, each time after the one is settled. O(1).
    pub(crate) fn delayed(&mut self, now: Moment, lane: LaneId) -> Option<Ticket> {
        let codel = self.disciplines[lane.index()].codel?;
        let next = self.first(now, lane)?;
        let waiter = &self.waiters[next.0.index()];
        let place = waiter.queue();
        // Without turns the delay is of all that wait, and made by the flow with the most.
        let biggest = match self.disciplines[lane.index()].has_turns() {
            true => None,
            false => self.heaps.biggest.first(place),
        };
        let queue = &mut self.queues[place as usize];
        let flow = self.flows.at_mut(biggest.unwrap_or(waiter.account));
        let first = flow.waiters.first()?;
        let sojourn = now.since(self.waiters[first].arrived);
        let drops = if flow.waiters.len() > 1 {
            flow.law.drops(&codel, now, sojourn, false)
        } else {
            flow.law.rests();
            queue.law.drops(&codel, now, sojourn, queue.singles == 1)
        };
        drops.then(|| self.ticket(first))
    }

    /// The first of those whose time is over at `now`; it still waits. O(log n).
    pub(crate) fn overdue(&self, now: Moment) -> Option<Ticket> {
        let index = (self.deadlines.first() <= now).then(|| self.deadlines.first_place())?;
        index.map(|index| self.ticket(index))
    }

    /// The time of a waiter is over: if it may be late, it is so from here on, and stays for as long again.
    /// Returns whether it does. O(log n).
    pub(crate) fn stays_late(&mut self, now: Moment, ticket: Ticket) -> bool {
        self.now = now;
        let index = ticket.0.index();
        let waiter = &self.waiters[index];
        let late = self.disciplines[waiter.lane.index()].late;
        if late == Late::Refuse || waiter.late {
            return false;
        }
        self.leave(index);
        let sequence = self.next_sequence();
        let waiter = &mut self.waiters[index];
        waiter.late = true;
        waiter.deadline = waiter.deadline + waiter.deadline.since(waiter.arrived);
        waiter.sequence = sequence;
        self.join(index);
        true
    }

    /// The next deadline of all; [`Moment::NEVER`] if there is none. O(1).
    pub(crate) fn next_deadline(&self) -> Moment {
        self.deadlines.first()
    }

    /// Charges the service of a waiter, which is about to be settled, to its flow. The cost is in any unit
    /// that is the same for all of the class, and taken to be at least a millionth. O(log flows).
    pub(crate) fn served(&mut self, ticket: Ticket, cost: f64) {
        let sequence = self.next_sequence();
        let waiter = &mut self.waiters[ticket.0.index()];
        waiter.estimate = cost;
        self.note_turn(ticket, cost.max(COST_MIN), sequence);
        let waiter = &mut self.waiters[ticket.0.index()];
        if !self.disciplines[waiter.lane.index()].has_turns() {
            return;
        }
        let (place, number) = (waiter.queue(), waiter.account);
        waiter.turn = Some(self.flows.turn(number));
        let flow = self.flows.at_mut(number);
        self.queues[place as usize].charge(flow, cost.max(COST_MIN), sequence);
        if flow.waiters.len() > 1 {
            self.heaps.turns.put(place, number, flow.rank());
        }
    }

    /// A waiter is served: in its own turn, or in that of a flow of a running session, which then has had it.
    fn note_turn(&mut self, ticket: Ticket, cost: f64, sequence: u64) {
        let waiter = &self.waiters[ticket.0.index()];
        let (lane, place, account) = (waiter.lane, waiter.queue(), waiter.account);
        let running = queue_of(lane, true, false);
        if place == running {
            let flow = self.flows.at_mut(account);
            flow.gave_way = 0;
            let served = &mut self.served[lane.index()];
            served.get_or_insert_with(|| Box::new(Served::new())).note(Some(flow.key), cost);
        } else if self.queue(running).len > 0 {
            let number = self.flow_in_turn(running);
            let flow = self.flows.at_mut(number);
            flow.gave_way += 1;
            self.served[lane.index()].iter_mut().for_each(|served| served.note(None, cost));
            if self.disciplines[lane.index()].has_turns() {
                self.queues[running as usize].passes(flow, cost, sequence);
                self.heaps.turns.put(running, number, flow.rank());
            }
        }
    }

    /// A service that was charged has ended, and has cost `actual`. Nothing happens if the flow's account is
    /// forgotten. O(log flows).
    pub(crate) fn ended(&mut self, now: Moment, turn: FlowTurn, charged: f64, actual: f64) {
        self.now = now;
        let Some(number) = self.flows.named(turn) else {
            return;
        };
        let flow = self.flows.at_mut(number);
        if let Some(served) = &mut self.served[lane_of(flow.queue).index()] {
            served.ended(flow, charged.max(COST_MIN), actual);
        }
        flow.ended(charged.max(COST_MIN), actual);
        self.queues[flow.queue as usize].running -= 1;
        if flow.waiters.len() > 0 {
            self.heaps.turns.put(flow.queue, number, flow.rank());
        } else {
            let queues = &self.queues;
            self.flows.rests(now, number, |queue| queues[queue as usize].now);
        }
    }
}
