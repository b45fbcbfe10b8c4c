//! The compiled rules, and what they say of a request.

use super::condition::Condition;
use super::fact_table::FactTable;
use super::facts::{HeldFacts, NONE};
use super::flow::{Flow, FlowKey};
use super::lookups::{LookupScratch, Lookups};
use super::rule::{Output, Rule, Rules};
use super::score::{Score, ScoreTables, Scoring};
use super::search::RuleTrees;
use crate::admit::policer::PolicerId;
use crate::class::ClassId;
use crate::fault::Fault;
use crate::names::{AdaptationId, ResourceId, Route};
use crate::request::{Part, RequestView};
use std::time::Duration;

/// What classification says of a request. Each [`Output`] is from the first rule that matches and
/// sets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// The class: the rule's, or that of the score's band, or the default.
    pub class: ClassId,
    /// Index of the rule that gave class, deadline and refusal; `None` if none did.
    pub rule: Option<u32>,
    /// How long the request may wait, where the rule says; else its class's deadline.
    pub deadline: Option<Duration>,
    /// The rule says that such requests are always refused.
    pub refuse: bool,
    /// The policer to pass.
    pub policer: Option<PolicerId>,
    /// The pool that takes the request, where a rule says; else its class's.
    pub pool: Option<Route>,
    /// What the request needs beside a slot of its pool, where a rule says; else what its class says.
    pub resource: Option<ResourceId>,
    /// What decides the quality of the answer ([`AdaptationId::NONE`]: nothing), where a rule says; else what its class does.
    pub adaptation: Option<AdaptationId>,
    /// How old a copy may be that is served while the server is overloaded, where a rule says; zero: none is.
    pub stored: Option<Duration>,
    /// How much it matters that the session is kept: 0 least, 255 most.
    pub importance: Option<u8>,
    /// A rule's score, or that of the tables; 0 without either.
    pub score: Score,
    /// A keyed hash of what fairness is counted by ([`Flow`]).
    pub flow: u64,
    /// How many slots the request takes, where a rule says; else one.
    pub slots: Option<u16>,
    /// Index of the rule that names the header with the request's deadline ([`Rule::deadline_header`]).
    pub deadline_header: Option<u32>,
}

/// Rules, compiled: for each [`Output`] the first that matches a request and sets it decides.
#[derive(Clone, Debug)]
pub struct Classifier {
    default_class: ClassId,
    /// The rules, without their conditions, which are compiled, where these ask for more than is known when a connection is accepted.
    rules: Vec<Rule>,
    /// By rule: what must be known of a connection to say whether it matches; `None`: more than is known at its accept.
    by_connection: Vec<Option<Known>>,
    lookups: Lookups,
    trees: RuleTrees,
    score: Option<Box<Scoring>>,
    /// By class; classes beyond the end have the default.
    class_flows: Vec<Flow>,
    default_flow: Flow,
    flow_key: FlowKey,
}

/// What is known of a connection when it is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Known {
    /// The listener: whose connection it is, a trusted peer says later.
    Listener,
    /// Also the addresses of both ends, and the code point of the SYN.
    Addresses,
}

impl Known {
    /// What must be known to say whether the rule matches; `None`: more than that.
    fn enough_for(rule: &Rule) -> Option<Self> {
        let of = |condition: &Condition| match condition.part() {
            Part::Listener => Some(Known::Listener),
            Part::Client | Part::Dscp | Part::Destination => Some(Known::Addresses),
            _ => condition.is_always_true().then_some(Known::Listener),
        };
        rule.conditions.iter().try_fold(Known::Listener, |most, it| Some(most.max(of(it)?)))
    }
}

/// A rule that what is known of a connection when it is accepted decides.
#[derive(Clone, Copy, Debug)]
pub struct RuleAtAccept<'c> {
    /// What must hold.
    pub conditions: &'c [Condition],
    /// What must be known to say whether it does.
    pub known: Known,
    /// The class that it gives.
    pub class: ClassId,
}

/// What [`Classifier::classify`] keeps between requests so that it need not allocate. One per thread;
/// good for any classifier (after a reload the next request sizes it anew).
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    facts: HeldFacts,
    lookups: LookupScratch,
}

impl Classifier {
    /// Most rules. Compiling this many takes well under a second and some hundred megabytes.
    pub const RULES_MAX: usize = 100_000;
    /// Most conditions of one rule.
    pub const CONDITIONS_MAX: usize = 32;
    /// Most alternatives of all conditions of all rules.
    pub const ALTERNATIVES_MAX: usize = 1_000_000;

