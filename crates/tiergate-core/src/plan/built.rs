//! A valid plan, to be read.

use super::places::Places;
use super::spec::{PoolSettings, ResourceSettings, Spec};
use super::split::Split;
use crate::adapt::{Adaptation, Adapted};
use crate::admit::connections::Level;
use crate::admit::policer;
use crate::class::Class;
use crate::classify::Match;
use crate::control::Slots;
use crate::mark::{Label, Mark};
use crate::names::{
    AdaptationId, ClassId, PolicerId, PoolId, ResourceId, Route, RuleId, RuleKey, SiteId,
};
use crate::schedule::{Policy, Site};
use std::fmt;
use std::ops::Deref;

impl fmt::Display for RuleLabel<'_> {
    /// Its name, or else its number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            Some(name) => f.write_str(name),
            None => self.number.fmt(f),
        }
    }
}

/// A valid configuration of the gate. It reads like its [`Spec`], and cannot be changed: what the gate
/// relies on holds by construction.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub(super) spec: Spec,
    pub(super) classes: Places<ClassId>,
    pub(super) sites: Places<SiteId>,
    pub(super) policers: Places<PolicerId>,
    pub(super) pools: Places<PoolId>,
    pub(super) resources: Places<ResourceId>,
    pub(super) adaptations: Places<AdaptationId>,
    pub(super) rules: Places<RuleId>,
}

impl Deref for Plan {
    type Target = Spec;

    fn deref(&self) -> &Spec {
        &self.spec
    }
}

/// A rule as people know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleLabel<'p> {
    /// Its number in the policy, from 1.
    pub number: u32,
    /// Its name, if the policy gives it one.
    pub name: Option<&'p str>,
}

impl Plan {
    /// The ids of the classes, most important first.
    pub fn class_ids(&self) -> &[ClassId] {
        self.classes.ids()
    }

    /// The class, unless it is not in this plan.
    pub fn class(&self, id: ClassId) -> Option<&Class> {
        self.classes.place(id).map(|rank| &self.spec.classes[rank])
    }

    /// The class's place in the order of importance, from 0.
    pub fn rank(&self, id: ClassId) -> Option<usize> {
        self.classes.place(id)
    }

    /// How important the classes are, each among those of its site: by id, 0 the most important; ids that are not in this plan have
    /// the last level.
    pub fn levels(&self) -> Vec<Level> {
        let ids = self.class_ids();
        let mut by_id = vec![None; ids.iter().map(|id| id.index() + 1).max().unwrap_or_default()];
        for (place, id) in ids.iter().enumerate() {
            let before = self.spec.classes[..place].iter();
            let site = self.spec.classes[place].site;
            by_id[id.index()] = Some(before.filter(|class| class.site == site).count() as Level);
        }
        let last = by_id.iter().flatten().max().copied().unwrap_or_default();
        by_id.into_iter().map(|level| level.unwrap_or(last)).collect()
    }

    /// What the messages of the classes are marked with, by id: 0 for what one does not say. Empty if none says anything.
    pub fn marks(&self) -> Vec<Mark> {
        let mut by_id = Vec::new();
        let is_unmarked = |class: &Class| class.dscp.is_none() && class.socket_priority.is_none();
        if self.spec.classes.iter().all(is_unmarked) {
            return by_id;
        }
        for ((rank, id), class) in (0..).zip(self.class_ids()).zip(&self.spec.classes) {
            by_id.resize(by_id.len().max(id.index() + 1), Mark::NONE);
            let (dscp, priority) = (class.dscp, class.socket_priority);
            let label =
                Label { dscp: dscp.unwrap_or_default(), priority: priority.unwrap_or_default() };
            by_id[id.index()] = Mark { rank, label };
        }
        by_id
    }

    /// The class with the least importance.
    pub fn least_important(&self) -> ClassId {
        *self.class_ids().last().expect("a plan has a class")
    }

