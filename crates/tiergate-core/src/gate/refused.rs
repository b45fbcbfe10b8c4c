//! A refusal, with what the client can be told of it.

use crate::admit::policer::Quota;
use crate::names::PolicerId;
use crate::reason::Reason;
use std::time::Duration;

/// A refusal, with what the client can be told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Why.
    pub reason: Reason,
    /// How long it takes until such a request has a chance: zero if that is not known,
    /// [`Duration::MAX`] if nothing speaks for that it ever has.
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
