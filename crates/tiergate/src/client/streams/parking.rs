//! Room for uploads that stand still: one that waits for its slot, or whose origin does not read, holds up
//! to its stream's window of the connection's. A few of them would use that up, and an upload of a class
//! above could not go on: so the connection's window grows by as much as they may hold, out of the memory
//! for slow clients. When that is used up too, they share what there is.
//!
//! | state | who writes | who reads |
//! |---|---|---|
//! | parked, rooms | each stream's task | the connection's |
//! | the waker | the connection's task | each stream's |
//!
//! All tasks of a connection are on one thread: lock and atomics only say so to the compiler.

use super::window;
use crate::budget::{Allowance, Reserved};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Waker};

/// So many have room in the connection's window as it is, and leave a stream's window to others.
const WITHIN: u32 = window::CONNECTION / window::STREAM - 1;

/// The uploads of a connection that may stand still.
#[derive(Debug, Default)]
pub(in crate::client) struct Parking {
    parked: AtomicU32,
    rooms: AtomicU32,
    connection: Mutex<Option<Waker>>,
}

/// An upload that may stand still. Dropped, its room goes back.
#[derive(Debug)]
pub(in crate::client) struct Parked<'p> {
    parking: &'p Parking,
    room: Option<Reserved>,
}

impl Parking {
    /// An upload goes on after its request has been decided about.
    pub(in crate::client) fn park(&self, allowance: &Allowance<'_>) -> Parked<'_> {
        let before = self.parked.fetch_add(1, Ordering::Relaxed);
        let all = Allowance { own_max: usize::MAX, ..*allowance };
        let wanted = before >= WITHIN;
        let room = wanted.then(|| all.take(0, window::STREAM as usize)).flatten();
        if room.is_some() {
            self.rooms.fetch_add(1, Ordering::Relaxed);
            self.wake();
        }
        Parked { parking: self, room }
    }

    /// How large the connection's window is to be.
    pub(in crate::client) fn window(&self) -> u32 {
        let more = self.rooms.load(Ordering::Relaxed).saturating_mul(window::STREAM);
        window::CONNECTION.saturating_add(more).min(WINDOW_MAX)
    }

    /// Wakes the connection's task when the window changes, or a stream begins or ends to gather its body.
    pub(in crate::client) fn watch(&self, context: &Context<'_>) {
        let mut waker = self.connection.lock().expect("no code panics while it holds the waker");
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            *waker = Some(context.waker().clone());
        }
    }

    pub(in crate::client) fn wake(&self) {
        let waker =
            self.connection.lock().expect("no code panics while it holds the waker").clone();
        waker.into_iter().for_each(Waker::wake);
    }
}

/// The largest window of all (RFC 9113 §6.9.1).
const WINDOW_MAX: u32 = (1 << 31) - 1;

impl Drop for Parked<'_> {
    fn drop(&mut self) {
        self.parking.parked.fetch_sub(1, Ordering::Relaxed);
        if self.room.take().is_some() {
            self.parking.rooms.fetch_sub(1, Ordering::Relaxed);
            self.parking.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use std::sync::Arc;

    #[test]
    fn the_window_grows_with_those_that_stand_still_and_the_memory_that_there_is() {
        let budget = Arc::new(Budget::default());
        let total_max = 2 * window::STREAM as usize;
        let allowance = Allowance { budget: &budget, total_max, own_max: 0 };
        let parking = Parking::default();
        let least = parking.window();
        let mut parked: Vec<_> = (0..WITHIN).map(|_| parking.park(&allowance)).collect();
        assert_eq!((parking.window(), budget.used()), (least, 0));
        parked.extend((0..4).map(|_| parking.park(&allowance)));
        assert_eq!(parking.window(), least + 2 * window::STREAM);
        assert_eq!(budget.used(), total_max);
        drop(parked);
        assert_eq!((parking.window(), budget.used()), (least, 0));
    }
}
