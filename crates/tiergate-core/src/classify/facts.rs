//! The facts that rules ask for: every distinct alternative of every condition, numbered once.

use super::decision::{Conditions, NONE};
use super::fields::{ByName, Fields};
use super::flow::{Flow, FlowKey};
use super::further::Further;
use super::names::Names;
use super::networks::{self, Networks};
use super::numbers::{Numbers, Span};
use super::output::Output;
use super::pattern::{HostPattern, Pattern};
use super::regexes::{PathRegex, Regexes};
use super::rule::{Condition, Number, Rule};
use super::search::{Decisions, Rules};
use super::texts::{Hosts, Texts};
use super::{Classifier, Longer, Part, Says};
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
    extension: Kind<Box<str>>,
    regex: Kind<PathRegex>,
    query: Kind<(Box<str>, Pattern)>,
    content_type: Kind<Pattern>,
    prefetch: Kind<()>,
    number: Kind<(Number, Span)>,
    /// Of the numbers, those that come from fields.
    field_number: Kind<(Number, Span)>,
    destination: Kind<IpNet>,
    sni: Kind<HostPattern>,
    domain: Kind<HostPattern>,
    certificate: Kind<Pattern>,
    subject: Kind<Pattern>,
}

/// The facts of one kind, and the first rule that asks for one, by what it sets.
struct Kind<K> {
    first: Rules,
    facts: HashMap<K, u32, FixedState>,
}

impl<K> Default for Kind<K> {
    fn default() -> Self {
        Kind { first: NOBODY, facts: HashMap::default() }
    }
}

