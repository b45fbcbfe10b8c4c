//! The backlog's queues: a waiter joins all that it belongs to, and leaves them.

use super::class_queue::{ClassQueue, QUEUES, Served, lane_of, queue_of};
use super::discipline::Discipline;
use super::flows::Flows;
use super::waiter::{State, Ticket, Waiter};
use crate::admit::lasting::Lasting;
use crate::arrival::Arrival;
use crate::class::WhenFull;
use crate::collections::{Earliest, Heaps, Slab};
use crate::names::LaneId;
use crate::stored::Role;
use crate::time::Moment;

/// Everything that waits.
#[derive(Debug)]
pub(crate) struct Backlog<T> {
    /// By class id.
    pub(super) disciplines: Vec<Discipline>,
    pub(super) waiters: Slab<Waiter<T>>,
    pub(super) flows: Flows,
    pub(super) queues: Vec<ClassQueue>,
    /// By class; `None` until a running session of it was served.
    pub(super) served: Vec<Option<Box<Served>>>,
    pub(super) heaps: Rankings,
    pub(super) deadlines: Earliest,
    sequence: u64,
    pub(super) len: usize,
    /// The last moment that was told.
    pub(super) now: Moment,
}

/// Which is first, of flows and of waiters, where the class's discipline asks for it.
#[derive(Debug, Default)]
pub(super) struct Rankings {
    /// By queue: flows by start, where they take turns or there is one.
    pub(super) turns: Heaps,
    /// By queue: flows by how many of each wait, most first, where they are fair.
    pub(super) biggest: Heaps,
    /// By queue: waiters by rank, where the class has one.
    pub(super) order: Heaps,
    /// By queue: waiters by worth, least first, where such leave when it is full.
    pub(super) least: Heaps,
    /// The same by flow.
    pub(super) least_of_flow: Heaps,
}

