//! The facts that rules ask for: every distinct alternative of every condition, numbered once.

use super::decision::{Conditions, NONE};
use super::flow::{Flow, FlowKey};
use super::names::Names;
use super::networks::{self, Networks};
use super::output::Output;
use super::pattern::{HostPattern, Pattern};
use super::rule::{Condition, Rule};
use super::search::{Decisions, Rules};
use super::texts::{Hosts, Texts};
use super::{Classifier, FieldUse, Part, Says};
use crate::class::ClassId;
use foldhash::fast::FixedState;
use ipnet::IpNet;
use std::collections::HashMap;

/// Numbers the facts that rules ask for: every distinct alternative once.
#[derive(Default)]
pub(super) struct FactTable {
    len: u32,
    path: Kind<Pattern>,
    host: Kind<HostPattern>,
    method: Kind<Box<str>>,
    client: Kind<IpNet>,
    header: Kind<(Box<str>, Pattern)>,
    cookie: Kind<(Box<str>, Pattern)>,
}

/// The facts of one kind, and the first rule that asks for one, by what it sets.
struct Kind<K> {
    first: Rules,
    facts: HashMap<K, u32, FixedState>,
}

impl<K> Default for Kind<K> {
    fn default() -> Self {
        Kind { first: [NONE; Output::LEN], facts: HashMap::default() }
    }
}

impl<K: std::hash::Hash + Eq> Kind<K> {
    /// Numbers the alternatives of a condition of a rule, by what the rule sets (see [`asking`]).
    fn of(&mut self, rule: &Rules, len: &mut u32, keys: impl Iterator<Item = K>) -> Vec<u32> {
        self.first = earlier(&self.first, rule);
        let mut facts: Vec<u32> = keys
            .map(|key| {
                *self.facts.entry(key).or_insert_with(|| {
                    *len += 1;
                    *len - 1
                })
            })
            .collect();
        // An alternative that stands twice would file the rule twice.
        facts.sort_unstable();
        facts.dedup();
        facts
    }

    fn part<T>(&self, of: T) -> Part<T> {
        Part { first: self.first, of }
    }
}

/// A rule under each output that it sets, [`NONE`] under the others.
fn asking(index: u32, rule: &Rule) -> Rules {
    Output::ALL.map(|output| if rule.sets(output) { index } else { NONE })
}

/// The earlier of two rules, for each output.
fn earlier(one: &Rules, other: &Rules) -> Rules {
    std::array::from_fn(|place| one[place].min(other[place]))
}

impl FactTable {
    /// Numbers what a rule asks for; returns its conditions as facts.
    pub(super) fn of_rule(&mut self, index: u32, rule: &Rule) -> Conditions {
        let asked = rule.conditions.iter().filter(|condition| !condition.is_always_true());
        let rule = &asking(index, rule);
        asked.map(|condition| self.of_condition(rule, condition)).collect()
    }

    fn of_condition(&mut self, rule: &Rules, condition: &Condition) -> Vec<u32> {
        let len = &mut self.len;
        match condition {
            Condition::Path(patterns) => self.path.of(rule, len, patterns.iter().cloned()),
            Condition::Host(hosts) => self.host.of(rule, len, hosts.iter().cloned()),
            Condition::Method(methods) => self.method.of(rule, len, methods.iter().cloned()),
            Condition::Client(nets) => {
                let nets = nets.iter().map(|network| networks::canonical(*network));
                self.client.of(rule, len, nets)
            }
            Condition::Header { name, values } => {
                let name: Box<str> = name.to_ascii_lowercase().into();
                let keys = values.iter().map(|value| (name.clone(), value.clone()));
                self.header.of(rule, len, keys)
            }
            Condition::Cookie { name, values } => {
                let keys = values.iter().map(|value| (name.clone(), value.clone()));
                self.cookie.of(rule, len, keys)
            }
        }
    }

    /// Everything as the classifier needs it.
    pub(super) fn compile(
        self,
        conditions: Vec<Conditions>,
        default_class: ClassId,
        says: Vec<Says>,
        flows: Vec<Flow>,
        rules: &[Rule],
    ) -> Classifier {
        let paths: Vec<_> = self.path.facts.iter().map(|(key, fact)| (key, *fact)).collect();
        let hosts: Vec<_> = self.host.facts.iter().map(|(key, fact)| (key, *fact)).collect();
        let nets: Vec<_> = self.client.facts.iter().map(|(key, fact)| (*key, *fact)).collect();
        let methods = self.method.facts.iter().map(|(key, fact)| (key.as_bytes().into(), *fact));
        let mut fields: HashMap<Box<[u8]>, FieldUse, FixedState> = HashMap::default();
        for (name, values) in by_name(&self.header.facts) {
            fields.entry(name).or_default().values = Some(values);
        }
        if !self.cookie.facts.is_empty() {
            fields.entry((*b"cookie").into()).or_default().cookies = true;
        }
        let decisions = Decisions::new(conditions, self.len as usize, |rule, output| {
            rules[rule as usize].sets(output)
        });
        Classifier {
            default_class,
            says,
            others: decisions.others().collect(),
            score: None,
            flows,
            class_flows: Vec::new(),
            default_flow: Flow::CLIENT,
            flow_key: FlowKey::default(),
            decisions,
            path: self.path.part(Texts::new(&paths)),
            host: self.host.part(Hosts::new(&hosts)),
            method: self.method.part(Names::new(methods.collect(), false)),
            client: self.client.part(Networks::new(&nets)),
            fields: Part {
                first: earlier(&self.header.first, &self.cookie.first),
                of: Names::new(fields.into_iter().collect(), true),
            },
            cookies: self.cookie.part(Names::new(by_name(&self.cookie.facts), false)),
        }
    }
}

/// The values asked for, by the name of their header or cookie.
fn by_name(facts: &HashMap<(Box<str>, Pattern), u32, FixedState>) -> Vec<(Box<[u8]>, Texts)> {
    let mut names: HashMap<&str, Vec<(&Pattern, u32)>, FixedState> = HashMap::default();
    for ((name, value), fact) in facts {
        names.entry(name).or_default().push((value, *fact));
    }
    let texts = |(name, values): (&str, Vec<_>)| (name.as_bytes().into(), Texts::new(&values));
    names.into_iter().map(texts).collect()
}
