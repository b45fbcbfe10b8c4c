//! Requests that have had a slot and wait for one of another server.

use crate::collections::{Key, List, Slab};
use crate::control::Seat;
use crate::names::{LaneId, ServerId};
use crate::time::Moment;
use std::time::Duration;

/// A request that waits for a slot of another server, or has one and does not know it yet.
#[derive(Debug)]
pub(super) struct Transfer<T> {
    pub(super) lane: LaneId,
    pub(super) slots: u16,
    /// When it gave its slot back.
    pub(super) since: Moment,
    pub(super) not_at: Box<[ServerId]>,
    pub(super) wake: Option<T>,
    pub(super) granted: Option<Granted>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Granted {
    pub(super) at: Moment,
    pub(super) seat: Option<Seat>,
    pub(super) found: u32,
    pub(super) found_there: u32,
    pub(super) lineup: u32,
}

/// The requests of a pool that wait so, the first that came first.
#[derive(Debug)]
pub(super) struct Transfers<T> {
    pub(super) all: Slab<Transfer<T>>,
    len: u32,
    pub(super) waiting: List,
}

impl<T> Transfers<T> {
    pub(super) fn new() -> Self {
        Transfers { all: Slab::with_capacity(0), len: 0, waiting: List::default() }
    }

    pub(super) fn any(&self) -> bool {
        self.len > 0
    }

    /// Those that have no slot.
    pub(super) fn without_slot(&self) -> u32 {
        self.waiting.len()
    }

    /// How long a request that was admitted then has had slots: until it gave its own back, and since it has another.
    pub(super) fn held(&self, now: Moment, admitted: Moment, key: Key) -> Duration {
        let Transfer { since, granted, .. } = &self.all[key.index()];
        let again = granted.map_or(Duration::ZERO, |granted| now.since(granted.at));
        since.since(admitted) + again
    }

    pub(super) fn add(&mut self, transfer: Transfer<T>) -> Key {
        let key = self.all.insert(transfer);
        self.all.append(&mut self.waiting, key.index());
        self.len += 1;
        key
    }

    pub(super) fn remove(&mut self, key: Key) -> Transfer<T> {
        if self.all[key.index()].granted.is_none() {
            self.all.unlink(&mut self.waiting, key.index());
        }
        self.len -= 1;
        self.all.remove(key.index())
    }
}
