//! Laws of the limit that the product does not use, for the comparison in `docs/adr/0001`.

mod aimd;
mod climb;
mod envoy;
mod gradient2;
mod sampled;
mod vegas;

use sampled::Sampled;
use serde::{Deserialize, Serialize};
use tiergate_core::control::{Bounds, Law};

/// Which law.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
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

    /// The law within the default bounds; it knows nothing of the origin yet.
    pub fn build(self) -> Box<dyn Law> {
        let bounds = Bounds::default();
        match self {
            LawKind::Gradient2 => Box::new(Sampled::new(bounds, gradient2::Gradient2::default())),
            LawKind::Envoy => Box::new(envoy::Envoy::new(&bounds)),
            LawKind::Vegas => Box::new(Sampled::new(bounds, vegas::Vegas::default())),
            LawKind::Aimd => Box::new(Sampled::new(bounds, aimd::Aimd::default())),
            LawKind::Climb => Box::new(climb::Climb::new(bounds)),
        }
    }
}
