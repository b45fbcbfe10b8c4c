//! Warnings of what a policy allows but has no effect: rules that never match or never decide, classes
//! that no rule leads to.

mod bounds;
mod matching;
mod naming;
mod no_effect;
mod redirects;
mod unseen;

use super::words;
use crate::config::meant::{Policy, PolicyRule};
use crate::config::scheduling;
use crate::tls::Dates;
use matching::{NOT_OURS, never_matches, proxied, without_subject};
use naming::name;
use tiergate_core::admit::bucket::PARTS;
use tiergate_core::admit::inbound::Inbound;
use tiergate_core::class::{Class, ClassId};
use tiergate_core::classify::rule::Rule;
use tiergate_core::classify::{Condition, Output};
use tiergate_core::control::Slots;
use tiergate_core::names::{PolicerId, PoolId, Route};
use tiergate_core::request::Part;
use tiergate_core::schedule::Policy as SitePolicy;

/// Most pairs of rules that are compared for one covering the other: some seconds.
const PAIRS_MAX: usize = 100_000_000;

/// What is allowed but has no effect.
pub fn warnings(policy: &Policy) -> Vec<String> {
    let mut warnings = Vec::new();
    // The rules that decide about the class of some request, as far as that can be told.
    let mut deciding = vec![true; policy.rules.len()];
    for (index, rule) in policy.rules.iter().enumerate() {
        if let Some(why) = never_matches(&rule.rule, policy) {
            warnings.push(format!("{} never matches: {why}", name(rule)));
            deciding[index] = false;
        } else if let Some(listeners) = proxied(&rule.rule, policy) {
            let rule = name(rule);
            warnings.push(format!("{rule} never matches clients of {listeners}: {NOT_OURS}"));
        }
    }
    // What the file of a secret has stands for itself, and is meant so.
    let is_of_secret = |it: &String| {
        let is_meant = it.contains(" does not match what it seems to: ");
        is_meant && policy.redaction.redacted(it) != *it
    };
    warnings.extend(unseen::unseen(policy).into_iter().filter(|it| !is_of_secret(it)));
    warnings.extend(no_effect::no_effect(policy));
    warnings.extend(redirects::loops(policy));
    warnings.extend(bounds::bounds(policy));
    warnings.extend(without_subject(policy));
    shadowed(policy, &mut deciding, &mut warnings);
    unreached(policy, &deciding, &mut warnings);
    idle_policers(policy, &mut warnings);
    starved_shares(policy, &mut warnings);
    idle_pools(policy, &mut warnings);
    resources(policy, &mut warnings);
    adaptations(policy, &mut warnings);
    importance(policy, &mut warnings);
    let scored = policy.score.is_some() || policy.rules.iter().any(|it| it.rule.score.is_some());
    scheduling::warn(&policy.plan, scored, &mut warnings);
    never_fit(policy, &mut warnings);
    unverified(policy, &mut warnings);
    warnings.extend(Dates::of(policy).warnings());
    if policy.link.marks && policy.plan.marks().is_empty() {
        warnings.push(NO_MARKS.to_owned());
    }
    warnings.extend_from_slice(&policy.warnings);
    warnings
}

/// Pools whose servers may be anyone.
fn unverified(policy: &Policy, warnings: &mut Vec<String>) {
    let names = policy.plan.pools.iter().map(|pool| format!("pool {}", pool.name));
    let names = std::iter::once("origin".to_owned()).chain(names);
    for (name, origin) in names.zip(std::iter::once(&policy.origin).chain(&policy.pools)) {
        if origin.tls.as_ref().is_some_and(|tls| !tls.verify) {
            warnings.push(format!(
                "{name}: tls.verify = false takes any certificate: a third party between gateway and server reads and changes \
                 requests; name the authority by `ca`"
            ));
        }
    }
}

/// Said of a policy that marks nothing.
const NO_MARKS: &str =
    "link.mark has no effect: no class is in the background, nor has `dscp` or `socket_priority`";

