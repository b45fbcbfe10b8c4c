//! What keeps gateways before one origin from having far more, or far fewer, slots than the others.
//!
//! What a cycle tells is the same for all of them, and moves all limits by the same factor: the ratios stay as chance made
//! them. So each adds the same small number of slots in each cycle, as TCP does (Chiu and Jain 1989, "Analysis of the
//! increase and decrease algorithms"): for the smallest that is the largest factor, and the common factor takes it back from
//! all. With `k` gateways that have `n` slots together, differences fade within `n / (k · PULL)` cycles.
//!
//! A limit that does not quite bind takes no part in that, and its gateway no part in the probes, so that those of the others
//! show too little, and all have too many for minutes. It sinks until it binds (for TCP that is RFC 7661).

use super::SharedLimit;

/// Slots that a limit which binds grows by in each cycle that tells something. More makes gateways equal sooner, and leaves
/// them with more together: several cycles' worth each.
const PULL: f64 = 0.03;
/// How far a limit sinks at once that nearly all of was used, but not the last slot, as ln.
const SINKS: f64 = 0.04;

impl SharedLimit {
    /// A cycle has told something.
    pub(super) fn pull(&mut self) {
        self.belief.shift((PULL / self.ln_slots.exp()).ln_1p());
    }

    /// No request took the last slot for a while; at most `peak_ln`, as ln, were in use. What is known of the knee sinks with the
    /// limit.
    pub(super) fn sink(&mut self, peak_ln: f64) {
        let by = (peak_ln - self.ln_slots).clamp(-SINKS, 0.0);
        self.belief.shift(by);
        self.place(self.ln_slots + by, self.gap);
    }
}
