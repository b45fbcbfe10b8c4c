//! From rules as written to rules as meant, and how classes are found by their names.

use super::defaults;
use super::error::{Faults, Lines, Place, instead};
use super::meant::{Listener, PolicyRule};
use super::raw;
use super::read::At;
use super::resolve::{time, within};
use super::resolve_policers::Policers;
use super::values::is_token;
use tiergate_core::class::{Class, ClassId};
use tiergate_core::classify::flow::Flow;
use tiergate_core::classify::rule::Rule;
use tiergate_core::classify::score::{Score, ScoreTables};
use tiergate_core::classify::{Classifier, CompileError};

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

/// What rules refer to.
pub(super) struct Named<'p> {
    pub classes: &'p [Class],
    pub listeners: &'p [Listener],
    pub policers: &'p mut Policers,
}

/// The rules in order, each with its place.
pub(super) fn rules(
    raw: Option<At<Vec<At<raw::Rule>>>>,
    named: &mut Named<'_>,
    lines: &Lines<'_>,
    faults: &mut Faults,
) -> Vec<(PolicyRule, Place)> {
    let raw = raw.map(|raw| raw.value).unwrap_or_default();
    let resolved = |(index, At { mut value, place }): (usize, At<raw::Rule>)| {
        let (line, _) = lines.place(place.span.start);
        let police = value.police.take();
        let mut rule = rule(value, &place, police.is_some(), named, faults);
        if let Some(police) = police.as_ref().filter(|_| rule.refuse) {
            let message = "has no effect on requests that are refused; leave it out";
            faults.add(&police.place, message);
        }
        let own = format!("rule.{}", index + 1);
        rule.policer = police.and_then(|police| named.policers.find(police, &own, faults));
        (PolicyRule { line, rule }, place)
    };
    raw.into_iter().enumerate().map(resolved).collect()
}

fn rule(
    raw: raw::Rule,
    place: &Place,
    polices: bool,
    named: &mut Named<'_>,
    faults: &mut Faults,
) -> Rule {
    let refuse = raw.refuse.as_ref().is_some_and(|refuse| refuse.value);
    let deadline = raw.deadline.clone();
    if let Some(deadline) = deadline.as_ref().filter(|_| refuse) {
        faults.add(&deadline.place, "has no effect on requests that are refused; leave it out");
    } else if let Some(deadline) = deadline.as_ref()
        && raw.class.is_none()
        && !faults.at_key(place, "class")
    {
        faults.add(&deadline.place, "needs `class`, because both come from one rule");
    }
    let slots = raw.slots.as_ref().map(|slots| {
        let number = Some((slots.value, slots.place.clone()));
        within(number, 1, 1..=defaults::RULE_SLOTS_MAX, faults, |number| number.to_string()) as u16
    });
    for (place, without) in [
        (raw.slots.as_ref().map(|slots| &slots.place), refuse),
        (raw.deadline_header.as_ref().map(|header| &header.place), refuse),
    ] {
        if let Some(place) = place.filter(|_| without) {
            faults.add(place, "has no effect on requests that are refused; leave it out");
        }
    }
    let importance = raw.importance.as_ref().map(|importance| {
        let number = Some((importance.value, importance.place.clone()));
        within(number, 0, 0..=255, faults, |number| number.to_string()) as u8
    });
    let rule = Rule {
        importance,
        score: raw.score.as_ref().map(|score| Score::of(score.value.0)),
        flow: raw.flow.as_ref().map(|flow| flow.value.0.clone()),
        class: raw.class.as_ref().and_then(|name| class_named(name, named.classes, faults)),
        deadline: time(raw.deadline.clone(), faults),
        refuse,
        slots,
        deadline_header: raw.deadline_header.as_ref().and_then(|name| header(name, faults)),
        conditions: raw.conditions.resolve(named.listeners, faults),
        ..Rule::default()
    };
    let keys =
        ["refuse", "class", "police", "importance", "score", "flow", "slots", "deadline_header"];
    let says = polices || rule.outputs().next().is_some();
    if !says && !keys.iter().any(|key| faults.at_key(place, key)) {
        let how = "write class = \"…\", or refuse = true";
        faults.missing(place, "class", how);
    }
    rule
}

/// The name of a header, in lower case.
fn header(name: &At<String>, faults: &mut Faults) -> Option<Box<str>> {
    if !is_token(&name.value) {
        let found = super::error::shortened(&name.value);
        faults.add(&name.place, format!("must be the name of a header, got {found:?}"));
        return None;
    }
    Some(name.value.to_ascii_lowercase().into())
}

/// Whether a text can be the name of a class or a listener.
pub(super) fn is_name(text: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !text.is_empty() && text.len() <= defaults::CLASS_NAME_LEN_MAX && text.bytes().all(letter)
}

/// What a name must be.
pub(super) fn name_expected(found: &str) -> String {
    let max = defaults::CLASS_NAME_LEN_MAX;
    let found = super::error::shortened(found);
    format!("must be 1 to {max} letters, digits, `-`, `_` or `.`, got {found:?}")
}

/// What classification needs beside the rules.
pub(super) struct Beside<'p> {
    pub default_class: ClassId,
    pub score: Option<&'p ScoreTables>,
    pub flow: Flow,
    /// By class.
    pub flows: Vec<Option<Flow>>,
}

/// Compiles the rules; `None` if they exceed a bound.
pub(super) fn compile(
    rules: &[(PolicyRule, Place)],
    beside: Beside<'_>,
    faults: &mut Faults,
) -> Option<Classifier> {
    let plain: Vec<Rule> = rules.iter().map(|(rule, _)| rule.rule.clone()).collect();
    match Classifier::compile(&plain, beside.default_class) {
        Ok(classifier) => {
            let classifier = classifier.with_flows(beside.flow, beside.flows);
            Some(match beside.score {
                Some(tables) => classifier.with_score(tables),
                None => classifier,
            })
        }
        Err(fault) => {
            let index = match fault {
                CompileError::TooManyRules => Classifier::RULES_MAX,
                CompileError::TooManyConditions(index)
                | CompileError::TooManyAlternatives(index)
                | CompileError::NoAlternative(index) => index,
                CompileError::ExpressionsTooLarge => 0,
            };
            faults.add(&rules[index].1, fault.to_string());
            None
        }
    }
}
