//! From the conditions of all rules to numbered facts, and to the indexes that find them.

use super::condition::Condition;
use super::index::Index;
use super::lookups::{Asked, FIELD_PARTS_MAX, FieldUse, Lookups};
use super::matcher::Matcher;
use super::names::Names;
use super::rule::{NO_RULES, Output, Rule, Rules, earlier};
use super::rule_tree::Conditions;
use crate::request::Part;
use foldhash::fast::FixedState;
use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};

type Map<K, V> = HashMap<K, V, FixedState>;

/// Part and kind of matcher: each has an index of its own.
type Kind = (Part, Discriminant<Matcher>);

/// Numbers the facts that rules ask for: every distinct alternative of a part once.
#[derive(Default)]
pub(super) struct FactTable {
    len: u32,
    asked: Map<Kind, Asked<Map<Matcher, u32>>>,
}

impl<T: Default> Default for Asked<T> {
    /// What no rule asks for yet.
    fn default() -> Self {
        Asked { first: NO_RULES, of: T::default() }
    }
}

impl<T> Asked<T> {
    /// Notes that rules ask for it too.
    fn ask(&mut self, rules: &Rules) -> &mut T {
        self.first = earlier(&self.first, rules);
        &mut self.of
    }
}

impl FactTable {
    /// How many facts there are.
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// Numbers what a rule asks for; returns its conditions as facts.
    pub(super) fn of_rule(&mut self, index: u32, rule: &Rule) -> Conditions {
        let asked = rule.conditions.iter().filter(|condition| !condition.is_always_true());
        let sets = Output::ALL.map(|output| if rule.sets(output) { index } else { NO_RULES[0] });
        asked.map(|condition| self.of_condition(&sets, condition)).collect()
    }

    fn of_condition(&mut self, rule: &Rules, condition: &Condition) -> Vec<u32> {
        let mut facts = Vec::with_capacity(condition.any_of().len());
        for matcher in condition.any_of() {
            let kind = (condition.part().clone(), discriminant(matcher));
            let known = self.asked.entry(kind).or_default().ask(rule);
            facts.push(known.get(matcher).copied().unwrap_or_else(|| {
                known.insert(matcher.clone(), self.len);
                self.len += 1;
                self.len - 1
            }));
        }
        // An alternative that stands twice would file the rule twice.
        facts.sort_unstable();
        facts.dedup();
        facts
    }

    /// The indexes of all facts; `None` if the expressions together are too large.
    pub(super) fn lookups(self) -> Option<Lookups> {
        let mut lookups = Lookups::default();
        let Lookups { path, method, client, host, fields, late } = &mut lookups;
        let mut uses: Map<Box<str>, Vec<FieldUse>> = Map::default();
        let mut parts: Map<Part, Vec<Index>> = Map::default();
        let mut cookies: Map<Box<str>, Vec<Index>> = Map::default();
        let mut parameters: Map<Box<str>, Vec<Index>> = Map::default();
        let mut regexes_len = 0;
        for ((part, _), Asked { first, of: facts }) in self.asked {
            let matchers: Vec<_> = facts.iter().map(|(matcher, fact)| (matcher, *fact)).collect();
            let index = Index::new(&matchers, &mut regexes_len)?;
            match (part, index) {
                (Part::Path, Index::Patterns(of)) => *path = Asked { first, of },
                // There may be two: of names whose case matters, and of others.
                (Part::Method, Index::Names(of)) if method.of.is_empty() => {
                    *method = Asked { first, of };
                }
                (Part::Client, Index::Networks(of)) => *client = Asked { first, of },
                (Part::Host, Index::Hosts(of)) => *host = Asked { first, of },
                (Part::Header(name), index) => {
                    fields.ask(&first);
                    uses.entry(name).or_default().push(FieldUse::Value(index));
                }
                (Part::Cookie(name), index) => {
                    fields.ask(&first).cookies.ask(&first);
                    cookies.entry(name).or_default().push(index);
                }
                (Part::Query(name), index) => {
                    late.ask(&first);
                    parameters.entry(name).or_default().push(index);
                }
                (part, index) if part.fields().is_empty() => {
                    late.ask(&first).parts.push((part, index));
                }
                (part, index) => {
                    fields.ask(&first);
                    parts.entry(part).or_default().push(index);
                }
            }
        }
        assert!(parts.len() <= FIELD_PARTS_MAX, "there are fewer such parts");
        if !cookies.is_empty() {
            uses.entry("cookie".into()).or_default().push(FieldUse::Cookies);
        }
        fields.of.parts = parts.into_iter().collect();
        for (place, (part, _)) in fields.of.parts.iter().enumerate() {
            for name in part.fields() {
                uses.entry((*name).into()).or_default().push(FieldUse::Part(place));
            }
        }
        fields.of.uses = names(uses, true);
        fields.of.cookies.of = names(cookies, false);
        late.of.parameters = names(parameters, false);
        Some(lookups)
    }
}

fn names<T>(by_name: Map<Box<str>, T>, caseless: bool) -> Names<T> {
    let name = |(name, of): (Box<str>, T)| (name.into_boxed_bytes(), of);
    Names::new(by_name.into_iter().map(name).collect(), caseless)
}
