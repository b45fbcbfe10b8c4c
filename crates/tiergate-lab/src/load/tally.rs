//! What became of the requests.

use hdrhistogram::Histogram;
use serde_json::{Value, json};
use std::time::Duration;

/// How a request ended for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A whole 2xx answer within the client's patience.
    Ok,
    /// 503 or 429: turned away.
    Refused,
    /// Another status, or a broken connection.
    Failed,
    /// The client gave up.
    TimedOut,
}

/// Numbers of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// That were due to be sent.
    pub(crate) sent: u64,
    /// That ended well: goodput.
    pub(crate) ok: u64,
    /// That were turned away.
    pub(crate) refused: u64,
    /// That broke.
    pub(crate) failed: u64,
    /// That clients gave up.
    pub(crate) timed_out: u64,
}

/// Numbers and latencies of requests.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// The numbers.
    pub(crate) counts: Counts,
    /// Microseconds from the intended sending time to the end of a good answer.
    latency: Histogram<u64>,
}

/// Longest latency told apart, in microseconds.
const LATENCY_MAX_US: u64 = 120_000_000;

impl Tally {
    /// No requests.
    pub(crate) fn new() -> Self {
        let latency = Histogram::new_with_max(LATENCY_MAX_US, 3)
            .expect("three significant digits and this bound are allowed");
        Self { counts: Counts::default(), latency }
    }

    /// Counts the end of a request.
    pub(crate) fn ended(&mut self, outcome: Outcome, latency: Duration) {
        match outcome {
            Outcome::Ok => {
                self.counts.ok += 1;
                self.record(latency);
            }
            Outcome::Refused => self.counts.refused += 1,
            Outcome::Failed => self.counts.failed += 1,
            Outcome::TimedOut => self.counts.timed_out += 1,
        }
    }

    /// Adds a time to the latencies.
    pub(crate) fn record(&mut self, latency: Duration) {
        self.latency.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
    }

    /// Adds another tally to this one.
    pub(crate) fn add(&mut self, other: &Self) {
        self.counts.sent += other.counts.sent;
        self.counts.ok += other.counts.ok;
        self.counts.refused += other.counts.refused;
        self.counts.failed += other.counts.failed;
        self.counts.timed_out += other.counts.timed_out;
        self.latency.add(&other.latency).expect("both have the same bound");
    }

    /// The latency that the fraction `q` of good answers did not exceed; `None` without any.
    pub(crate) fn quantile(&self, q: f64) -> Option<Duration> {
        (!self.latency.is_empty()).then(|| Duration::from_micros(self.latency.value_at_quantile(q)))
    }

    /// The figures under the names that reports use; latencies in milliseconds.
    pub(crate) fn to_json(&self) -> Value {
        let ms = |q| self.quantile(q).map(|latency| latency.as_secs_f64() * 1e3);
        json!({
            "sent": self.counts.sent, "ok": self.counts.ok, "refused": self.counts.refused,
            "failed": self.counts.failed, "timed_out": self.counts.timed_out,
            "p50_ms": ms(0.5), "p99_ms": ms(0.99),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_good_answers_only() {
        let mut tally = Tally::new();
        assert_eq!(tally.quantile(0.5), None);
        for ms in 1..=1000 {
            tally.ended(Outcome::Ok, Duration::from_millis(ms));
        }
        for outcome in [Outcome::Refused, Outcome::Failed, Outcome::TimedOut] {
            tally.ended(outcome, Duration::from_secs(60));
        }
        let near = |q, ms: f64| {
            let got = tally.quantile(q).unwrap().as_secs_f64() * 1e3;
            assert!((got / ms - 1.0).abs() < 0.002, "q {q}: {got} ms");
        };
        near(0.5, 500.0);
        near(0.99, 990.0);
        near(1.0, 1000.0);
        let c = tally.counts;
        assert_eq!((c.ok, c.refused, c.failed, c.timed_out), (1000, 1, 1, 1));
    }

    #[test]
    fn sums_keep_numbers_and_latencies() {
        let (mut a, mut b) = (Tally::new(), Tally::new());
        a.ended(Outcome::Ok, Duration::from_millis(1));
        b.ended(Outcome::Ok, Duration::from_millis(3));
        b.counts.sent = 2;
        a.add(&b);
        assert_eq!((a.counts.ok, a.counts.sent), (2, 2));
        assert!(a.quantile(1.0).unwrap() >= Duration::from_millis(3));
    }

    #[test]
    fn absurd_latencies_are_held_at_the_bound() {
        let mut tally = Tally::new();
        tally.ended(Outcome::Ok, Duration::MAX);
        assert!(tally.quantile(1.0).unwrap() >= Duration::from_micros(LATENCY_MAX_US));
    }
}
