//! The backlog: requests that wait for a slot. Who is next in a class, who leaves when it is full, who
//! has waited too long.
//!
//! | file | its idea |
//! |---|---|
//! | `discipline` | what a class says: order, turns, bounds |
//! | `slab` | an entry for each waiter, reused |
//! | `lane` | who is served after the same others: of a running session, all others, the late; turns of flows |
//! | `flows` | a flow's list and account |
//! | `room` | who leaves when a class is full |
//! | `codel` | who leaves when a delay stands |
//! | `deadlines`, `heap` | who is first, of a million, in a few lines of the cache |
//! | `reload` | everybody keeps a place under another plan |
//!
//! A waiter is in the list of its flow (where flows are not told apart, all are one flow), and by its
//! class's settings in a heap by rank and in one by worth. Whoever was granted a slot or refused leaves
//! all of them at once and stays in the slab until its owner takes the news. Every change costs
//! O(log n) and, once the tables have grown, allocates nothing.

mod codel;
mod deadlines;
mod discipline;
mod flows;
mod heap;
mod lane;
mod reload;
mod room;
mod slab;
#[cfg(test)]
mod tests;

use crate::class::{Late, Order, WhenFull};
use crate::gate::Arrival;
use crate::names::ClassId;
use crate::schedule::Next;
use crate::time::Moment;
pub(crate) use codel::DROPS_MAX;
use deadlines::Deadlines;
pub(crate) use discipline::Discipline;
use flows::Flows;
pub(crate) use flows::Turn;
use lane::{LANES, Lane, Standing, lane_of};
pub(crate) use room::Room;
use slab::Slab;
pub use slab::Ticket;
pub(crate) use slab::{State, Waiter};

/// A service that costs nothing would leave its flow's turn where it is.
const COST_MIN: f64 = 1e-6;

#[derive(Debug)]
pub(crate) struct Backlog<T> {
    /// By class id.
    disciplines: Vec<Discipline>,
    slab: Slab<T>,
    flows: Flows,
    lanes: Vec<Lane>,
    standing: Standing,
    deadlines: Deadlines,
    sequence: u64,
    len: usize,
    /// The last moment that was told.
    now: Moment,
}

impl<T> Backlog<T> {
    /// An empty one, without classes yet ([`Backlog::reconfigure`]).
    pub(crate) fn new() -> Self {
        Backlog {
            slab: Slab::new(),
            flows: Flows::new(),
            lanes: Vec::new(),
            standing: Standing::default(),
            deadlines: Deadlines::default(),
            disciplines: Vec::new(),
            sequence: 0,
            len: 0,
            now: Moment::ZERO,
        }
    }

    /// How many wait in all. O(1).
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// How many of the class wait. O(1).
    pub(crate) fn len_of(&self, class: ClassId) -> u32 {
        self.lanes_of(class).iter().map(|lane| lane.len).sum()
    }

    /// How many wait in one of the class's lists, who are late left out. O(1).
    pub(crate) fn len_of_list(&self, class: ClassId, running: bool) -> u32 {
        self.lanes[lane_of(class, running, false) as usize].len
    }

    /// Adds a waiter. O(log n).
    pub(crate) fn push(
        &mut self,
        now: Moment,
        class: ClassId,
        arrival: &Arrival,
        deadline: Moment,
        wake: T,
    ) -> Ticket {
        self.now = now;
        let sequence = self.next_sequence();
        let ticket = self.slab.begin(now, class, arrival, deadline, sequence, wake);
        self.join(ticket.index);
        ticket
    }

    /// Whom the class's order serves next. O(1); the order of a list may change by it.
    pub(crate) fn first(&mut self, now: Moment, class: ClassId) -> Option<Ticket> {
        self.now = now;
        let lane = self.first_lane(class)?;
        let index = match self.lanes[lane as usize].order.top() {
            Some(index) => index,
            None => self.first_of_turn(now, lane),
        };
        Some(self.slab.ticket(index))
    }

    /// What the class's next is chosen by, among other classes'. As [`Backlog::first`].
    pub(crate) fn key(&mut self, now: Moment, class: ClassId) -> Option<Next> {
        let ticket = self.first(now, class)?;
        let waiter = self.slab.at(ticket.index);
        let Waiter { slots, late, arrived, deadline, score, sequence: number, .. } = *waiter;
        Some(Next { slots, late, arrived, number, deadline, score })
    }