    /// The ids of the sites, in the plan's order.
    pub fn site_ids(&self) -> &[SiteId] {
        self.sites.ids()
    }

    /// The site, unless it is not in this plan.
    pub fn site(&self, id: SiteId) -> Option<&Site> {
        self.sites.place(id).map(|place| &self.spec.sites[place])
    }

    /// The site that a class of this plan belongs to.
    pub fn site_of(&self, class: &Class) -> &Site {
        self.site(class.site).expect("a plan has the sites of its classes")
    }

    /// The first of the classes whose requests wait in one queue with this one's, for as long: their site serves them as they come.
    /// `None`: there is no other. O(classes).
    pub(crate) fn queue_of(&self, class: &Class) -> Option<ClassId> {
        if self.site_of(class).policy != Policy::Fifo || class.background {
            return None;
        }
        let alike =
            |it: &Class| it.site == class.site && it.deadline == class.deadline && !it.background;
        let mut all = (0..).zip(&self.spec.classes).filter(|(_, it)| alike(it));
        let first = all.next().map(|(place, _): (usize, _)| self.class_ids()[place]);
        first.filter(|_| all.next().is_some())
    }

    /// The ids of the policers, in the plan's order.
    pub fn policer_ids(&self) -> &[PolicerId] {
        self.policers.ids()
    }

    /// The policer, unless it is not in this plan.
    pub fn policer(&self, id: PolicerId) -> Option<&policer::Settings> {
        self.policers.place(id).map(|place| &self.spec.policers[place])
    }

    /// The ids of the pools: the default one, then those of the plan in its order.
    pub fn pool_ids(&self) -> &[PoolId] {
        self.pools.ids()
    }

    /// What the plan says of a pool, unless it is the default pool or not in this plan.
    pub fn pool(&self, id: PoolId) -> Option<&PoolSettings> {
        // The default pool comes first, and has no settings but its slots.
        self.pools.place(id)?.checked_sub(1).map(|place| &self.spec.pools[place])
    }

    /// The pool's name, unless it is not in this plan.
    pub fn pool_name(&self, id: PoolId) -> Option<&str> {
        match id {
            PoolId::DEFAULT => Some(PoolId::DEFAULT_NAME),
            _ => self.pool(id).map(|pool| pool.name.as_str()),
        }
    }

    /// How many slots the pool has, unless it is not in this plan.
    pub fn pool_slots(&self, id: PoolId) -> Option<&Slots> {
        match id {
            PoolId::DEFAULT => Some(&self.spec.slots),
            _ => self.pool(id).map(|pool| &pool.slots),
        }
    }

    /// Whether each server of the pool has as many slots, instead of all together.
    pub fn is_per_server(&self, id: PoolId) -> bool {
        match id {
            PoolId::DEFAULT => self.spec.slots_per_server,
            _ => self.pool(id).is_some_and(|pool| pool.slots_per_server),
        }
    }

    /// The pool that takes a request: as its rule says, or else its class; of several, the one of its flow.
    pub fn pool_of(&self, found: &Match) -> PoolId {
        if self.spec.pools.is_empty() {
            return PoolId::DEFAULT;
        }
        match self.route_of(found) {
            Route::Pool(pool) => pool,
            Route::Split(split) => {
                self.split(split).map_or(PoolId::DEFAULT, |it| it.choose(found.flow))
            }
        }
    }

    /// Where a request goes: as its rule says, or else its class.
    pub fn route_of(&self, found: &Match) -> Route {
        let by_class = || self.class(found.class).map_or(Route::default(), |class| class.pool);
        found.pool.unwrap_or_else(by_class)
    }

    /// What a route by weight says.
    pub fn split(&self, split: u16) -> Option<&Split> {
        self.spec.splits.get(usize::from(split))
    }

