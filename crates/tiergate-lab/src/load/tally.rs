//! What became of the requests.

use super::counts::{Counts, Outcome};
use super::figures::{Figures, SessionFigures};
use hdrhistogram::Histogram;
use std::time::Duration;

/// Longest time told apart, in microseconds.
const TIME_MAX_US: u64 = 120_000_000;

/// Times to three significant digits. Its memory grows with the longest, up to 80 KB.
#[derive(Clone, Debug)]
pub(super) struct Times(Histogram<u32>);

impl Default for Times {
    fn default() -> Self {
        Self(Histogram::new(3).expect("three significant digits are allowed"))
    }
}

impl Times {
    /// Adds a time; one beyond the bound counts as the bound.
    pub(super) fn record(&mut self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).min(TIME_MAX_US);
        self.0.record(us).expect("a histogram that grows takes every time");
    }

    /// The time that the fraction `q` did not exceed; `None` without any.
    pub(super) fn quantile(&self, q: f64) -> Option<Duration> {
        (!self.0.is_empty()).then(|| Duration::from_micros(self.0.value_at_quantile(q)))
    }

    /// The same in milliseconds.
    pub(super) fn quantile_ms(&self, q: f64) -> Option<f64> {
        self.quantile(q).map(|time| time.as_secs_f64() * 1e3)
    }

    /// The mean, in milliseconds; `None` without any.
    pub(super) fn mean_ms(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.mean() / 1e3)
    }

    fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("a histogram that grows takes every other");
    }
}

/// Numbers and latencies of requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// The numbers.
    pub(crate) counts: Counts,
    /// Attempts at the ended ones, retries included.
    pub(crate) attempts: u64,
    /// Bytes of the bodies of good answers.
    pub(crate) bytes: u64,
    /// From the moment a request was due to the end of its good answer.
    latency: Times,
}

impl Tally {
    /// Counts the end of a request.
    pub(crate) fn ended(&mut self, outcome: Outcome, latency: Duration) {
        self.counts.ended(outcome);
        if outcome == Outcome::Ok {
            self.latency.record(latency);
        }
    }

    /// Adds another tally to this one.
    pub(crate) fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        self.attempts += other.attempts;
        self.bytes += other.bytes;
        self.latency.add(&other.latency);
    }

    /// The latency that the fraction `q` of good answers did not exceed; `None` without any.
    pub(crate) fn quantile(&self, q: f64) -> Option<Duration> {
        self.latency.quantile(q)
    }

    /// The figures as reports have them.
    pub(crate) fn figures(&self) -> Figures {
        Figures {
            counts: self.counts,
            attempts: self.attempts,
            bytes: self.bytes,
            mean_ms: self.latency.mean_ms(),
            p25_ms: self.latency.quantile_ms(0.25),
            p50_ms: self.latency.quantile_ms(0.5),
            p75_ms: self.latency.quantile_ms(0.75),
            p90_ms: self.latency.quantile_ms(0.9),
            p99_ms: self.latency.quantile_ms(0.99),
        }
    }
}

/// Numbers and durations of sessions.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionTally {
    /// The numbers, without durations.
    pub(crate) counts: SessionFigures,
    /// How long the completed ones took, thinking apart.
    lasting: Times,
}

impl SessionTally {
    /// Counts a completed session.
    pub(super) fn completed(&mut self, lasting: Duration) {
        self.counts.completed += 1;
        self.lasting.record(lasting);
    }

    /// The figures as reports have them.
    pub(super) fn figures(&self) -> SessionFigures {
        SessionFigures {
            mean_ms: self.lasting.mean_ms(),
            p50_ms: self.lasting.quantile_ms(0.5),
            p99_ms: self.lasting.quantile_ms(0.99),
            ..self.counts.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_of_good_answers_only() {
        let mut tally = Tally::default();
        assert_eq!(tally.quantile(0.5), None);
        assert_eq!(tally.figures().mean_ms, None);
        for ms in 1..=1000 {
            tally.ended(Outcome::Ok, Duration::from_millis(ms));
        }
        for outcome in [Outcome::Refused, Outcome::Failed, Outcome::TimedOut] {
            tally.ended(outcome, Duration::from_secs(60));
        }
        let figures = tally.figures();
        for (name, got, ms) in [
            ("mean", figures.mean_ms, 500.5),
            ("p25", figures.p25_ms, 250.0),
            ("p50", figures.p50_ms, 500.0),
            ("p75", figures.p75_ms, 750.0),
            ("p90", figures.p90_ms, 900.0),
            ("p99", figures.p99_ms, 990.0),
        ] {
            let got = got.unwrap();
            assert!((got / ms - 1.0).abs() < 0.002, "{name}: {got} ms");
        }
        let c = tally.counts;
        assert_eq!((c.ok, c.refused, c.failed, c.timed_out), (1000, 1, 1, 1));
    }

    #[test]
    fn sums_keep_numbers_and_latencies() {
        let (mut a, mut b) = (Tally::default(), Tally::default());
        a.ended(Outcome::Ok, Duration::from_millis(1));
        b.ended(Outcome::Ok, Duration::from_secs(30));
        b.counts.sent = 2;
        (b.attempts, b.bytes) = (3, 4);
        a.add(&b);
        let c = a.counts;
        assert_eq!((c.ok, c.sent, a.attempts, a.bytes), (2, 2, 3, 4));
        assert!(a.quantile(1.0).unwrap() >= Duration::from_secs(30));
    }

    #[test]
    fn absurd_latencies_are_held_at_the_bound() {
        let mut tally = Tally::default();
        tally.ended(Outcome::Ok, Duration::MAX);
        let most = tally.quantile(1.0).unwrap();
        assert!((120..121).contains(&most.as_secs()), "{most:?}");
    }
}
