//! Rules: what a request must look like, and what becomes of it then, each thing from its own first rule.

use super::condition::Condition;
use super::facts::NONE;
use super::flow::Flow;
use super::score::Score;
use crate::admit::policer::PolicerId;
use crate::class::ClassId;
use crate::named::named;
use crate::names::{AdaptationId, ResourceId, Route};
use crate::request::RequestView;
use std::time::Duration;

/// All of the conditions must hold; then the rest says what becomes of the request.
///
/// A rule need not say everything: what it leaves open, a later rule that matches may say
/// ([`Output`](super::Output)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// What must hold. None at all: the rule matches every request.
    pub conditions: Vec<Condition>,
    /// The class; `None` in a rule that refuses or sets a deadline: the default class.
    pub class: Option<ClassId>,
    /// How long the request may wait; `None`: its class's deadline.
    pub deadline: Option<Duration>,
    /// Whether such requests are always refused.
    pub refuse: bool,
    /// The policer that the request must pass.
    pub policer: Option<PolicerId>,
    /// The pool that takes the request; `None`: its class's.
    pub pool: Option<Route>,
    /// What the request needs beside a slot of its pool ([`ResourceId::NONE`]: nothing); `None`: what its class says.
    pub resource: Option<ResourceId>,
    /// What decides the quality of the answer ([`AdaptationId::NONE`]: nothing, it is full); `None`: what its class says.
    pub adaptation: Option<AdaptationId>,
    /// How old a copy may be that is served while the server is overloaded; zero: none is.
    pub stored: Option<Duration>,
    /// How much it matters that the request's session is kept: 0 least, 255 most.
    pub importance: Option<u8>,
    /// The score, instead of the one that the tables give.
    pub score: Option<Score>,
    /// What fairness inside the class is counted by.
    pub flow: Option<Flow>,
    /// How many slots such a request takes; `None`: one.
    pub slots: Option<u16>,
    /// The header, in lower case, in which a trusted peer says how many milliseconds the request may
    /// wait. Whose word it is, whoever reads the header must know: classification does not.
    pub deadline_header: Option<Box<str>>,
}

named! {
    /// Something that rules say of a request. Each comes from the first rule that matches *and* sets it,
    /// so that one rule may give the class, another the policer, a third the importance.
    pub enum Output {
        /// Class, deadline and refusal, which belong together.
        Verdict = "class",
        /// The policer.
        Policer = "policer",
        /// The pool.
        Pool = "pool",
        /// The resource.
        Resource = "resource",
        /// What decides the quality of the answer.
        Adaptation = "adaptation",
        /// How old a copy may be.
        Stored = "stored",
        /// The importance.
        Importance = "importance",
        /// The score.
        Score = "score",
        /// What fairness is counted by.
        Flow = "flow",
        /// How many slots it takes.
        Slots = "slots",
        /// The header in which a trusted peer says how long it may wait.
        DeadlineHeader = "deadline_header",
    }
}

/// For each output a rule, or [`NONE`].
pub(super) type Rules = [u32; Output::COUNT];

/// No rule for any output.
pub(super) const NO_RULES: Rules = [NONE; Output::COUNT];

/// The earlier of two rules, for each output.
pub(super) fn earlier(one: &Rules, other: &Rules) -> Rules {
    std::array::from_fn(|place| one[place].min(other[place]))
}

impl Rule {
    /// Whether every condition holds, found out by looking at each: for explanations, and the
    /// compiled form's measure.
    pub fn matches(&self, view: &RequestView<'_>) -> bool {
        self.conditions.iter().all(|condition| condition.holds(view))
    }

    /// What the rule says of the requests that it matches.
    pub(super) fn without_conditions(&self) -> Rule {
        Rule { conditions: Vec::new(), deadline_header: None, flow: self.flow.clone(), ..*self }
    }

    /// Whether every request that `other` matches is surely matched by `self`. Says no when in doubt.
    pub fn covers(&self, other: &Rule) -> bool {
        let covered = |mine: &Condition| {
            mine.is_always_true() || other.conditions.iter().any(|theirs| mine.covers(theirs))
        };
        self.conditions.iter().all(covered)
    }

    /// Whether the rule says this of the requests that it matches.
    pub fn sets(&self, output: Output) -> bool {
        match output {
            Output::Verdict => self.class.is_some() || self.refuse || self.deadline.is_some(),
            Output::Policer => self.policer.is_some(),
            Output::Pool => self.pool.is_some(),
            Output::Resource => self.resource.is_some(),
            Output::Adaptation => self.adaptation.is_some(),
            Output::Stored => self.stored.is_some(),
            Output::Importance => self.importance.is_some(),
            Output::Score => self.score.is_some(),
            Output::Flow => self.flow.is_some(),
            Output::Slots => self.slots.is_some(),
            Output::DeadlineHeader => self.deadline_header.is_some(),
        }
    }

    /// What the rule sets.
    pub fn outputs(&self) -> impl Iterator<Item = Output> + use<'_> {
        Output::ALL.into_iter().filter(|output| self.sets(*output))
    }
}
