//! The adaptive limit.

use crate::outcome::Outcome;
use crate::time::Moment;

/// What a policy may say of the adaptive limit. Needs no tuning.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Fewest slots, at least 1.
    pub slots_min: u32,
    /// Most slots.
    pub slots_max: u32,
    /// Slots before anything is known.
    pub slots_start: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            slots_min: 1,
            slots_max: 10_000,
            slots_start: 20,
        }
    }
}

/// Why the limit changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// More requests at once gave more throughput.
    Grew,
}

/// A change of the limit, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The new number of slots.
    pub slots: u32,
    /// Why.
    pub cause: Cause,
}

/// What the gate was doing at the moment of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Slots held, after an admission and before a release.
    pub running: u32,
    /// Requests that wait.
    pub waiting: u32,
}

/// Finds how many requests the origin can work on at once.
#[derive(Clone, Debug)]
pub struct AdaptiveLimit {
    slots: u32,
}

impl AdaptiveLimit {
    /// A limit that knows nothing yet.
    pub fn new(settings: Settings) -> Self {
        AdaptiveLimit {
            slots: settings.slots_start,
        }
    }

    /// The number of slots in force.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// A slot was granted.
    pub fn admitted(&mut self, _now: Moment, _load: Load) {}

    /// A slot came back; it was granted at `admitted`.
    pub fn finished(
        &mut self,
        _now: Moment,
        _admitted: Moment,
        _outcome: &Outcome,
        _load: Load,
    ) -> Option<Step> {
        None
    }

    /// Time has passed; returns a step, if any.
    pub fn tick(&mut self, _now: Moment, _load: Load) -> Option<Step> {
        None
    }

    /// When [`AdaptiveLimit::tick`] wants to be called next; [`Moment::NEVER`] if events suffice.
    pub fn next_tick(&self) -> Moment {
        Moment::NEVER
    }
}
