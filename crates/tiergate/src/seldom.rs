//! What is done now and then at most, so that logs stay short.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tiergate_core::time::Moment;

/// What is done now and then at most, by whichever thread.
#[derive(Debug, Default)]
pub struct Seldom {
    /// In nanoseconds; 0: never yet.
    last: AtomicU64,
}

impl Seldom {
    /// Whether `every` has passed since it was due last; then it was due now.
    pub fn is_due(&self, now: Moment, every: Duration) -> bool {
        let due = |last: u64| {
            let passed = now.since(Moment::from_nanos(last));
            (last == 0 || passed >= every).then_some(now.nanos().max(1))
        };
        self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, due).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_seldom_is_due_at_first_and_again_when_its_time_has_passed() {
        let (seldom, every) = (Seldom::default(), Duration::from_secs(5));
        let due = [1, 2, 5_000, 5_001, 5_002, 10_001];
        let due = due.map(|millis| seldom.is_due(Moment::from_millis(millis), every));
        assert_eq!(due, [true, false, false, true, false, true]);
    }
}
