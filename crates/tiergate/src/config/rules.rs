//! Rules: which requests belong to which class, and what else becomes of them.

use super::adaptation::Adaptations;
use super::denial::{Denial, Refuse};
use super::listener::Listener;
use super::lookup::Classes;
use super::place::{At, Place};
use super::policer::Policers;
use super::pool::Pools;
use super::resource::Resources;
use super::route::route;
use super::rule::{RuleKeys, conditions};
use std::collections::HashSet;
use std::sync::Arc;
use tiergate_core::class::ClassId;
use tiergate_core::classify::Classifier;
use tiergate_core::classify::flow::Flow;
use tiergate_core::classify::rule::Rule;
use tiergate_core::classify::score::{Score, ScoreTables};
use tiergate_core::names::{RuleIdentities, RuleKey};

/// A rule of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRule {
    /// Its number in the file, from 1.
    pub number: usize,
    /// The file that it is in, if that is one that the policy's file includes.
    pub file: Option<Arc<str>>,
    /// The line that it begins on, from 1.
    pub line: usize,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// What it says.
    pub rule: Rule,
    /// What clients are told whose requests it refuses.
    pub denial: Option<Box<Denial>>,
}

impl PolicyRule {
    /// What people call it: its number, and its name if it has one.
    pub fn label(&self) -> String {
        match &self.name {
            Some(name) => format!("{} {name}", self.number),
            None => self.number.to_string(),
        }
    }

    /// Where it begins: `line 7`, or `line 7 of conf.d/shop.toml`.
    pub fn place(&self) -> String {
        match &self.file {
            Some(file) => format!("line {} of {file}", self.line),
            None => format!("line {}", self.line),
        }
    }
}

/// What rules refer to.
pub(super) struct References<'p, 'n> {
    pub(super) classes: &'p Classes,
    pub(super) listeners: &'p [Listener],
    pub(super) pools: &'p Pools,
    pub(super) resources: &'p Resources,
    pub(super) adaptations: &'p Adaptations,
    pub(super) policers: &'p mut Policers<'n>,
}

/// Of rules that are a part of those in the file: the number of each there, and what it is known by.
pub(super) type Numbered = Vec<(usize, RuleKey)>;

/// The rules in order, each with its place; and what each is known by. `numbered`: they are a part of the file's.
pub(super) fn rules(
    raw: Vec<At<RuleKeys>>,
    numbered: Option<&Numbered>,
    references: &mut References<'_, '_>,
) -> (Vec<(PolicyRule, Place)>, Vec<RuleKey>) {
    let mut names: HashSet<String> = HashSet::new();
    let mut identities = RuleIdentities::default();
    let resolved = |(index, At { value: mut raw, place }): (usize, At<RuleKeys>)| {
        let (police, name) = (raw.police.take(), raw.name.take());
        let denial = raw.refuse.take();
        if let Some(name) = &name {
            let place = place.key("name");
            if !names.insert(name.clone()) {
                place.fault(format!("another rule is called {name:?} already"));
            }
            if name.bytes().all(|byte| byte.is_ascii_digit()) {
                place.fault(format!("must not be a number, got {name:?}"));
            }
        }
        let refuses = matches!(denial, Some(Refuse::Yes(_)));
        let is_known = denial.is_some();
        let denial = denial.and_then(Refuse::denial);
        let mut rule =
            rule(raw, police.is_some(), Refusing { refuses, is_known }, &place, references);
        let (number, key) = match numbered {
            Some(numbered) => numbered[index].clone(),
            None => (index + 1, identities.next(name.as_deref(), &rule.conditions)),
        };
        rule.policer = police.and_then(|police| {
            let own = match &name {
                Some(name) => format!("rule.{name}"),
                None => format!("rule.{number}"),
            };
            // The number of a rule changes with the rules above it.
            let own_key = name.is_none().then(|| format!("rule.{key}").into());
            references.policers.find(police, &own, own_key)
        });
        let (file, line) = place.file_and_line();
        ((PolicyRule { number, file, line, name, rule, denial }, place), key)
    };
    raw.into_iter().enumerate().map(resolved).unzip()
}

