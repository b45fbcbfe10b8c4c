//! Who waits: one slab of entries, reused, and a list's links beside them.
//!
//! The links are apart, eight bytes an entry, so that who leaves a list touches its neighbours in a
//! table that is small enough to be near.

use super::flows::Turn;
use crate::classify::score::Score;
use crate::gate::Arrival;
use crate::names::{ClassId, RuleId};
use crate::reason::Reason;
use crate::time::Moment;

pub(super) const NONE: u32 = u32::MAX;

/// Names one waiting request. Stale tickets are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    pub(super) index: u32,
    pub(super) generation: u32,
}

/// What has become of a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Free,
    Waiting,
    /// Holds a slot since the moment given; its owner does not know yet.
    Granted(Moment),
    /// Was refused; its owner does not know yet.
    Refused(Reason),
}

/// A waiting request, or one whose owner does not know yet that it waits no more.
#[derive(Debug)]
pub(crate) struct Waiter<T> {
    pub(crate) state: State,
    pub(crate) class: ClassId,
    /// Whether its session runs already.
    pub(crate) running: bool,
    /// Whether its deadline has passed, and it waits on.
    pub(crate) late: bool,
    /// The rule that decided its class.
    pub(crate) rule: Option<RuleId>,
    /// How many slots it takes, 1 or more.
    pub(crate) slots: u16,
    /// Whose it is.
    pub(crate) flow: u64,
    pub(crate) arrived: Moment,
    /// When its wait ends, one way or another.
    pub(crate) deadline: Moment,
    pub(crate) score: Score,
    /// What its service was expected to cost when it was charged, and whom it was charged to.
    pub(crate) estimate: f64,
    pub(crate) turn: Turn,
    pub(super) bytes: u32,
    /// Grows from one who began to wait to the next. Who is late begins anew.
    pub(super) sequence: u64,
    /// Where its list is.
    pub(super) list: u32,
    pub(super) wake: Option<T>,
    generation: u32,
}

/// An entry's neighbours in its list; of a free entry, the next free one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) previous: u32,
    pub(super) next: u32,
}

#[derive(Debug)]
pub(super) struct Slab<T> {
    entries: Vec<Waiter<T>>,
    links: Vec<Link>,
    free: u32,
}

impl<T> Slab<T> {
    pub(super) fn new() -> Self {
        Slab { entries: Vec::new(), links: Vec::new(), free: NONE }
    }

    /// An entry for who begins to wait; in no list yet. O(1).
    pub(super) fn begin(
        &mut self,
        now: Moment,
        class: ClassId,
        arrival: &Arrival,
        deadline: Moment,
        sequence: u64,
        wake: T,
    ) -> Ticket {
        let mut waiter = Waiter {
            state: State::Waiting,
            class,
            running: arrival.running,
            late: false,
            rule: arrival.rule,
            slots: arrival.slots.max(1),
            flow: arrival.flow,
            arrived: now,
            deadline,
            score: arrival.score,
            estimate: 0.0,
            turn: Turn::NONE,
            bytes: arrival.bytes,
            sequence,
            list: NONE,
            wake: Some(wake),
            generation: 0,
        };
        if self.free == NONE {
            let index = u32::try_from(self.entries.len()).expect("classes' bounds fit in 32 bits");
            self.entries.push(waiter);
            self.links.push(Link { previous: NONE, next: NONE });
            return self.ticket(index);
        }
        let index = self.free;
        self.free = self.links[index as usize].next;
        let entry = &mut self.entries[index as usize];
        waiter.generation = entry.generation;
        *entry = waiter;
        self.ticket(index)
    }

    /// Makes an entry free, which is in no list. O(1).
    pub(super) fn end(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        entry.state = State::Free;
        entry.wake = None;
        entry.generation = entry.generation.wrapping_add(1);
        self.links[index as usize].next = self.free;
        self.free = index;
    }

    pub(super) fn ticket(&self, index: u32) -> Ticket {
        Ticket { index, generation: self.entries[index as usize].generation }
    }

    /// The entry that the ticket names, unless it is stale.
    pub(super) fn named(&self, ticket: Ticket) -> Option<&Waiter<T>> {
        self.entries
            .get(ticket.index as usize)
            .filter(|waiter| waiter.generation == ticket.generation && waiter.state != State::Free)
    }

    pub(super) fn at(&self, index: u32) -> &Waiter<T> {
        &self.entries[index as usize]
    }

    pub(super) fn at_mut(&mut self, index: u32) -> &mut Waiter<T> {
        &mut self.entries[index as usize]
    }

    pub(super) fn link(&self, index: u32) -> Link {
        self.links[index as usize]
    }

    pub(super) fn link_mut(&mut self, index: u32) -> &mut Link {
        &mut self.links[index as usize]
    }

    /// Every entry that is not free, with its number.
    pub(super) fn used(&mut self) -> impl Iterator<Item = (u32, &mut Waiter<T>)> {
        (0..).zip(&mut self.entries).filter(|(_, waiter)| waiter.state != State::Free)
    }
}