/// Rules all of whose requests are taken by earlier ones, for each output that they set.
fn shadowed(policy: &Policy, deciding: &mut [bool], warnings: &mut Vec<String>) {
    let mut pairs = 0;
    for (index, later) in policy.rules.iter().enumerate() {
        pairs += index;
        if pairs > PAIRS_MAX {
            warnings.push(format!("rules from {} on were not compared: too many", index + 1));
            break;
        }
        let set: Vec<Output> = later.rule.outputs().collect();
        let mut open = set.clone();
        let mut told = Vec::new();
        for earlier in &policy.rules[..index] {
            if open.is_empty() {
                break;
            }
            let takes: Vec<Output> =
                open.iter().copied().filter(|output| earlier.rule.sets(*output)).collect();
            if takes.is_empty() || !earlier.rule.covers(&later.rule) {
                continue;
            }
            open.retain(|output| !takes.contains(output));
            if takes.contains(&Output::Verdict) {
                deciding[index] = false;
            }
            let why = match earlier.rule.conditions == later.rule.conditions {
                true => "asks for the same",
                false => "takes all of its requests",
            };
            told.push((takes, format!("{} {why}", name(earlier))));
        }
        let later = name(later);
        match &told[..] {
            [] => {}
            [(_, by)] if open.is_empty() => {
                warnings.push(format!("{later} never decides: {by}"));
            }
            many => {
                for (outputs, by) in many {
                    let outputs: Vec<&str> = outputs.iter().map(|output| output.name()).collect();
                    let outputs = outputs.join(" and ");
                    warnings.push(format!("{later} never decides about {outputs}: {by}"));
                }
            }
        }
    }
}

/// Classes that no request can belong to.
fn unreached(policy: &Policy, deciding: &[bool], warnings: &mut Vec<String>) {
    let default = policy.classifier.default_class();
    let bands = policy.score.iter().flat_map(|tables| &tables.bands);
    let by_score: Vec<ClassId> = bands.map(|(_, class)| *class).collect();
    for (&id, class) in policy.plan.class_ids().iter().zip(&policy.plan.classes) {
        if by_score.contains(&id) || id == default && !is_default_hidden(policy, deciding) {
            continue;
        }
        let leading = policy.rules.iter().zip(deciding);
        let mut leading = leading.filter(|(rule, _)| rule.rule.class == Some(id)).peekable();
        if leading.peek().is_none() {
            warnings.push(format!("class {}: no rule leads to it", class.name));
        } else if !leading.any(|(_, deciding)| *deciding) {
            warnings.push(format!("class {}: only rules that never decide lead to it", class.name));
        }
    }
}

/// Whether a rule takes every request, so that the class of those that no rule matches gets none that way.
fn is_default_hidden(policy: &Policy, deciding: &[bool]) -> bool {
    let all = |rule: &Rule| rule.conditions.iter().all(Condition::is_always_true);
    let sets = |rule: &&PolicyRule| rule.rule.sets(Output::Verdict) && all(&rule.rule);
    let Some(of_all) = policy.rules.iter().find(sets) else { return false };
    // What it refuses, or gives only a deadline, is of that class.
    let of_default =
        |rule: &PolicyRule| rule.rule.sets(Output::Verdict) && rule.rule.class.is_none();
    let mut deciders = policy.rules.iter().zip(deciding).filter(|(_, deciding)| **deciding);
    !of_default(of_all) && !deciders.any(|(rule, _)| of_default(rule))
}

/// The classes that have requests which are subject to the policer.
fn subject_to(policy: &Policy, id: PolicerId) -> Vec<ClassId> {
    let (plan, id) = (&policy.plan, Some(id));
    let default = policy.classifier.default_class();
    let mut classes: Vec<ClassId> = plan.class_ids().to_vec();
    if plan.site_policer != id {
        classes.retain(|class| {
            let of_class = |rule: &Rule| rule.class.unwrap_or(default) == *class;
            plan.class(*class).is_some_and(|it| it.policer == id)
                || policy.rules.iter().any(|it| it.rule.policer == id && of_class(&it.rule))
        });
    }
    classes
}

/// Policers that are never referenced, and classes that are subject to one in which they have no share.
fn idle_policers(policy: &Policy, warnings: &mut Vec<String>) {
    let plan = &policy.plan;
    for (&id, policer) in plan.policer_ids().iter().zip(&plan.policers) {
        let classes = subject_to(policy, id);
        let whose = format!("policer {}", policer.name);
        if classes.is_empty() {
            warnings.push(format!("{whose}: never referenced"));
            continue;
        }
        let sum: u64 = policer.shares.iter().map(|share| u64::from(share.parts)).sum();
        let shared = |class: &ClassId| policer.shares.iter().any(|share| share.class == *class);
        for class in classes.iter().filter(|class| sum == PARTS && !shared(class)) {
            let name = words::class_name(policy, *class);
            let why = "has no share, and gets only what the others leave";
            warnings.push(format!("{whose}: class {name} {why}"));
        }
        for share in policer.shares.iter().filter(|share| !classes.contains(&share.class)) {
            let name = words::class_name(policy, share.class);
            warnings.push(format!("{whose}: class {name} has a share, but is never subject to it"));
        }
    }
}

