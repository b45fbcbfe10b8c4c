//! What happened in each second of a run.

use super::counts::Outcome;
use super::figures::Second;
use super::tally::Times;
use std::time::Duration;

/// Seconds kept; what happens later is in the tallies only.
const SECONDS_MAX: usize = 600;

/// The seconds so far. Latencies are kept for the current second only: requests end in the order
/// of time.
#[derive(Clone, Debug, Default)]
pub(super) struct Series {
    seconds: Vec<Second>,
    current: usize,
    latency: Times,
}

impl Series {
    /// A request was due `at` since the beginning.
    pub(super) fn sent(&mut self, at: Duration) {
        if let Some(second) = self.second(at) {
            second.counts.sent += 1;
        }
    }

    /// A request ended now, `at` since the beginning.
    pub(super) fn ended(&mut self, at: Duration, outcome: Outcome, latency: Duration) {
        let number = usize::try_from(at.as_secs()).unwrap_or(usize::MAX);
        if number > self.current {
            self.close();
            self.current = number;
        }
        let Some(second) = self.second(at) else {
            return;
        };
        second.counts.ended(outcome);
        if outcome == Outcome::Ok {
            self.latency.record(latency);
        }
    }

    /// Bytes of answers came, `at` since the beginning.
    pub(super) fn received(&mut self, at: Duration, bytes: u64) {
        if let Some(second) = self.second(at) {
            second.received += bytes;
        }
    }

    /// The seconds until now.
    pub(super) fn seconds(&self) -> Vec<Second> {
        let mut whole = self.clone();
        whole.close();
        whole.seconds
    }

    /// Writes the current second's latencies down.
    fn close(&mut self) {
        let latency = std::mem::take(&mut self.latency);
        if let Some(second) = self.seconds.get_mut(self.current) {
            second.p50_ms = latency.quantile_ms(0.5);
            second.p99_ms = latency.quantile_ms(0.99);
        }
    }

    fn second(&mut self, at: Duration) -> Option<&mut Second> {
        let number = usize::try_from(at.as_secs()).ok().filter(|n| *n < SECONDS_MAX)?;
        if self.seconds.len() <= number {
            self.seconds.resize_with(number + 1, Second::default);
        }
        self.seconds.get_mut(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_has_its_own_ends_and_latencies() {
        let ms = Duration::from_millis;
        let mut series = Series::default();
        series.sent(ms(900));
        series.sent(ms(950));
        series.ended(ms(999), Outcome::Ok, ms(99));
        series.received(ms(2999), 10);
        series.sent(ms(3000));
        series.ended(ms(3500), Outcome::Ok, ms(2550));
        series.ended(ms(3500), Outcome::Refused, ms(500));
        let seconds = series.seconds();
        assert_eq!(seconds.len(), 4);
        assert_eq!(seconds.iter().map(|s| s.counts.sent).collect::<Vec<_>>(), [2, 0, 0, 1]);
        assert_eq!(
            (seconds[0].counts.ok, seconds[3].counts.ok, seconds[3].counts.refused),
            (1, 1, 1)
        );
        assert_eq!(seconds.iter().map(|s| s.received).collect::<Vec<_>>(), [0, 0, 10, 0]);
        let p50 = |n: usize| seconds[n].p50_ms.map(f64::round);
        assert_eq!([p50(0), p50(1), p50(2)], [Some(99.0), None, None]);
        assert!((p50(3).unwrap() - 2550.0).abs() < 3.0);
    }

    #[test]
    fn the_series_is_bounded() {
        let mut series = Series::default();
        for second in [599, 600, 100_000] {
            series.sent(Duration::from_secs(second));
            series.ended(Duration::from_secs(second), Outcome::Ok, Duration::ZERO);
        }
        let seconds = series.seconds();
        assert_eq!(
            (seconds.len(), seconds[599].counts.sent, seconds[599].counts.ok),
            (SECONDS_MAX, 1, 1)
        );
    }
}
