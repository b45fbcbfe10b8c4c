//! When the gateway tries again what the kernel has refused: soon at first, and then ever later, since each attempt costs work that serves nobody.
//!
//! Source: exponential backoff, as in Jacobson (1988); its bounds are ours.

use crate::time::Moment;
use std::time::Duration;

/// The first pause.
const PAUSE_MIN: Duration = Duration::from_secs(5);
/// The longest.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Attempts, and pauses between them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Again {
    /// The last failure, and the pause after it; `None`: the last attempt succeeded.
    failed: Option<(Moment, Duration)>,
}

impl Again {
    /// An attempt has failed.
    pub fn failed(&mut self, now: Moment) {
        let pause = self.failed.map_or(PAUSE_MIN, |(_, pause)| (pause * 2).min(PAUSE_MAX));
        self.failed = Some((now, pause));
    }

    /// All is well: after the next failure it begins anew.
    pub fn succeeded(&mut self) {
        self.failed = None;
    }

    /// Whether it is time for an attempt.
    pub fn is_due(&self, now: Moment) -> bool {
        self.failed.is_none_or(|(at, pause)| now.since(at) >= pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_minute_and_begin_anew_after_a_success() {
        let mut again = Again::default();
        let mut at = Vec::new();
        for second in 0..240 {
            let now = Moment::from_millis(second * 1000);
            if again.is_due(now) {
                again.failed(now);
                at.push(second);
            }
        }
        assert_eq!(at, [0, 5, 15, 35, 75, 135, 195]);
        again.succeeded();
        assert!(again.is_due(Moment::from_millis(240_000)));
        again.failed(Moment::from_millis(240_000));
        assert!(!again.is_due(Moment::from_millis(244_999)));
        assert!(again.is_due(Moment::from_millis(245_000)));
    }
}
