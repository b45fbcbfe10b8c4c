//! Room: which request leaves when no more of a class may wait, by count or by bytes.
//!
//! | when full | one flow | flows told apart |
//! |---|---|---|
//! | `RefuseNew` | the arrival | the last come of the flow with the most waiting, or the arrival if its own would then have as many |
//! | `DropOldest` | the longest waiter | of the flow with the most waiting, the arrival counted |
//! | `DropLeast` | the lowest score, then the last to come | likewise; of the class, if no flow has more than one |
//!
//! So a flow that sends much pushes out its own. An arrival of a running session that cannot stay takes
//! the place of one that is late, or of one without a session, whatever it would have been
//! of its own kind; one without takes that of one with only if that one's flow has much of the class. An arrival
//! of such a flow takes nobody else's place.
//!
//! A request that leaves by bytes may be smaller than the arrival: then the next of its flow go with it, up
//! to [`VICTIMS_MAX`] in all. If they would not do, the arrival is refused and none leaves.

use super::class_queue::{ClassQueue, lane_of, queue_of};
use super::discipline::Discipline;
use super::queues::Backlog;
use super::waiter::Ticket;
use crate::arrival::Arrival;
use crate::class::WhenFull;
use crate::names::LaneId;

/// Most waiters that make room for one, which bounds how long the caller's lock is held: a body of 1 MiB finds room
/// among requests of 1 KiB.
pub(super) const VICTIMS_MAX: usize = 1024;

/// Whether one more may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// It may.
    Free,
    /// It may when so many have left: this one, and then those [`beside`](Backlog::beside) it.
    After(Ticket, usize),
    /// It may not.
    None,
}

impl<T> Backlog<T> {
    /// Whether an arrival may wait in the class. By count, one that leaves is enough: after a reload more
    /// may wait than the bound, and they stay. O(1), and by bytes O(those that leave).
    pub(crate) fn room(&self, lane: LaneId, arrival: &Arrival) -> Room {
        let discipline = &self.disciplines[lane.index()];
        let bytes: u64 = self.queues_of(lane).iter().map(|queue| queue.bytes).sum();
        let excess = (bytes + u64::from(arrival.bytes)).saturating_sub(discipline.bytes_max);
        if self.len_of(lane) < discipline.len_max && excess == 0 {
            return Room::Free;
        }
        if u64::from(arrival.bytes) > discipline.bytes_max {
            return Room::None;
        }
        let Some(victim) = self.displaced(lane, arrival) else {
            return Room::None;
        };
        self.leaving(victim, excess).map_or(Room::None, |count| Room::After(victim, count))
    }

    /// The request that leaves after this one for the same arrival, if one does: the next of its flow.
    pub(crate) fn beside(&self, ticket: Ticket) -> Option<Ticket> {
        let index = ticket.0.index();
        let lane = self.waiters[index].lane;
        let beside = match self.disciplines[lane.index()].when_full {
            WhenFull::RefuseNew => self.waiters.previous(index),
            WhenFull::DropOldest => self.waiters.next(index),
            WhenFull::DropLeast => None,
        };
        beside.map(|index| self.ticket(index))
    }

    /// The request that leaves the class if one must; `None` if none of it waits. O(1).
    pub(crate) fn worst(&self, lane: LaneId) -> Option<Ticket> {
        let queues = [(false, true), (false, false), (true, false)];
        let queues = queues.map(|(running, late)| queue_of(lane, running, late));
        let queue = queues.into_iter().find(|&queue| self.queue(queue).len > 0)?;
        Some(self.ticket(self.worst_of_queue(queue)))
    }

    /// The request of the class that leaves for the arrival if one must; `None` if the arrival is refused.
    pub(crate) fn displaced(&self, lane: LaneId, arrival: &Arrival) -> Option<Ticket> {
        self.victim(lane, arrival).map(|index| self.ticket(index))
    }

    /// The last of another flow that has more waiting than the arrival's would: of those without a session, or of
    /// running sessions if that flow has much, else of the arrival's own list; `None` if none has. O(1).
    pub(crate) fn outnumbering(&self, lane: LaneId, arrival: &Arrival) -> Option<Ticket> {
        let own = queue_of(lane, arrival.running, false);
        let other = self.bigger(queue_of(lane, !arrival.running, false), arrival);
        let other = other.filter(|&number| arrival.running || self.has_much(number));
        let bigger = other.or_else(|| self.bigger(own, arrival))?;
        Some(self.ticket(self.worst_of_flow(bigger)))
    }

    /// Whether a flow that has requests waiting has much of its class, or was served much lately.
    fn has_much(&self, number: u32) -> bool {
        let flow = self.flows.at(number);
        self.is_much(lane_of(flow.queue), flow.waiters.len(), flow.key)
    }

