//! Room for uploads that stand still: one that waits for its slot, or whose origin does not read, holds up
//! to its stream's window of the connection's. A few of them would use that up, and an upload of a class
//! above could not go on: so the connection's window grows by as much as they may hold, out of the memory
//! for slow clients. When that is used up too, they share what there is.
//!
//! A window that has been granted cannot be taken back: the client may send as much at any time later. So the window never
//! shrinks, the memory for it is reserved for as long as the connection lives, and a connection that does not need it any more is
//! to end: a client that parks uploads and gives them up, on one connection after the other, would else have us hold
//! a stream's window for each of its streams.
//!
//! | state | who writes | who reads |
//! |---|---|---|
//! | parked, rooms, held | each stream's task | the connection's |
//! | the waker | the connection's task | each stream's |
//!
//! All tasks of a connection are on one thread: lock and atomics only say so to the compiler.

use super::window;
use crate::budget::{Allowance, Reserved};
use crate::timers::Timer;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

/// So many have room in the connection's window as it is, and leave a stream's window to others.
const WITHIN: u32 = window::CONNECTION / window::STREAM - 1;

/// How long a connection may keep room that its uploads do not need.
const SURPLUS_MAX: Duration = Duration::from_secs(5);

/// The uploads of a connection that may stand still.
#[derive(Debug, Default)]
pub(in crate::client) struct Parking {
    parked: AtomicU32,
    /// By so many streams' windows the connection's has grown.
    rooms: AtomicU32,
    /// The memory for those.
    held: Mutex<Option<Reserved>>,
    connection: Mutex<Option<Waker>>,
}

/// An upload that may stand still, until it is dropped. Its room is then another's.
#[derive(Debug)]
pub(in crate::client) struct Parked<'p> {
    parking: &'p Parking,
}

impl Parking {
    /// An upload goes on after its request has been decided about.
    pub(in crate::client) fn park(&self, allowance: &Allowance<'_>) -> Parked<'_> {
        self.parked.fetch_add(1, Ordering::Relaxed);
        if self.needed() > self.rooms.load(Ordering::Relaxed) && self.take_room(allowance) {
            self.rooms.fetch_add(1, Ordering::Relaxed);
            self.wake();
        }
        Parked { parking: self }
    }

    fn take_room(&self, allowance: &Allowance<'_>) -> bool {
        let (room, total_max) = (window::STREAM as usize, allowance.total_max);
        let mut held = self.held.lock().expect("no code panics while it holds the rooms");
        match &mut *held {
            Some(held) => held.grow(room, total_max),
            none => {
                *none = allowance.budget.take(room, total_max);
                none.is_some()
            }
        }
    }

    /// How many rooms its uploads could fill.
    fn needed(&self) -> u32 {
        self.parked.load(Ordering::Relaxed).saturating_sub(WITHIN)
    }

    /// Whether most of its rooms are not needed.
    fn has_surplus(&self) -> bool {
        self.needed().saturating_mul(2) < self.rooms.load(Ordering::Relaxed)
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
        if self.parking.has_surplus() {
            self.parking.wake();
        }
    }
}

/// Tells a connection to end whose window is larger than it needs.
#[derive(Debug, Default)]
pub(in crate::client) struct Surplus(Option<Timer>);

impl Surplus {
    /// Whether the connection is to end: at once where it is not `busy` with a stream. The task is woken when it is time.
    pub(in crate::client) fn poll_ends(
        &mut self,
        parking: &Parking,
        busy: bool,
        context: &mut Context<'_>,
    ) -> bool {
        if !parking.has_surplus() {
            self.0 = None;
            return false;
        }
        let timer = self.0.get_or_insert_with(|| Timer::armed(SURPLUS_MAX));
        !busy || timer.poll_expired(context)
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
    }

    #[test]
    fn what_a_client_may_send_is_accounted_until_its_connection_ends() {
        let budget = Arc::new(Budget::default());
        let allowance = Allowance { budget: &budget, total_max: usize::MAX, own_max: 0 };
        let parking = Parking::default();
        let least = parking.window();
        let accounted = |parking: &Parking| {
            assert_eq!((parking.window() - least) as usize, budget.used());
            budget.used() / window::STREAM as usize
        };
        for _ in 0..100 {
            let parked: Vec<_> = (0..WITHIN + 9).map(|_| parking.park(&allowance)).collect();
            assert_eq!(accounted(&parking), 9, "its rooms are used again");
            drop(parked);
            assert_eq!(accounted(&parking), 9, "the client has not given its window back");
        }
        drop(parking);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_connection_ends_that_has_no_use_for_most_of_its_window() {
        let budget = Arc::new(Budget::default());
        let allowance = Allowance { budget: &budget, total_max: usize::MAX, own_max: 0 };
        let context = &mut Context::from_waker(Waker::noop());
        let (parking, mut surplus) = (Parking::default(), Surplus::default());
        let mut parked: Vec<_> = (0..WITHIN).map(|_| parking.park(&allowance)).collect();
        assert!(!surplus.poll_ends(&parking, false, context), "it has not grown");
        parked.extend((0..8).map(|_| parking.park(&allowance)));
        parked.truncate(parked.len() - 4);
        assert!(!surplus.poll_ends(&parking, false, context), "half of it is needed");
        parked.pop();
        assert!(!surplus.poll_ends(&parking, true, context), "it has some time");
        assert!(surplus.poll_ends(&parking, false, context), "but for nothing");
        parked.push(parking.park(&allowance));
        assert!(!surplus.poll_ends(&parking, false, context), "it is needed again");
    }
}
