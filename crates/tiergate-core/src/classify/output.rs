//! What rules say of a request besides its class, each thing from its own first rule.

use super::facts::NONE;
use super::rule::Rule;
use crate::named::named;

named! {
    /// Something that rules say of a request. Each comes from the first rule that matches *and* sets it,
    /// so that one rule may give the class, another the policer, a third the importance.
    pub enum Output {
        /// Class, deadline and refusal, which belong together.
        Verdict = "class",
        /// The policer.
        Policer = "policer",
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
    /// Whether the rule says this of the requests that it matches.
    pub fn sets(&self, output: Output) -> bool {
        match output {
            Output::Verdict => self.class.is_some() || self.refuse || self.deadline.is_some(),
            Output::Policer => self.policer.is_some(),
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
