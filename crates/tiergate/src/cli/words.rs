//! Rules and classes in words.

use crate::config::meant::Policy;
use crate::config::show;
use std::fmt::Display;
use tiergate_core::admit::bucket::PARTS;
use tiergate_core::admit::policer::{Per, PolicerId, Settings, Share};
use tiergate_core::admit::trigger::{Backlogs, Trigger};
use tiergate_core::class::{Class, ClassId};
use tiergate_core::classify::pattern::Pattern;
use tiergate_core::classify::rule::{Condition, Rule};

/// A condition, such as `path /cart/* or /pay`.
pub(super) fn condition(condition: &Condition) -> String {
    match condition {
        Condition::Path(paths) => format!("path {}", any_of(paths)),
        Condition::Host(hosts) => format!("host {}", any_of(hosts)),
        Condition::Method(methods) => format!("method {}", any_of(methods)),
        Condition::Header { name, values } => format!("header {name} {}", values_in_words(values)),
        Condition::Cookie { name, values } => format!("cookie {name} {}", values_in_words(values)),
        Condition::Client(networks) => format!("client in {}", any_of(networks)),
    }
}

fn values_in_words(values: &[Pattern]) -> String {
    match values.contains(&Pattern::Any) {
        true => "present".to_owned(),
        false => format!("= {}", any_of(values)),
    }
}

/// Alternatives joined by "or"; of many, the first ones.
fn any_of(alternatives: &[impl Display]) -> String {
    const SHOWN_MAX: usize = 8;
    let mut shown: Vec<String> =
        alternatives.iter().take(SHOWN_MAX).map(|alternative| alternative.to_string()).collect();
    if alternatives.len() > SHOWN_MAX {
        shown.push(format!("{} more", alternatives.len() - SHOWN_MAX));
    }
    shown.join(" or ")
}

/// All conditions of a rule, joined by "and".
pub(super) fn conditions(rule: &Rule) -> String {
    if rule.conditions.is_empty() {
        return "every request".to_owned();
    }
    let conditions: Vec<String> = rule.conditions.iter().map(condition).collect();
    conditions.join(" and ")
}

/// What becomes of a request that a rule matches.
pub(super) fn action(rule: &Rule, policy: &Policy) -> String {
    let class = rule.class.unwrap_or(policy.classifier.default_class());
    let name = class_name(policy, class);
    if rule.refuse {
        return format!("refused (counted in {name})");
    }
    let mut action = name.to_owned();
    if let Some(deadline) = rule.deadline {
        action += &format!(", waits at most {}", show::time(deadline));
    }
    if let Some(policer) = rule.policer {
        action += &format!(", policed by {}", policer_name(policy, policer));
    }
    action
}

/// A policer's name.
pub(super) fn policer_name(policy: &Policy, policer: PolicerId) -> &str {
    &policy.plan.policers[policer.index()].name
}

/// What a policer lets through.
pub(super) fn policer(policer: &Settings, policy: &Policy) -> String {
    let Settings { burst, per, shares, .. } = policer;
    let rate = show::rate(policer.rate);
    match per {
        Per::Flow { flows_max } => format!(
            "{rate} and {burst} at once for each flow; {flows_max} flows, {}",
            show::bytes(24 * u64::from(*flows_max))
        ),
        Per::Rule if shares.is_empty() => format!("{rate} and {burst} at once"),
        Per::Rule => {
            let share = |share: &Share| {
                let part = show::share(f64::from(share.parts) / PARTS as f64);
                format!("{} {part} and {} at once", class_name(policy, share.class), share.burst)
            };
            let shares: Vec<String> = shares.iter().map(share).collect();
            format!("{rate}: {}; {burst} that they left for any class", shares.join(", "))
        }
    }
}

/// A class's name.
pub(super) fn class_name(policy: &Policy, class: ClassId) -> &str {
    &policy.plan.classes[class.index()].name
}

/// What a class's requests get.
pub(super) fn class(class: &Class, policy: &Policy) -> String {
    let queue = match class.queue_len_max {
        0 => "never waits".to_owned(),
        len => format!("waits at most {}, at most {len} in the queue", show::time(class.deadline)),
    };
    let mut words = queue;
    if class.minimum > 0.0 {
        words += &format!(", sure of {} of the slots", show::share(class.minimum));
    }
    for trigger in &class.refuse_at {
        let all = trigger.of == Backlogs::ALL;
        let ids = (0..policy.plan.classes.len() as u16).map(ClassId);
        let names: Vec<&str> =
            ids.filter(|id| trigger.of.has(*id)).map(|id| class_name(policy, id)).collect();
        let of = if all { "all classes".to_owned() } else { names.join(" and ") };
        let Trigger { waiting, until, .. } = trigger;
        words += &format!(", refused from {waiting} waiting of {of} until fewer than {until}");
    }
    if let Some(policer) = class.policer {
        words += &format!(", policed by {}", policer_name(policy, policer));
    }
    words
}
