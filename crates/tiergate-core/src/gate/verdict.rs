//! What the gate says to an arrival, and what a caller then holds.

use super::slot::Slot;
use crate::admit::policer::Quota;
use crate::backlog;
use crate::names::{ClassId, PolicerId, PoolId};
use crate::reason::Reason;
use std::time::Duration;

/// Names one waiting request. Stale tickets are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    pub(super) pool: PoolId,
    pub(super) waiter: backlog::Ticket,
}

/// What the gate says to an arrival.
#[derive(Debug, PartialEq)]
pub enum Verdict {
    /// Go on to the origin.
    Admit(Slot),
    /// Wait; the waker given is handed back by [`super::Effect::Wake`] when the wait ends.
    Queue(Ticket),
    /// Answer the client with a refusal.
    Reject(Reason),
}

/// What has become of a ticket.
#[derive(Debug, PartialEq)]
pub enum Claim {
    /// Nothing yet.
    Waiting,
    /// The wait is over; the ticket is used up.
    Admitted(Slot),
    /// The wait is over; the ticket is used up.
    Rejected(Reason),
}

/// A stream that is open. Must come back by [`super::Gate::stream_ended`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a stream that is not ended counts for ever"]
pub struct Stream {
    pub(super) pool: PoolId,
    pub(super) class: ClassId,
}

/// A refusal, with what the client can be told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Why.
    pub reason: Reason,
    /// How long it takes until such a request has a chance: zero if that is not known,
    /// [`Duration::MAX`] if it is not expected ever to have one.
    pub wait: Duration,
    /// The policer that had no token for it, and what it has.
    pub policer: Option<(PolicerId, Quota)>,
}

impl Refused {
    /// For a reason of which nothing more is known.
    pub const fn of(reason: Reason) -> Self {
        Refused { reason, wait: Duration::ZERO, policer: None }
    }
}
