//! Counters that only grow, such as bytes sent and time used.

use std::time::Instant;

/// How fast a counter grows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Growth {
    last: Option<(Instant, u64)>,
}

impl Growth {
    /// By how much it grew in a second since the last time. `None` at first, where no time has passed, and where it
    /// fell: then it is another counter, of an interface or a control group that was made anew.
    pub(super) fn per_second(&mut self, at: Instant, count: u64) -> Option<f64> {
        let (before, known) = self.last.replace((at, count))?;
        let seconds = at.saturating_duration_since(before).as_secs_f64();
        let grown = count.checked_sub(known)?;
        (seconds > 0.0).then(|| grown as f64 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_counter_is_compared_with_itself() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut growth = Growth::default();
        assert_eq!(growth.per_second(at(0), 100), None);
        assert_eq!(growth.per_second(at(2), 300), Some(100.0));
        assert_eq!(growth.per_second(at(2), 300), None, "no time has passed");
        assert_eq!(growth.per_second(at(3), 10), None, "it was made anew");
        assert_eq!(growth.per_second(at(4), 11), Some(1.0));
    }
}