/// What `refuse` of a rule says.
#[derive(Clone, Copy)]
struct Refusing {
    refuses: bool,
    /// It was read, whatever it says.
    is_known: bool,
}

fn rule(
    raw: RuleKeys,
    polices: bool,
    refusing: Refusing,
    place: &Place,
    references: &mut References<'_, '_>,
) -> Rule {
    let refuse = refusing.refuses;
    if refuse {
        let given = [
            ("police", polices),
            ("deadline", raw.deadline.is_some()),
            ("pool", raw.pool.is_some()),
            ("resource", raw.resource.is_some()),
            ("adaptation", raw.adaptation.is_some()),
            ("stored", raw.stored.is_some()),
            ("slots", raw.slots.is_some()),
            ("deadline_header", raw.deadline_header.is_some()),
        ];
        for (key, _) in given.into_iter().filter(|(_, given)| *given) {
            place.fault_at(key, "has no effect on requests that are refused; leave it out");
        }
    } else if raw.deadline.is_some() && !place.has("class") {
        place.fault_at("deadline", "needs `class`, because both come from one rule");
    }
    const OUTPUTS: [&str; 12] = [
        "class",
        "police",
        "pool",
        "importance",
        "score",
        "flow",
        "slots",
        "deadline_header",
        "level",
        "resource",
        "adaptation",
        "stored",
    ];
    // What is wrong with `refuse` itself has been reported.
    let refused = refuse || place.has("refuse") && !refusing.is_known;
    if !refused && !OUTPUTS.iter().any(|key| place.has(key)) {
        place.missing("class", "write class = \"…\", or refuse = true");
    }
    let class = raw.class.as_ref();
    let pool = raw.pool.as_ref();
    let resource = raw.resource.as_ref();
    let adaptation = raw.adaptation.as_ref();
    Rule {
        conditions: conditions(&raw, place, references.listeners),
        importance: raw.importance,
        score: raw.score.map(Score::of),
        class: class.and_then(|name| references.classes.named(name, &place.key("class"))),
        pool: pool.and_then(|to| route(to, references.pools, &place.key("pool"))),
        resource: resource.and_then(|need| references.resources.need(need, &place.key("resource"))),
        adaptation: adaptation
            .and_then(|said| references.adaptations.said(said, &place.key("adaptation"))),
        stored: raw.stored,
        flow: raw.flow,
        deadline: raw.deadline,
        refuse,
        slots: raw.slots,
        deadline_header: raw.deadline_header.map(|name| name.to_ascii_lowercase().into()),
        ..Rule::default()
    }
}

/// Compiles the rules; `None` if they exceed a bound. `flow`: what fairness is counted by, where neither
/// rule nor class says it.
pub(super) fn compile(
    rules: &[(PolicyRule, Place)],
    default_class: ClassId,
    score: Option<&ScoreTables>,
    flow: Flow,
    classes: &Classes,
) -> Option<Classifier> {
    let plain: Vec<Rule> = rules.iter().map(|(rule, _)| rule.rule.clone()).collect();
    match Classifier::compile(&plain, default_class) {
        Ok(classifier) => {
            let classifier = classifier.with_flows(flow, by_id(classes));
            Some(match score {
                Some(tables) => classifier.with_score(tables),
                None => classifier,
            })
        }
        Err((index, fault)) => {
            rules[index].1.fault(fault.to_string());
            None
        }
    }
}

/// What fairness is counted by in each class, by id.
fn by_id(classes: &Classes) -> Vec<Option<Flow>> {
    let mut flows = vec![];
    for (id, flow) in classes.ids.iter().zip(&classes.flows) {
        flows.resize(flows.len().max(id.index() + 1), None);
        flows[id.index()] = flow.clone();
    }
    flows
}