    /// The pools that a route may lead to.
    pub fn pools_of(&self, route: Route) -> impl Iterator<Item = PoolId> + '_ {
        let (pool, split) = match route {
            Route::Pool(pool) => (Some(pool), None),
            Route::Split(split) => (None, self.split(split)),
        };
        let parts = split.into_iter().flat_map(|it| &it.parts);
        pool.into_iter().chain(parts.map(|(pool, _)| *pool))
    }

    /// The pool that takes what is meant for `pool`: itself if it is usable, or else the first of its fallbacks
    /// that is; `None` if none is. O(pools).
    pub fn usable(&self, pool: PoolId, is_usable: impl Fn(PoolId) -> bool) -> Option<PoolId> {
        let fallback = |id: &PoolId| self.pool(*id)?.fallback;
        let mut chain = std::iter::successors(Some(pool), fallback);
        // `Plan::build` refuses circles.
        chain.find(|id| is_usable(*id))
    }

    /// The ids of the resources, in the plan's order.
    pub fn resource_ids(&self) -> &[ResourceId] {
        self.resources.ids()
    }

    /// What the plan says of a resource, unless it is not in this plan.
    pub fn resource(&self, id: ResourceId) -> Option<&ResourceSettings> {
        self.resources.place(id).map(|place| &self.spec.resources[place])
    }

    /// The resources of a pool, with what the plan says of them.
    pub fn resources_of(
        &self,
        pool: PoolId,
    ) -> impl Iterator<Item = (ResourceId, &ResourceSettings)> + '_ {
        let all = self.resource_ids().iter().copied().zip(&self.spec.resources);
        all.filter(move |(_, settings)| settings.pool == pool)
    }

    /// The resource that a request needs: as its rule says, or else its class. It counts only in the pool that the resource
    /// is of.
    pub fn resource_of(&self, found: &Match) -> Option<ResourceId> {
        if self.spec.resources.is_empty() {
            return None;
        }
        let named = found.resource.or_else(|| self.class(found.class)?.resource);
        named.filter(|id| *id != ResourceId::NONE)
    }

    /// The ids of the adaptations, in the plan's order.
    pub fn adaptation_ids(&self) -> &[AdaptationId] {
        self.adaptations.ids()
    }

    /// What the plan says of an adaptation, unless it is not in this plan.
    pub fn adaptation(&self, id: AdaptationId) -> Option<&Adaptation> {
        self.adaptations.place(id).map(|place| &self.spec.adaptations[place])
    }

    /// The adaptation that decides the quality of a request's answer: as its rule says, or else its class.
    pub fn adaptation_of(&self, found: &Match) -> Option<AdaptationId> {
        if self.spec.adaptations.is_empty() {
            return None;
        }
        let named = found.adaptation.or_else(|| self.class(found.class)?.adaptation);
        named.filter(|id| *id != AdaptationId::NONE)
    }

    /// The pool that a level sends its requests to, if it says so.
    pub fn level_pool(&self, adapted: Adapted) -> Option<PoolId> {
        self.adaptation(adapted.adaptation)?.level(adapted.level)?.pool
    }

    /// Whether a path, as rules see it, leads into a tree of some level: those are reached by levels only.
    pub fn is_in_tree(&self, path: &[u8]) -> bool {
        let levels = self.spec.adaptations.iter().flat_map(|it| &it.levels);
        levels.filter_map(|level| level.tree.as_deref()).any(|tree| {
            let rest = path.strip_prefix(tree.as_bytes());
            rest.is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
        })
    }

    /// The ids of the rules, in the plan's order.
    pub fn rule_ids(&self) -> &[RuleId] {
        self.rules.ids()
    }

    /// The rule as people know it, unless it is not in this plan. O(1).
    pub fn rule(&self, id: RuleId) -> Option<RuleLabel<'_>> {
        let place = self.rules.place(id)?;
        let name = match &self.spec.rules[place] {
            RuleKey::Name(name) => Some(&**name),
            RuleKey::Conditions(..) => None,
        };
        let number = self.spec.rule_numbers.get(place).copied().unwrap_or(place as u32 + 1);
        Some(RuleLabel { number, name })
    }
}
