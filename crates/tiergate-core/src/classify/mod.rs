//! Classification: which class a request belongs to.
//!
//! | step | how | cost |
//! |---|---|---|
//! | path, host, values → facts | one walk through a radix tree each | length of the text |
//! | method, names of headers and cookies → facts | a hash table that mostly stops at the length | number of fields |
//! | client → facts | binary search over address ranges | logarithm of the networks |
//! | facts → rule | each rule is filed under its rarest condition ([`decision`]) | rules of which all but a condition or two hold |
//!
//! None of it depends on the number of rules as such. Nothing is allocated for a request, nothing
//! backtracks, and each byte of the request's head is looked at a bounded number of times. What no
//! remaining rule asks for is not looked at: cookies are not parsed for a request that an earlier
//! rule has decided.

pub(crate) mod cookie;
mod decision;
mod facts;
mod glob;
mod names;
mod networks;
pub mod path;
pub mod pattern;
pub mod rule;
mod texts;
mod trie;

use crate::class::ClassId;
use crate::request::RequestView;
use decision::{Decision, Facts, NONE, Search};
use facts::FactTable;
pub use glob::Glob;
use names::Names;
use networks::Networks;
use rule::{Condition, Rule};
use std::fmt;
use std::time::Duration;
use texts::{Hosts, Texts};

/// What classification says of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// The class.
    pub class: ClassId,
    /// Index of the first rule that matched; `None` if none did (the class is then the default).
    pub rule: Option<u32>,
    /// How long the request may wait, where the rule says; else its class's deadline.
    pub deadline: Option<Duration>,
    /// The rule says that such requests are always refused.
    pub refuse: bool,
}

/// Rules, compiled: the first that matches a request decides.
#[derive(Clone, Debug)]
pub struct Classifier {
    /// What is said when no rule matches, then by rule.
    default: Match,
    matches: Vec<Match>,
    decision: Decision,
    /// The parts of a request, each with the first rule that asks for it.
    path: Part<Texts>,
    host: Part<Hosts>,
    method: Part<Names<u32>>,
    client: Part<Networks>,
    fields: Part<Names<FieldUse>>,
    cookies: Part<Names<Texts>>,
}

#[derive(Clone, Debug)]
struct Part<T> {
    first_rule: u32,
    of: T,
}

/// What a header field of some name is looked at for.
#[derive(Clone, Debug, Default)]
struct FieldUse {
    values: Option<Texts>,
    cookies: bool,
}

/// What [`Classifier::classify`] keeps between requests so that it need not allocate. One per thread;
/// good for any classifier (after a reload the next request sizes it anew).
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    facts: Facts,
}

/// Why rules were not compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompileError {
    /// More rules than [`Classifier::RULES_MAX`].
    TooManyRules,
    /// The rule (by index) has more conditions than [`Classifier::CONDITIONS_MAX`].
    TooManyConditions(usize),
    /// All rules together have more alternatives than [`Classifier::ALTERNATIVES_MAX`]; the rule (by
    /// index) that goes beyond.
    TooManyAlternatives(usize),
    /// The rule (by index) has a condition without an alternative, which could never hold.
    NoAlternative(usize),
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompileError::TooManyRules => {
                write!(f, "there may be at most {} rules", Classifier::RULES_MAX)
            }
            CompileError::TooManyConditions(_) => {
                write!(f, "may have at most {} conditions", Classifier::CONDITIONS_MAX)
            }
            CompileError::TooManyAlternatives(_) => write!(
                f,
                "all rules together may list at most {} paths, hosts, values and networks",
                Classifier::ALTERNATIVES_MAX
            ),
            CompileError::NoAlternative(_) => {
                f.write_str("has an empty list, so that it could never match")
            }
        }
    }
}

impl std::error::Error for CompileError {}

