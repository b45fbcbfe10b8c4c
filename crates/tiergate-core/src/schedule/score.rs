//! Score: DiffServer's sorted queue, over all classes; and a request gains points while it waits.
//!
//! All requests age at the same speed, so that of two that wait the same one always goes first: the key
//! `score − ageing × arrival` never changes, and nothing is sorted again.
//!
//! Bound on the wait, with ageing of `a` points a second: a request is passed only by those of a higher
//! score by `d` that come less than `d / a` seconds after it. With scores from `s` to `S` no
//! request is passed by anybody who comes more than `(S − s) / a` seconds after it; then all that wait
//! before it are served, and it is next. Without ageing only its deadline ends its wait.
//!
//! Source: DiffServer §3.3 (the sorted queue, first come first served among equals). Ageing: ours.

use super::Next;
use super::compare::Compare;

/// The policy; it keeps nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByScore {
    /// Points a second.
    ageing: f64,
}

impl ByScore {
    /// With so many points a second for whoever waits; 0 or more.
    pub fn new(ageing: f64) -> Self {
        ByScore { ageing }
    }

    /// Points that it would have had if it had come at the clock's origin.
    fn key(&self, next: &Next) -> f64 {
        next.score.millionths() as f64 / 1e6 - self.ageing * next.arrived.seconds()
    }
}

impl Compare for ByScore {
    fn goes_before(&self, one: &Next, other: &Next) -> bool {
        let (first, second) = (self.key(one), self.key(other));
        first > second
            || first == second && (one.arrived, one.number) < (other.arrived, other.number)
    }
}
