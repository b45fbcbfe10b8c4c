//! Flows: each has a list of those of its requests that wait, and an account of what it was served.
//!
//! | state of an account | until |
//! |---|---|
//! | it has requests waiting | they are served or gone: as many accounts as waiters at most |
//! | idle, ahead of its lane's virtual time | that has caught up, or [`REMEMBERED`] is over, or more than [`IDLE_MAX`] are idle and it is the one that is so for longest |
//! | forgotten | it comes again, and starts at the present virtual time |
//!
//! An idle flow that is not ahead is forgotten at once and loses nothing: it would start at the
//! present either way.

use super::codel::Law;
use super::slab::{NONE, Slab};
use crate::time::Moment;
use std::collections::HashMap;
use std::time::Duration;

/// Most idle flows whose accounts are kept: about 10 MB.
pub(super) const IDLE_MAX: usize = 65_536;
/// How long an idle flow's account is kept. Virtual time stands still while nobody waits, so that it
/// alone would let a debt stand for ever.
pub(super) const REMEMBERED: Duration = Duration::from_secs(10);

/// Names the account that a service was charged to. Stale ones are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    account: u32,
    generation: u32,
}

impl Turn {
    pub(crate) const NONE: Turn = Turn { account: NONE, generation: 0 };
}

/// A flow's list and account, in one lane.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) lane: u32,
    pub(super) key: u64,
    /// Its waiters: the longest, the last to come, how many, and their bytes.
    pub(super) head: u32,
    pub(super) tail: u32,
    pub(super) len: u32,
    pub(super) bytes: u64,
    /// Virtual time at which its next request starts, and who goes first of several: whose start was
    /// set first.
    pub(super) start: f64,
    pub(super) tie: u64,
    /// Which of all who began to wait was its first.
    pub(super) since: u64,
    /// Last come, first served.
    pub(super) is_lifo: bool,
    pub(super) law: Law,
    generation: u32,
    /// Neighbours among the idle; of a free account, the next free one.
    idle_previous: u32,
    idle_next: u32,
    /// [`Moment::NEVER`] while it is not idle.
    pub(super) idle_since: Moment,
}

/// All flows of all lanes.
#[derive(Debug)]
pub(super) struct Flows {
    accounts: Vec<Flow>,
    numbers: HashMap<(u32, u64), u32, foldhash::fast::FixedState>,
    free: u32,
    /// Grows with each account that is opened or forgotten.
    generation: u32,
    /// The idle, from the one that is so for longest.
    idle_head: u32,
    idle_tail: u32,
    idle_len: usize,
}

impl Flows {
    pub(super) fn new() -> Self {
        Flows {
            accounts: Vec::new(),
            numbers: HashMap::default(),
            free: NONE,
            generation: 0,
            idle_head: NONE,
            idle_tail: NONE,
            idle_len: 0,
        }
    }

    pub(super) fn at(&self, number: u32) -> &Flow {
        &self.accounts[number as usize]
    }

    pub(super) fn at_mut(&mut self, number: u32) -> &mut Flow {
        &mut self.accounts[number as usize]
    }

    /// The flow's number, if it has an account. O(1).
    pub(super) fn find(&self, lane: u32, key: u64) -> Option<u32> {
        self.numbers.get(&(lane, key)).copied()
    }

    /// The flow's number; it gets an account if it has none. O(1).
    pub(super) fn open(&mut self, lane: u32, key: u64) -> u32 {
        if let Some(number) = self.find(lane, key) {
            return number;
        }
        self.generation = self.generation.wrapping_add(1);
        let flow = Flow {
            lane,
            key,
            head: NONE,
            tail: NONE,
            len: 0,
            bytes: 0,
            start: 0.0,
            tie: 0,
            since: 0,
            is_lifo: false,
            law: Law::default(),
            generation: self.generation,
            idle_previous: NONE,
            idle_next: NONE,
            idle_since: Moment::NEVER,
        };
        let number = self.free;
        let number = if number == NONE {
            self.accounts.push(flow);
            self.accounts.len() as u32 - 1
        } else {
            let account = &mut self.accounts[number as usize];
            self.free = account.idle_next;
            *account = flow;
            number
        };
        self.numbers.insert((lane, key), number);
        number
    }