    /// Compiles rules, first match wins; requests that none matches belong to `default_class`.
    ///
    /// Classes are not checked here: the plan is built with the ones there are.
    ///
    /// # Errors
    /// When a bound is exceeded or a condition could never hold: the index of the rule at fault (the first,
    /// if it is all of them), and what is wrong.
    pub fn compile(rules: &[Rule], default_class: ClassId) -> Result<Self, (usize, Fault)> {
        let fault = |index, message: String| Err((index, Fault::new(message)));
        let most = Self::RULES_MAX;
        if rules.len() > most {
            return fault(most, format!("there may be at most {most} rules"));
        }
        let mut facts = FactTable::default();
        let mut conditions = Vec::with_capacity(rules.len());
        let mut alternatives = 0;
        for (index, rule) in rules.iter().enumerate() {
            if rule.conditions.len() > Self::CONDITIONS_MAX {
                let most = Self::CONDITIONS_MAX;
                return fault(index, format!("may have at most {most} conditions"));
            }
            for condition in &rule.conditions {
                alternatives += match condition.any_of().len() {
                    0 => {
                        let message = "has an empty list, so that it could never match";
                        return fault(index, message.to_owned());
                    }
                    len => len,
                };
            }
            if alternatives > Self::ALTERNATIVES_MAX {
                let (most, of) = (Self::ALTERNATIVES_MAX, "paths, hosts, values and networks");
                return fault(index, format!("all rules together may list at most {most} {of}"));
            }
            conditions.push(facts.of_rule(index as u32, rule));
        }
        let sets = |rule: u32, output| rules[rule as usize].sets(output);
        let by_connection: Vec<Option<Known>> = rules.iter().map(Known::enough_for).collect();
        let kept = |(rule, known): (&Rule, &Option<Known>)| match known {
            Some(_) if rule.sets(Output::Verdict) => {
                Rule { conditions: rule.conditions.clone(), ..rule.without_conditions() }
            }
            _ => rule.without_conditions(),
        };
        let too_large =
            "all rules together have too many or too large regular expressions; use patterns";
        Ok(Classifier {
            default_class,
            rules: rules.iter().zip(&by_connection).map(kept).collect(),
            by_connection,
            trees: RuleTrees::new(conditions, facts.len(), sets),
            lookups: facts.lookups().ok_or_else(|| (0, Fault::new(too_large)))?,
            score: None,
            class_flows: Vec::new(),
            default_flow: Flow::CLIENT,
            flow_key: FlowKey::default(),
        })
    }

    /// Adds the tables that give a score, and classes by it.
    pub fn with_score(mut self, tables: &ScoreTables) -> Self {
        self.score = Some(Box::new(tables.compile()));
        self
    }

    /// Says what fairness is counted by where no rule says it: `default` for all classes, but for those
    /// of `by_class` (by number) that say it themselves.
    pub fn with_flows(mut self, default: Flow, by_class: Vec<Option<Flow>>) -> Self {
        let flow = |flow: Option<Flow>| flow.unwrap_or_else(|| default.clone());
        self.class_flows = by_class.into_iter().map(flow).collect();
        self.default_flow = default;
        self
    }

    /// What fairness is counted by where no rule says it: by default, and in the classes.
    pub fn flows(&self) -> impl Iterator<Item = &Flow> {
        std::iter::once(&self.default_flow).chain(&self.class_flows)
    }

    /// Sets the secret that flows are hashed with; until then it is a constant.
    pub fn set_flow_key(&mut self, key: FlowKey) {
        self.flow_key = key;
    }

    /// How many rules there are.
    pub fn rules_len(&self) -> usize {
        self.rules.len()
    }

    /// The class of requests that no rule matches.
    pub fn default_class(&self) -> ClassId {
        self.default_class
    }

    /// Says what a request is.
    ///
    /// Allocates nothing, but for the first request that a `Scratch` sees of this classifier. Cost: O(length of
    /// the request's head), and the rules of which all but a condition or two hold.
    pub fn classify(&self, view: &RequestView<'_>, scratch: &mut Scratch) -> Match {
        let mut search = self.trees.search(&mut scratch.facts);
        self.lookups.find(view, &mut scratch.lookups, &mut search);
        self.say(view, &search.finish())
    }

