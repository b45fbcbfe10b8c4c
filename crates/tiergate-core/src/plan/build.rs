//! From what is wanted to a valid plan.

use super::built::Plan;
use super::check;
use super::places::Places;
use super::spec::Spec;
use crate::fault::Fault;
use crate::names::Names;

impl Plan {
    /// Builds the plan that is specified, and interns its names. References in `spec` are by ids of
    /// `names`. O(names).
    ///
    /// # Errors
    /// The first fault found. Nothing is interned then.
    pub fn build(spec: Spec, names: &mut Names) -> Result<Self, Fault> {
        check::counts(&spec)?;
        // What is refused halfway has interned names in the copy only.
        let mut new = names.clone();
        let plan = Plan {
            classes: Places::intern(&mut new.classes, spec.classes.iter().map(|it| &*it.name))?,
            sites: Places::intern(&mut new.sites, spec.sites.iter().map(|it| &*it.name))?,
            policers: Places::intern(&mut new.policers, spec.policers.iter().map(|it| it.key()))?,
            rules: Places::intern(&mut new.rules, spec.rules.iter().map(|key| &**key))?,
            spec,
        };
        check::settings(&plan)?;
        *names = new;
        Ok(plan)
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
