//! What the gate relies on.

use super::built::Plan;
use super::spec::Spec;
use super::split::Split;
use crate::adapt::Adaptation;
use crate::admit::inbound::Inbound;
use crate::admit::policer;
use crate::admit::trigger::{Backlogs, Trigger};
use crate::fault::Fault;
use crate::names::{PoolId, Route};
use crate::schedule::{Policy, Terms};

/// Checks how many there are of everything.
pub(super) fn counts(spec: &Spec) -> Result<(), Fault> {
    for (kind, least, most, found) in [
        ("classes", 1, Spec::CLASSES_MAX, spec.classes.len()),
        ("sites", 1, Spec::SITES_MAX, spec.sites.len()),
        ("policers", 0, policer::Settings::COUNT_MAX, spec.policers.len()),
        ("splits", 0, Split::COUNT_MAX, spec.splits.len()),
        ("resources", 0, Spec::RESOURCES_MAX, spec.resources.len()),
        ("adaptations", 0, Adaptation::COUNT_MAX, spec.adaptations.len()),
        ("named pools", 0, Spec::POOLS_MAX, spec.pools.len()),
    ] {
        if !(least..=most).contains(&found) {
            return fault(format!("a plan has {least} to {most} {kind}, got {found}"));
        }
    }
    Ok(())
}

/// Checks all settings, and that what they refer to is there.
pub(super) fn settings(plan: &Plan) -> Result<(), Fault> {
    for class in &plan.spec.classes {
        let name = &class.name;
        if plan.site(class.site).is_none() {
            return fault(format!("class `{name}`: there is no such site"));
        }
        let is_there = match class.pool {
            Route::Pool(pool) => plan.pool_name(pool).is_some(),
            Route::Split(split) => usize::from(split) < plan.splits.len(),
        };
        if !is_there {
            return fault(format!("class `{name}`: there is no such pool"));
        }
        if class.resource.is_some_and(|id| plan.resource(id).is_none()) {
            return fault(format!("class `{name}`: there is no such resource"));
        }
        if class.adaptation.is_some_and(|id| plan.adaptation(id).is_none()) {
            return fault(format!("class `{name}`: there is no such adaptation"));
        }
        if class.service_target.is_some_and(|target| target.time.is_zero()) {
            return fault(format!("class `{name}`: its service target must be more than 0"));
        }
        let is_known = |of: &Backlogs| match of {
            Backlogs::All => true,
            Backlogs::Of(classes) => classes.iter().all(|id| plan.rank(*id).is_some()),
        };
        let wrong = |it: &Trigger| !(1..=it.waiting).contains(&it.until) || !is_known(&it.of);
        if class.refuse_at.len() > Trigger::COUNT_MAX || class.refuse_at.iter().any(wrong) {
            return fault(format!("class `{name}`: a trigger must have 1 <= until <= waiting"));
        }
    }
    for site in &plan.spec.sites {
        let checked = site.guarantee.map_or(Ok(()), |it| it.check());
        checked.or_else(|what| fault(format!("site `{}`: guarantee: {what}", site.name)))?;
    }
    background(plan)?;
    transmit(plan)?;
    pools(plan)?;
    shares(plan)?;
    if plan.shedding.is_some_and(|aim| aim.is_zero()) {
        return fault("the delay beyond which requests are shed must be more than 0");
    }
    if let Some(block) = &plan.block {
        block.check().or_else(|what| fault(format!("block: {what}")))?;
    }
    adaptations(plan)?;
    policers(plan)
}

/// Checks the background classes: what they may have is found, and they come after all others.
fn background(plan: &Plan) -> Result<(), Fault> {
    let classes = &plan.spec.classes;
    if classes.iter().all(|class| class.background) {
        return fault("at least one class must not be a background class");
    }
    for (class, next) in classes.iter().zip(&classes[1..]) {
        if class.background && !next.background {
            let (name, next) = (&class.name, &next.name);
            return fault(format!(
                "class `{name}`: a background class comes after all others: `{next}` follows"
            ));
        }
    }
    for class in classes.iter().filter(|class| class.background) {
        let Terms { minimum, share, .. } = class.terms();
        if plan.site_of(class).policy == Policy::Fixed {
            let name = &class.name;
            return fault(format!(
                "class `{name}`: where each class has a fixed share, nothing is left for a background class"
            ));
        }
        if minimum > 0.0 || share > 0.0 {
            let name = &class.name;
            return fault(format!(
                "class `{name}`: a background class is sure of nothing: it has no minimum and no share"
            ));
        }
    }
    Ok(())
}

