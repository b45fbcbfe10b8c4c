//! An arrival: what the gate and the backlog are told of a request.

use crate::adapt::Adapted;
use crate::classify::Match;
use crate::classify::score::Score;
use crate::names::{ClassId, PolicerId, PoolId, ResourceId, RuleId};
use crate::stored::Role;
use crate::time::Moment;
use std::time::Duration;

/// A classified request, at the gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// Its class. If that is gone from the plan, it is served after all others, by its former settings.
    pub class: ClassId,
    /// The pool whose slots it needs ([`crate::plan::Plan::pool_of`]). If that is gone from the plan, it is served by
    /// the limit that the pool had.
    pub pool: PoolId,
    /// What it needs beside a slot of the pool ([`crate::plan::Plan::resource_of`]). Of another pool, or gone from the plan: it
    /// needs nothing.
    pub resource: Option<ResourceId>,
    /// The level of its answer ([`crate::gate::Gate::level`]); `None`: it gets full quality.
    pub adapted: Option<Adapted>,
    /// The rule that decided the class; `None` if none matched.
    pub rule: Option<RuleId>,
    /// How long it may wait, where its rule says; else its class's deadline.
    pub deadline: Option<Duration>,
    /// The policer that its rule names; looked at as long as the plan in force has it.
    pub policer: Option<PolicerId>,
    /// Whose request it is: a keyed hash of what fairness is counted by.
    pub flow: u64,
    /// Whether it belongs to a session that was admitted before: it waits before those of its class
    /// that do not. Never set by what a client merely claims.
    pub running: bool,
    /// Whether an answer to its client lets it go on ([`crate::admit::feasible::goes_on`]), or nothing is
    /// known of that; newcomers may wait a little less.
    pub goes_on: bool,
    /// How important its connection is now, by what the policy says; `None`: nothing said so. Looked
    /// at, with what follows, only by a plan with [`shedding`](crate::plan::Spec::shedding).
    pub importance: Option<u8>,
    /// Requests of its connection that were answered before.
    pub requests: u32,
    /// A hash of its connection: even over all values, and the same for all of its requests.
    pub connection: u64,
    /// How urgent it is among others, where requests are served by score.
    pub score: Score,
    /// How many slots it takes, 1 or more (0 counts as 1). One that takes more than there are is served
    /// alone.
    pub slots: u16,
    /// Bytes that are held while it waits.
    pub bytes: u32,
    /// What a copy that is at hand may be served instead of ([`crate::stored::role`]).
    pub copy: Role,
    /// Until when that copy may be served.
    pub copy_until: Moment,
}

impl Arrival {
    /// Of that class, and nothing else known of it.
    pub const fn of(class: ClassId) -> Self {
        Arrival {
            class,
            pool: PoolId::DEFAULT,
            resource: None,
            adapted: None,
            rule: None,
            deadline: None,
            policer: None,
            flow: 0,
            running: false,
            goes_on: false,
            importance: None,
            requests: 0,
            connection: 0,
            score: Score::ZERO,
            slots: 1,
            bytes: 0,
            copy: Role::None,
            copy_until: Moment::ZERO,
        }
    }

    /// A request of which the rules say `found` and of which `bytes` are held while it waits; `rules` are
    /// the ids of all rules, in the order that the classifier has them in.
    /// What its connection and its session add is for the caller to set; so are its pool and whether importance
    /// counts.
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

    /// The slots that it takes.
    pub(crate) fn width(&self) -> u16 {
        self.slots.max(1)
    }
}