impl Classifier {
    /// Most rules. Compiling this many takes well under a second and some hundred megabytes.
    pub const RULES_MAX: usize = 100_000;
    /// Most conditions of one rule.
    pub const CONDITIONS_MAX: usize = 32;
    /// Most alternatives of all conditions of all rules.
    pub const ALTERNATIVES_MAX: usize = 1_000_000;

    /// Compiles rules, first match wins; requests that none matches belong to `default_class`.
    ///
    /// Classes are not checked here: whoever makes the plan knows which there are.
    ///
    /// # Errors
    /// When a bound is exceeded or a condition could never hold.
    pub fn compile(rules: &[Rule], default_class: ClassId) -> Result<Self, CompileError> {
        if rules.len() > Self::RULES_MAX {
            return Err(CompileError::TooManyRules);
        }
        let mut facts = FactTable::default();
        let mut conditions = Vec::with_capacity(rules.len());
        let mut alternatives = 0;
        for (index, rule) in rules.iter().enumerate() {
            if rule.conditions.len() > Self::CONDITIONS_MAX {
                return Err(CompileError::TooManyConditions(index));
            }
            if rule.conditions.iter().any(|condition| condition.alternatives() == 0) {
                return Err(CompileError::NoAlternative(index));
            }
            alternatives += rule.conditions.iter().map(Condition::alternatives).sum::<usize>();
            if alternatives > Self::ALTERNATIVES_MAX {
                return Err(CompileError::TooManyAlternatives(index));
            }
            conditions.push(facts.of_rule(index as u32, rule));
        }
        let matched = |(index, rule): (u32, &Rule)| Match {
            class: rule.class.unwrap_or(default_class),
            rule: Some(index),
            deadline: rule.deadline,
            refuse: rule.refuse,
        };
        let default = Match { class: default_class, rule: None, deadline: None, refuse: false };
        Ok(facts.compile(conditions, default, (0..).zip(rules).map(matched).collect()))
    }

    /// A classifier without rules.
    pub fn of_default(default_class: ClassId) -> Self {
        Self::compile(&[], default_class).expect("no rules exceed no bound")
    }

    /// How many rules there are.
    pub fn rules_len(&self) -> usize {
        self.matches.len()
    }

    /// The class of requests that no rule matches.
    pub fn default_class(&self) -> ClassId {
        self.default.class
    }

    /// Says what a request is: the first rule that matches, or else the default class.
    ///
    /// Allocates nothing, but for the first request that a `Scratch` sees of this classifier. Cost: O(length of
    /// the request's head), and the rules of which all but a condition or two hold.
    pub fn classify(&self, view: &RequestView<'_>, scratch: &mut Scratch) -> Match {
        let mut search = self.decision.search(&mut scratch.facts);
        if self.path.first_rule < search.best {
            self.path.of.find(view.path, |fact| search.hold(fact));
        }
        if self.method.first_rule < search.best
            && let Some(fact) = self.method.of.find(view.method)
        {
            search.hold(*fact);
        }
        if self.client.first_rule < search.best {
            self.client.of.find(view.client, |fact| search.hold(fact));
        }
        if self.host.first_rule < search.best {
            self.host.of.find(view.host, |fact| search.hold(fact));
        }
        if self.fields.first_rule < search.best {
            for field in view.fields {
                if let Some(uses) = self.fields.of.find(field.name) {
                    self.look_at(uses, field.value, &mut search);
                }
            }
        }
        match search.finish() {
            NONE => self.default,
            rule => self.matches[rule as usize],
        }
    }

    fn look_at(&self, uses: &FieldUse, value: &[u8], search: &mut Search<'_>) {
        if let Some(values) = &uses.values {
            values.find(value, |fact| search.hold(fact));
        }
        if uses.cookies && self.cookies.first_rule < search.best {
            for (name, value) in cookie::pairs(value) {
                if let Some(values) = self.cookies.of.find(name) {
                    values.find(value, |fact| search.hold(fact));
                }
            }
        }
    }
}