/// Classes whose share of what is let in is worth nothing: a policer whose rate follows the queue keeps a queue, and
/// where the most important goes first, those that are left in it are of the last class.
fn starved_shares(policy: &Policy, warnings: &mut Vec<String>) {
    let plan = &policy.plan;
    for (&id, policer) in plan.policer_ids().iter().zip(&plan.policers) {
        let follows = policer.inbound.as_ref();
        if follows.is_none_or(|inbound| &*inbound.source != Inbound::BACKLOG) {
            continue;
        }
        let subject = subject_to(policy, id);
        let waits = |it: &Class| it.pool == Route::Pool(PoolId::DEFAULT);
        // In the order of importance.
        for (rank, (class_id, class)) in plan.class_ids().iter().zip(&plan.classes).enumerate() {
            let has_share = policer.shares.iter().any(|share| share.class == *class_id);
            let is_above = |it: &Class| it.site == class.site && waits(it);
            let is_behind = waits(class) && plan.classes[..rank].iter().any(is_above);
            let is_strict = plan.site_of(class).policy == SitePolicy::Strict;
            let is_subject = has_share && subject.contains(class_id);
            if is_subject && is_behind && is_strict && class.minimum == 0.0 {
                warnings.push(format!(
                    "policer {}: the queue that its rate follows is never empty under overload, and class {} waits in it behind \
                     more important ones, whatever its share: use the scheduling policy \"fifo\" or \"weighted\", \
                     or give the class a minimum",
                    policer.name, class.name
                ));
            }
        }
    }
}

/// Importance that has no effect, and importance that any client can claim.
fn importance(policy: &Policy, warnings: &mut Vec<String>) {
    let said = || policy.rules.iter().filter(|rule| rule.rule.importance.is_some());
    let Some(delay) = policy.plan.shedding else {
        if let Some(rule) = said().next() {
            let name = name(rule);
            warnings.push(format!("{name}: importance has no effect without [shedding]"));
        }
        return;
    };
    if said().next().is_none() {
        let why = "no rule gives importance: requests are shed by class and age alone";
        warnings.push(format!("shedding: {why}"));
    }
    if policy.plan.classes.iter().all(|class| class.deadline <= delay) {
        let why = "no class waits as long as its delay: no request is ever shed";
        warnings.push(format!("shedding: {why}"));
    }
    if policy.session.is_some() {
        return;
    }
    for rule in said() {
        let mut claims = rule.rule.conditions.iter().filter_map(claim);
        if let Some(claim) = claims.next()
            && !rule.rule.conditions.iter().any(is_proof)
        {
            let name = name(rule);
            warnings.push(format!(
                "{name}: any client that guesses the value of {claim} has this importance; with \
                 [session], only running sessions have"
            ));
        }
    }
}

/// What a client claims without proof.
fn claim(condition: &Condition) -> Option<String> {
    match condition.part() {
        Part::Cookie(name) => Some(format!("cookie {name}")),
        Part::Header(name) => Some(format!("header {name}")),
        _ => None,
    }
}

/// What a client cannot forge.
fn is_proof(condition: &Condition) -> bool {
    matches!(
        condition.part(),
        Part::Client
            | Part::ClientName
            | Part::Country
            | Part::Asn
            | Part::Certificate
            | Part::Subject
    )
}

/// Pools that no rule, class or other pool names.
fn idle_pools(policy: &Policy, warnings: &mut Vec<String>) {
    let plan = &policy.plan;
    let by_rule = policy.rules.iter().filter_map(|rule| rule.rule.pool);
    let by_class = plan.classes.iter().map(|class| class.pool);
    let by_pool = plan.pools.iter().filter_map(|pool| pool.fallback);
    let by_route = by_rule.chain(by_class).flat_map(|route| plan.pools_of(route));
    let by_level = plan.adaptations.iter().flat_map(|it| &it.levels).filter_map(|it| it.pool);
    let named: Vec<_> = by_route.chain(by_pool).chain(by_level).collect();
    for id in &plan.pool_ids()[1..] {
        if !named.contains(id) {
            let name = plan.pool_name(*id).unwrap_or_default();
            warnings.push(format!("pool {name}: never referenced"));
        }
    }
}

