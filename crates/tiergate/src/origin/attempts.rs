//! Where a request is tried, one server after the other.

use super::{Lease, Origin, Place};
use crate::link::Fault;
use std::io;
use std::sync::Arc;

/// Where a request has been tried.
#[derive(Debug, Default)]
pub struct Attempts {
    /// Servers that could not be reached, one bit each.
    tried: u64,
    timed_out: bool,
    stale: bool,
}

impl Attempts {
    /// The next place, with an idle connection if there is one to be used; `None` if no other server
    /// is usable.
    pub fn next(&self, origin: &Arc<Origin>) -> Option<(Place, Option<Lease>)> {
        let place = Place::pick(origin, self.tried)?;
        let idle = if self.stale { None } else { place.idle() };
        Some((place, idle))
    }

    /// The server could not be reached: another one is next.
    pub fn unreachable(&mut self, place: &mut Place, error: &io::Error) {
        self.timed_out = error.kind() == io::ErrorKind::TimedOut;
        self.tried |= place.bit();
        place.broken();
    }

    /// The connection had been closed while it was idle. Once more on a fresh one, and then no more.
    pub fn stale(&mut self) {
        self.stale = true;
    }

    /// What the client is told when there is no next place.
    pub fn fault(&self) -> Fault {
        match self.timed_out {
            true => Fault::Answer(504, "connecting to the origin timed out"),
            false => Fault::Answer(502, "no origin server could be reached"),
        }
    }
}
