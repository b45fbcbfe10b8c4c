//! `mode = "observe"`: which parts of a policy decide, are counted and logged, and change nothing.

use super::class::ClassKeys;
use super::inbound::ControlKeys;
use super::meant::Policy;
use super::mode::Mode;
use super::place::{At, Place};
use super::policer::Police;
use super::policy::Root;
use super::rule::RuleKeys;
use std::collections::HashSet;
use tiergate_core::control::Slots;
use tiergate_core::names::PoolId;

/// What of a policy is observed only.
#[derive(Debug, Default)]
pub(super) struct ObservedParts {
    /// The policy as a whole.
    pub(super) all: bool,
    sites: HashSet<String>,
    /// Those of observed sites, too.
    classes: HashSet<String>,
    policers: HashSet<String>,
    adaptations: HashSet<String>,
    /// Something that no other part names: a rule, a control, or a policer of one rule or class.
    others: bool,
    /// `[shedding]`.
    shedding: bool,
}

impl ObservedParts {
    pub(super) fn of(raw: &Root) -> Self {
        let names = |all: &mut dyn Iterator<Item = (&Option<String>, Mode)>| -> HashSet<String> {
            let observed = all.filter(|(_, mode)| mode.is_observe());
            observed.filter_map(|(name, _)| name.clone()).collect()
        };
        let mut parts = ObservedParts {
            all: raw.mode.is_observe(),
            sites: names(&mut raw.site.iter().map(|it| (&it.value.name, it.value.mode))),
            policers: names(&mut raw.policer.iter().map(|it| (&it.value.name, it.value.mode))),
            adaptations: names(
                &mut raw.adaptation.iter().map(|it| (&it.value.name, it.value.mode)),
            ),
            ..ObservedParts::default()
        };
        let mut classes = raw.class.iter().map(|it| {
            let of_site = parts.has_site_of(&it.value, raw);
            (&it.value.name, if of_site { Mode::Observe } else { it.value.mode })
        });
        parts.classes = names(&mut classes);
        let control = |it: &Option<At<ControlKeys>>| {
            it.as_ref().is_some_and(|control| control.value.mode.is_observe())
        };
        let own = |police: &Option<At<Police>>| match police.as_ref().map(|it| &it.value) {
            Some(Police::Own(own)) => own.mode.is_observe() || control(&own.control),
            _ => false,
        };
        parts.shedding = raw.shedding.as_ref().is_some_and(|it| it.mode.is_observe());
        parts.others = own(&raw.police)
            || raw.rule.iter().any(|it| it.value.mode.is_observe() || own(&it.value.police))
            || raw.class.iter().any(|it| own(&it.value.police))
            || raw.policer.iter().any(|it| control(&it.value.control));
        parts
    }

    /// Whether everything is in force.
    pub(super) fn is_empty(&self) -> bool {
        let named = [&self.sites, &self.classes, &self.policers, &self.adaptations];
        !self.all && !self.shedding && !self.others && named.iter().all(|names| names.is_empty())
    }

    pub(super) fn has_site(&self, name: &str) -> bool {
        self.sites.contains(name)
    }

    pub(super) fn has_class(&self, name: &str) -> bool {
        self.classes.contains(name)
    }

    pub(super) fn has_policer(&self, name: &str) -> bool {
        self.policers.contains(name)
    }

    /// Whether a rule is observed, by itself or because its class is.
    pub(super) fn has_rule(&self, rule: &RuleKeys) -> bool {
        rule.mode.is_observe() || rule.class.as_ref().is_some_and(|class| self.has_class(class))
    }

    /// Whether the site that a class belongs to is observed; where there is only one, the class need not name it.
    fn has_site_of(&self, class: &ClassKeys, raw: &Root) -> bool {
        match (&class.site, &raw.site[..]) {
            (Some(name), _) => self.has_site(name),
            (None, [one]) => one.value.mode.is_observe(),
            (None, _) => false,
        }
    }

    /// What cannot be observed of the whole, and what it means that nothing is in force.
    pub(super) fn warnings(&self, whole: &Policy) -> Vec<String> {
        let (plan, mut warnings) = (&whole.plan, Vec::new());
        if self.all {
            warnings.push(
                "mode = \"observe\": every request is let through at once, and the origin is not protected"
                    .to_owned(),
            );
            // What the observed side takes over of a limit is the one in force.
            let is_taken_over = |id: &&PoolId| {
                whole.origin_of(**id).is_some_and(|it| it.slots_per_server)
                    || !matches!(plan.pool_slots(**id), Some(Slots::Fixed(_)))
            };
            let pools = plan.pool_ids().iter().filter(is_taken_over);
            let names = pools.filter_map(|id| plan.pool_name(*id));
            warnings.extend(names.map(|name| {
                format!(
                    "mode = \"observe\": no limit of pool {name} is observed, since one that is adaptive, or of each \
                     server, is only known where it is in force; write slots = N for all servers together"
                )
            }));
        }
        if plan.shedding.is_some() && (self.all || self.shedding) {
            warnings
                .push("shedding: is not in force, and what would be shed is not known".to_owned());
        }
        warnings
    }

    /// Reports parts that say that they are in force and cannot be, and a default class that is not there in force.
    pub(super) fn check(&self, raw: &Root, place: &Place) {
        if let Some(name) = raw.default_class.as_ref().filter(|name| self.has_class(name)) {
            place.fault_at(
                "default_class",
                format!(
                    "must be a class that is in force, and {name:?} is only observed: name another, or leave \
                     it out for the last class that is in force"
                ),
            );
        }
        let of_policy = || self.all.then(|| "mode = \"observe\" of the policy".to_owned());
        let contradicts = |place: &Place, mode: Mode, why: Option<String>| {
            if let Some(why) = why.or_else(of_policy)
                && place.has("mode")
                && !mode.is_observe()
            {
                place.fault_at("mode", format!("contradicts {why}: remove one of them"));
            }
        };
        raw.site.iter().for_each(|it| contradicts(&it.place, it.value.mode, None));
        raw.policer.iter().for_each(|it| contradicts(&it.place, it.value.mode, None));
        raw.adaptation.iter().for_each(|it| contradicts(&it.place, it.value.mode, None));
        for At { value: class, place } in &raw.class {
            let site = || class.site.as_ref().or(raw.site.first()?.value.name.as_ref());
            let why = self.has_site_of(class, raw).then(site).flatten();
            let why = why.map(|site| format!("mode = \"observe\" of site {site:?}"));
            contradicts(place, class.mode, why);
        }
        for At { value: rule, place } in &raw.rule {
            let class = rule.class.as_ref().filter(|class| self.has_class(class));
            let why = class.map(|class| format!("class {class:?}, which is observed"));
            contradicts(place, rule.mode, why);
        }
    }
}
