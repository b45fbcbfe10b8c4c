//! What is going on, in one sentence: from counts over some seconds to what an operator needs to know first.
//!
//! [`Situation`] is what was counted, [`Situation::diagnose`] finds what stands out ([`Finding`]), and the findings read as one
//! sentence: `origin saturated; shedding 98 % of prefetch; checkout 100 % served`.

mod diagnose;
mod finding;
mod situation;
#[cfg(test)]
mod tests;

pub use diagnose::Diagnosis;
pub use finding::{Finding, Urgency};
pub use situation::{ClassSituation, Flood, Life, PoolSituation, Situation};
