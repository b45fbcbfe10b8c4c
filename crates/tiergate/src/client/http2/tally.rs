//! What a connection knows of its streams' tasks.
//!
//! | state | who writes | who reads |
//! |---|---|---|
//! | live | each stream's task | the connection's |
//! | resets | each stream's task | the connection's |
//! | closing | a stream's task | the connection's |
//!
//! All tasks of a connection are on one thread: the atomics only say so to the compiler.

use super::parking::Parking;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use tiergate_core::gate::Delivered;

/// What a connection knows of its streams' tasks.
#[derive(Debug)]
pub(super) struct Tally {
    live: AtomicUsize,
    /// Those of them whose body is read before they ask for a slot.
    gathering: AtomicUsize,
    /// Streams that the client reset, less those that the origin answered.
    resets: AtomicU32,
    closing: AtomicBool,
    /// Uploads that may stand still.
    pub(super) parking: Parking,
    /// Bytes that the connection has delivered.
    meter: Meter,
}

/// Asks the system for the bytes that a connection has delivered, as far as it tells.
pub(super) struct Meter(Box<dyn Fn() -> Option<u64> + Send + Sync>);

impl Meter {
    pub(super) fn new(ask: impl Fn() -> Option<u64> + Send + Sync + 'static) -> Self {
        Meter(Box::new(ask))
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Meter")
    }
}

/// How a stream's task has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Ended {
    /// The client reset the stream, or left: wasted work.
    Reset,
    /// The origin's answer was passed on.
    Answered,
    /// By an answer of ours, or by us. It pays for no reset: answers of ours are to be had for nothing.
    #[default]
    Otherwise,
}

impl Tally {
    pub(super) fn new(meter: Meter) -> Self {
        Tally {
            live: AtomicUsize::default(),
            gathering: AtomicUsize::default(),
            resets: AtomicU32::default(),
            closing: AtomicBool::default(),
            parking: Parking::default(),
            meter,
        }
    }

    /// What the connection has delivered to all of its streams.
    pub(super) fn delivered(&self) -> Option<Delivered> {
        let requests = u32::try_from(self.live()).unwrap_or(u32::MAX).max(1);
        Some(Delivered { bytes: (self.meter.0)()?, requests })
    }

    /// A stream's task begins.
    pub(super) fn begin(&self) {
        self.live.fetch_add(1, Ordering::Relaxed);
    }

    /// A stream's task has ended.
    pub(super) fn end(&self, ended: Ended) {
        self.live.fetch_sub(1, Ordering::Relaxed);
        let resets = self.resets.load(Ordering::Relaxed);
        let resets = match ended {
            Ended::Reset => resets.saturating_add(1),
            Ended::Answered => resets.saturating_sub(1),
            Ended::Otherwise => resets,
        };
        self.resets.store(resets, Ordering::Relaxed);
    }

    /// The connection shall end after the streams that are open.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    /// A stream's task begins to read its body before it asks for a slot, or that is over. Wakes the connection's task.
    pub(super) fn gathers(&self, begins: bool) {
        match begins {
            true => self.gathering.fetch_add(1, Ordering::Relaxed),
            false => self.gathering.fetch_sub(1, Ordering::Relaxed),
        };
        self.parking.wake();
    }

    /// Tasks that have a slot or wait for one, or are about to.
    pub(super) fn asking(&self) -> usize {
        self.live() - self.gathering.load(Ordering::Relaxed)
    }

    /// Tasks that live.
    pub(super) fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// Resets that are not made up for by answers.
    pub(super) fn resets(&self) -> u32 {
        self.resets.load(Ordering::Relaxed)
    }

    /// Whether a stream wants the connection to end.
    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }
}
