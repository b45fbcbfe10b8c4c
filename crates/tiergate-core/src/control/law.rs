//! A law of the limit: how many requests the origin should work on at once, found from how they end.
//!
//! Each law is one file and one implementation of [`Law`]. The gate tells it what happens, in this
//! order, and asks for nothing but the number of slots; it never waits for a law and calls no other.
//!
//! | the gate says | when |
//! |---|---|
//! | [`Law::pass`] | before the number of slots in use grows, and before [`Law::keep`] |
//! | [`Law::keep`] | free slots are kept from the requests that wait, or no longer |
//! | [`Law::finished`] | a request gave its slots back |
//! | [`Law::is_away`] | the server refuses connections, and requests wait for it in their slots |
//! | [`Law::observe`] | a sensor sent a reading |
//! | [`Law::set_bounds`] | a controller changed the bounds |
//! | [`Law::set_clock`] | the shell has compared the clocks; also before anything else |

use crate::named::named;
use crate::names::{ClassId, LaneId};
use crate::outcome::Outcome;
use crate::sense::Reading;
use crate::time::Moment;
use std::fmt::Debug;
use std::time::Duration;

/// Where a law may go, and where it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounds {
    /// Fewest slots, at least 1.
    pub slots_min: u32,
    /// Most slots.
    pub slots_max: u32,
    /// Slots before anything is known.
    pub slots_start: u32,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            slots_min: 1,
            slots_max: 10_000,
            // A single-threaded origin can take it for a moment; 10,000 are ten steps away.
            slots_start: 10,
        }
    }
}

impl Bounds {
    /// The number of slots within the bounds that is nearest to `slots`; at least 1.
    pub fn clamp(&self, slots: u32) -> u32 {
        let least = self.slots_min.max(1);
        slots.clamp(least, self.slots_max.max(least))
    }
}

named! {
    /// Why the limit changed.
    pub enum Cause {
        /// More requests at once give more throughput.
        Grew = "grew",
        /// Fewer requests at once give as much throughput.
        Shrank = "shrank",
        /// A probe above or below the limit.
        Probed = "probed",
        /// Nearly every request ended without an answer in time.
        Failures = "failures",
        /// The origin refused beyond so many (429 or 503), or one more is tried.
        Pushback = "pushback",
        /// A class's requests take longer than its service target, or no longer.
        Target = "target",
        /// Fewer slots were needed for a while.
        Unused = "unused",
        /// A plan with another limit came into force.
        Reload = "reload",
        /// A controller adjusted the bounds of the limit.
        Adjusted = "adjusted",
    }
}

/// A change of the limit, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The new number of slots.
    pub slots: u32,
    /// Why.
    pub cause: Cause,
}

impl Step {
    /// The step from one number of slots to another; `None` if they are equal.
    pub fn between(before: u32, slots: u32) -> Option<Step> {
        let cause = if slots > before { Cause::Grew } else { Cause::Shrank };
        (slots != before).then_some(Step { slots, cause })
    }
}

/// How busy the origin is at the moment of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OriginLoad {
    /// Slots in use, after an admission and before a release.
    pub running: u32,
    /// Requests that wait for a slot.
    pub waiting: u32,
}

/// The end of a request that held slots.
#[derive(Clone, Copy, Debug)]
pub struct Completion<'a> {
    /// When it ended.
    pub now: Moment,
    /// Its class.
    pub class: ClassId,
    /// What takes about as long as it: requests of its class that need the same.
    pub lane: LaneId,
    /// Its flow.
    pub flow: u64,
    /// When its slots were granted.
    pub admitted: Moment,
    /// How long it had waited for them.
    pub waited: Duration,
    /// Slots in use when its slots were granted, these included.
    pub found: u32,
    /// How it ended.
    pub outcome: &'a Outcome,
    /// The load, this request included.
    pub load: OriginLoad,
}

impl Completion<'_> {
    /// Whether the origin took too long for the client; see [`Outcome::is_late`].
    pub fn is_late(&self) -> bool {
        self.outcome.is_late(self.waited)
    }
}

/// Finds how many requests the origin can work on at once.
pub trait Law: Debug + Send {
    /// The number of slots in force, at least 1. It changes only where a method returns a [`Step`].
    fn slots(&self) -> u32;

    /// Time passed in which `running` slots were in use; called before that changes. A few nanoseconds.
    fn pass(&mut self, _now: Moment, _running: u32) {}

    /// Whether, from now on, free slots are kept from the requests that wait: a policy reserves them,
    /// or the next request takes several. Call after [`Law::pass`].
    fn keep(&mut self, _kept: bool, _running: u32) {}

    /// A request gave its slots back.
    fn finished(&mut self, _completion: &Completion<'_>) -> Option<Step> {
        None
    }

    /// The server is away for a moment: slots are in use and nothing is served, which says nothing of the origin. Said
    /// several times while it lasts.
    fn is_away(&mut self, _now: Moment) {}

    /// A sensor sent a reading. Not every law has a use for it.
    fn observe(&mut self, _now: Moment, _reading: &Reading<'_>) -> Option<Step> {
        None
    }

    /// The limit has other bounds from now on. The gate keeps it within them whatever the law says; a law
    /// that knows them tries nothing beyond.
    fn set_bounds(&mut self, _now: Moment, _bounds: &Bounds) {}

    /// By how much the wall clock is ahead of moments: UNIX time at [`Moment::ZERO`]. Changes when the wall clock is set. Only
    /// laws that act together with other gateways have a use for it. O(1).
    fn set_clock(&mut self, _ahead: Duration) {}
}