    /// How many of its list would be served before an arrival, at most, if they all cost the same: all
    /// that wait; but where flows take turns only so many of each other flow as of its own, itself
    /// counted. Nothing where the order may put it before all others: by deadline, by score, or last come
    /// first served. O(1).
    pub(crate) fn ahead(&self, class: ClassId, arrival: &Arrival) -> u32 {
        let discipline = &self.disciplines[class.index()];
        let place = lane_of(class, arrival.running, false);
        let lane = &self.lanes[place as usize];
        if matches!(discipline.order, Order::Deadline | Order::Score) {
            return 0;
        }
        let flow = self.flows.find(place, if discipline.fair { arrival.flow } else { 0 });
        let flow = flow.map(|number| self.flows.at(number)).filter(|flow| flow.len > 0);
        if flow.is_some_and(|flow| flow.is_lifo) {
            return 0;
        }
        let own = flow.map_or(0, |flow| flow.len);
        let others = lane.flows - u32::from(own > 0);
        lane.len.min(own.saturating_add(others.saturating_mul(own + 1)))
    }

    /// The list of the flow whose turn it is: its longest waiter or, while it is overloaded, the last.
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
    fn first_of_turn(&mut self, now: Moment, lane: u32) -> u32 {
        let number = self.lanes[lane as usize].turns.top().expect("who waits has a turn");
        let flow = self.flows.at_mut(number);
        let waiter = self.slab.at(flow.head);
        let is_adaptive = self.disciplines[waiter.class.index()].order == Order::AdaptiveLifo;
        let waited = now.since(waiter.arrived);
        let patience = waiter.deadline.since(waiter.arrived);
        flow.is_lifo = is_adaptive && waited > patience / if flow.is_lifo { 8 } else { 4 };
        if flow.is_lifo { flow.tail } else { flow.head }
    }

    /// The one that CoDel drops before another of the class is served. Call up to [`DROPS_MAX`] times,
    /// each time after the one is settled. O(1).
    pub(crate) fn delayed(&mut self, now: Moment, class: ClassId) -> Option<Ticket> {
        let codel = self.disciplines[class.index()].codel?;
        let first = self.first(now, class)?;
        let flow = self.flows.at_mut(self.slab.at(first.index).list);
        let sojourn = now.since(self.slab.at(flow.head).arrived);
        let drops = flow.law.drops(&codel, now, sojourn, flow.len == 1);
        drops.then(|| self.slab.ticket(flow.head))
    }

    /// The next whose wait is over at `now`; call until `None`. Who may be late is so from here on, and
    /// stays for as long again. O(log n) for each.
    pub(crate) fn expired(&mut self, now: Moment) -> Option<Ticket> {
        self.now = now;
        while self.deadlines.first() <= now {
            let index = self.deadlines.first_place()?;
            let waiter = self.slab.at(index);
            let late = self.disciplines[waiter.class.index()].late;
            if late == Late::Refuse || waiter.late {
                return Some(self.slab.ticket(index));
            }
            self.leave(index);
            let sequence = self.next_sequence();
            let waiter = self.slab.at_mut(index);
            waiter.late = true;
            waiter.deadline = waiter.deadline + waiter.deadline.since(waiter.arrived);
            waiter.sequence = sequence;
            self.join(index);
        }
        None
    }

    /// The next deadline of all; [`Moment::NEVER`] if there is none. O(1).
    pub(crate) fn next_deadline(&self) -> Moment {
        self.deadlines.first()
    }

    /// Charges the service of a waiter, which is about to be settled, to its flow, if others of it wait.
    /// The cost is in any unit that is the same for all of the class, and taken to be at least a
    /// millionth. O(log flows).
    pub(crate) fn served(&mut self, ticket: Ticket, cost: f64) {
        let waiter = self.slab.at_mut(ticket.index);
        waiter.estimate = cost;
        if !self.disciplines[waiter.class.index()].has_turns() {
            return;
        }
        let lane = lane_of(waiter.class, waiter.running, waiter.late);
        let number = waiter.list;
        let sequence = self.next_sequence();
        let (flows, standing) = (&mut self.flows, &mut self.standing);
        let lane = &mut self.lanes[lane as usize];
        if lane.charge(standing, flows, number, cost.max(COST_MIN), sequence) {
            self.slab.at_mut(ticket.index).turn = self.flows.turn(number);
        }
    }

    /// A service has cost so much more (or less) than was charged. Nothing happens if the flow's
    /// account is forgotten. O(log flows).
    pub(crate) fn corrected(&mut self, turn: Turn, difference: f64) {
        let Some(number) = self.flows.named(turn) else {
            return;
        };
        let flow = self.flows.at_mut(number);
        flow.start = (flow.start + difference).max(0.0);
        if flow.len > 0 {
            self.lanes[flow.lane as usize].seat_turn(&mut self.standing, number, flow);
        }
    }

