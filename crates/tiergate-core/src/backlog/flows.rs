//! Flows: each has a list of those of its requests that wait, and an account of what it was served.
//!
//! | state of an account | until |
//! |---|---|
//! | it has requests waiting | they are served or gone: as many accounts as waiters at most |
//! | none waits, and some that it was charged for have not ended | they have: as many accounts as slots at most |
//! | idle, ahead of its queue's virtual time | that has caught up, or [`REMEMBERED`] is over, or more than [`IDLE_MAX`] are idle and it is the one that has been so for longest |
//! | forgotten | it comes again, and starts at the present virtual time |
//!
//! An idle flow that is not ahead is forgotten at once and loses nothing: it would start at the
//! present either way.

use super::codel::Law;
use crate::admit::lasting::Lasting;
use crate::collections::{Key, List, Rank, Slab};
use crate::time::Moment;
use std::collections::HashMap;
use std::time::Duration;

/// Most idle flows whose accounts are kept: about 10 MB.
pub(super) const IDLE_MAX: usize = 65_536;
/// How long an idle flow's account is kept. Virtual time stands still while nothing waits, so that it
/// alone would let a debt stand for ever.
pub(super) const REMEMBERED: Duration = Duration::from_secs(10);

/// Names the account that a service was charged to. Stale ones are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowTurn(Key);

/// A flow's list and account, in one queue of a class.
#[derive(Clone, Debug, Default)]
pub(super) struct Flow {
    pub(super) queue: u32,
    pub(super) key: u64,
    /// Its requests that wait, in the order in which they came.
    pub(super) waiters: List,
    /// Virtual time at which its next request starts, and who goes first of several: whose start was
    /// set first.
    pub(super) start: f64,
    pub(super) tie: u64,
    /// Which of all that began to wait was its first.
    pub(super) since: u64,
    /// How many services that it was charged have not ended.
    pub(super) running: u32,
    /// Whether its latest service is the only one, and no request of it has come since that began.
    pub(super) is_alone: bool,
    /// Last come, first served.
    pub(super) is_lifo: bool,
    /// How many turns it has left to requests that belong to no running session, since its own last.
    pub(super) gave_way: u32,
    /// What its services usually cost; 0 while none has ended.
    pub(super) cost: f64,
    /// Bytes that are held while its requests wait.
    pub(super) bytes: u64,
    pub(super) law: Law,
    /// Refusals of its requests that were due to deadlines.
    pub(super) lasting: Lasting,
    /// [`Moment::NEVER`] while it is not idle.
    pub(super) idle_since: Moment,
}

impl Flow {
    /// Its place among flows that take turns. The bits of floats that are not negative are in their order.
    pub(super) fn rank(&self) -> Rank {
        (self.start.to_bits(), self.tie)
    }

    /// A service that was charged has ended and has cost `actual`. It is no debt if no other request of the
    /// flow waited or ran meanwhile: a client that asks for one thing after another holds one slot at most,
    /// and would otherwise, after each request that took longer than others', stand behind
    /// all flows until they have had as much, so that under overload no session came to its end.
    pub(super) fn ended(&mut self, charged: f64, actual: f64) {
        let actual = if self.is_alone { 0.0 } else { actual };
        self.running -= 1;
        // The difference first: a charge that was right leaves the start exactly where it is.
        self.start = (self.start + (actual - charged)).max(0.0);
    }

    /// Whether it is idle, and its debt too old to count or made up for at the virtual time `present` of its
    /// queue.
    pub(super) fn is_over(&self, now: Moment, present: f64) -> bool {
        let is_paid = self.start <= present;
        self.idle_since != Moment::NEVER && (is_paid || now.since(self.idle_since) >= REMEMBERED)
    }
}

/// All flows of all queues, by the numbers of their accounts.
#[derive(Debug, Default)]
pub(super) struct Flows {
    accounts: Slab<Flow>,
    numbers: HashMap<(u32, u64), u32, foldhash::fast::FixedState>,
    /// The idle, from the one that has been so for longest.
    idle: List,
}

