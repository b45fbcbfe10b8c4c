//! What rules ask for that costs something to find out.

use super::rules::PolicyRule;
use tiergate_core::classify::score::{ScoreClient, ScoreTables};
use tiergate_core::request::Part;

/// What rules ask for that costs something to find out; the rest is left alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The client's name by reverse DNS.
    pub names: bool,
    /// The code point of the client's packets.
    pub dscp: bool,
    /// Copies of answers.
    pub copies: bool,
}

/// What the rules ask for that costs something to find out.
///
/// Names are asked for by a `domain` condition and by a score table with domains.
pub(super) fn wanted(rules: &[PolicyRule], score: Option<&ScoreTables>) -> Wanted {
    let asks = |part: Part| {
        rules.iter().flat_map(|rule| &rule.rule.conditions).any(|one| *one.part() == part)
    };
    let of_score = |tables: &ScoreTables| {
        tables.clients.iter().any(|(client, _)| matches!(client, ScoreClient::Name(_)))
    };
    Wanted {
        names: asks(Part::ClientName) || score.is_some_and(of_score),
        dscp: asks(Part::Dscp),
        copies: rules.iter().any(|it| it.rule.stored.is_some_and(|age| !age.is_zero())),
    }
}