    /// Ends the wait with `state`: leaves every list, keeps the entry for its owner. O(log n).
    /// Returns what wakes the owner.
    pub(crate) fn settle(&mut self, ticket: Ticket, state: State) -> T {
        debug_assert!(!matches!(state, State::Free | State::Waiting));
        self.leave(ticket.index);
        let waiter = self.slab.at_mut(ticket.index);
        waiter.state = state;
        waiter.wake.take().expect("a waiting entry holds its waker")
    }

    /// The entry that the ticket names, unless it is stale.
    pub(crate) fn waiter(&self, ticket: Ticket) -> Option<&Waiter<T>> {
        self.slab.named(ticket)
    }

    /// Forgets the entry; a waiter leaves every list first. O(log n).
    pub(crate) fn remove(&mut self, ticket: Ticket) {
        if self.slab.at(ticket.index).state == State::Waiting {
            self.leave(ticket.index);
        }
        self.slab.end(ticket.index);
    }

    fn lanes_of(&self, class: ClassId) -> &[Lane] {
        &self.lanes[class.index() * LANES..][..LANES]
    }

    /// The lane of the class that is served next.
    fn first_lane(&self, class: ClassId) -> Option<u32> {
        let place = self.lanes_of(class).iter().position(|lane| lane.len > 0)?;
        Some((class.index() * LANES + place) as u32)
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Puts a waiter in every list that it belongs to.
    fn join(&mut self, index: u32) {
        let waiter = self.slab.at(index);
        let discipline = &self.disciplines[waiter.class.index()];
        let place = lane_of(waiter.class, waiter.running, waiter.late);
        let lane = &mut self.lanes[place as usize];
        let standing = &mut self.standing;
        let (sequence, bytes, deadline) = (waiter.sequence, waiter.bytes, waiter.deadline);
        let worth = (waiter.score.millionths(), u64::MAX - sequence);
        let rank = discipline.rank(deadline, waiter.score, waiter.arrived, sequence);

        let key = if discipline.fair { waiter.flow } else { 0 };
        let number = self.flows.open(place, key);
        self.slab.at_mut(index).list = number;
        if self.flows.at(number).len == 0 {
            let is_over = self.flows.is_over(self.now, number);
            self.flows.wakes(number);
            let flow = self.flows.at_mut(number);
            flow.start = if is_over { lane.now } else { flow.start.max(lane.now) };
            (flow.tie, flow.since) = (sequence, sequence);
            flow.is_lifo = false;
            lane.flows += 1;
            lane.seat_turn(standing, number, flow);
        }
        self.flows.append(&mut self.slab, number, index);
        if discipline.fair {
            lane.seat_size(standing, discipline, number, self.flows.at(number));
        }
        if let Some(rank) = rank {
            lane.order.put(&mut standing.order, index, rank);
        }
        if discipline.when_full == WhenFull::DropLeast {
            lane.least.put(&mut standing.least, index, worth);
            if discipline.fair {
                let (heap, places) = standing.flow(number);
                heap.put(places, index, worth);
            }
        }
        lane.len += 1;
        lane.bytes += u64::from(bytes);
        self.len += 1;
        self.deadlines.set(index, deadline);
    }

    /// Takes a waiter out of every list that it is in.
    fn leave(&mut self, index: u32) {
        let waiter = self.slab.at(index);
        let discipline = &self.disciplines[waiter.class.index()];
        let place = lane_of(waiter.class, waiter.running, waiter.late);
        let lane = &mut self.lanes[place as usize];
        let standing = &mut self.standing;
        let (number, bytes) = (waiter.list, waiter.bytes);

        if discipline.rank(waiter.deadline, waiter.score, waiter.arrived, 0).is_some() {
            lane.order.remove(&mut standing.order, index);
        }
        if discipline.when_full == WhenFull::DropLeast {
            lane.least.remove(&mut standing.least, index);
            if discipline.fair {
                let (heap, places) = standing.flow(number);
                heap.remove(places, index);
            }
        }
        lane.len -= 1;
        lane.bytes -= u64::from(bytes);
        self.len -= 1;
        self.deadlines.set(index, Moment::NEVER);
        self.flows.unlink(&mut self.slab, number, index);
        let flow = self.flows.at(number);
        if flow.len > 0 {
            if discipline.fair {
                lane.seat_size(standing, discipline, number, flow);
            }
            return;
        }
        self.flows.at_mut(number).law.rests();
        lane.turns.remove(&mut standing.turns, number);
        lane.biggest.remove(&mut standing.biggest, number);
        lane.flows -= 1;
        if discipline.fair {
            if let Some(heap) = standing.flows.get_mut(number as usize) {
                heap.rest();
            }
            let lanes = &self.lanes;
            self.flows.rests(self.now, number, |lane| lanes[lane as usize].now);
        }
    }
}