/// Adaptations that no rule or class names.
fn adaptations(policy: &Policy, warnings: &mut Vec<String>) {
    let plan = &policy.plan;
    let by_rule = policy.rules.iter().filter_map(|it| it.rule.adaptation);
    let by_class = plan.classes.iter().filter_map(|it| it.adaptation);
    let used: Vec<_> = by_rule.chain(by_class).collect();
    for (id, settings) in plan.adaptation_ids().iter().zip(&plan.adaptations) {
        if settings.acts && !used.contains(id) {
            warnings.push(format!("adaptation {}: never referenced", settings.name));
        }
    }
}

/// Resources that no rule or class names, or none whose requests go to their pool.
fn resources(policy: &Policy, warnings: &mut Vec<String>) {
    let plan = &policy.plan;
    let class = |id| plan.class(id);
    let by_rule = policy.rules.iter().filter_map(|PolicyRule { rule, .. }| {
        let route = rule.pool.or_else(|| {
            // Another rule may decide the class.
            rule.class.and_then(class).map(|class| class.pool)
        });
        Some((rule.resource?, route))
    });
    let by_class = plan.classes.iter().filter_map(|it| Some((it.resource?, Some(it.pool))));
    let uses: Vec<_> = by_rule.chain(by_class).collect();
    for (id, settings) in plan.resource_ids().iter().zip(&plan.resources) {
        let name = &settings.name;
        let mut own = uses.iter().filter(|(of, _)| of == id).map(|(_, route)| route).peekable();
        if own.peek().is_none() {
            warnings.push(format!("resource {name}: never referenced"));
            continue;
        }
        let leads = |route: Route| plan.pools_of(route).any(|pool| pool == settings.pool);
        // A rule that leaves the pool open may be of any that something leads to.
        let routes = policy.rules.iter().filter_map(|it| it.rule.pool);
        let mut routes = routes.chain(plan.classes.iter().map(|class| class.pool));
        let is_reached = routes.any(leads);
        let reaches = |route: &Option<Route>| route.map_or(is_reached, leads);
        if !own.any(reaches) {
            let pool = plan.pool_name(settings.pool).unwrap_or_default();
            warnings.push(format!(
                "resource {name}: is of pool {pool}, and the requests that need it go to others"
            ));
        }
        if let (Slots::Fixed(own), Some((of_pool, _))) =
            (&settings.slots, policy.numbers_of(settings.pool))
            && *own >= of_pool
        {
            warnings.push(format!(
                "resource {name}: has {own} slots, as many as its pool or more ({of_pool}): nothing is left for the rest"
            ));
        }
    }
    for class in &plan.classes {
        mixed_target(class, policy, warnings);
    }
}

/// A service target where some of the class's pools, or servers of them, have a number of slots, which is not moved.
fn mixed_target(class: &Class, policy: &Policy, warnings: &mut Vec<String>) {
    let plan = &policy.plan;
    if class.service_target.is_none() || class.resource.is_some() {
        return;
    }
    for pool in plan.pools_of(class.pool) {
        if let Some(origin) = policy.origin_of(pool)
            && let Some((server, _)) = origin.server_slots.first()
            && (origin.is_all_own() || plan.pool_slots(pool).is_some_and(Slots::is_adaptive))
        {
            let and_more = match origin.server_slots.len() {
                1 => String::new(),
                count => format!(" and {} more", count - 1),
            };
            let name = &class.name;
            warnings.push(format!(
                "class {name}: its service target has no effect at {server}{and_more}, with slots of their own"
            ));
            continue;
        }
        if let (Some(Slots::Fixed(slots)), Some(pool)) =
            (plan.pool_slots(pool), plan.pool_name(pool))
        {
            let name = &class.name;
            warnings.push(format!(
                "class {name}: its service target has no effect in pool {pool}, which has slots = {slots}"
            ));
        }
    }
}

/// Rules whose requests never fit, or whose header no peer may send.
fn never_fit(policy: &Policy, warnings: &mut Vec<String>) {
    for rule in &policy.rules {
        let name = name(rule);
        let pool = rule.rule.pool.or_else(|| {
            let class = rule.rule.class.unwrap_or(policy.classifier.default_class());
            policy.plan.class(class).map(|class| class.pool)
        });
        let pools = pool.into_iter().flat_map(|route| policy.plan.pools_of(route));
        for (_, slots) in pools.filter_map(|pool| policy.numbers_of(pool)) {
            if let Some(takes) = rule.rule.slots
                && u32::from(takes) > slots
            {
                warnings.push(format!("{name}: takes {takes} slots, and there are only {slots}"));
            }
        }
        if let Some(header) = rule.rule.deadline_header.as_ref()
            && policy.trusted.is_empty()
        {
            warnings.push(format!("{name}: {header} is never believed: `trusted` is empty"));
        }
    }
}

#[cfg(test)]
mod tests;
