//! Looking back: throughput may have grown with time and not with the limit, because the origin warmed up or the mix
//! changed within a class. A limit that has grown for a while is therefore measured once where it was before: if
//! throughput is the same there, the curve shows it.
//!
//! Growth of a few seconds is not looked back on. It is that of a cold start or of the search after a change, which
//! visit lower limits anyway, and hardly any origin warms up so soon; a look there costs half a second of the throughput
//! just when a flood begins.
//!
//! Source: ours.

use crate::time::Moment;
use std::time::Duration;

/// Growth, in ln, that is looked back on, and how far a look goes back at most.
const LN_GROWN: (f64, f64) = (0.26, 0.8);
/// Growth within this time is taken for the limit's own.
const GROWN_IN: Duration = Duration::from_secs(3);

/// From where the limit has grown, and since when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lookback {
    /// ln of the lowest limit since the last look.
    ln_low: f64,
    /// When it was there.
    low_at: Moment,
}

impl Default for Lookback {
    /// Nothing has grown yet.
    fn default() -> Self {
        Lookback { ln_low: f64::INFINITY, low_at: Moment::ZERO }
    }
}

impl Lookback {
    /// The limit is there now.
    pub(super) fn at(&mut self, now: Moment, ln_slots: f64) {
        if ln_slots < self.ln_low {
            self.known(now, ln_slots);
        }
    }

    /// The limit is right there, whatever it was before.
    pub(super) fn known(&mut self, now: Moment, ln_slots: f64) {
        *self = Lookback { ln_low: ln_slots, low_at: now };
    }

    /// The origin has changed: where the limit was says nothing, and a look is due, as far as one goes.
    pub(super) fn changed(&mut self, ln_slots: f64) {
        let ln_low = ln_slots - LN_GROWN.1;
        if ln_low < self.ln_low {
            *self = Lookback { ln_low, low_at: Moment::ZERO };
        }
    }

    /// ln of the slots of the next window, if it is to look back from a limit that stands.
    pub(super) fn due(&mut self, now: Moment, ln_slots: f64) -> Option<f64> {
        let grown = ln_slots - self.ln_low;
        if grown <= LN_GROWN.0 {
            return None;
        }
        let took = now.since(self.low_at);
        self.known(now, ln_slots);
        (took >= GROWN_IN).then(|| ln_slots - grown.min(LN_GROWN.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(seconds)
    }

    /// What is due at second 20 after the limit was at 1.0 in second `from` and is at `now`.
    fn due(from: u64, now: f64) -> Option<f64> {
        let mut lookback = Lookback::default();
        lookback.at(seconds(from), 1.0);
        lookback.at(seconds(20), now);
        let due = lookback.due(seconds(20), now);
        assert_eq!(lookback.due(seconds(60), now), None, "once");
        due
    }

    #[test]
    fn slow_growth_is_looked_back_on_once() {
        assert_eq!(due(10, 1.5), Some(1.0));
        assert_eq!(due(10, 3.0), Some(3.0 - 0.8), "not too far");
        assert_eq!(due(10, 1.2), None, "hardly grown");
        assert_eq!(due(18, 3.0), None, "quickly grown");
    }

    #[test]
    fn an_origin_that_has_changed_is_looked_back_on_at_once() {
        let mut lookback = Lookback::default();
        lookback.at(seconds(19), 2.0);
        lookback.changed(2.0);
        assert_eq!(lookback.due(seconds(20), 2.0), Some(2.0 - 0.8));
        lookback.changed(2.0);
        lookback.known(seconds(21), 2.0);
        assert_eq!(lookback.due(seconds(30), 2.0), None, "known again");
    }
}