    /// The class that a connection's requests have by what is known of it when it is accepted: if the first rule that matches then
    /// asks for nothing else. A rule before it that asks for more may still give a request another class.
    ///
    /// `view` has what is known, and nothing else. Cost: as [`Classifier::classify`]; O(rules) where a rule that asks for more matches a request
    /// without anything.
    pub fn class_at_accept(
        &self,
        view: &RequestView<'_>,
        known: Known,
        scratch: &mut Scratch,
    ) -> Option<ClassId> {
        let found = self.classify(view, scratch);
        if self.by_connection[found.rule? as usize].is_some_and(|needed| needed <= known) {
            return Some(found.class);
        }
        // A rule that asks for more, and that a request without anything has: for a usual urgency, or an expression that finds nothing, too.
        let decides = |rule: &RuleAtAccept<'_>| {
            rule.known <= known && rule.conditions.iter().all(|condition| condition.holds(view))
        };
        self.rules_at_accept().find(decides).map(|rule| rule.class)
    }

    /// The rules that give a class by what is known when a connection is accepted, in their order. O(rules).
    pub fn rules_at_accept(&self) -> impl Iterator<Item = RuleAtAccept<'_>> {
        let rules = self.rules.iter().zip(&self.by_connection);
        rules.filter(|(rule, _)| rule.sets(Output::Verdict)).filter_map(|(rule, known)| {
            let (conditions, known) = (&rule.conditions[..], (*known)?);
            let class = rule.class.unwrap_or(self.default_class);
            Some(RuleAtAccept { conditions, known, class })
        })
    }

    /// Whether any rule gives requests this class by what is known when a connection is accepted. O(rules).
    pub fn is_known_at_accept(&self, class: ClassId) -> bool {
        self.rules_at_accept().any(|rule| rule.class == class)
    }

    /// Puts together what the rules found say.
    fn say(&self, view: &RequestView<'_>, rules: &Rules) -> Match {
        let mut found = Match { class: self.default_class, ..Match::default() };
        let verdict = rules[Output::Verdict.index()];
        if let Some(rule) = self.rules.get(verdict as usize) {
            found.class = rule.class.unwrap_or(self.default_class);
            found.rule = Some(verdict);
            found.deadline = rule.deadline;
            found.refuse = rule.refuse;
        }
        let (mut score, mut flow) = (None, None);
        for output in self.trees.others() {
            let index = rules[output.index()];
            let Some(rule) = self.rules.get(index as usize) else {
                continue;
            };
            match output {
                Output::Verdict => {}
                Output::Policer => found.policer = rule.policer,
                Output::Pool => found.pool = rule.pool,
                Output::Resource => found.resource = rule.resource,
                Output::Adaptation => found.adaptation = rule.adaptation,
                Output::Stored => found.stored = rule.stored,
                Output::Importance => found.importance = rule.importance,
                Output::Score => score = rule.score,
                Output::Flow => flow = rule.flow.as_ref(),
                Output::Slots => found.slots = rule.slots,
                Output::DeadlineHeader => found.deadline_header = Some(index),
            }
        }
        if let Some(scoring) = &self.score {
            found.score = score.unwrap_or_else(|| scoring.score(view));
            if verdict == NONE {
                found.class = scoring.class(found.score).unwrap_or(self.default_class);
            }
        } else {
            found.score = score.unwrap_or_default();
        }
        let by_class = || self.class_flows.get(found.class.index()).unwrap_or(&self.default_flow);
        found.flow = flow.unwrap_or_else(by_class).of(view, self.flow_key);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::pattern::Pattern;
    use crate::classify::{Matcher, Span};

    fn rule(class: u16, conditions: Vec<Condition>) -> Rule {
        Rule { conditions, class: Some(ClassId(class)), ..Rule::default() }
    }

    fn network(part: Part, text: &str) -> Condition {
        Condition::new(part, [Matcher::Network(text.parse().expect("a network"))])
    }

    fn number(part: Part, number: u64) -> Condition {
        Condition::new(part, [Matcher::Range(Span::one(number))])
    }

    fn path(text: &str) -> Condition {
        Condition::new(Part::Path, [Matcher::Pattern(Pattern::path(text).expect("a pattern"))])
    }

    #[test]
    fn a_class_at_accept_needs_a_rule_that_asks_for_no_more() {
        let office = || network(Part::Client, "192.0.2.0/24");
        let rules = [
            rule(1, vec![path("/cart"), office()]),
            rule(2, vec![number(Part::Listener, 3)]),
            rule(3, vec![office(), number(Part::Dscp, 46)]),
            rule(4, vec![office()]),
            rule(5, vec![path("/x")]),
        ];
        let classifier = Classifier::compile(&rules, ClassId(9)).expect("rules");
        let mut scratch = Scratch::default();
        let mut at = |client: &str, listener, dscp, known| {
            let client = client.parse().expect("an address");
            let view = RequestView { client, listener, dscp, ..RequestView::EMPTY };
            classifier.class_at_accept(&view, known, &mut scratch).map(|class| class.0)
        };
        assert_eq!(at("198.51.100.1", 0, 0, Known::Addresses), None, "the default may change");
        assert_eq!(at("192.0.2.1", 0, 46, Known::Addresses), Some(3));
        assert_eq!(at("192.0.2.1", 3, 46, Known::Addresses), Some(2));
        assert_eq!(at("198.51.100.1", 3, 0, Known::Listener), Some(2));
        // Whose connection it is says a trusted peer later.
        assert_eq!(at("192.0.2.1", 0, 46, Known::Listener), None);
        assert_eq!(at("192.0.2.1", 0, 0, Known::Addresses), Some(4));
    }
}
