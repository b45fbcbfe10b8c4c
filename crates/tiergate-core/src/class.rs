//! Classes: tiers of service, ordered by importance.

use crate::admit::policer::PolicerId;
use crate::admit::trigger::Trigger;
use std::time::Duration;

/// A class's place in the order of importance: 0 is the most important.
///
/// Valid for the plan that it was made with; see [`crate::gate::Gate::reconfigure`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u16);

impl ClassId {
    /// The class's index in the plan's list.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a policy says of one class.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// The name in the policy, in logs and in metrics.
    pub name: String,
    /// How long after its arrival a request may still be started. Longest time in the backlog.
    pub deadline: Duration,
    /// Share of the slots, 0.0 to 1.0, that this class is sure of while it has requests waiting.
    /// What it does not use is lent to the others.
    pub minimum: f64,
    /// How many requests may wait at once.
    pub queue_len_max: u32,
    /// The policer that all of its requests come under.
    pub policer: Option<PolicerId>,
    /// Backlogs at which its requests are refused.
    pub refuse_at: Vec<Trigger>,
}

impl Class {
    /// Longest time in the backlog where the policy names none. Long enough to ride out a burst,
    /// shorter than the patience of people and of most client time-outs.
    pub const DEADLINE_DEFAULT: Duration = Duration::from_secs(2);
    /// Bound on the backlog where the policy names none. More than
    /// the connections of most gateways; the deadline bounds the wait long before.
    pub const QUEUE_LEN_MAX_DEFAULT: u32 = 10_000;

    /// A class with every default.
    pub fn named(name: impl Into<String>) -> Self {
        Class {
            name: name.into(),
            deadline: Self::DEADLINE_DEFAULT,
            minimum: 0.0,
            queue_len_max: Self::QUEUE_LEN_MAX_DEFAULT,
            policer: None,
            refuse_at: Vec::new(),
        }
    }
}
