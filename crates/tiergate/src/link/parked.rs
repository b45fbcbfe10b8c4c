//! An answer of the background whose connection has no room, and what wakes it to look again.

use super::carrier::Carrier;
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
    /// Whether the peer is asked if it has room.
    asks: bool,
    sleep: Pin<Box<Sleep>>,
}

impl Parked {
    /// From now on.
    pub(super) fn begin() -> Self {
        let now = clock::now();
        let looks = transmit::Parked::begin(now);
        Parked { looks, asks: false, sleep: Box::pin(sleep(looks.next_look(now))) }
    }

    /// There is still no room.
    pub(super) fn goes_on(&mut self, client: &mut impl Carrier) {
        let now = clock::now();
        self.sleep.as_mut().reset(Instant::now() + self.looks.next_look(now));
        if !self.asks && self.looks.asks(now) {
            self.asks = true;
            client.asks_for_room(true);
        }
    }

    /// There is.
    pub(super) fn ends(self, client: &mut impl Carrier) {
        if self.asks {
            client.asks_for_room(false);
        }
    }

    /// Whether it is time to look; if not, the task is woken when it is.
    pub(super) fn poll_look(&mut self, context: &mut Context<'_>) -> bool {
        self.sleep.as_mut().poll(context).is_ready()
    }
}