    /// Forgets a flow that nobody waits for and that is not idle.
    fn close(&mut self, number: u32) {
        let account = &mut self.accounts[number as usize];
        self.numbers.remove(&(account.lane, account.key));
        self.generation = self.generation.wrapping_add(1);
        account.generation = self.generation;
        account.idle_next = self.free;
        self.free = number;
    }

    /// Forgets a flow that nobody waits for.
    pub(super) fn forget(&mut self, number: u32) {
        self.wakes(number);
        self.close(number);
    }

    /// What names the account later.
    pub(super) fn turn(&self, number: u32) -> Turn {
        Turn { account: number, generation: self.at(number).generation }
    }

    /// The account's number, unless it is forgotten.
    pub(super) fn named(&self, turn: Turn) -> Option<u32> {
        let account = self.accounts.get(turn.account as usize)?;
        (account.generation == turn.generation).then_some(turn.account)
    }

    /// Adds a waiter at the end of the flow's list. O(1).
    pub(super) fn append<T>(&mut self, slab: &mut Slab<T>, number: u32, index: u32) {
        let flow = &mut self.accounts[number as usize];
        let tail = std::mem::replace(&mut flow.tail, index);
        if tail == NONE {
            flow.head = index;
        } else {
            slab.link_mut(tail).next = index;
        }
        *slab.link_mut(index) = super::slab::Link { previous: tail, next: NONE };
        flow.len += 1;
        flow.bytes += u64::from(slab.at(index).bytes);
    }

    /// Takes a waiter out of the flow's list. O(1).
    pub(super) fn unlink<T>(&mut self, slab: &mut Slab<T>, number: u32, index: u32) {
        let flow = &mut self.accounts[number as usize];
        let link = slab.link(index);
        match link.previous {
            NONE => flow.head = link.next,
            previous => slab.link_mut(previous).next = link.next,
        }
        match link.next {
            NONE => flow.tail = link.previous,
            next => slab.link_mut(next).previous = link.previous,
        }
        flow.len -= 1;
        flow.bytes -= u64::from(slab.at(index).bytes);
    }

    /// The last of the flow's waiters is gone. Its account is kept while it is ahead of the lane's
    /// virtual time, which `virtual_of` says; up to two others are forgotten. O(1).
    pub(super) fn rests(&mut self, now: Moment, number: u32, virtual_of: impl Fn(u32) -> f64) {
        let flow = &mut self.accounts[number as usize];
        if flow.start <= virtual_of(flow.lane) {
            self.close(number);
        } else {
            flow.idle_since = now;
            flow.idle_previous = self.idle_tail;
            flow.idle_next = NONE;
            match std::mem::replace(&mut self.idle_tail, number) {
                NONE => self.idle_head = number,
                tail => self.accounts[tail as usize].idle_next = number,
            }
            self.idle_len += 1;
        }
        // Two for each that comes, so that the memory shrinks back after a crowd.
        for _ in 0..2 {
            let number = self.idle_head;
            if number == NONE {
                break;
            }
            let flow = self.at(number);
            let is_over = now.since(flow.idle_since) >= REMEMBERED;
            if !is_over && flow.start > virtual_of(flow.lane) && self.idle_len <= IDLE_MAX {
                break;
            }
            self.forget(number);
        }
    }

    /// The flow is idle no more, if it was. O(1).
    pub(super) fn wakes(&mut self, number: u32) {
        let flow = &mut self.accounts[number as usize];
        if flow.idle_since == Moment::NEVER {
            return;
        }
        flow.idle_since = Moment::NEVER;
        let (previous, next) = (flow.idle_previous, flow.idle_next);
        match previous {
            NONE => self.idle_head = next,
            previous => self.accounts[previous as usize].idle_next = next,
        }
        match next {
            NONE => self.idle_tail = previous,
            next => self.accounts[next as usize].idle_previous = previous,
        }
        self.idle_len -= 1;
    }

    /// Whether the idle flow's debt is too old to count.
    pub(super) fn is_over(&self, now: Moment, number: u32) -> bool {
        let since = self.at(number).idle_since;
        since != Moment::NEVER && now.since(since) >= REMEMBERED
    }

    /// How many accounts there are, of those who wait and of the idle.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Those that have an account.
    pub(super) fn all(&self) -> impl Iterator<Item = u32> + '_ {
        self.numbers.values().copied()
    }
}
