//! Rules and classes in words.

use super::schedule_words;
use crate::config::condition::Entry;
use crate::config::meant::{Listener, Policy, RefusalConnection};
use crate::config::show;
use std::fmt::Display;
use tiergate_core::admit::bucket::PARTS;
use tiergate_core::admit::policer::{Per, PolicerId, Settings, Share};
use tiergate_core::admit::trigger::{Backlogs, Trigger};
use tiergate_core::class::{Class, ClassId};
use tiergate_core::classify::rule::Rule;
use tiergate_core::classify::{Condition, Matcher, Output, Span};
use tiergate_core::request::Part;

/// A condition, such as `path /cart/* or /pay`.
pub(super) fn condition(condition: &Condition, policy: &Policy) -> String {
    let one = |matcher: &Matcher| match matcher {
        Matcher::Range(span) => number(condition.part(), *span, policy),
        matcher => matcher.to_string(),
    };
    Entry::words(condition, &any_of(condition.any_of().iter().map(one)))
}

/// A range of a number, as it would be written.
pub(super) fn number(of: &Part, span: Span, policy: &Policy) -> String {
    match of {
        Part::Listener => match policy.listeners.get(span.first as usize) {
            Some(Listener { name: Some(name), .. }) => name.clone(),
            Some(listener) => listener.address.to_string(),
            None => "none of the policy".to_owned(),
        },
        Part::ContentLength => match (span.first, span.last) {
            (first, last) if first == last => show::bytes(first),
            (first, u64::MAX) => format!("{}..", show::bytes(first)),
            (0, last) => format!("..{}", show::bytes(last)),
            (first, last) => format!("{}..{}", show::bytes(first), show::bytes(last)),
        },
        _ => span.to_string(),
    }
}

/// Alternatives joined by "or"; of many, the first ones.
fn any_of(mut alternatives: impl ExactSizeIterator<Item = String>) -> String {
    const SHOWN_MAX: usize = 8;
    let mut shown: Vec<String> = alternatives.by_ref().take(SHOWN_MAX).collect();
    if alternatives.len() > 0 {
        shown.push(format!("{} more", alternatives.len()));
    }
    shown.join(" or ")
}

/// All conditions of a rule, joined by "and".
pub(super) fn conditions(rule: &Rule, policy: &Policy) -> String {
    if rule.conditions.is_empty() {
        return "every request".to_owned();
    }
    let conditions: Vec<String> =
        rule.conditions.iter().map(|one| condition(one, policy)).collect();
    conditions.join(" and ")
}

/// What becomes of a request that a rule matches.
pub(super) fn action(rule: &Rule, policy: &Policy) -> String {
    let said: Vec<String> = rule.outputs().map(|output| says(rule, output, policy)).collect();
    match said.is_empty() {
        true => "nothing".to_owned(),
        false => said.join(", "),
    }
}

/// One thing that a rule says.
pub(super) fn says(rule: &Rule, output: Output, policy: &Policy) -> String {
    let said = |what: Option<&dyn Display>| {
        let what = what.map(ToString::to_string).unwrap_or_default();
        format!("{} {what}", output.name())
    };
    match output {
        Output::Verdict => verdict(rule, policy),
        Output::Policer => {
            let name = rule.policer.map_or("", |policer| policer_name(policy, policer));
            format!("policed by {name}")
        }
        Output::Importance => said(rule.importance.as_ref().map(|one| one as _)),
        Output::Score => said(rule.score.as_ref().map(|one| one as _)),
        Output::Flow => said(rule.flow.as_ref().map(|one| one as _)),
        Output::Slots => said(rule.slots.as_ref().map(|one| one as _)),
        Output::DeadlineHeader => {
            let name = rule.deadline_header.as_deref().unwrap_or_default();
            format!("deadline by a trusted {name}")
        }
    }
}

fn verdict(rule: &Rule, policy: &Policy) -> String {
    let class = rule.class.unwrap_or(policy.classifier.default_class());
    let name = class_name(policy, class);
    if rule.refuse {
        return format!("refused (counted in {name})");
    }
    let mut action = name.to_owned();
    if let Some(deadline) = rule.deadline {
        action += &format!(", waits at most {}", show::time(deadline));
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
    let told = if policer.announce { "; clients are told what is left" } else { "" };
    let words = match per {
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
    };
    words + told
}

/// Who is shed, when, and what becomes of the connections; empty if nobody is.
pub(super) fn shedding(policy: &Policy) -> Vec<String> {
    let Some(delay) = policy.plan.shedding else {
        return Vec::new();
    };
    let closed = match policy.shed {
        RefusalConnection::Reset => "their connections are reset without an answer",
        _ => "they get 503 and their connections are closed",
    };
    let importance = match policy.session {
        Some(_) => "importance, which only running sessions have",
        None => "importance",
    };
    vec![
        format!("while the queue stands for more than {}: as many as it takes", show::time(delay)),
        format!(
            "in the order of {importance}; then of classes; then the shorter connections first"
        ),
        closed.to_owned(),
    ]
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
    words += &schedule_words::class(class, policy);
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
