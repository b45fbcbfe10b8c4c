//! How much of its processor the generator's thread uses: near all of it, it measures itself.

use crate::cpu::thread_time;
use std::time::Duration;
use tokio::time::Instant;

/// Length of the stretches whose busiest counts.
const STRETCH: Duration = Duration::from_secs(5);

/// Parts of one processor.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    /// Of the whole run.
    pub(crate) mean: f64,
    /// Of its busiest stretch of five seconds (of the whole, if that is shorter).
    pub(crate) peak: f64,
}

/// A measurement of the thread that made it.
pub(super) struct Meter {
    begun: Mark,
    stretch: Mark,
    peak: f64,
}

#[derive(Clone, Copy)]
struct Mark {
    at: Instant,
    used: Duration,
}

impl Mark {
    fn now() -> Self {
        Self { at: Instant::now(), used: thread_time() }
    }

    fn share_since(self, earlier: Self) -> f64 {
        let time = (self.at - earlier.at).max(Duration::from_micros(1));
        self.used.saturating_sub(earlier.used).as_secs_f64() / time.as_secs_f64()
    }
}

impl Meter {
    /// Begins now.
    pub(super) fn new() -> Self {
        let now = Mark::now();
        Self { begun: now, stretch: now, peak: 0.0 }
    }

    /// Measures stretch by stretch until dropped. Cancel safe.
    pub(super) async fn watch(&mut self) {
        loop {
            tokio::time::sleep_until(self.stretch.at + STRETCH).await;
            let now = Mark::now();
            self.peak = self.peak.max(now.share_since(self.stretch));
            self.stretch = now;
        }
    }

    /// What has been used until now.
    pub(super) fn usage(&self) -> Usage {
        let mean = Mark::now().share_since(self.begun);
        Usage { mean, peak: self.peak.max(mean) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_seen_and_waiting_is_not() {
        let meter = Meter::new();
        let mut now = Mark::now();
        while now.used - meter.begun.used < Duration::from_millis(20) {
            now = Mark::now();
        }
        let expected = 0.02 / (now.at - meter.begun.at).as_secs_f64();
        let ratio = now.share_since(meter.begun) / expected;
        assert!((0.9..2.0).contains(&ratio), "{ratio} of the share expected");
        std::thread::sleep(Duration::from_millis(100));
        assert!(Mark::now().share_since(now) < 0.2);
    }

    #[test]
    fn the_peak_is_that_of_the_busiest_stretch() {
        let meter = Meter { peak: 0.7, ..Meter::new() };
        let usage = meter.usage();
        assert_eq!(usage.peak, usage.mean.max(0.7));
        let short = Meter::new().usage();
        assert_eq!(short.peak, short.mean, "no stretch has ended yet");
    }
}
