//! What rules say of a request besides its class, each thing from its own first rule.

use super::facts::NONE;
use super::rule::Rule;

/// Something that rules say of a request. Each comes from the first rule that matches *and* sets it,
/// so that one rule may give the class, another the policer, a third the importance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// Class, deadline and refusal, which belong together.
    Verdict,
    /// The policer.
    Policer,
    /// The importance.
    Importance,
    /// The score.
    Score,
    /// What fairness is counted by.
    Flow,
    /// How many slots it takes.
    Slots,
    /// The header in which a trusted peer says how long it may wait.
    DeadlineHeader,
}

impl Output {
    /// Every output, the verdict first.
    pub const ALL: [Output; 7] = [
        Output::Verdict,
        Output::Policer,
        Output::Importance,
        Output::Score,
        Output::Flow,
        Output::Slots,
        Output::DeadlineHeader,
    ];

    /// How many there are.
    pub const LEN: usize = Self::ALL.len();

    /// As it is called in policies and explanations; the verdict by its main part.
    pub fn name(self) -> &'static str {
        match self {
            Output::Verdict => "class",
            Output::Policer => "policer",
            Output::Importance => "importance",
            Output::Score => "score",
            Output::Flow => "flow",
            Output::Slots => "slots",
            Output::DeadlineHeader => "deadline_header",
        }
    }

    pub(super) fn index(self) -> usize {
        self as usize
    }
}

/// For each output a rule, or [`NONE`].
pub(super) type Rules = [u32; Output::LEN];

/// No rule for any output.
pub(super) const NO_RULES: Rules = [NONE; Output::LEN];

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
