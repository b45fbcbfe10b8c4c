//! For `tiergate check`: what of a policy is observed only, as what the whole has and the policy in force has not.

use super::words;
use crate::config::meant::Policy;
use crate::config::{adaptation, class, class_name, policer};
use std::collections::HashMap;
use tiergate_core::class::Class;
use tiergate_core::names::{AdaptationId, SiteId};
use tiergate_core::plan::Plan;

/// A line for each.
pub(super) fn words(policy: &Policy, whole: &Policy) -> Vec<String> {
    let mut lines = sites(&policy.plan, &whole.plan);
    lines.extend(classes(&policy.plan, &whole.plan));
    lines.extend(defaults(policy, whole));
    lines.extend(rules(policy, whole));
    lines.extend(policers(&policy.plan, &whole.plan));
    lines.extend(adaptations(&policy.plan, &whole.plan));
    if whole.plan.shedding.is_some() && policy.plan.shedding.is_none() {
        lines.push("shedding, of which nothing is known either".to_owned());
    }
    lines
}

fn sites(plan: &Plan, whole: &Plan) -> Vec<String> {
    let is_kept =
        |plan: &Plan, id: SiteId| plan.adaptations.iter().any(|it| it.sites.contains(&id));
    let mut lines = Vec::new();
    for (site, id) in whole.sites.iter().zip(whole.site_ids()) {
        if !plan.site_ids().contains(id) {
            lines.push(format!("site {}", site.name));
        } else if is_kept(whole, *id) && !is_kept(plan, *id) {
            lines.push(format!("site {}: its guarantee", site.name));
        }
    }
    lines
}

fn classes(plan: &Plan, whole: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    for (class, id) in whole.classes.iter().zip(whole.class_ids()) {
        let Class { name, .. } = class;
        let Some(in_force) = plan.class(*id) else {
            lines.push(format!("class {name}: {}", class::words(class, whole)));
            continue;
        };
        if let Some(id) = class.policer.filter(|_| in_force.policer.is_none()) {
            let policer = whole.policer(id).map_or("", |it| &it.name);
            lines.push(format!("class {name}: policed by {policer}"));
        }
        if let Some(id) = class.adaptation.filter(|id| !acts(plan, *id)) {
            lines.push(format!("class {name}: quality by {}", adaptation::name(id, whole)));
        }
        if class.refuse_at != in_force.refuse_at {
            lines.push(format!("class {name}: refuse_at as far as it names observed classes"));
        }
    }
    lines
}

/// The class of requests that nothing gives one, and the bands of scores.
fn defaults(policy: &Policy, whole: &Policy) -> Vec<String> {
    let mut lines = Vec::new();
    let [in_force, observed] = [policy, whole].map(|it| it.classifier.default_class());
    if in_force != observed {
        let [in_force, observed] =
            [class_name(&policy.plan, in_force), class_name(&whole.plan, observed)];
        lines.push(format!(
            "class {observed} for requests that no rule matches; in force it is {in_force}"
        ));
    }
    let bands = whole.score.iter().flat_map(|tables| &tables.bands);
    for (from, class) in bands.filter(|(_, class)| policy.plan.class(*class).is_none()) {
        let class = class_name(&whole.plan, *class);
        lines.push(format!("score from {from} on: class {class}"));
    }
    lines
}

fn rules(policy: &Policy, whole: &Policy) -> Vec<String> {
    let in_force: HashMap<usize, _> = policy.rules.iter().map(|it| (it.number, it)).collect();
    let mut lines = Vec::new();
    for rule in &whole.rules {
        let Some(in_force) = in_force.get(&rule.number) else {
            lines.push(format!("rule {}", words::rule(rule, whole)));
            continue;
        };
        let lost = rule.rule.outputs().filter(|output| !in_force.rule.sets(*output));
        let lost: Vec<String> = lost.map(|it| words::says(&rule.rule, it, whole)).collect();
        if !lost.is_empty() {
            let (label, place) = (rule.label(), rule.place());
            lines.push(format!("rule {label}  ({place})  only: {}", lost.join(", ")));
        }
    }
    lines
}

fn policers(plan: &Plan, whole: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    for (settings, id) in whole.policers.iter().zip(whole.policer_ids()) {
        let name = &settings.name;
        let Some(in_force) = plan.policer(*id) else {
            lines.push(format!("policer {name}: {}", policer::words(settings, whole)));
            continue;
        };
        if settings.inbound.is_some() && in_force.inbound.is_none() {
            lines.push(format!("policer {name}: its control"));
        }
        for share in settings.shares.iter().filter(|it| plan.class(it.class).is_none()) {
            lines.push(format!("policer {name}: the share of {}", class_name(whole, share.class)));
        }
    }
    if let Some(id) = whole.site_policer.filter(|_| plan.site_policer.is_none()) {
        let name = whole.policer(id).map_or("", |it| &it.name);
        lines.push(format!("every request is subject to {name}"));
    }
    lines
}

fn adaptations(plan: &Plan, whole: &Plan) -> Vec<String> {
    let all = adaptation::words(whole).into_iter().zip(whole.adaptation_ids());
    let observed = all.filter(|(_, id)| !acts(plan, **id));
    observed.map(|(words, _)| format!("adaptation {words}")).collect()
}

/// Whether an adaptation decides in force.
fn acts(plan: &Plan, id: AdaptationId) -> bool {
    plan.adaptation(id).is_some_and(|it| it.acts)
}