impl<K: std::hash::Hash + Eq> Kind<K> {
    /// Numbers the alternatives of a condition of a rule, by what the rule sets (see [`asking`]).
    fn of(&mut self, rule: &Rules, len: &mut u32, keys: impl Iterator<Item = K>) -> Vec<u32> {
        self.first = earlier(self.first, rule);
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

    fn list(&self) -> Vec<(&K, u32)> {
        self.facts.iter().map(|(key, fact)| (key, *fact)).collect()
    }

    fn part<T>(&self, of: T) -> Part<T> {
        Part { first: self.first, of }
    }
}

/// No rule for any output.
const NOBODY: Rules = [NONE; Output::LEN];

/// A rule under each output that it sets, [`NONE`] under the others.
fn asking(index: u32, rule: &Rule) -> Rules {
    Output::ALL.map(|output| if rule.sets(output) { index } else { NONE })
}

/// The earlier of two rules, for each output.
fn earlier(one: Rules, other: &Rules) -> Rules {
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
            Condition::Extension(extensions) => {
                let keys = extensions.iter().map(|one| one.to_ascii_lowercase().into());
                self.extension.of(rule, len, keys)
            }
            Condition::PathRegex(regexes) => self.regex.of(rule, len, regexes.iter().cloned()),
            Condition::Query { name, values } => {
                let keys = values.iter().map(|value| (name.clone(), value.clone()));
                self.query.of(rule, len, keys)
            }
            Condition::ContentType(types) => self.content_type.of(rule, len, types.iter().cloned()),
            Condition::Prefetch => self.prefetch.of(rule, len, std::iter::once(())),
            Condition::Number { of, spans } => {
                let kind = match of {
                    Number::ContentLength | Number::Urgency => &mut self.field_number,
                    _ => &mut self.number,
                };
                kind.of(rule, len, spans.iter().map(|span| (*of, *span)))
            }
            Condition::Destination(nets) => {
                let nets = nets.iter().map(|network| networks::canonical(*network));
                self.destination.of(rule, len, nets)
            }
            Condition::Sni(hosts) => self.sni.of(rule, len, hosts.iter().cloned()),
            Condition::Domain(names) => self.domain.of(rule, len, names.iter().cloned()),
            Condition::Certificate(names) => self.certificate.of(rule, len, names.iter().cloned()),
            Condition::Subject(names) => self.subject.of(rule, len, names.iter().cloned()),
        }
    }

    /// Everything as the classifier needs it; `None` if the expressions together are too large.
    pub(super) fn compile(
        self,
        conditions: Vec<Conditions>,
        default_class: ClassId,
        says: Vec<Says>,
        longer: Longer,
        rules: &[Rule],
    ) -> Option<Classifier> {
        let decisions = Decisions::new(conditions, self.len as usize, |rule, output| {
            rules[rule as usize].sets(output)
        });
        Some(Classifier {
            default_class,
            says,
            others: decisions.others().collect(),
            longer,
            score: None,
            class_flows: Vec::new(),
            default_flow: Flow::CLIENT,
            flow_key: FlowKey::default(),
            decisions,
            path: self.path.part(Texts::new(&self.path.list())),
            host: self.host.part(Hosts::new(&self.host.list())),
            method: self.method.part(names(&self.method, false)),
            client: self.client.part(networks(&self.client)),
            fields: self.fields(),
            further: self.further()?,
        })
    }

    fn fields(&self) -> Part<Fields> {
        let number = |number| numbers(&self.field_number, number);
        let asked =
            |kind: &Kind<Pattern>| (!kind.facts.is_empty()).then(|| Texts::new(&kind.list()));
        let of = Fields::new(
            by_name(&self.header.facts),
            (by_name(&self.cookie.facts), self.cookie.first),
            asked(&self.content_type),
            number(Number::ContentLength),
            self.prefetch.facts.get(&()).copied(),
            number(Number::Urgency),
        );
        let firsts = [
            self.header.first,
            self.cookie.first,
            self.content_type.first,
            self.prefetch.first,
            self.field_number.first,
        ];
        Part { first: firsts.iter().fold(NOBODY, earlier), of }
    }

    fn further(&self) -> Option<Part<Box<Further>>> {
        let number = |of| Some((of, numbers(&self.number, of)?));
        let of = Further {
            extensions: names(&self.extension, true),
            regexes: Regexes::new(&self.regex.list())?,
            parameters: (!self.query.facts.is_empty())
                .then(|| Names::new(by_name(&self.query.facts), false)),
            destinations: (!self.destination.facts.is_empty()).then(|| networks(&self.destination)),
            sni: Hosts::new(&self.sni.list()),
            domains: Hosts::new(&self.domain.list()),
            certificates: Texts::new(&self.certificate.list()),
            subjects: Texts::new(&self.subject.list()),
            numbers: [Number::Listener, Number::Country, Number::Asn, Number::Dscp]
                .into_iter()
                .filter_map(number)
                .collect(),
        };
        let firsts = [
            self.extension.first,
            self.regex.first,
            self.query.first,
            self.number.first,
            self.destination.first,
            self.sni.first,
            self.domain.first,
            self.certificate.first,
            self.subject.first,
        ];
        Some(Part { first: firsts.iter().fold(NOBODY, earlier), of: Box::new(of) })
    }
}

/// The ranges of a number; `None` if nobody asks for it.
fn numbers(kind: &Kind<(Number, Span)>, number: Number) -> Option<Numbers> {
    let spans: Vec<_> = kind
        .facts
        .iter()
        .filter(|((of, _), _)| *of == number)
        .map(|((_, span), fact)| (*span, *fact))
        .collect();
    (!spans.is_empty()).then(|| Numbers::new(&spans))
}

fn names(kind: &Kind<Box<str>>, caseless: bool) -> Names<u32> {
    let names = kind.facts.iter().map(|(name, fact)| (name.as_bytes().into(), *fact));
    Names::new(names.collect(), caseless)
}

fn networks(kind: &Kind<IpNet>) -> Networks {
    let nets: Vec<_> = kind.facts.iter().map(|(net, fact)| (*net, *fact)).collect();
    Networks::new(&nets)
}

/// The values asked for, by the name of their header, cookie or parameter.
fn by_name(facts: &HashMap<(Box<str>, Pattern), u32, FixedState>) -> ByName {
    let mut names: HashMap<&str, Vec<(&Pattern, u32)>, FixedState> = HashMap::default();
    for ((name, value), fact) in facts {
        names.entry(name).or_default().push((value, *fact));
    }
    let texts = |(name, values): (&str, Vec<_>)| (name.as_bytes().into(), Texts::new(&values));
    names.into_iter().map(texts).collect()
}
