//! The settings of a gate, as a whole: what a reload replaces.

use crate::admit::block;
use crate::admit::policer::{self, PolicerId};
use crate::admit::trigger::Trigger;
use crate::class::{Class, ClassId};
use crate::control::Slots;
use crate::schedule::{Costing, Policy, Site, Terms};
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
    /// Which flows are blocked after refusals; `None`: none ever.
    pub block: Option<block::Settings>,
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
    /// Most classes that a plan may have.
    pub const CLASSES_MAX: usize = ClassId::COUNT_MAX;
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
            block: None,
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
        for (place, class) in self.classes.iter().enumerate() {
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
        self.check_sites()?;
        if self.shedding.is_some_and(|aim| aim.is_zero()) {
            return Err("the delay beyond which requests are shed must be more than 0".to_owned());
        }
        if let Some(block) = &self.block {
            block.check()?;
        }
        self.check_policers()
    }

    fn check_sites(&self) -> Result<(), String> {
        if self.sites.is_empty() || self.sites.len() > Self::SITES_MAX {
            return Err(format!(
                "a plan has 1 to {} sites, got {}",
                Self::SITES_MAX,
                self.sites.len()
            ));
        }
        for (place, site) in self.sites.iter().enumerate() {
            if self.sites[..place].iter().any(|other| other.name == site.name) {
                return Err(format!("two sites are called `{}`", site.name));
            }
        }
        if let Some(class) = self.classes.iter().find(|it| it.site.index() >= self.sites.len()) {
            return Err(format!("class `{}`: there is no such site", class.name));
        }
        for (place, site) in self.sites.iter().enumerate() {
            let own = self.classes.iter().filter(|class| class.site.index() == place);
            let own: Vec<_> = own.map(|class| (class.name.as_str(), class.terms())).collect();
            check_terms(&site.policy, "class", &own)?;
        }
        let sites: Vec<_> =
            self.sites.iter().map(|site| (site.name.as_str(), site.terms())).collect();
        // A site that is alone has all the slots, whatever it is given of them.
        let between = if sites.len() > 1 { self.between_sites } else { Policy::Strict };
        check_terms(&between, "site", &sites)
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

/// Checks what a policy needs of its children. `kind`: what they are.
fn check_terms(policy: &Policy, kind: &str, children: &[(&str, Terms)]) -> Result<(), String> {
    let is_part = |part: &f64| (0.0..=1.0).contains(part);
    for (name, Terms { minimum, weight, share, reserve }) in children {
        let fault = match policy {
            _ if !is_part(minimum) => "minimum must be 0 to 1",
            _ if !(weight.is_finite() && *weight > 0.0) => "weight must be more than 0",
            _ if !is_part(share) => "share must be 0 to 1",
            _ if !is_part(reserve) || reserve > share => "reserve must be 0 to its share",
            Policy::Fixed if *share == 0.0 => {
                "share must be more than 0 where capacity is fixed, or nothing of it is ever served"
            }
            _ => continue,
        };
        return Err(format!("{kind} `{name}`: {fault}"));
    }
    if let Policy::Score { ageing } = policy
        && !(ageing.is_finite() && *ageing >= 0.0)
    {
        return Err("ageing must be 0 or more points a second".to_owned());
    }
    let plural = if kind == "class" { "classes'" } else { "sites'" };
    let check_sum = |what: &str, sum: f64| match sum > 1.0 + 1e-9 {
        true => Err(format!("the {plural} {what} add up to {sum:.3}, more than 1")),
        false => Ok(()),
    };
    check_sum("minimum shares", children.iter().map(|(_, terms)| terms.minimum).sum())?;
    if policy.is_by_share() {
        check_sum("shares", children.iter().map(|(_, terms)| terms.share).sum())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::SiteId;

    fn fault(change: impl FnOnce(&mut Plan)) -> String {
        let mut plan = Plan {
            classes: vec![Class::named("a"), Class::named("b")],
            sites: vec![Site::named("s"), Site::named("t")],
            ..Plan::protective()
        };
        assert_eq!(plan.check(), Ok(()));
        change(&mut plan);
        plan.check().expect_err("it was made wrong")
    }

    #[test]
    fn shares_and_sites_are_checked() {
        let of = |field: fn(&mut Class) -> &mut f64, value: f64| {
            fault(|plan| *field(&mut plan.classes[1]) = value)
        };
        assert_eq!(of(|it| &mut it.minimum, 1.5), "class `b`: minimum must be 0 to 1");
        assert_eq!(of(|it| &mut it.weight, 0.0), "class `b`: weight must be more than 0");
        assert_eq!(of(|it| &mut it.weight, f64::NAN), "class `b`: weight must be more than 0");
        assert_eq!(of(|it| &mut it.share, -0.1), "class `b`: share must be 0 to 1");
        assert_eq!(of(|it| &mut it.reserve, 0.1), "class `b`: reserve must be 0 to its share");
        let sum = fault(|plan| {
            plan.sites[0].policy = Policy::Shared;
            plan.classes.iter_mut().for_each(|class| class.share = 0.6);
        });
        assert_eq!(sum, "the classes' shares add up to 1.200, more than 1");
        let fixed = fault(|plan| plan.between_sites = Policy::Fixed);
        assert!(fixed.starts_with("site `s`: share must be more than 0"), "{fixed}");
        let ageing = fault(|plan| plan.sites[0].policy = Policy::Score { ageing: -1.0 });
        assert_eq!(ageing, "ageing must be 0 or more points a second");
        let nowhere = fault(|plan| plan.classes[0].site = SiteId(2));
        assert_eq!(nowhere, "class `a`: there is no such site");
        let twice = fault(|plan| plan.sites[1].name = "s".to_owned());
        assert_eq!(twice, "two sites are called `s`");
        assert_eq!(fault(|plan| plan.sites.clear()), "a plan has 1 to 64 sites, got 0");
    }

    #[test]
    fn sites_have_their_own_sums() {
        let mut plan = Plan {
            classes: vec![Class::named("a"), Class::named("b")],
            sites: vec![Site::named("s"), Site::named("t")],
            ..Plan::protective()
        };
        plan.classes.iter_mut().for_each(|class| class.minimum = 0.9);
        assert!(plan.check().is_err());
        plan.classes[1].site = SiteId(1);
        assert_eq!(plan.check(), Ok(()));
    }
}
