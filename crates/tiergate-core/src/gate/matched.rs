//! From what the rules say of a request to its arrival at the gate.

use super::Arrival;
use crate::classify::Match;
use crate::names::RuleId;

impl Arrival {
    /// A request of which the rules say `found` and of which `bytes` are held while it waits; `rules` are
    /// the ids of all rules, in the order that the classifier has them in. What its connection and its session add is for the caller to set; so is whether importance counts.
    pub fn matched(found: &Match, rules: &[RuleId], bytes: u32) -> Self {
        Arrival {
            rule: found.rule.and_then(|place| rules.get(place as usize).copied()),
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
