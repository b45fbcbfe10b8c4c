//! From classes and rules as written to classes and rules as meant.

use super::defaults;
use super::error::{Faults, Lines, Place, instead};
use super::meant::PolicyRule;
use super::raw;
use super::read::{At, Named, OneOrMany};
use super::resolve::{at_most, time, within};
use super::resolve_policers::Policers;
use super::resolve_triggers;
use super::values::{Values, is_token};
use tiergate_core::class::{Class, ClassId};
use tiergate_core::classify::rule::{Condition, Rule};
use tiergate_core::classify::{Classifier, CompileError};
use tiergate_core::plan::Plan;

/// The classes, most important first; one with every default if none is written.
pub(super) fn classes(
    raw: Option<At<Vec<At<raw::Class>>>>,
    policers: &mut Policers,
    faults: &mut Faults,
) -> Vec<Class> {
    let Some(At { value: raw, place }) = raw else {
        return vec![Class::named(defaults::CLASS_NAME)];
    };
    if raw.is_empty() {
        faults.add(&place, "must not be empty; leave it out for one class with every default");
    }
    at_most(&place, raw.len(), Plan::CLASSES_MAX, "classes", faults);
    let mut classes: Vec<Class> = Vec::new();
    let mut minimum_sum = 0.0;
    let mut triggers = Vec::new();
    for At { value: raw, place } in raw {
        let Some(name) = raw.name else {
            faults.missing(&place, "name", "write name = \"…\"");
            continue;
        };
        check_class_name(&name, &classes, faults);
        let minimum = raw.minimum.as_ref().map_or(0.0, |share| share.value.0);
        minimum_sum += minimum;
        // Told once, where the sum first goes beyond.
        if let Some(share) = raw.minimum.as_ref()
            && minimum_sum > 1.0 + 1e-9
            && minimum_sum - minimum <= 1.0 + 1e-9
        {
            let sum = minimum_sum * 100.0;
            faults.add(&share.place, format!("the minimums add up to {sum:.1}%, more than 100%"));
        }
        let queue = raw.queue.map(|queue| (queue.value, queue.place));
        let queue_default = Class::QUEUE_LEN_MAX_DEFAULT.into();
        let own = format!("class.{}", name.value);
        triggers.push(raw.refuse_at);
        classes.push(Class {
            name: name.value,
            policer: raw.police.and_then(|police| policers.find(police, &own, faults)),
            deadline: time(raw.deadline, faults).unwrap_or(Class::DEADLINE_DEFAULT),
            minimum,
            queue_len_max: within(queue, queue_default, 0..=defaults::QUEUE_MAX, faults, |number| {
                number.to_string()
            }) as u32,
            refuse_at: Vec::new(),
        });
    }
    // A backlog may be that of a class further down.
    for (index, raw) in triggers.into_iter().enumerate() {
        let own = ClassId(index as u16);
        classes[index].refuse_at = resolve_triggers::triggers(raw, own, &classes, faults);
    }
    classes
}

fn check_class_name(name: &At<String>, before: &[Class], faults: &mut Faults) {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let max = defaults::CLASS_NAME_LEN_MAX;
    if name.value.is_empty() || name.value.len() > max || !name.value.bytes().all(letter) {
        let message = format!(
            "must be 1 to {max} letters, digits, `-`, `_` or `.`, got {:?}",
            super::error::shortened(&name.value)
        );
        faults.add(&name.place, message);
    } else if before.iter().any(|class| class.name == name.value) {
        faults.add(&name.place, format!("another class is called {:?} already", name.value));
    }
}

/// The class of requests that no rule matches: the one named, or the last.
pub(super) fn default_class(
    raw: Option<At<String>>,
    classes: &[Class],
    faults: &mut Faults,
) -> ClassId {
    let last = ClassId(classes.len().saturating_sub(1) as u16);
    raw.and_then(|name| class_named(&name, classes, faults)).unwrap_or(last)
}

pub(super) fn class_named(
    name: &At<String>,
    classes: &[Class],
    faults: &mut Faults,
) -> Option<ClassId> {
    let found = classes.iter().position(|class| class.name == name.value);
    if found.is_none() {
        let instead = instead(&name.value, classes.iter().map(|class| class.name.as_str()));
        let name_text = super::error::shortened(&name.value);
        faults.add(&name.place, format!("no class is called {name_text:?}{instead}"));
    }
    found.map(|index| ClassId(index as u16))
}

