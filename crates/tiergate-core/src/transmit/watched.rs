//! A packet that is watched until it is acknowledged, and what it says of the link that it came over.

use crate::time::Moment;
use std::time::Duration;

/// Bits of a packet.
pub(super) const PACKET: f64 = 12_000.0;
/// The link is in full use where so much of what it is thought to carry is sent.
const UNDER_LOAD: f64 = 0.9;
const GIVE_OR_TAKE: f64 = 3.0;

/// A packet that is watched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Watched {
    /// Whose it is.
    pub(super) flow: u64,
    /// When it was sent, or the packet after it, which makes the other end acknowledge it.
    pub(super) at: Moment,
    /// What had been sent until then, in bytes on the wire.
    pub(super) sent: f64,
    /// Whether it was sent though there was no room, so that it may well be late.
    pub(super) is_sounding: bool,
    /// What was thought to wait before the link then, in bytes on the wire.
    pub(super) debt: f64,
}

impl Watched {
    /// Since when it is on its way.
    pub fn at(&self) -> Moment {
        self.at
    }

    /// Whose it is.
    pub fn flow(&self) -> u64 {
        self.flow
    }

    /// Whether it was two packets, so that the other end acknowledges them at once.
    pub fn is_pair(&self) -> bool {
        self.is_sounding
    }
}

/// What became of a watched packet: how long it waited on its way, between two bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waited {
    /// Not less: it was not acknowledged then.
    pub least: Duration,
    /// Not more.
    pub most: Duration,
    /// How long the way there and back takes by itself.
    pub way: Duration,
}

/// One that was acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) at: Moment,
    pub(super) sent: f64,
    /// In seconds.
    pub(super) waited: f64,
}

impl Sample {
    /// What was carried since that one was sent, in bits a second, if this one waited for so many seconds. At least: the link may have been idle.
    pub(super) fn carried_since(&self, before: Sample, waited: f64) -> f64 {
        let time = self.at.since(before.at).as_secs_f64() + waited - before.waited;
        (self.sent - before.sent) * 8.0 / time.max(1e-6)
    }

    /// Whether as much was sent since that one, give or take some packets, as may be where so many bits a second are allowed.
    pub(super) fn is_full_since(&self, before: Sample, allowed: f64) -> bool {
        let time = self.at.since(before.at).as_secs_f64();
        (self.sent - before.sent) * 8.0 + GIVE_OR_TAKE * PACKET > UNDER_LOAD * allowed * time
    }
}

/// What to do while it is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotYet {
    /// Nothing.
    Waits,
    /// Nothing may be sent.
    Holds,
    /// It says nothing any more: another is to be watched.
    GivesUp,
}

/// What was learned from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Learned {
    /// Nothing.
    Nothing,
    /// Nothing waited before the link when it was sent.
    InTime,
    /// It waited, so that what was sent since is to leave before more is.
    Waits,
}
