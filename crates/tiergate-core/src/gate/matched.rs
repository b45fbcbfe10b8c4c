//! From what the rules say of a request to its arrival at the gate.

use super::Arrival;
use crate::classify::Match;

impl Arrival {
    /// A request of which the rules say `found` and of which `bytes` are held while it waits. What its
    /// connection and its session add is for the caller to set; so is whether importance counts.
    pub fn matched(found: &Match, bytes: u32) -> Self {
        Arrival {
            rule: found.rule,
            deadline: found.deadline,
            policer: found.policer,
            flow: found.flow,
            importance: found.importance,
            score: found.score,
            slots: found.slots.unwrap_or(1),
            bytes,
            ..Arrival::of(found.class)
        }
    }
}
