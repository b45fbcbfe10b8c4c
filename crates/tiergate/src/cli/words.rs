//! Rules in words.

use crate::config::meant::{Policy, PolicyRule};
use crate::config::{adaptation, resource, route, rule as rule_words, show};
use std::fmt::Display;
use tiergate_core::class::ClassId;
use tiergate_core::classify::rule::Rule;
use tiergate_core::classify::{Condition, Matcher, Output, Span};
use tiergate_core::request::Part;

/// A condition, such as `path /cart/* or /pay`.
pub(super) fn condition(condition: &Condition, policy: &Policy) -> String {
    let one = |matcher: &Matcher| match matcher {
        Matcher::Range(span) => number(condition.part(), *span, policy),
        matcher => matcher.to_string(),
    };
    rule_words::words(condition, &any_of(condition.any_of().iter().map(one)))
}

/// A range of a number, as it would be written.
pub(super) fn number(of: &Part, span: Span, policy: &Policy) -> String {
    match of {
        Part::Listener => match policy.listeners.get(span.first as usize) {
            Some(listener) => listener.shown(),
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

/// A rule with its number and line.
pub(super) fn rule(rule: &PolicyRule, policy: &Policy) -> String {
    let conditions = conditions(&rule.rule, policy);
    let action = action(&rule.rule, policy);
    format!("{}  ({})  {conditions} → {action}", rule.label(), rule.place())
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
            let policer = rule.policer.and_then(|policer| policy.plan.policer(policer));
            match policer {
                Some(policer) => format!("policed by {}", policer.name),
                None => "policed by no rule".to_owned(),
            }
        }
        Output::Pool => {
            let words = rule.pool.map(|to| route::words(to, &policy.plan));
            format!("pool {}", words.unwrap_or_default())
        }
        Output::Resource => {
            let name = rule.resource.map(|id| resource::name(id, &policy.plan));
            format!("needs {}", name.unwrap_or_default())
        }
        Output::Adaptation => {
            let name = rule.adaptation.map(|id| adaptation::name(id, &policy.plan));
            format!("quality by {}", name.unwrap_or_default())
        }
        Output::Stored => match rule.stored {
            Some(age) if !age.is_zero() => {
                format!("under overload a copy at most {} old", show::time(age))
            }
            _ => "no copies".to_owned(),
        },
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

/// A class's name.
pub(super) fn class_name(policy: &Policy, class: ClassId) -> &str {
    crate::config::class_name(&policy.plan, class)
}
