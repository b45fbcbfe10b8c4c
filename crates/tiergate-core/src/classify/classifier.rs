//! The compiled rules, and what they say of a request.

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
use crate::names::{ResourceId, Route};
use crate::request::RequestView;
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
    /// The rules without their conditions, which are compiled.
    rules: Vec<Rule>,
    lookups: Lookups,
    trees: RuleTrees,
    score: Option<Box<Scoring>>,
    /// By class; classes beyond the end have the default.
    class_flows: Vec<Flow>,
    default_flow: Flow,
    flow_key: FlowKey,
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
        let too_large =
            "all rules together have too many or too large regular expressions; use patterns";
        Ok(Classifier {
            default_class,
            rules: rules.iter().map(Rule::without_conditions).collect(),
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
