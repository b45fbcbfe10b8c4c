//! Rules: which requests belong to which class, and what else becomes of them.

use super::listener::Listener;
use super::lookup::class_named;
use super::place::{At, Place};
use super::policer::Policers;
use super::rule::{RuleKeys, conditions};
use tiergate_core::class::{Class, ClassId};
use tiergate_core::classify::flow::Flow;
use tiergate_core::classify::rule::Rule;
use tiergate_core::classify::score::{Score, ScoreTables};
use tiergate_core::classify::{Classifier, CompileError};

/// A rule of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRule {
    /// The line that it begins on, from 1.
    pub line: usize,
    /// What it says.
    pub rule: Rule,
}

/// What rules refer to.
pub(super) struct References<'p> {
    pub(super) classes: &'p [Class],
    pub(super) listeners: &'p [Listener],
    pub(super) policers: &'p mut Policers,
}

/// The rules in order, each with its place.
pub(super) fn rules(
    raw: Vec<At<RuleKeys>>,
    references: &mut References<'_>,
) -> Vec<(PolicyRule, Place)> {
    let resolved = |(index, At { value: mut raw, place }): (usize, At<RuleKeys>)| {
        let own = format!("rule.{}", index + 1);
        let police = raw.police.take();
        let mut rule = rule(raw, police.is_some(), &place, references);
        rule.policer = police.and_then(|police| references.policers.find(police, &own));
        (PolicyRule { line: place.line(), rule }, place)
    };
    raw.into_iter().enumerate().map(resolved).collect()
}

fn rule(raw: RuleKeys, polices: bool, place: &Place, references: &mut References<'_>) -> Rule {
    let refuse = raw.refuse == Some(true);
    if refuse {
        let given = [
            ("police", polices),
            ("deadline", raw.deadline.is_some()),
            ("slots", raw.slots.is_some()),
            ("deadline_header", raw.deadline_header.is_some()),
        ];
        for (key, _) in given.into_iter().filter(|(_, given)| *given) {
            place.fault_at(key, "has no effect on requests that are refused; leave it out");
        }
    } else if raw.deadline.is_some() && !place.has("class") {
        place.fault_at("deadline", "needs `class`, because both come from one rule");
    }
    const OUTPUTS: [&str; 9] = [
        "class",
        "police",
        "importance",
        "score",
        "flow",
        "slots",
        "deadline_header",
        "level",
        "resource",
    ];
    // What is wrong with `refuse` itself has been reported.
    let refused = refuse || place.has("refuse") && raw.refuse.is_none();
    if !refused && !OUTPUTS.iter().any(|key| place.has(key)) {
        place.missing("class", "write class = \"…\", or refuse = true");
    }
    let class = raw.class.as_ref();
    Rule {
        conditions: conditions(&raw, place, references.listeners),
        importance: raw.importance,
        score: raw.score.map(Score::of),
        class: class.and_then(|name| class_named(name, references.classes, &place.key("class"))),
        flow: raw.flow,
        deadline: raw.deadline,
        refuse,
        slots: raw.slots,
        deadline_header: raw.deadline_header.map(|name| name.to_ascii_lowercase().into()),
        ..Rule::default()
    }
}

/// Compiles the rules; `None` if they exceed a bound. `flows`: what fairness is counted by, and in each
/// class.
pub(super) fn compile(
    rules: &[(PolicyRule, Place)],
    default_class: ClassId,
    score: Option<&ScoreTables>,
    flows: (Flow, Vec<Option<Flow>>),
) -> Option<Classifier> {
    let plain: Vec<Rule> = rules.iter().map(|(rule, _)| rule.rule.clone()).collect();
    match Classifier::compile(&plain, default_class) {
        Ok(classifier) => {
            let classifier = classifier.with_flows(flows.0, flows.1);
            Some(match score {
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
            rules[index].1.fault(fault.to_string());
            None
        }
    }
}
