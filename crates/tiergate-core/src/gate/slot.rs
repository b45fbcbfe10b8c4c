//! What a request has while it is in progress.

use super::lent::Lends;
use crate::adapt::Adapted;
use crate::backlog::FlowTurn;
use crate::collections::Key;
use crate::control::Seat;
use crate::names::{ClassId, LaneId, PoolId, RuleId, ServerId};
use crate::schedule::Grant;
use crate::time::Moment;
use std::time::Duration;

/// What a request holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    /// Slots: of a server, where each has its own.
    Slots(Option<Seat>),
    /// Slots that are none of the limit's: it is of the background ([`super::background`]).
    Beside,
    /// Nothing while they are lent for its client's sake, since then; whether it is of the background, and whether they were none of the limit's.
    Lent { lends: Lends, since: Moment, background: bool, beside: bool },
    /// Nothing: it waits for a slot of another server, by this name.
    Transfer(Key),
}

impl Holds {
    /// What it holds that was granted.
    pub(super) fn granted(seat: Option<Seat>, beside: bool) -> Self {
        if beside { Holds::Beside } else { Holds::Slots(seat) }
    }
}

/// The right to be in progress at the origin. Must come back by [`Gate::finish`](super::Gate::finish) or
/// [`Gate::stream`](super::Gate::stream): the shell keeps it in a guard whose drop does so.
#[derive(Debug, PartialEq)]
#[must_use = "a slot that is not finished is lost to every other request"]
pub struct Slot {
    pub(super) pool: PoolId,
    pub(super) class: ClassId,
    pub(super) lane: LaneId,
    /// The level of its answer.
    pub(super) adapted: Option<Adapted>,
    pub(super) rule: Option<RuleId>,
    pub(super) flow: u64,
    pub(super) arrived: Moment,
    pub(super) admitted: Moment,
    pub(super) holds: Holds,
    /// Of the pool's line-ups, the one that it was granted for.
    pub(super) lineup: u32,
    /// Slots in use when it was granted, itself included; and those of the resource that it needs.
    pub(super) found: u32,
    pub(super) found_there: u32,
    pub(super) grant: Grant,
    /// The flow that it was charged to, if it waited.
    pub(super) turn: Option<FlowTurn>,
    /// What it is named by among the preemptible ones.
    pub(super) preemptible: Option<Key>,
    /// What it is named by among those of clients that are slow or have left, and whether those hold slots that are none of the limit's.
    pub(super) slow: Option<Key>,
    pub(super) slow_beside: bool,
    /// What it is named by among the requests in progress, where the limit is adaptive.
    pub(super) place: Option<Key>,
}

impl Slot {
    /// When the slot was granted.
    pub fn admitted(&self) -> Moment {
        self.admitted
    }

    /// How long the request waited for it.
    pub fn waited(&self) -> Duration {
        self.admitted.since(self.arrived)
    }

    /// The server whose slot it is, where each has its own.
    pub fn server(&self) -> Option<ServerId> {
        self.seat().map(Seat::server)
    }

    pub(super) fn seat(&self) -> Option<Seat> {
        match self.holds {
            Holds::Slots(seat) => seat,
            Holds::Beside | Holds::Lent { .. } | Holds::Transfer(_) => None,
        }
    }

    /// Whether it has, or had until they were lent, slots that are none of the limit's: it is of the background.
    pub fn is_beside(&self) -> bool {
        matches!(self.holds, Holds::Beside | Holds::Lent { beside: true, .. })
    }

    /// Whether it is of the background, and lent.
    pub(super) fn is_lent_beside(&self) -> bool {
        matches!(self.holds, Holds::Lent { beside: true, .. })
    }

    /// Slots that it keeps its places with although they are lent: it is an upload of the background.
    pub(super) fn places(&self) -> u32 {
        match self.holds {
            Holds::Lent { lends: Lends::Sends, background: true, beside: true, .. } => {
                u32::from(self.grant.slots)
            }
            _ => 0,
        }
    }

    pub(super) fn transfer(&self) -> Option<Key> {
        match self.holds {
            Holds::Transfer(key) => Some(key),
            Holds::Slots(_) | Holds::Beside | Holds::Lent { .. } => None,
        }
    }

    /// Whether it holds nothing that others could have: it is lent, or none of the limit's.
    pub fn takes_nothing(&self) -> bool {
        self.is_beside() || self.lent().is_some()
    }

    pub(super) fn lent(&self) -> Option<(Lends, Moment)> {
        match self.holds {
            Holds::Lent { lends, since, .. } => Some((lends, since)),
            Holds::Slots(_) | Holds::Beside | Holds::Transfer(_) => None,
        }
    }

    /// How many slots it is: what its request takes.
    pub fn slots(&self) -> u16 {
        self.grant.slots
    }
}
