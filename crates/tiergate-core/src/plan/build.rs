//! From what is wanted to a valid plan.

use super::built::Plan;
use super::check;
use super::places::Places;
use super::spec::Spec;
use crate::fault::Fault;
use crate::names::{Names, PoolId};

impl Plan {
    /// Builds the plan that is specified, and interns its names. References in `spec` are by ids of
    /// `names`. O(names).
    ///
    /// # Errors
    /// The first fault found. Nothing is interned then.
    pub fn build(spec: Spec, names: &mut Names) -> Result<Self, Fault> {
        check::counts(&spec)?;
        names.attempt(|Names { classes, sites, policers, pools, resources, adaptations, rules }| {
            rules.begin_plan();
            let class_names = spec.classes.iter().map(|it| &it.name);
            let site_names = spec.sites.iter().map(|it| &it.name);
            let policer_keys = spec.policers.iter().map(|it| it.key());
            let pool_names = spec.pools.iter().map(|it| it.name.as_str());
            let pool_names = std::iter::once(PoolId::DEFAULT_NAME).chain(pool_names);
            let resource_names = spec.resources.iter().map(|it| &it.name);
            let adaptation_names = spec.adaptations.iter().map(|it| &it.name);
            let plan = Plan {
                classes: Places::intern(class_names, |name| classes.intern(name))?,
                sites: Places::intern(site_names, |name| sites.intern(name))?,
                policers: Places::intern(policer_keys, |key| policers.intern(key))?,
                pools: Places::intern(pool_names, |name| pools.intern(name))?,
                resources: Places::intern(resource_names, |name| resources.intern(name))?,
                adaptations: Places::intern(adaptation_names, |name| adaptations.intern(name))?,
                rules: Places::intern(spec.rules.iter(), |key| rules.intern(key))?,
                spec,
            };
            check::settings(&plan)?;
            Ok(plan)
        })
    }

    /// The same plan with other settings of what it has: its names stay as they are.
    ///
    /// # Errors
    /// The first fault found.
    pub(crate) fn with(&self, spec: Spec) -> Result<Self, Fault> {
        let plan = Plan { spec, ..self.clone() };
        check::settings(&plan)?;
        Ok(plan)
    }
}

impl Spec {
    /// The plan, with names of its own: for a gate that is never reconfigured.
    ///
    /// # Errors
    /// As [`Plan::build`].
    pub fn build(self) -> Result<Plan, Fault> {
        Plan::build(self, &mut Names::default())
    }
}
