//! What is known of a request on both sides.

use crate::gate::{Slot, Ticket};
use crate::names::ClassId;
use crate::outcome::Outcome;
use crate::reason::Reason;
use crate::time::Moment;
use std::time::Duration;

/// What has become of a request by the policy in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforced {
    /// It had a slot for so long.
    Served {
        /// From the grant until the origin was done.
        held: Duration,
        /// How it ended.
        outcome: Outcome,
    },
    /// It was refused.
    Refused(Reason),
    /// Its client left before it had a slot, or it was not well-formed.
    Gone,
}

/// What was decided about a request that is observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It is not known, or both sides are done with it.
    Unknown,
    /// It waits for a slot.
    Waits,
    /// It has, or had, a slot.
    Admitted,
    /// It was refused.
    Refused(Reason),
}

/// A request that is observed.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) class: ClassId,
    pub(super) state: State,
    /// Whether it has got its slot in force.
    pub(super) granted: bool,
    /// How it ended in force; `None`: it has not.
    pub(super) enforced: Option<Enforced>,
}

#[derive(Debug)]
pub(super) enum State {
    Waiting(Ticket),
    /// Since then.
    Running(Slot, Moment),
    /// It had a slot, and its time is over.
    Done,
    Refused(Reason),
}
