//! How a request that got a slot ended.

use crate::named::named;
use std::time::Duration;

named! {
    /// How the origin's part in a request ended.
    pub enum End {
        /// The origin answered (any status below 500 but 429) and the answer arrived whole.
        Served = "served",
        /// The origin answered 5xx, other than 503: it worked, or pretended to. Never evidence of capacity.
        Error = "error",
        /// The origin refused: 429 or 503. No answer, and no failure either: if it comes with
        /// load, the limit goes by it.
        Pushback = "pushback",
        /// No whole answer: connect failed, reset, malformed. If it comes with load, the limit goes by it, as by a refusal.
        Failed = "failed",
        /// No answer in time: evidence of an origin that has too much to do.
        TimedOut = "timed_out",
        /// The client left before the end.
        Cancelled = "cancelled",
        /// The request has become a stream (an upgraded connection, a stream of events or messages); the slot
        /// is free, the stream is accounted apart.
        Upgraded = "upgraded",
        /// Preempted by the gate for a request of a class above ([`crate::gate::Gate::permit_preemption`]), or lent its slot and got no
        /// other in time ([`crate::gate::Gate::comes_back`]).
        Preempted = "preempted",
    }
}

impl End {
    /// How a request ends whose response has this status, if it arrives whole.
    pub fn of_status(status: u16) -> End {
        match status {
            429 | 503 => End::Pushback,
            500.. => End::Error,
            _ => End::Served,
        }
    }

    /// How a call by gRPC ends whose status this is: as its counterparts of HTTP do.
    pub fn of_grpc_status(status: u32) -> End {
        match status {
            // RESOURCE_EXHAUSTED, UNAVAILABLE
            8 | 14 => End::Pushback,
            // UNKNOWN, DEADLINE_EXCEEDED, INTERNAL, DATA_LOSS
            2 | 4 | 13 | 15 => End::Error,
            // OK, and what is the caller's own fault.
            _ => End::Served,
        }
    }
}

/// What became of a slot, told to [`crate::gate::Gate::finish`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// From the grant of the slot to the first byte of the final answer's head; `None` if none came.
    /// The part of the time that says how busy the origin is: what follows depends on the
    /// client's link and on the length of the answer as well.
    pub first_byte: Option<Duration>,
    /// Bytes of the answer that came from the origin, as far as they are known; what the request cost
    /// where costs are bytes.
    pub bytes: u64,
    /// From the grant of the slot to the client's leaving; `None`: it did not leave, as far as is known.
    pub left: Option<Duration>,
}

impl Outcome {
    /// Whether the origin did the work it was asked for. An answer whose client left before its end counts: it may have
    /// waited for long before it got its slot.
    pub fn is_answer(&self) -> bool {
        match self.end {
            End::Served | End::Upgraded => true,
            End::Cancelled => self.first_byte.is_some(),
            End::Error | End::Pushback | End::Failed | End::TimedOut | End::Preempted => false,
        }
    }

    /// Whether the answer took so long that its client would have left even if the request had not waited for its slot, as it did
    /// for `waited`. What the client's patience was is known because it left.
    pub fn is_late(&self, waited: Duration) -> bool {
        match (self.left, self.first_byte) {
            (Some(left), Some(first_byte)) => first_byte >= waited + left,
            _ => false,
        }
    }

    /// Whether the origin refused the work: it said so, or closed the connection. Requests that crash a worker do so however many
    /// there are at a time, and what is refused because of the load does not.
    pub fn is_refusal(&self) -> bool {
        match self.end {
            End::Pushback => true,
            End::Failed => self.first_byte.is_none(),
            _ => false,
        }
    }

    /// An outcome without an answer.
    pub const fn without_answer(end: End) -> Self {
        Outcome { end, first_byte: None, bytes: 0, left: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_that_refuses_is_told_from_one_that_fails() {
        assert_eq!([200, 404].map(End::of_status), [End::Served; 2]);
        assert_eq!([429, 503].map(End::of_status), [End::Pushback; 2]);
        assert_eq!([500, 502, 504].map(End::of_status), [End::Error; 3]);
        assert_eq!([0, 3, 5, 12].map(End::of_grpc_status), [End::Served; 4]);
        assert_eq!([8, 14].map(End::of_grpc_status), [End::Pushback; 2]);
        assert_eq!([2, 4, 13, 15].map(End::of_grpc_status), [End::Error; 4]);
    }
}