impl<T> Backlog<T> {
    /// An empty one, without classes yet ([`Backlog::reconfigure`]).
    pub(crate) fn new() -> Self {
        Backlog {
            waiters: Slab::default(),
            flows: Flows::default(),
            queues: Vec::new(),
            served: Vec::new(),
            heaps: Rankings::default(),
            deadlines: Earliest::default(),
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
    pub(crate) fn len_of(&self, lane: LaneId) -> u32 {
        self.queues_of(lane).iter().map(|queue| queue.len).sum()
    }

    /// How many wait in one of the class's lists, late ones left out. O(1).
    pub(crate) fn len_of_list(&self, lane: LaneId, running: bool) -> u32 {
        self.queue(queue_of(lane, running, false)).len
    }

    /// Adds a waiter. O(log n).
    pub(crate) fn push(
        &mut self,
        now: Moment,
        lane: LaneId,
        arrival: &Arrival,
        deadline: Moment,
        wake: T,
    ) -> Ticket {
        self.now = now;
        let sequence = self.next_sequence();
        let key = self.waiters.insert(Waiter {
            state: State::Waiting,
            class: arrival.class,
            lane,
            running: arrival.running,
            late: false,
            again: false,
            copy: (arrival.copy != Role::None).then_some(arrival.copy_until),
            adapted: arrival.adapted,
            rule: arrival.rule,
            slots: arrival.slots.max(1),
            flow: arrival.flow,
            arrived: now,
            deadline,
            score: arrival.score,
            estimate: 0.0,
            turn: None,
            bytes: arrival.bytes,
            sequence,
            account: 0,
            wake: Some(wake),
        });
        self.join(key.index());
        Ticket(key)
    }

    /// The request that was pushed last had a slot before.
    pub(crate) fn waits_again(&mut self, ticket: Ticket) {
        let waiter = &mut self.waiters[ticket.0.index()];
        // It is counted by its slot.
        (waiter.again, waiter.copy) = (true, None);
    }

    /// Ends the wait with `state`: leaves every queue, keeps the entry for its owner. O(log n).
    /// Returns what wakes the owner.
    pub(crate) fn settle(&mut self, ticket: Ticket, state: State) -> T {
        debug_assert_ne!(state, State::Waiting);
        let index = ticket.0.index();
        self.leave(index);
        let waiter = &mut self.waiters[index];
        waiter.state = state;
        waiter.wake.take().expect("a waiting entry holds its waker")
    }

    /// The entry that the ticket names, unless it is stale.
    pub(crate) fn waiter(&self, ticket: Ticket) -> Option<&Waiter<T>> {
        self.waiters.find(ticket.0)
    }

    /// Forgets the entry; one that waits leaves every queue first. O(log n).
    pub(crate) fn remove(&mut self, ticket: Ticket) {
        let index = ticket.0.index();
        if self.waiters[index].state == State::Waiting {
            self.leave(index);
        }
        self.waiters.remove(index);
    }

    pub(super) fn ticket(&self, index: u32) -> Ticket {
        Ticket(self.waiters.key(index))
    }

    pub(super) fn queue(&self, queue: u32) -> &ClassQueue {
        &self.queues[queue as usize]
    }

    /// The arrival's flow, if it has requests waiting in the queue.
    pub(super) fn flow_of(&self, queue: u32, arrival: &Arrival) -> Option<u32> {
        let discipline = &self.disciplines[lane_of(queue).index()];
        self.waiting_flow(queue, discipline.flow_key(arrival.flow))
    }

    /// The flow of that key, if it has requests waiting in the queue.
    pub(super) fn waiting_flow(&self, queue: u32, key: u64) -> Option<u32> {
        let number = self.flows.find(queue, key)?;
        (self.flows.at(number).waiters.len() > 0).then_some(number)
    }

    /// The refusals that were due to deadlines of the flow that the arrival is of, while others of it wait.
    /// O(1).
    pub(crate) fn lasting(&self, lane: LaneId, arrival: &Arrival) -> Option<&Lasting> {
        let number = self.flow_of(queue_of(lane, arrival.running, false), arrival)?;
        Some(&self.flows.at(number).lasting)
    }

    /// The same, to be told.
    pub(crate) fn lasting_mut(&mut self, lane: LaneId, arrival: &Arrival) -> Option<&mut Lasting> {
        let number = self.flow_of(queue_of(lane, arrival.running, false), arrival)?;
        Some(&mut self.flows.at_mut(number).lasting)
    }

    pub(super) fn queues_of(&self, lane: LaneId) -> &[ClassQueue] {
        &self.queues[lane.index() * QUEUES..][..QUEUES]
    }

    pub(super) fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Puts a waiter in every queue that it belongs to.
    pub(super) fn join(&mut self, index: u32) {
        let waiter = &mut self.waiters[index];
        let discipline = &self.disciplines[waiter.lane.index()];
        let place = waiter.queue();
        let queue = &mut self.queues[place as usize];
        let heaps = &mut self.heaps;

        let number = self.flows.open(place, discipline.flow_key(waiter.flow));
        waiter.account = number;
        let (sequence, deadline) = (waiter.sequence, waiter.deadline);
        queue.len += 1;
        queue.bytes += u64::from(waiter.bytes);
        if let Some(rank) = discipline.rank(waiter) {
            heaps.order.put(place, index, rank);
        }
        if discipline.when_full == WhenFull::DropLeast {
            let worth = (waiter.score.millionths(), u64::MAX - sequence);
            heaps.least.put(place, index, worth);
            if discipline.fair {
                heaps.least_of_flow.put(number, index, worth);
            }
        }
        let flow = self.flows.at(number);
        if flow.waiters.len() == 0 {
            let is_over = flow.is_over(self.now, queue.now);
            self.flows.wakes(number);
            let flow = self.flows.at_mut(number);
            if is_over {
                (flow.start, flow.cost) = (queue.now, 0.0);
            }
            flow.start = flow.start.max(queue.now);
            (flow.tie, flow.since) = (sequence, sequence);
            (flow.is_lifo, flow.is_alone, flow.gave_way) = (false, false, 0);
            queue.flows += 1;
            heaps.turns.put(place, number, flow.rank());
        }
        let flow = self.flows.at_mut(number);
        flow.bytes += u64::from(self.waiters[index].bytes);
        self.waiters.append(&mut flow.waiters, index);
        match flow.waiters.len() {
            1 => queue.singles += 1,
            2 => queue.singles -= 1,
            _ => {}
        }
        if discipline.fair {
            heaps.biggest.put(place, number, discipline.size_rank(flow));
        }
        self.len += 1;
        self.deadlines.set(index, deadline);
    }

    /// Takes a waiter out of every queue that it is in.
    pub(super) fn leave(&mut self, index: u32) {
        let waiter = &self.waiters[index];
        let discipline = &self.disciplines[waiter.lane.index()];
        let (place, number) = (waiter.queue(), waiter.account);
        let queue = &mut self.queues[place as usize];
        let heaps = &mut self.heaps;

        queue.len -= 1;
        queue.bytes -= u64::from(waiter.bytes);
        heaps.order.remove(place, index);
        if discipline.when_full == WhenFull::DropLeast {
            heaps.least.remove(place, index);
            heaps.least_of_flow.remove(number, index);
        }
        self.len -= 1;
        self.deadlines.set(index, Moment::NEVER);
        let flow = self.flows.at_mut(number);
        flow.bytes -= u64::from(waiter.bytes);
        self.waiters.unlink(&mut flow.waiters, index);
        match flow.waiters.len() {
            1 => queue.singles += 1,
            0 => queue.singles -= 1,
            _ => {}
        }
        if flow.waiters.len() > 0 {
            if discipline.fair {
                heaps.biggest.put(place, number, discipline.size_rank(flow));
            }
            return;
        }
        flow.law.rests();
        queue.flows -= 1;
        if queue.flows == 0 {
            queue.law.rests();
        }
        heaps.turns.remove(place, number);
        heaps.biggest.remove(place, number);
        if discipline.fair {
            heaps.least_of_flow.release(number);
            let queues = &self.queues;
            self.flows.rests(self.now, number, |queue| queues[queue as usize].now);
        }
    }
}
