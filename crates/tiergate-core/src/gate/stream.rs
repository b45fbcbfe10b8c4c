//! Long-lived streams: what holds a connection to the origin for minutes and does little there.
//!
//! A WebSocket, a stream of events, a gRPC stream would hold its slot for as long as its client stays, and
//! a few of them would be all that the origin is allowed to do. A request that has become a stream
//! therefore gives its slot back and is counted apart, by class, up to [`Class::streams_max`]. What
//! becomes a stream beyond that keeps its slot: the origin has done the work of opening it already, so
//! that to refuse it then would waste that; and with its slot it is bounded by the slots. So is one of the background, each of which may
//! have a worker of the origin's: without its slot it would be in nobody's account.
//!
//! [`Class::streams_max`]: crate::class::Class::streams_max

use super::{Gate, Slot, Stream};
use crate::outcome::Outcome;
use crate::time::Moment;

impl<T> Gate<T> {
    /// A request has become a stream: its slot goes to the next, as by [`Gate::finish`] with `outcome`
    /// (whose end is [`crate::outcome::End::Upgraded`]).
    ///
    /// # Errors
    /// The slot, which the stream keeps, if as many streams of its class are open as there may be, or it is of the background.
    pub fn stream(&mut self, now: Moment, slot: Slot, outcome: Outcome) -> Result<Stream, Slot> {
        let (pool, class) = (slot.pool, slot.class);
        let record = self.pool_of_mut(pool).classes.at_mut(class);
        if record.settings.background || record.streams >= record.settings.streams_max {
            return Err(slot);
        }
        record.streams += 1;
        self.finish(now, slot, outcome);
        Ok(Stream { pool, class })
    }

    /// A stream is over. O(1).
    pub fn stream_ended(&mut self, stream: Stream) {
        self.pool_of_mut(stream.pool).classes.at_mut(stream.class).streams -= 1;
    }
}
