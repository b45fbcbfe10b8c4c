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
//! of its own kind; one without never takes that of one with.
//!
//! A request that leaves by bytes may be smaller than the arrival: then up to [`VICTIMS_MAX`] of its
//! neighbours go with it, and if they would not do, the arrival is refused.

use super::class_queue::{class_of, queue_of};
use super::queues::Backlog;
use super::waiter::Ticket;
use crate::arrival::Arrival;
use crate::class::{ClassId, WhenFull};

/// Most waiters that make room for one.
pub(super) const VICTIMS_MAX: usize = 16;

/// Whether one more may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// It may.
    Free,
    /// It may when this one has left; ask again then.
    After(Ticket),
    /// It may not.
    None,
}

impl<T> Backlog<T> {
    /// Whether an arrival may wait in the class, for which so many have `left` already. By count, one
    /// is enough: after a reload more may wait than the bound, and they stay. O(1).
    pub(crate) fn room(&self, class: ClassId, arrival: &Arrival, left: usize) -> Room {
        let discipline = &self.disciplines[class.index()];
        let bytes: u64 = self.queues_of(class).iter().map(|queue| queue.bytes).sum();
        let excess = (bytes + u64::from(arrival.bytes)).saturating_sub(discipline.bytes_max);
        if (left > 0 || self.len_of(class) < discipline.len_max) && excess == 0 {
            return Room::Free;
        }
        if left == VICTIMS_MAX || u64::from(arrival.bytes) > discipline.bytes_max {
            return Room::None;
        }
        match self.victim(class, arrival) {
            Some(index) if self.frees(class, index, excess) => Room::After(self.ticket(index)),
            _ => Room::None,
        }
    }

    /// The request that leaves the class if one must; `None` if none of it waits. O(1).
    pub(crate) fn worst(&self, class: ClassId) -> Option<Ticket> {
        let queues = [(false, true), (false, false), (true, false)];
        let queues = queues.map(|(running, late)| queue_of(class, running, late));
        let queue = queues.into_iter().find(|&queue| self.queue(queue).len > 0)?;
        Some(self.ticket(self.worst_of_queue(queue)))
    }

    /// The waiter that would leave for the arrival; `None` if the arrival is refused.
    fn victim(&self, class: ClassId, arrival: &Arrival) -> Option<u32> {
        let when_full = self.disciplines[class.index()].when_full;
        let own = queue_of(class, arrival.running, false);
        let displaces = arrival.running || when_full != WhenFull::RefuseNew;
        let late = queue_of(class, false, true);
        let others = queue_of(class, false, false);
        let queues = if displaces { [late, others, own] } else { [own; 3] };
        match queues.into_iter().find(|&queue| self.queue(queue).len > 0)? {
            queue if queue == own => self.victim_beside(class, own, arrival),
            queue => Some(self.worst_of_queue(queue)),
        }
    }

    /// The waiter that leaves a queue in which the arrival would wait too.
    fn victim_beside(&self, class: ClassId, queue: u32, arrival: &Arrival) -> Option<u32> {
        let discipline = &self.disciplines[class.index()];
        let own = self.flow_of(queue, arrival);
        let with_arrival = own.map_or(0, |number| self.flows.at(number).waiters.len()) + 1;
        if let Some(biggest) = self.heaps.biggest.first(queue)
            && self.flows.at(biggest).waiters.len() > with_arrival
        {
            return Some(self.worst_of_flow(biggest));
        }
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
        let discipline = &self.disciplines[class_of(flow.queue).index()];
        let worst = match discipline.when_full {
            WhenFull::RefuseNew => flow.waiters.last(),
            WhenFull::DropOldest => flow.waiters.first(),
            WhenFull::DropLeast if discipline.fair => self.heaps.least_of_flow.first(number),
            WhenFull::DropLeast => self.heaps.least.first(flow.queue),
        };
        worst.expect("the flow has requests waiting")
    }

    /// Whether a waiter, with the next of its flow that would leave, holds so many bytes.
    fn frees(&self, class: ClassId, index: u32, excess: u64) -> bool {
        let neighbour = |&index: &u32| match self.disciplines[class.index()].when_full {
            WhenFull::RefuseNew => self.waiters.previous(index),
            WhenFull::DropOldest => self.waiters.next(index),
            WhenFull::DropLeast => None,
        };
        let leaving = std::iter::successors(Some(index), neighbour).take(VICTIMS_MAX);
        leaving.map(|index| u64::from(self.waiters[index].bytes)).sum::<u64>() >= excess
    }
}
