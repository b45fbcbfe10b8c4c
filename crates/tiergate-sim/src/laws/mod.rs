//! Laws of the limit that the product does not use, for the comparison in `docs/adr/0001`.

mod aimd;
mod climb;
mod gradient;
mod vegas;

use serde::Deserialize;
use tiergate_core::control::adaptive::{Load, Settings};
use tiergate_core::outcome::Outcome;
use tiergate_core::time::Moment;

/// Finds how many requests the origin can work on at once: the product's interface.
pub trait Law {
    /// The number of slots in force.
    fn slots(&self) -> u32;
    /// A slot was granted.
    fn admitted(&mut self, now: Moment, load: Load);
    /// A slot came back; it was granted at `admitted`.
    fn finished(&mut self, now: Moment, admitted: Moment, outcome: &Outcome, load: Load);
}

/// Which law.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LawKind {
    /// Netflix's `Gradient2Limit`.
    Gradient2,
    /// Envoy's gradient controller with its periodic measurement of the minimum.
    Envoy,
    /// TCP Vegas, as Netflix applies it.
    Vegas,
    /// Additive increase, multiplicative decrease on latency.
    Aimd,
    /// Hill climbing on throughput by paired windows.
    Climb,
}

impl LawKind {
    /// Every law, with its name.
    pub const NAMED: [(&str, LawKind); 5] = [
        ("gradient2", LawKind::Gradient2),
        ("envoy", LawKind::Envoy),
        ("vegas", LawKind::Vegas),
        ("aimd", LawKind::Aimd),
        ("climb", LawKind::Climb),
    ];

    /// A law that knows nothing yet.
    pub fn build(self, settings: &Settings) -> Box<dyn Law> {
        match self {
            LawKind::Gradient2 => Box::new(gradient::Gradient2::new(settings)),
            LawKind::Envoy => Box::new(gradient::Envoy::new(settings)),
            LawKind::Vegas => Box::new(vegas::Vegas::new(settings)),
            LawKind::Aimd => Box::new(aimd::Aimd::new(settings)),
            LawKind::Climb => Box::new(climb::Climb::new(settings)),
        }
    }
}
