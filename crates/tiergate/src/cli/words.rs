//! Rules in words.

use crate::config::meant::Policy;
use crate::config::show;
use std::fmt::Display;
use tiergate_core::class::ClassId;
use tiergate_core::classify::pattern::Pattern;
use tiergate_core::classify::rule::{Condition, Number, Rule};
use tiergate_core::classify::{Output, Span};

/// A condition, such as `path /cart/* or /pay`.
pub(super) fn condition(condition: &Condition, policy: &Policy) -> String {
    match condition {
        Condition::Path(paths) => format!("path {}", any_of(paths)),
        Condition::Host(hosts) => format!("host {}", any_of(hosts)),
        Condition::Method(methods) => format!("method {}", any_of(methods)),
        Condition::Header { name, values } => format!("header {name} {}", values_in_words(values)),
        Condition::Cookie { name, values } => format!("cookie {name} {}", values_in_words(values)),
        Condition::Client(networks) => format!("client in {}", any_of(networks)),
        Condition::Extension(extensions) => format!("extension {}", any_of(extensions)),
        Condition::PathRegex(regexes) => format!("path like {}", any_of(regexes)),
        Condition::Query { name, values } => format!("query {name} {}", values_in_words(values)),
        Condition::ContentType(types) => format!("content type {}", any_of(types)),
        Condition::Prefetch => "prefetch".to_owned(),
        Condition::Number { of, spans } => {
            let spans: Vec<String> = spans.iter().map(|span| number(*of, *span, policy)).collect();
            format!("{} {}", number_name(*of), any_of(&spans))
        }
        Condition::Destination(networks) => format!("destination in {}", any_of(networks)),
        Condition::Sni(hosts) => format!("sni {}", any_of(hosts)),
        Condition::Domain(domains) => format!("client named in {}", any_of(domains)),
        Condition::Certificate(names) => format!("certificate {}", values_in_words(names)),
        Condition::Subject(names) => format!("subject {}", values_in_words(names)),
    }
}

/// What a number is called.
pub(super) fn number_name(number: Number) -> &'static str {
    match number {
        Number::ContentLength => "content length",
        Number::Urgency => "urgency",
        Number::Listener => "listener",
        Number::Country => "country",
        Number::Asn => "AS",
        Number::Dscp => "DSCP",
    }
}

/// A range of a number, as it would be written.
pub(super) fn number(of: Number, span: Span, policy: &Policy) -> String {
    match of {
        Number::Listener => match policy.listeners.get(span.first as usize) {
            Some(listener) => listener.shown(),
            None => "none of the policy".to_owned(),
        },
        Number::Country => String::from_utf8_lossy(&Number::country_code(span.first)).into_owned(),
        Number::ContentLength => match (span.first, span.last) {
            (first, last) if first == last => show::bytes(first),
            (first, u64::MAX) => format!("{}..", show::bytes(first)),
            (0, last) => format!("..{}", show::bytes(last)),
            (first, last) => format!("{}..{}", show::bytes(first), show::bytes(last)),
        },
        _ => span.to_string(),
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
            let policer = rule.policer.map(|policer| {
                policy.plan.policer(policer).expect("the plan has those of its rules")
            });
            format!("policed by {}", policer.map_or("", |policer| &policer.name))
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

/// A class's name.
pub(super) fn class_name(policy: &Policy, class: ClassId) -> &str {
    crate::config::class_name(&policy.plan, class)
}
