//! Accounts of slot time: how a child gets a fraction of a slot.
//!
//! `x` slots are `i + f` slots, `i` whole and a fraction `f`. The whole ones are kept by counting. The
//! fraction is kept by an account of slot time that earns `i + f` slot-seconds a second and pays for
//! what is held: who is not in debt may hold one slot more. So 10 % of a single slot is every tenth
//! service time, and not every slot or none.

use std::time::Duration;

/// Most slot-seconds that may be owed to a child. Covers a single slot's share at service times of many
/// seconds; bounds what a child collects while the origin hangs.
pub(super) const BALANCE_MAX: f64 = 1.0;
/// Most slot-seconds that a child may owe, so that one endless request does not shut it out for hours.
pub(super) const BALANCE_MIN: f64 = -10.0;
/// A nanosecond of a slot: what sums of times are off by.
const ROUNDING: f64 = 1e-9;

/// The whole slots of so many. A tenth of 30 is 3, whatever binary fractions make of it.
pub(super) fn whole(size: f64) -> f64 {
    (size + ROUNDING).floor()
}

/// So many slots, rounded up, likewise.
pub(super) fn rounded_up(size: f64) -> f64 {
    (size - ROUNDING).ceil()
}

/// An account of an allotment of slots that is never exceeded for long.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Balance(f64);

impl Balance {
    /// So many seconds pass in which `held` of an allotment of `size` slots are held. A child that asks
    /// for nothing saves nothing up; what it owes, it goes on owing.
    pub(super) fn pass(&mut self, seconds: f64, size: f64, held: u32, waits: bool) {
        let highest = if waits { BALANCE_MAX } else { 0.0 };
        let balance = self.0 + (size - f64::from(held)) * seconds;
        self.0 = balance.clamp(BALANCE_MIN, highest);
    }

    /// Whether so many more slots may be taken. A request wider than the allotment is taken when nothing
    /// else is held, and is paid for afterwards.
    pub(super) fn allows(self, size: f64, held: u32, more: u16) -> bool {
        is_whole(size, held, more) || self.0 >= -ROUNDING && is_broken(size, held, more)
    }

    /// How long until it does, if nothing else changes and it does not now; `None`: time does not help.
    pub(super) fn allows_in(self, size: f64, held: u32, more: u16) -> Option<Duration> {
        let earns = size - f64::from(held);
        if earns <= 0.0 || !is_broken(size, held, more) {
            return None;
        }
        let seconds = (-self.0 / earns).clamp(0.0, BALANCE_LONGEST_S);
        // Rounded up: a moment too early would be one more tick.
        Some(Duration::from_secs_f64(seconds) + Duration::from_nanos(1))
    }

    /// Slot-seconds.
    pub(super) fn seconds(self) -> f64 {
        self.0
    }
}

/// Longer than this nobody waits; keeps the arithmetic of durations in range.
const BALANCE_LONGEST_S: f64 = 1e6;

/// Whether so many more are within the whole slots of an allotment.
pub(super) fn is_whole(size: f64, held: u32, more: u16) -> bool {
    f64::from(held + u32::from(more)) <= whole(size)
}

/// Whether so many more are within the allotment rounded up, or are more than there ever is.
fn is_broken(size: f64, held: u32, more: u16) -> bool {
    size > ROUNDING && (held == 0 || f64::from(held + u32::from(more)) <= rounded_up(size))
}
