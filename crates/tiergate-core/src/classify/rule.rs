//! Rules: what a request must look like, and what becomes of it then.

use super::condition::Condition;
use super::flow::Flow;
use super::score::Score;
use crate::admit::policer::PolicerId;
use crate::class::ClassId;
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
}
