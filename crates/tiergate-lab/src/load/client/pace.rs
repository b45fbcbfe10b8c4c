//! No more than so many bytes a second, in either direction.

use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Bytes go in slices of the amount of this time, one at a time.
const SLICE: Duration = Duration::from_millis(50);

/// A bound on a speed. Time in which nothing moved is not made up for later, beyond one slice, so
/// that timers that fire late do not slow it down.
#[derive(Debug)]
pub(super) struct Pace {
    /// Bytes a second; `None`: any.
    rate: Option<u64>,
    /// When the next slice may go.
    next: Option<Instant>,
}

impl Pace {
    /// That many bytes a second; `None` or 0: any.
    pub(super) fn new(rate: Option<u64>) -> Self {
        Self { rate: rate.filter(|rate| *rate > 0), next: None }
    }

    /// Waits until bytes may go, and says how many. Cancel safe.
    pub(super) async fn slice(&self) -> usize {
        let Some(rate) = self.rate else {
            return usize::MAX;
        };
        if let Some(next) = self.next {
            sleep_until(next).await;
        }
        let bytes = rate as f64 * SLICE.as_secs_f64();
        (bytes as usize).max(1)
    }

    /// So many have gone.
    pub(super) fn moved(&mut self, bytes: usize) {
        if let Some(rate) = self.rate {
            let time = Duration::from_secs_f64(bytes as f64 / rate as f64);
            let now = Instant::now();
            let earliest = now.checked_sub(SLICE).unwrap_or(now);
            self.next = Some(self.next.map_or(now, |next| next.max(earliest)) + time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_speed_is_kept_and_idle_time_is_not_made_up_for() {
        let mut pace = Pace::new(Some(10_000));
        tokio::time::sleep(Duration::from_secs(5)).await;
        let begun = Instant::now();
        let mut moved = 0;
        while moved < 20_000 {
            let bytes = pace.slice().await;
            assert_eq!(bytes, 500);
            pace.moved(bytes);
            moved += bytes;
        }
        let took = begun.elapsed();
        assert!((1900..2100).contains(&took.as_millis()), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn any_speed_waits_for_nothing() {
        let mut pace = Pace::new(Some(0));
        let begun = Instant::now();
        for _ in 0..1000 {
            let bytes = pace.slice().await;
            pace.moved(bytes);
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
