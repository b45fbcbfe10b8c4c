//! The settings of a gate, as a whole: what a reload replaces.

use crate::admit::ignore;
use crate::admit::policer::{self, PolicerId};
use crate::admit::trigger::Trigger;
use crate::class::Class;
use crate::control::Slots;
use crate::schedule::{Costing, Policy, Site};
use std::time::Duration;

/// Everything the gate is configured by. Validated by whoever builds it (see [`Plan::check`]).
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Numbers the plans of one process, so that a request classified under an older plan is
    /// recognised. The shell counts up at each reload.
    pub generation: u32,
    /// The classes, most important first. Never empty, at most [`Plan::CLASSES_MAX`].
    pub classes: Vec<Class>,
    /// How many rules the classifier has; bounds the per-rule counters.
    pub rules: usize,
    /// How many requests the origin works on at once.
    pub slots: Slots,
    /// The policers; a [`PolicerId`] is a place in here.
    pub policers: Vec<policer::Settings>,
    /// The policer that every request comes under.
    pub site_policer: Option<PolicerId>,
    /// The delay of the backlog beyond which the least important are shed; `None`: nobody is.
    pub shedding: Option<Duration>,
    /// Which flows are ignored after refusals; `None`: none ever.
    pub ignore: Option<ignore::Settings>,
    /// The sites; [`crate::class::Class::site`] is a place in here. Never empty, at most
    /// [`Plan::SITES_MAX`].
    pub sites: Vec<Site>,
    /// Which site is served next, where there are several.
    pub between_sites: Policy,
    /// What a request is said to cost.
    pub cost: Costing,
    /// How many requests may wait in all classes together. When that many do, one that comes takes the
    /// place of the newest of the least important class below its own, of its site; if there is none, it
    /// is refused.
    pub queue_len_max: u32,
}

impl Plan {
    /// Most classes that a plan may have. Every grant looks at each class, so this bounds its cost.
    pub const CLASSES_MAX: usize = 64;
    /// Most sites that a plan may have.
    pub const SITES_MAX: usize = 64;

    /// One class called `default`, an adaptive limit: what protects a server nobody has measured.
    pub fn protective() -> Self {
        Plan {
            generation: 0,
            classes: vec![Class::named("default")],
            rules: 0,
            slots: Slots::default(),
            policers: Vec::new(),
            site_policer: None,
            shedding: None,
            ignore: None,
            sites: vec![Site::named("default")],
            between_sites: Policy::default(),
            cost: Costing::default(),
            // The classes' own bounds suffice.
            queue_len_max: u32::MAX,
        }
    }

    /// Checks what the gate relies on.
    ///
    /// # Errors
    /// A sentence that names the first fault found.
    pub fn check(&self) -> Result<(), String> {
        if self.classes.is_empty() || self.classes.len() > Self::CLASSES_MAX {
            return Err(format!(
                "a plan has 1 to {} classes, got {}",
                Self::CLASSES_MAX,
                self.classes.len()
            ));
        }
        let sum: f64 = self.classes.iter().map(|class| class.minimum).sum();
        if !(0.0..=1.0 + 1e-9).contains(&sum) {
            return Err(format!("the classes' minimum shares add up to {sum:.3}, more than 1"));
        }
        for (place, class) in self.classes.iter().enumerate() {
            if !(0.0..=1.0).contains(&class.minimum) {
                return Err(format!("class `{}`: minimum must be 0 to 1", class.name));
            }
            let wrong = |it: &Trigger| !(1..=it.waiting).contains(&it.until);
            if class.refuse_at.len() > Trigger::COUNT_MAX || class.refuse_at.iter().any(wrong) {
                return Err(format!(
                    "class `{}`: a trigger must have 1 <= until <= waiting",
                    class.name
                ));
            }
            if self.classes[..place].iter().any(|other| other.name == class.name) {
                return Err(format!("two classes are called `{}`", class.name));
            }
        }
        if self.shedding.is_some_and(|aim| aim.is_zero()) {
            return Err("the delay beyond which requests are shed must be more than 0".to_owned());
        }
        if let Some(ignore) = &self.ignore {
            ignore.check()?;
        }
        self.check_policers()
    }

    fn check_policers(&self) -> Result<(), String> {
        if self.policers.len() > policer::Settings::COUNT_MAX {
            return Err(format!("there are more than {} policers", policer::Settings::COUNT_MAX));
        }
        let used = self.classes.iter().map(|class| class.policer).chain([self.site_policer]);
        if used.flatten().any(|id| id.index() >= self.policers.len()) {
            return Err("a policer that is used is not there".to_owned());
        }
        let mut names = std::collections::HashSet::new();
        for policer in &self.policers {
            policer.check(self.classes.len())?;
            if !names.insert(&policer.name) {
                return Err(format!("two policers are called `{}`", policer.name));
            }
        }
        Ok(())
    }
}