impl Flows {
    pub(super) fn at(&self, number: u32) -> &Flow {
        &self.accounts[number]
    }

    pub(super) fn at_mut(&mut self, number: u32) -> &mut Flow {
        &mut self.accounts[number]
    }

    /// The flow's number, if it has an account. O(1).
    pub(super) fn find(&self, queue: u32, key: u64) -> Option<u32> {
        self.numbers.get(&(queue, key)).copied()
    }

    /// The flow's number; it gets an account if it has none. O(1).
    pub(super) fn open(&mut self, queue: u32, key: u64) -> u32 {
        *self.numbers.entry((queue, key)).or_insert_with(|| {
            let flow = Flow { queue, key, idle_since: Moment::NEVER, ..Flow::default() };
            self.accounts.insert(flow).index()
        })
    }

    /// Forgets a flow that has no requests waiting and is not idle. What still runs of it is charged to
    /// nobody.
    fn close(&mut self, number: u32) {
        let flow = self.accounts.remove(number);
        self.numbers.remove(&(flow.queue, flow.key));
    }

    /// What names the account later.
    pub(super) fn turn(&self, number: u32) -> FlowTurn {
        FlowTurn(self.accounts.key(number))
    }

    /// The account's number, unless it is forgotten.
    pub(super) fn named(&self, FlowTurn(key): FlowTurn) -> Option<u32> {
        self.accounts.find(key).map(|_| key.index())
    }

    /// The last of the flow's waiters is gone, or the last of its services has ended while none waits. Its
    /// account is kept while such a service has not, and while it is ahead of the queue's virtual
    /// time, which `virtual_of` says; up to two others are forgotten. O(1).
    pub(super) fn rests(&mut self, now: Moment, number: u32, virtual_of: impl Fn(u32) -> f64) {
        let present = virtual_of(self.at(number).queue);
        if self.at(number).running > 0 {
            // What it has cost is not known yet.
        } else if self.at(number).start > present {
            self.accounts[number].idle_since = now;
            self.accounts.append(&mut self.idle, number);
        } else {
            self.close(number);
        }
        // Two for each that comes, so that the memory shrinks back after a crowd.
        for _ in 0..2 {
            let Some(number) = self.idle.first() else {
                break;
            };
            let flow = self.at(number);
            let is_over = flow.is_over(now, virtual_of(flow.queue));
            if !is_over && self.idle.len() as usize <= IDLE_MAX {
                break;
            }
            self.wakes(number);
            self.close(number);
        }
    }

    /// The flow is idle no more, if it was. O(1).
    pub(super) fn wakes(&mut self, number: u32) {
        let since = &mut self.accounts[number].idle_since;
        if std::mem::replace(since, Moment::NEVER) != Moment::NEVER {
            self.accounts.unlink(&mut self.idle, number);
        }
    }

    /// How many accounts there are, of flows with requests waiting and of idle ones.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = &Flow> {
        self.numbers.values().map(|number| self.at(*number))
    }

    /// Forgets those that match, which have no requests waiting.
    pub(super) fn forget_where(&mut self, matches: impl Fn(&Flow) -> bool) {
        let numbers = self.numbers.values().copied();
        let numbers: Vec<u32> = numbers.filter(|number| matches(self.at(*number))).collect();
        for number in numbers {
            self.wakes(number);
            self.close(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_flow_that_is_not_ahead_is_over_even_where_it_is_not_forgotten_yet() {
        let idle = Flow { start: 5.0, idle_since: Moment::ZERO, ..Flow::default() };
        assert!(!idle.is_over(Moment::ZERO, 4.9));
        assert!(idle.is_over(Moment::ZERO, 5.0));
        assert!(idle.is_over(Moment::ZERO + REMEMBERED, 4.9));
        let waits = Flow { idle_since: Moment::NEVER, ..idle };
        assert!(!waits.is_over(Moment::ZERO + REMEMBERED, 5.0));
    }
}