/// Checks what classes are to have of the link: it is there, and not for the background.
fn transmit(plan: &Plan) -> Result<(), Fault> {
    let mut sum = 0.0;
    for class in &plan.spec.classes {
        let (name, Some(share)) = (&class.name, class.transmit) else { continue };
        share.check().or_else(|what| fault(format!("class `{name}`: transmit: {what}")))?;
        if class.background {
            return fault(format!(
                "class `{name}`: a background class has only what is idle of the link"
            ));
        }
        sum += share.part();
    }
    match sum > 1.0 + 1e-9 {
        true => fault(format!("the slices of the link add up to {sum:.3}, more than 1")),
        false => Ok(()),
    }
}

fn adaptations(plan: &Plan) -> Result<(), Fault> {
    for adaptation in &plan.spec.adaptations {
        let name = &adaptation.name;
        adaptation.check().or_else(|what| fault(format!("adaptation `{name}`: {what}")))?;
        let mut pools = adaptation.levels.iter().filter_map(|it| it.pool);
        if pools.any(|pool| plan.pool_name(pool).is_none()) {
            return fault(format!("adaptation `{name}`: there is no such pool"));
        }
    }
    Ok(())
}

fn pools(plan: &Plan) -> Result<(), Fault> {
    for split in &plan.spec.splits {
        if let Some(what) = split.fault() {
            return fault(what);
        }
        if split.parts.iter().any(|(pool, _)| plan.pool_name(*pool).is_none()) {
            return fault("a split names a pool that does not exist");
        }
    }
    for resource in &plan.spec.resources {
        if plan.pool_name(resource.pool).is_none() {
            return fault(format!("resource `{}`: there is no such pool", resource.name));
        }
    }
    for (pool, id) in plan.spec.pools.iter().zip(&plan.pool_ids()[1..]) {
        let name = &pool.name;
        if pool.fallback.is_some_and(|id| plan.pool_name(id).is_none()) {
            return fault(format!("pool `{name}`: there is no such fallback"));
        }
        let fallback = |id: &PoolId| plan.pool(*id)?.fallback;
        let mut chain = std::iter::successors(pool.fallback, fallback).take(Spec::POOLS_MAX + 1);
        if chain.any(|next| next == *id) {
            return fault(format!("pool `{name}`: its fallbacks lead back to it"));
        }
    }
    Ok(())
}

fn shares(plan: &Plan) -> Result<(), Fault> {
    for (site, id) in plan.spec.sites.iter().zip(plan.site_ids()) {
        let own = plan.spec.classes.iter().filter(|class| class.site == *id);
        let own: Vec<_> = own.map(|class| (class.name.as_str(), class.terms())).collect();
        terms(site.policy, ("class", "classes'"), &own)?;
    }
    let sites = plan.spec.sites.iter().map(|site| (site.name.as_str(), site.terms()));
    let sites: Vec<_> = sites.collect();
    // A site that is alone has all the slots, whatever it is given of them.
    let between = if sites.len() > 1 { plan.between_sites } else { Policy::Strict };
    terms(between, ("site", "sites'"), &sites)
}

