//! An answer of the background whose connection has no room: nothing is written that would not leave at once.
//!
//! The system does not tell when a connection has room again of which nothing is unsent, so it is looked again, the later the longer it has waited.

use crate::clock;
use std::future::Future;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;
use tiergate_core::time::Moment;
use tokio::time::{Instant, Sleep, sleep};

/// The first look, and the longest time between two.
const FIRST: Duration = Duration::from_millis(1);
const LAST: Duration = Duration::from_millis(200);
/// So much longer than it might a client waits at most.
const PART: u32 = 4;

/// While the peer has had no room for so long, a byte is written, once: for the system to ask now and then whether it has.
const ASKS: Duration = Duration::from_secs(2);

/// When it is to be looked again whether the connection has room.
#[derive(Debug)]
pub(super) struct Parked {
    since: Moment,
    sleep: Pin<Box<Sleep>>,
}

impl Parked {
    /// From now on.
    pub(super) fn begin() -> Self {
        Parked { since: clock::now(), sleep: Box::pin(sleep(FIRST)) }
    }

    /// There is still no room.
    pub(super) fn goes_on(&mut self) {
        let waited = clock::now().since(self.since);
        let next = (waited / PART).clamp(FIRST, LAST);
        self.sleep.as_mut().reset(Instant::now() + next);
    }

    /// Whether the peer is to be asked if it has room.
    pub(super) fn is_long(&self) -> bool {
        clock::now().since(self.since) >= ASKS
    }

    /// Whether it is time to look; if not, the task is woken when it is.
    pub(super) fn poll_look(&mut self, context: &mut Context<'_>) -> bool {
        self.sleep.as_mut().poll(context).is_ready()
    }
}
