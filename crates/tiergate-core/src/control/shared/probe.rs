//! How many slots a block has: as many as the limit says, or fewer or more, to see what difference they make.

use super::SharedLimit;
use super::blocks::{CYCLE, GAP};
use crate::control::{Cause, Step};
use crate::time::Moment;

/// In one of so many cycles the probe above goes as far as it may: capacity that is lost may come back, and where the limit
/// stands nothing shows it.
const FAR: u64 = 4;
/// After a loss of this (ln) every cycle probes so far.
const LOSS: f64 = 0.4;

impl SharedLimit {
    /// The next block begins.
    pub(super) fn open(&mut self, now: Moment) -> Option<Step> {
        let rate = self.rate();
        self.blocks.fit(&self.held, rate);
        self.blocks.forget_old(now);
        let index = self.blocks.index(now);
        let all_along = self.blocks.begun().is_some_and(|begun| self.full_since <= begun);
        let binds = std::mem::take(&mut self.binds) || all_along;
        let (slots, probes) = match (index % CYCLE, self.is_sought()) {
            (3, _) | (5, true) if binds => (self.below(), true),
            (7, false) if binds && ((index / CYCLE).is_multiple_of(FAR) || self.has_lost()) => {
                (self.above(GAP.1), true)
            }
            (7, _) | (1, true) if binds => (self.above(self.gap), true),
            _ => (self.base(), false),
        };
        let step = self.enter(slots, if probes { Some(Cause::Probed) } else { None });
        self.blocks.begin(now, index, self.slots);
        self.losses.age();
        step
    }

    /// Requests a second that the limit lets through.
    fn rate(&self) -> f64 {
        self.ln_slots.exp() / self.held.mean().max(1e-6)
    }

    /// The slots of a block that does not probe.
    fn base(&self) -> f64 {
        self.ln_slots.exp().round().max(self.few).max(2.0)
    }

    /// The slots of a probe below.
    pub(super) fn below(&self) -> f64 {
        let below = (self.ln_slots - self.gap).exp().floor();
        below.max(self.few - 1.0).min(self.base() - 1.0)
    }

    /// The slots of a probe so far (ln) above.
    fn above(&self, gap: f64) -> f64 {
        (self.ln_slots + gap).exp().round().max(self.base() + 1.0)
    }

    /// Whether the limit was far higher lately.
    pub(super) fn has_lost(&self) -> bool {
        self.ln_highest - self.ln_slots > LOSS
    }
}