/// Checks what a policy needs of its children. `kind`: what one of them is called, and whose shares are
/// those of all.
fn terms(
    policy: Policy,
    (kind, whose): (&str, &str),
    children: &[(&str, Terms)],
) -> Result<(), Fault> {
    let is_part = |part: &f64| (0.0..=1.0).contains(part);
    for (name, Terms { minimum, weight, share, reserve }) in children {
        let what = match policy {
            _ if !is_part(minimum) => "minimum must be 0 to 1",
            _ if !(weight.is_finite() && *weight > 0.0) => "weight must be more than 0",
            _ if !is_part(share) => "share must be 0 to 1",
            _ if !is_part(reserve) || reserve > share => "reserve must be 0 to its share",
            Policy::Fixed if *share == 0.0 => {
                "share must be more than 0 where capacity is fixed, or nothing of it is ever served"
            }
            _ => continue,
        };
        return fault(format!("{kind} `{name}`: {what}"));
    }
    if let Policy::Score { ageing } = policy
        && !(ageing.is_finite() && ageing >= 0.0)
    {
        return fault("ageing must be 0 or more points a second");
    }
    let check_sum = |what, sum: f64| match sum > 1.0 + 1e-9 {
        true => fault(format!("the {whose} {what} add up to {sum:.3}, more than 1")),
        false => Ok(()),
    };
    check_sum("minimum shares", children.iter().map(|(_, terms)| terms.minimum).sum())?;
    if policy.is_by_share() {
        check_sum("shares", children.iter().map(|(_, terms)| terms.share).sum())?;
    }
    Ok(())
}

fn policers(plan: &Plan) -> Result<(), Fault> {
    let used = plan.spec.classes.iter().map(|class| class.policer).chain([plan.site_policer]);
    if used.flatten().any(|id| plan.policer(id).is_none()) {
        return fault("a policer that is referred to does not exist");
    }
    let steered = plan.spec.policers.iter().filter(|policer| policer.inbound.is_some()).count();
    if steered > Inbound::COUNT_MAX {
        let most = Inbound::COUNT_MAX;
        return fault(format!("the rates of at most {most} policers may follow a reading"));
    }
    for policer in &plan.spec.policers {
        let checked = policer.check(|class| plan.rank(class).is_some());
        checked.or_else(|what| fault(format!("policer `{}`: {what}", policer.name)))?;
    }
    Ok(())
}

fn fault(message: impl Into<String>) -> Result<(), Fault> {
    Err(Fault::new(message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::Class;
    use crate::names::{ClassId, Names, SiteId};
    use crate::schedule::Site;

    fn two() -> Spec {
        Spec {
            classes: vec![Class::named("a"), Class::named("b")],
            sites: vec![Site::named("s"), Site::named("t")],
            ..Spec::protective()
        }
    }

    fn fault(change: impl FnOnce(&mut Spec)) -> String {
        let mut spec = two();
        change(&mut spec);
        let mut names = Names::default();
        let fault = Plan::build(spec, &mut names).expect_err("it was made wrong");
        assert!(names.classes.find("a").is_none() && names.sites.find("s").is_none());
        assert!(names.rules.find("r").is_none());
        fault.to_string()
    }

    #[test]
    fn shares_and_sites_are_checked_and_nothing_is_interned() {
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
        let rules = fault(|plan| plan.rules = vec!["r".into(), "q".into(), "r".into()]);
        assert_eq!(rules, "two rules are called `r`");
        assert_eq!(fault(|plan| plan.sites.clear()), "a plan has 1 to 64 sites, got 0");
    }

    #[test]
    fn sites_have_their_own_sums() {
        let mut spec = two();
        spec.classes.iter_mut().for_each(|class| class.minimum = 0.9);
        assert!(Plan::build(spec.clone(), &mut Names::default()).is_err());
        spec.classes[1].site = SiteId(1);
        let plan = Plan::build(spec, &mut Names::default()).expect("a sound spec");
        assert_eq!(plan.levels(), [0, 0], "each is the first of its site");
        let plan = Plan::build(two(), &mut Names::default()).expect("a sound spec");
        assert_eq!(plan.levels(), [0, 1]);
    }

    #[test]
    fn at_the_bound_of_names_a_plan_that_needs_more_is_refused_and_one_that_does_not_is_built() {
        let mut names = Names::default();
        let build = |names: &mut Names, class: String| {
            Plan::build(Spec { classes: vec![Class::named(class)], ..Spec::protective() }, names)
        };
        for number in 0..4096 {
            build(&mut names, number.to_string()).expect("there is room");
        }
        let full = build(&mut names, "one more".to_owned()).expect_err("there is none");
        assert!(full.to_string().contains("restart"), "{full}");
        let plan = build(&mut names, "7".to_owned()).expect("it is known");
        assert_eq!(plan.class_ids(), [ClassId(7)]);
    }
}
