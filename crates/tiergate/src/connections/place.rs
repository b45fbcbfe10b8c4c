//! What of an open connection others see: what it does, and how important it is.

use crate::clock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::task::Waker;
use tiergate_core::admit::connections::Level;
use tiergate_core::time::Moment;

/// What is added to the moment since when a connection is idle that has a request, of which the rest is still to come.
pub(super) const BEGUN: u64 = 1 << 60;

/// State of a connection that has a request.
pub(super) const BUSY: u64 = 0;
/// State of a connection that is to make room. Any other: idle since so many nanoseconds, and one.
pub(super) const EVICTED: u64 = u64::MAX;

/// No class has so low a level.
const UNKNOWN: Level = Level::MAX;

/// How many of all open connections are of a kind.
#[derive(Debug, Default)]
pub(super) struct Totals {
    /// Those that are about to make room.
    pub(super) leaving: AtomicUsize,
    /// Those that have brought a request and are not about to make room.
    pub(super) known: AtomicUsize,
}

/// What of a connection others see.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) state: AtomicU64,
    /// The level of its last request, or by its address; or [`UNKNOWN`].
    level: AtomicU8,
    /// Whether it has brought a request. It is one of [`Totals::known`] then, unless it is to make room.
    is_known: AtomicBool,
    /// Where it stands among its client's.
    pub(super) index: AtomicUsize,
    pub(super) task: Mutex<Option<Waker>>,
}

impl Place {
    /// Of a connection that waits for its first request.
    pub(super) fn new(level: Option<Level>) -> Self {
        Place {
            state: AtomicU64::new(idle_since_now()),
            level: AtomicU8::new(level.unwrap_or(UNKNOWN)),
            is_known: AtomicBool::new(false),
            index: AtomicUsize::new(0),
            task: Mutex::default(),
        }
    }

    /// Its level, if that is known.
    pub(super) fn level(&self) -> Option<Level> {
        let level = self.level.load(Ordering::Relaxed);
        (level != UNKNOWN).then_some(level)
    }

    /// Its state if it is idle, the moment since when it is, and whether it has a request of which the rest is to come.
    pub(super) fn idle(&self) -> Option<(u64, Moment, bool)> {
        let state = self.state.load(Ordering::Relaxed);
        let has_begun = state >= BEGUN;
        let since = Moment::from_nanos(if has_begun { state - BEGUN } else { state });
        (state != BUSY && state != EVICTED).then_some((state, since, has_begun))
    }

    /// Tells one that was in this state to make room; `false`: it has a request now.
    pub(super) fn tell(&self, state: u64, totals: &Totals) -> bool {
        let mut waker = self.waker();
        let told = self
            .state
            .compare_exchange(state, EVICTED, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok();
        if told {
            totals.leaving.fetch_add(1, Ordering::Relaxed);
            if self.is_known() {
                totals.known.fetch_sub(1, Ordering::Relaxed);
            }
            waker.take().into_iter().for_each(Waker::wake);
        }
        told
    }

    /// It has a request, and need not make room any more.
    pub(super) fn busy(&self, totals: &Totals) {
        if self.state.load(Ordering::Relaxed) != BUSY
            && self.state.swap(BUSY, Ordering::AcqRel) == EVICTED
        {
            // Who told it has counted it by then.
            let _told = self.waker();
            totals.leaving.fetch_sub(1, Ordering::Relaxed);
            if self.is_known() {
                totals.known.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// It is idle since now, if it had a request; `begun`: it has one, of which the rest is still to come.
    pub(super) fn rests(&self, begun: bool) {
        if self.state.load(Ordering::Relaxed) == BUSY {
            let since = idle_since_now() + if begun { BEGUN } else { 0 };
            self.state.store(since, Ordering::Release);
        }
    }

    /// Whether it has brought a request.
    pub(super) fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    /// It has brought a request of this level.
    pub(super) fn brought(&self, level: Level, totals: &Totals) {
        let _changing = self.waker();
        self.level.store(level, Ordering::Relaxed);
        let was_known = self.is_known.swap(true, Ordering::Relaxed);
        if !was_known && self.state.load(Ordering::Relaxed) != EVICTED {
            totals.known.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Its connection ends.
    pub(super) fn ends(&self, totals: &Totals) {
        self.busy(totals);
        if self.is_known() {
            totals.known.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub(super) fn waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.task.lock().expect("no code panics while it holds the waker")
    }
}

fn idle_since_now() -> u64 {
    (clock::recent().nanos() + 1).clamp(BUSY + 1, BEGUN - 1)
}