    /// Whether so many are much of what waits of the class, or their flow was served much lately.
    fn is_much(&self, lane: LaneId, waiting: u32, flow: u64) -> bool {
        let served = self.served[lane.index()].as_ref();
        ClassQueue::is_much(waiting, self.len_of(lane))
            || served.is_some_and(|served| served.is_much(flow))
    }

    /// The waiter that would leave for the arrival; `None` if the arrival is refused.
    fn victim(&self, lane: LaneId, arrival: &Arrival) -> Option<u32> {
        let Discipline { when_full, fair, .. } = self.disciplines[lane.index()];
        let own = queue_of(lane, arrival.running, false);
        let (others, late) = (queue_of(lane, false, false), queue_of(lane, false, true));
        let is_much = fair && self.is_much(lane, self.with_arrival(own, arrival), arrival.flow);
        if arrival.running && is_much && self.queue(late).len == 0 {
            // Of those without a session, only its own flow's leave for it.
            if let Some(number) = self.flow_of(others, arrival) {
                return Some(self.worst_of_flow(number));
            }
            return self.victim_beside(own, arrival);
        }
        if !arrival.running
            && let Some(number) = self.bigger(queue_of(lane, true, false), arrival)
            && self.has_much(number)
        {
            return Some(self.worst_of_flow(number));
        }
        let displaces = arrival.running || when_full != WhenFull::RefuseNew;
        let queues = if displaces { [late, others, own] } else { [own; 3] };
        match queues.into_iter().find(|&queue| self.queue(queue).len > 0)? {
            queue if queue == own => self.victim_beside(own, arrival),
            queue => Some(self.worst_of_queue(queue)),
        }
    }

    /// The waiter that leaves a queue in which the arrival would wait too.
    fn victim_beside(&self, queue: u32, arrival: &Arrival) -> Option<u32> {
        if let Some(biggest) = self.bigger(queue, arrival) {
            return Some(self.worst_of_flow(biggest));
        }
        if self.queue(queue).len == 0 {
            return None;
        }
        let discipline = &self.disciplines[lane_of(queue).index()];
        let own = self.flow_of(queue, arrival);
        let worst = match own {
            Some(number) => self.worst_of_flow(number),
            None => self.worst_of_queue(queue),
        };
        let stays = match discipline.when_full {
            WhenFull::RefuseNew => false,
            WhenFull::DropOldest => true,
            // The arrival came last.
            WhenFull::DropLeast => arrival.score > self.waiters[worst].score,
        };
        stays.then_some(worst)
    }

    /// How many of the arrival's flow would wait in a queue with it.
    fn with_arrival(&self, queue: u32, arrival: &Arrival) -> u32 {
        self.flow_of(queue, arrival).map_or(0, |number| self.flows.at(number).waiters.len()) + 1
    }

    /// The flow of a queue with the most waiting, if the arrival is of another that would have fewer in the arrival's
    /// own queue, with it; `None` where flows are not told apart.
    fn bigger(&self, queue: u32, arrival: &Arrival) -> Option<u32> {
        let own = queue_of(lane_of(queue), arrival.running, false);
        let biggest = self.heaps.biggest.first(queue)?;
        let flow = self.flows.at(biggest);
        let is_bigger = flow.waiters.len() > self.with_arrival(own, arrival);
        (is_bigger && flow.key != arrival.flow).then_some(biggest)
    }

    fn worst_of_queue(&self, queue: u32) -> u32 {
        let biggest = self.heaps.biggest.first(queue);
        let alone = biggest.is_none_or(|number| self.flows.at(number).waiters.len() == 1);
        match self.heaps.least.first(queue) {
            Some(least) if alone => least,
            _ => {
                let number = biggest.or_else(|| self.flows.find(queue, 0));
                self.worst_of_flow(number.expect("the queue is not empty"))
            }
        }
    }

    fn worst_of_flow(&self, number: u32) -> u32 {
        let flow = self.flows.at(number);
        let discipline = &self.disciplines[lane_of(flow.queue).index()];
        let worst = match discipline.when_full {
            WhenFull::RefuseNew => flow.waiters.last(),
            WhenFull::DropOldest => flow.waiters.first(),
            WhenFull::DropLeast if discipline.fair => self.heaps.least_of_flow.first(number),
            WhenFull::DropLeast => self.heaps.least.first(flow.queue),
        };
        worst.expect("the flow has requests waiting")
    }

    /// How many leave, from a waiter on, until so many bytes are free; `None` if they are not even then.
    fn leaving(&self, victim: Ticket, excess: u64) -> Option<usize> {
        let flow = self.waiters[victim.0.index()].account;
        if self.flows.at(flow).bytes < excess {
            return None;
        }
        let leaving = std::iter::successors(Some(victim), |&ticket| self.beside(ticket));
        let mut free = 0;
        for (count, ticket) in (1..=VICTIMS_MAX).zip(leaving) {
            free += u64::from(self.waiters[ticket.0.index()].bytes);
            if free >= excess {
                return Some(count);
            }
        }
        None
    }
}
