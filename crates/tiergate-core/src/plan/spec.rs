//! What is wanted of a gate.

use super::split::Split;
use crate::adapt::Adaptation;
use crate::admit::{block, policer};
use crate::class::Class;
use crate::control::Slots;
use crate::names::{PolicerId, PoolId, RuleKey};
use crate::schedule::{Costing, Policy, Site};
use std::time::Duration;

/// Everything that the gate is configured by; [`super::Plan::build`] makes a plan of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// The classes, most important first: 1 to [`Spec::CLASSES_MAX`].
    pub classes: Vec<Class>,
    /// What the classifier's rules are known by, in their order ([`crate::names::RuleIdentities`]).
    pub rules: Vec<RuleKey>,
    /// What people number them by, where rules are left out between them; empty: from 1.
    pub rule_numbers: Vec<u32>,
    /// How many requests the servers of the default pool work on at once.
    pub slots: Slots,
    /// Whether each of them has as many, instead of all together.
    pub slots_per_server: bool,
    /// The pools beside the default one: up to [`Spec::POOLS_MAX`].
    pub pools: Vec<PoolSettings>,
    /// What sends requests to several pools by weight: up to [`Split::COUNT_MAX`].
    pub splits: Vec<Split>,
    /// What requests of a pool share beside its slots: up to [`Spec::RESOURCES_MAX`].
    pub resources: Vec<ResourceSettings>,
    /// Levels of quality that requests get by how busy the server is: up to [`Adaptation::COUNT_MAX`].
    pub adaptations: Vec<Adaptation>,
    /// The policers.
    pub policers: Vec<policer::Settings>,
    /// The policer that every request is subject to.
    pub site_policer: Option<PolicerId>,
    /// The delay of the backlog beyond which the least important requests are shed; `None`: never.
    pub shedding: Option<Duration>,
    /// Which flows are blocked after refusals; `None`: none ever.
    pub block: Option<block::Settings>,
    /// The sites: 1 to [`Spec::SITES_MAX`].
    pub sites: Vec<Site>,
    /// Which site is served next, where there are several.
    pub between_sites: Policy,
    /// What a request is said to cost.
    pub cost: Costing,
    /// How many requests may wait in all classes of a pool together. When that many do, one that comes takes
    /// the place of the newest of the least important class below its own, of its site, that has more than its part; else of
    /// a class or site with more than its part, if its own has less; else of its own class. Each pool has as many: if they shared them, the queue of one would be refused for that of
    /// another.
    pub queue_len_max: u32,
    /// Share of a pool's slots, 0.0 to 1.0, that requests may hold whose clients are too slow, or have left long ago, while
    /// others wait.
    pub slow_slots_max: f64,
}

/// What a plan says of a pool: servers with a limit of their own.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolSettings {
    /// The name in the policy, in logs and in metrics.
    pub name: String,
    /// How many requests its servers work on at once.
    pub slots: Slots,
    /// Whether each of them has as many, instead of all together.
    pub slots_per_server: bool,
    /// The pool that takes its requests while none of its servers is usable.
    pub fallback: Option<PoolId>,
}

impl PoolSettings {
    /// A pool with so many slots for all its servers together, and every default.
    pub fn named(name: impl Into<String>, slots: Slots) -> Self {
        PoolSettings { name: name.into(), slots, slots_per_server: false, fallback: None }
    }
}

/// What a plan says of a resource: something behind a pool's servers that only some requests need, such as a database, and
/// how many may use it at once. Such a request needs a slot of the resource beside that of the pool.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceSettings {
    /// The name in the policy, in logs and in metrics.
    pub name: String,
    /// The pool whose requests may need it.
    pub pool: PoolId,
    /// How many requests may use it at once.
    pub slots: Slots,
}

impl Spec {
    /// Most resources that a plan may have, in all pools. Each adds a queue a class to its pool.
    pub const RESOURCES_MAX: usize = 16;
    /// Most pools that a plan may have beside the default one. A look at what is due asks each.
    pub const POOLS_MAX: usize = 32;
    /// Most classes that a plan may have. Every grant looks at each class, so this bounds its cost.
    pub const CLASSES_MAX: usize = 64;
    /// Most sites that a plan may have.
    pub const SITES_MAX: usize = 64;

    /// One class called `default`, an adaptive limit: what protects a server that was never measured.
    pub fn protective() -> Self {
        Spec {
            classes: vec![Class::named("default")],
            rules: Vec::new(),
            rule_numbers: Vec::new(),
            slots: Slots::default(),
            slots_per_server: false,
            pools: Vec::new(),
            splits: Vec::new(),
            resources: Vec::new(),
            adaptations: Vec::new(),
            policers: Vec::new(),
            site_policer: None,
            shedding: None,
            block: None,
            sites: vec![Site::named("default")],
            between_sites: Policy::default(),
            cost: Costing::default(),
            // The classes' own bounds suffice.
            queue_len_max: u32::MAX,
            slow_slots_max: 0.25,
        }
    }
}
