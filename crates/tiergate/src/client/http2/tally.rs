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
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

/// What a connection knows of its streams' tasks.
#[derive(Debug, Default)]
pub(super) struct Tally {
    live: AtomicUsize,
    /// Streams that the client reset, less those that were answered.
    resets: AtomicU32,
    closing: AtomicBool,
    /// Uploads that may stand still.
    pub(super) parking: Parking,
}

impl Tally {
    /// A stream's task begins.
    pub(super) fn begin(&self) {
        self.live.fetch_add(1, Ordering::Relaxed);
    }

    /// A stream's task has ended; `reset`: because the client reset the stream.
    pub(super) fn end(&self, reset: bool) {
        self.live.fetch_sub(1, Ordering::Relaxed);
        let resets = self.resets.load(Ordering::Relaxed);
        let resets = match reset {
            true => resets.saturating_add(1),
            false => resets.saturating_sub(1),
        };
        self.resets.store(resets, Ordering::Relaxed);
    }

    /// The connection shall end after the streams that are open.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
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
