//! Classification: which class a request belongs to, and what else rules say of it.
//!
//! | step | how | cost |
//! |---|---|---|
//! | path, host, values → facts | one walk through a radix tree each | length of the text |
//! | method, names of headers and cookies → facts | a hash table that mostly stops at the length | number of fields |
//! | client → facts | binary search over address ranges | logarithm of the networks |
//! | facts → rules | each rule is filed under its rarest condition ([`decision`]), by what it sets ([`search`]) | rules of which all but a condition or two hold |
//! | path, client → score | one walk each ([`score`]) | length of path and client's name |
//!
//! None of it depends on the number of rules as such. Nothing is allocated for a request, nothing
//! backtracks, and each byte of the request's head is looked at a bounded number of times. What no
//! remaining rule asks for is not looked at: cookies are not parsed for a request that an earlier
//! rule has decided.

mod condition;
pub(crate) mod cookie;
mod decision;
mod facts;
mod fields;
pub mod flow;
mod further;
mod glob;
mod head;
mod names;
mod networks;
mod numbers;
mod output;
pub mod path;
pub mod pattern;
mod regexes;
pub mod rule;
pub mod score;
mod search;
mod texts;
mod trie;

use crate::admit::policer::PolicerId;
use crate::class::ClassId;
use crate::request::RequestView;
use decision::NONE;
use facts::FactTable;
use fields::Fields;
use flow::{Flow, FlowKey};
use further::{Further, FurtherScratch};
pub use glob::Glob;
use names::Names;
use networks::Networks;
pub use numbers::Span;
pub use output::Output;
pub use regexes::{PathRegex, RegexError};
use rule::{Condition, Rule};
use score::{Score, ScoreTables, Scoring};
use search::{Decisions, Held, Rules};
use std::fmt;
use std::time::Duration;
use texts::{Hosts, Texts};

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
    says: Vec<Says>,
    longer: Longer,
    decisions: Decisions,
    /// The outputs besides the verdict that any rule sets.
    others: Vec<Output>,
    score: Option<Box<Scoring>>,
    /// By class; classes beyond the end have the default.
    class_flows: Vec<Flow>,
    default_flow: Flow,
    flow_key: FlowKey,
    /// The parts of a request, each with the first rule that asks for it.
    path: Part<Texts>,
    host: Part<Hosts>,
    method: Part<Names<u32>>,
    client: Part<Networks>,
    fields: Part<Fields>,
    further: Part<Box<Further>>,
}

/// What one rule says, as if it were alone. 32 bytes: those of 10,000 rules stay in a processor's cache.
#[derive(Clone, Copy, Debug)]
struct Says {
    score: Score,
    /// Its place in [`Longer::flows`] and [`Longer::deadlines`], or [`NONE`].
    flow: u32,
    deadline: u32,
    policer: Option<PolicerId>,
    class: ClassId,
    importance: Option<u8>,
    refuse: bool,
}

/// What rules say that takes more room, in their order.
#[derive(Clone, Debug, Default)]
struct Longer {
    /// The flows that rules name.
    flows: Vec<Flow>,
    /// How long requests may wait.
    deadlines: Vec<Duration>,
    /// The rules, ascending, that say how many slots, and how many. Few do, so it is looked for.
    slots: Vec<(u32, u16)>,
}

#[derive(Clone, Debug)]
struct Part<T> {
    /// The first rule that asks for the part, for each output.
    first: Rules,
    of: T,
}

/// What [`Classifier::classify`] keeps between requests so that it need not allocate. One per thread;
/// good for any classifier (after a reload the next request sizes it anew).
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    facts: Held,
    further: FurtherScratch,
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
    /// The regular expressions of all rules together need too many states.
    ExpressionsTooLarge,
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
            CompileError::ExpressionsTooLarge => f.write_str(
                "all rules together have too many or too large regular expressions; use patterns",
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
        let mut longer = Longer::default();
        let says = rules.iter().map(|rule| Says::of(rule, default_class, &mut longer)).collect();
        let slots = (0..).zip(rules).filter_map(|(index, rule)| Some((index, rule.slots?)));
        longer.slots = slots.collect();
        let compiled = facts.compile(conditions, default_class, says, longer, rules);
        compiled.ok_or(CompileError::ExpressionsTooLarge)
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

    /// A classifier without rules.
    pub fn of_default(default_class: ClassId) -> Self {
        Self::compile(&[], default_class).expect("no rules exceed no bound")
    }

    /// How many rules there are.
    pub fn rules_len(&self) -> usize {
        self.says.len()
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
        let mut search = self.decisions.search(&mut scratch.facts);
        if search.wants(&self.path.first) {
            self.path.of.find(view.path, |fact| search.hold(fact));
        }
        if search.wants(&self.method.first)
            && let Some(fact) = self.method.of.find(view.method)
        {
            search.hold(*fact);
        }
        if search.wants(&self.client.first) {
            self.client.of.find(view.client, |fact| search.hold(fact));
        }
        if search.wants(&self.host.first) {
            self.host.of.find(view.host, |fact| search.hold(fact));
        }
        if search.wants(&self.fields.first) {
            self.fields.of.find(view.fields, &mut search);
        }
        if search.wants(&self.further.first) {
            self.further.of.find(view, &mut scratch.further, &mut search);
        }
        self.say(view, &search.finish())
    }

    /// Puts together what the rules found say.
    fn say(&self, view: &RequestView<'_>, rules: &Rules) -> Match {
        let default = Match { class: self.default_class, ..Match::default() };
        let verdict = rules[Output::Verdict.index()];
        let mut found = match self.says.get(verdict as usize) {
            None => default,
            Some(says) => Match {
                class: says.class,
                rule: Some(verdict),
                deadline: self.longer.deadlines.get(says.deadline as usize).copied(),
                refuse: says.refuse,
                ..Match::default()
            },
        };
        let (mut score, mut flow) = (None, None);
        for output in &self.others {
            let rule = rules[output.index()];
            if rule == NONE {
                continue;
            }
            let says = &self.says[rule as usize];
            match output {
                Output::Verdict => {}
                Output::Policer => found.policer = says.policer,
                Output::Importance => found.importance = says.importance,
                Output::Score => score = Some(says.score),
                Output::Flow => flow = self.longer.flows.get(says.flow as usize),
                Output::Slots => found.slots = self.longer.slots_of(rule),
                Output::DeadlineHeader => found.deadline_header = Some(rule),
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

impl Longer {
    fn slots_of(&self, rule: u32) -> Option<u16> {
        let place = self.slots.binary_search_by_key(&rule, |(rule, _)| *rule).ok()?;
        Some(self.slots[place].1)
    }
}

impl Says {
    fn of(rule: &Rule, default_class: ClassId, longer: &mut Longer) -> Self {
        Says {
            score: rule.score.unwrap_or_default(),
            flow: place(&mut longer.flows, rule.flow.as_ref()),
            deadline: place(&mut longer.deadlines, rule.deadline.as_ref()),
            policer: rule.policer,
            class: rule.class.unwrap_or(default_class),
            importance: rule.importance,
            refuse: rule.refuse,
        }
    }
}

/// Appends what a rule says; its place, or [`NONE`].
fn place<T: Clone>(list: &mut Vec<T>, said: Option<&T>) -> u32 {
    let Some(said) = said else {
        return NONE;
    };
    list.push(said.clone());
    list.len() as u32 - 1
}
