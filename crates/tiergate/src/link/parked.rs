//! An answer of the background whose connection has no room, and what wakes it to look again.

use crate::clock;
use std::future::Future;
use std::pin::Pin;
use std::task::Context;
use tiergate_core::transmit;
use tokio::time::{Instant, Sleep, sleep};

/// When it is to be looked again whether the connection has room.
#[derive(Debug)]
pub(super) struct Parked {
    looks: transmit::Parked,
    sleep: Pin<Box<Sleep>>,
}

impl Parked {
    /// From now on.
    pub(super) fn begin() -> Self {
        let now = clock::now();
        let looks = transmit::Parked::begin(now);
        Parked { looks, sleep: Box::pin(sleep(looks.next_look(now))) }
    }

    /// There is still no room.
    pub(super) fn goes_on(&mut self) {
        let next = self.looks.next_look(clock::now());
        self.sleep.as_mut().reset(Instant::now() + next);
    }

    /// Whether the peer is to be asked if it has room.
    pub(super) fn asks(&self) -> bool {
        self.looks.asks(clock::now())
    }

    /// Whether it is time to look; if not, the task is woken when it is.
    pub(super) fn poll_look(&mut self, context: &mut Context<'_>) -> bool {
        self.sleep.as_mut().poll(context).is_ready()
    }
}
