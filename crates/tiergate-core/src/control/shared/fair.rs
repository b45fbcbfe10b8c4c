//! What keeps gateways before one origin from having far more, or far fewer, slots than the others.
//!
//! What a cycle tells is the same for all of them, and moves all limits by the same factor: the ratios stay as chance made
//! them. So each adds the same small number of slots in each cycle, as TCP does (Chiu and Jain 1989, "Analysis of the
//! increase and decrease algorithms"): for the smallest that is the largest factor, and the common factor takes it back from
//! all. With `k` gateways that have `n` slots together, differences fade within `n / (k · PULL)` cycles.
//!
//! A limit that does not quite bind takes no part in that, and its gateway no part in the probes, so that those of the others
//! show too little, and all have too many for minutes. It sinks until it binds half of the time (for TCP that is RFC 7661).
//! Until its last slot is taken once a second is not enough: one of four gateways that began with 40 slots used 32 of them for
//! minutes, and saw the effect of hardly any probe.

use super::SharedLimit;

/// Slots that a limit which binds grows by in each cycle that tells something. More makes gateways equal sooner, and leaves
/// them with more together: several cycles' worth each.
const PULL: f64 = 0.03;
/// How far a limit sinks at once that nearly all of was used, but that did not bind, as ln.
const SINKS: f64 = 0.04;
/// A limit binds where at least this part of its requests took the last slot.
const BINDS: f64 = 0.5;

impl SharedLimit {
    /// A cycle has told something.
    pub(super) fn pull(&mut self) {
        self.belief.shift((PULL / self.ln_slots.exp()).ln_1p());
    }

    /// A while has passed in which at most `peak` slots were in use, and `taken` of so many requests took the last. A limit that does
    /// not bind, but nearly all of which is used, sinks, and with it what is known of the knee; far less use says nothing of when
    /// it will be needed again.
    pub(super) fn sink(&mut self, peak: f64, (taken, all): (u32, u32)) {
        let binds = taken > 0 && f64::from(taken) >= BINDS * f64::from(all);
        if !binds && peak >= self.below() {
            let before = self.ln_slots;
            self.place(before - SINKS, self.gap);
            self.belief.shift((self.ln_slots - before).min(0.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Bounds;

    #[test]
    fn a_limit_sinks_that_nearly_all_of_is_used_and_that_few_requests_fill() {
        let after = |peak: f64, requests| {
            let bounds = Bounds { slots_start: 40, ..Bounds::default() };
            let mut limit = SharedLimit::new(bounds);
            (0..5).for_each(|_| limit.sink(peak, requests));
            limit.ln_slots.exp()
        };
        // Below what it began with, too.
        assert!((30.0..35.0).contains(&after(40.0, (4, 10))), "{}", after(40.0, (4, 10)));
        let stays = |peak, requests| (after(peak, requests) - 40.0).abs() < 1e-9;
        assert!(stays(40.0, (5, 10)), "it binds half of the time");
        assert!(stays(5.0, (0, 10)), "far less is used");
    }

    #[test]
    fn what_is_known_of_the_knee_sinks_no_further_than_the_limit() {
        let bounds = Bounds { slots_min: 4, slots_start: 5, ..Bounds::default() };
        let mut limit = SharedLimit::new(bounds);
        let before = limit.belief.best(0.5) - limit.ln_slots;
        (0..1000).for_each(|_| limit.sink(5.0, (0, 10)));
        assert!((limit.ln_slots - 4_f64.ln()).abs() < 1e-9);
        // But for what the edge of the grid cuts off.
        assert!((limit.belief.best(0.5) - limit.ln_slots - before).abs() < 0.1);
    }
}
