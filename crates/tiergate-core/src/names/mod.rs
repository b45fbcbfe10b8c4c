//! Names and their ids: classes, sites, pools, resources, adaptations, policers, rules and servers are interned by name to ids that
//! never change meaning while the process lives.
//!
//! A plan orders what it names as it likes; the ids stay. So what is counted, learned and given out by
//! id (counters, costs, tokens, slots) survives every reload without translation, and a name that comes
//! back finds its own again.
//!
//! | file | what it has |
//! |---|---|
//! | `id` | the ids, and how many there may be |
//! | `interned` | the names of one kind |
//! | `route` | a pool, or several by weight |
//! | `rules` | ids of rules, which need no name |
//! | `by_rule` | a table by rule, for what is learned and counted |
//!
//! Bounds: [`Id::MAX`] names of each kind, ever. A plan that needs more cannot be built until the
//! process restarts, and interns nothing. A rule without a name counts only while one of the last plans
//! has it.

mod by_rule;
mod id;
mod interned;
mod route;
mod rules;

pub use by_rule::ByRule;
pub use id::{AdaptationId, ClassId, Id, LaneId, PolicerId, PoolId, ResourceId, ServerId, SiteId};
pub use interned::Interned;
pub use route::Route;
pub use rules::{RuleId, RuleIdentities, RuleKey, Rules};

/// All names of the process.
#[derive(Debug)]
pub struct Names {
    /// Classes.
    pub classes: Interned<ClassId>,
    /// Sites.
    pub sites: Interned<SiteId>,
    /// Policers.
    pub policers: Interned<PolicerId>,
    /// Pools.
    pub pools: Interned<PoolId>,
    /// Resources.
    pub resources: Interned<ResourceId>,
    /// Adaptations.
    pub adaptations: Interned<AdaptationId>,
    /// Rules.
    pub rules: Rules,
}

impl Default for Names {
    /// No names but that of the default pool.
    fn default() -> Self {
        let mut pools = Interned::default();
        let id = pools.intern(PoolId::DEFAULT_NAME).expect("there is room for the first");
        debug_assert_eq!(id, PoolId::DEFAULT);
        Names {
            classes: Interned::default(),
            sites: Interned::default(),
            policers: Interned::default(),
            pools,
            resources: Interned::default(),
            adaptations: Interned::default(),
            rules: Rules::default(),
        }
    }
}

impl Names {
    /// Does what may intern names, and forgets those again if it fails. Costs a copy of what is known of
    /// rules without a name, but none of any name.
    ///
    /// # Errors
    /// Those of `act`.
    pub fn attempt<T, E>(&mut self, act: impl FnOnce(&mut Self) -> Result<T, E>) -> Result<T, E> {
        let before = (self.classes.len(), self.sites.len(), self.policers.len(), self.pools.len());
        let (resources, adaptations) = (self.resources.len(), self.adaptations.len());
        let rules = self.rules.mark();
        let done = act(self);
        if done.is_err() {
            self.classes.truncate(before.0);
            self.sites.truncate(before.1);
            self.policers.truncate(before.2);
            self.pools.truncate(before.3);
            self.resources.truncate(resources);
            self.adaptations.truncate(adaptations);
            self.rules.restore(rules);
        }
        done
    }
}