/// The rules in order, each with its place.
pub(super) fn rules(
    raw: Option<At<Vec<At<raw::Rule>>>>,
    classes: &[Class],
    policers: &mut Policers,
    lines: &Lines<'_>,
    faults: &mut Faults,
) -> Vec<(PolicyRule, Place)> {
    let raw = raw.map(|raw| raw.value).unwrap_or_default();
    let resolved = |(index, At { mut value, place }): (usize, At<raw::Rule>)| {
        let (line, _) = lines.place(place.span.start);
        let police = value.police.take();
        let polices = police.is_some() || faults.at_key(&place, "police");
        let mut rule = rule(value, &place, polices, classes, faults);
        if let Some(police) = police.as_ref().filter(|_| rule.refuse) {
            let message = "has no effect on requests that are refused; leave it out";
            faults.add(&police.place, message);
        }
        let own = format!("rule.{}", index + 1);
        rule.policer = police.and_then(|police| policers.find(police, &own, faults));
        (PolicyRule { line, rule }, place)
    };
    raw.into_iter().enumerate().map(resolved).collect()
}

fn rule(
    raw: raw::Rule,
    place: &Place,
    polices: bool,
    classes: &[Class],
    faults: &mut Faults,
) -> Rule {
    let refuse = raw.refuse.as_ref().is_some_and(|refuse| refuse.value);
    if raw.class.is_none() && !refuse && !polices && !faults.at_key(place, "refuse") {
        faults.missing(place, "class", "write class = \"…\", or refuse = true");
    }
    if let Some(deadline) = raw.deadline.as_ref().filter(|_| refuse) {
        faults.add(&deadline.place, "has no effect on requests that are refused; leave it out");
    }
    Rule {
        class: raw.class.as_ref().and_then(|name| class_named(name, classes, faults)),
        deadline: time(raw.deadline.clone(), faults),
        refuse,
        policer: None,
        conditions: conditions(raw, faults),
    }
}

fn conditions(raw: raw::Rule, faults: &mut Faults) -> Vec<Condition> {
    /// The inner values of one or many.
    fn inner<T, U>(at: At<OneOrMany<T>>, of: impl Fn(T) -> U) -> Vec<U> {
        at.value.into_vec().into_iter().map(of).collect()
    }
    let mut conditions = Vec::new();
    conditions.extend(raw.client.map(|at| Condition::Client(inner(at, |network| network.0))));
    conditions.extend(raw.host.map(|at| Condition::Host(inner(at, |host| host.0))));
    conditions.extend(raw.method.map(|at| Condition::Method(inner(at, |method| method.0))));
    conditions.extend(raw.path.map(|at| Condition::Path(inner(at, |path| path.0))));
    for (name, values) in named(raw.header, "a header", faults) {
        conditions.push(Condition::Header { name: name.into(), values });
    }
    for (name, values) in named(raw.cookie, "a cookie", faults) {
        conditions.push(Condition::Cookie { name: name.into(), values });
    }
    conditions
}

type NamedPatterns = Vec<(String, Vec<tiergate_core::classify::pattern::Pattern>)>;

fn named(raw: Option<At<Named<Values>>>, what: &str, faults: &mut Faults) -> NamedPatterns {
    let mut named = Vec::new();
    for (name, values) in raw.into_iter().flat_map(|raw| raw.value.0) {
        if !is_token(&name) {
            let message =
                format!("must be the name of {what}, got {:?}", super::error::shortened(&name));
            faults.add(&values.place, message);
        }
        named.push((name, values.value.0));
    }
    named
}

/// Compiles the rules; `None` if they exceed a bound.
pub(super) fn compile(
    rules: &[(PolicyRule, Place)],
    default_class: ClassId,
    faults: &mut Faults,
) -> Option<Classifier> {
    let plain: Vec<Rule> = rules.iter().map(|(rule, _)| rule.rule.clone()).collect();
    match Classifier::compile(&plain, default_class) {
        Ok(classifier) => Some(classifier),
        Err(fault) => {
            let index = match fault {
                CompileError::TooManyRules => Classifier::RULES_MAX,
                CompileError::TooManyConditions(index)
                | CompileError::TooManyAlternatives(index)
                | CompileError::NoAlternative(index) => index,
            };
            faults.add(&rules[index].1, fault.to_string());
            None
        }
    }
}
