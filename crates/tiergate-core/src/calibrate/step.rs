//! A step of the ramp: one concurrency, measured for a while.

use super::samples::Samples;
use super::usage::{Resource, Usage};
use std::time::Duration;

/// What happened in a short time of constant concurrency.
#[derive(Clone, Debug, Default)]
pub struct Slice {
    /// How long it was.
    pub length: Duration,
    /// Answers that were complete in it, with a status of success.
    pub answered: u64,
    /// Answers 429 or 503.
    pub refused: u64,
    /// Requests without a complete answer, or with another status.
    pub failed: u64,
    /// Requests that were sent once more, since the origin had closed the connection: no other outcome, but load.
    pub resent: u64,
    /// Bytes of the bodies of the answers.
    pub bytes: u64,
    /// Sum, over all that was answered or refused, of the time since the request before it in the same place ended: what a
    /// place of the closed loop takes for a request, with all that the client itself adds.
    pub cycles: Duration,
    /// Times from a request to the last byte of its answer.
    pub latencies: Vec<Duration>,
    /// Sum of the times from a request to the first byte of its answer.
    pub first_bytes: Duration,
    /// Utilizations in it.
    pub usage: Usage,
}

/// Slices of one concurrency.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// Requests in progress.
    pub concurrency: u32,
    /// How long it was measured.
    pub time: Duration,
    /// Answers with a status of success.
    pub answered: u64,
    /// Answers 429 or 503.
    pub refused: u64,
    /// Requests without a complete answer, or with another status.
    pub failed: u64,
    /// Bytes of the bodies.
    pub bytes: u64,
    /// Mean utilizations.
    pub usage: Usage,
    latencies: Samples,
    first_bytes: Duration,
    cycles: Duration,
    /// Length, count of answers.
    slices: Vec<(f64, f64)>,
}

/// With so few answers for each place of the loop, their times tell the throughput better than their count: answers that come
/// in bursts would be one burst too many or too few. With still fewer they do not: the quick ones have ended, the slow ones not.
const TURNS_FEW: std::ops::Range<f64> = 2.0..20.0;
/// The least error of a throughput, relative to that of arrivals that know nothing of each other: what a few blocks have in common
/// may be chance.
const POISSON_PART: f64 = 0.5;
/// Blocks of slices by whose spread the error of a throughput is known.
const BLOCKS_MIN: usize = 4;

impl Step {
    /// Of which nothing is known yet.
    pub fn new(concurrency: u32) -> Self {
        Step { concurrency, ..Step::default() }
    }

    /// Takes a slice in.
    pub fn add(&mut self, slice: &Slice) {
        let (before, length) = (self.time.as_secs_f64(), slice.length.as_secs_f64());
        let both = [(&self.usage, before), (&slice.usage, length)];
        self.usage = Usage::mean(both.into_iter());
        self.time += slice.length;
        self.answered += slice.answered;
        self.refused += slice.refused;
        self.failed += slice.failed;
        self.bytes += slice.bytes;
        self.cycles += slice.cycles;
        self.first_bytes += slice.first_bytes;
        for latency in &slice.latencies {
            self.latencies.add(*latency);
        }
        self.slices.push((length, slice.answered as f64));
    }

    /// Both steps of one concurrency as one.
    #[must_use]
    pub(super) fn with(&self, other: &Step) -> Step {
        let seconds = |it: &Step| it.time.as_secs_f64();
        let usage = [(&self.usage, seconds(self)), (&other.usage, seconds(other))];
        let mut latencies = self.latencies.clone();
        latencies.extend(&other.latencies);
        Step {
            concurrency: self.concurrency,
            time: self.time + other.time,
            answered: self.answered + other.answered,
            refused: self.refused + other.refused,
            failed: self.failed + other.failed,
            bytes: self.bytes + other.bytes,
            usage: Usage::mean(usage.into_iter()),
            latencies,
            first_bytes: self.first_bytes + other.first_bytes,
            cycles: self.cycles + other.cycles,
            slices: [&self.slices[..], &other.slices[..]].concat(),
        }
    }

    /// Answers a second.
    ///
    /// By Little's law from the mean time of a turn of the loop where few turns were seen, else by count.
    pub fn rate(&self) -> f64 {
        let ended = (self.answered + self.refused) as f64;
        let seconds = self.time.as_secs_f64();
        if ended == 0.0 || seconds == 0.0 {
            return 0.0;
        }
        let places = f64::from(self.concurrency);
        let all = match TURNS_FEW.contains(&(ended / places)) && self.failed == 0 {
            true if !self.cycles.is_zero() => places * ended / self.cycles.as_secs_f64(),
            _ => ended / seconds,
        };
        all * self.answered as f64 / ended
    }

    /// The standard error of [`Step::rate`], relative to it.
    ///
    /// By the spread of blocks that are longer than a turn, since within a turn answers come in bursts.
    pub fn error(&self) -> f64 {
        let turn = f64::from(self.concurrency) / self.rate().max(1e-9);
        let poisson = 1.0 / (self.answered.max(1) as f64).sqrt();
        self.spread(turn).unwrap_or(poisson).max(POISSON_PART * poisson)
    }

    /// A throughput that it has at least, by twice its standard error: of many steps, the highest is high by chance.
    pub(super) fn rate_least(&self) -> f64 {
        self.rate() * (1.0 - 2.0 * self.error()).max(0.0)
    }

    fn spread(&self, turn: f64) -> Option<f64> {
        let mut blocks = Vec::new();
        let (mut length, mut count) = (0.0, 0.0);
        for slice in &self.slices {
            (length, count) = (length + slice.0, count + slice.1);
            if length >= turn {
                blocks.push(count / length);
                (length, count) = (0.0, 0.0);
            }
        }
        if blocks.len() < BLOCKS_MIN {
            return None;
        }
        let number = blocks.len() as f64;
        let mean = blocks.iter().sum::<f64>() / number;
        let squares: f64 = blocks.iter().map(|rate| (rate - mean).powi(2)).sum();
        (mean > 0.0).then(|| (squares / (number - 1.0) / number).sqrt() / mean)
    }

    /// A quantile (0.0 to 1.0) of the time from a request to the last byte of its answer.
    pub fn latency(&self, quantile: f64) -> Option<Duration> {
        self.latencies.quantile(quantile)
    }

    /// Mean time from a request to the last byte of its answer.
    pub fn latency_mean(&self) -> Option<Duration> {
        self.latencies.mean()
    }

    /// Share of that time in which the body came: near 1 where what sends or carries it is slow.
    pub fn transfer_share(&self) -> Option<f64> {
        let whole = self.latency_mean()?.as_secs_f64() * (self.answered as f64);
        (whole > 0.0).then(|| (1.0 - self.first_bytes.as_secs_f64() / whole).clamp(0.0, 1.0))
    }

    /// Mean bytes of an answer's body.
    pub fn bytes_each(&self) -> f64 {
        self.bytes as f64 / self.answered.max(1) as f64
    }

    /// Share of the answers that were 429 or 503.
    pub fn refused_share(&self) -> f64 {
        self.refused as f64 / (self.answered + self.refused).max(1) as f64
    }

    /// The utilization of a resource, if it was measured.
    pub fn used(&self, resource: Resource) -> Option<f64> {
        self.usage.of(resource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slice of 250 ms.
    fn slice(answered: u64, latency: Duration) -> Slice {
        Slice {
            length: Duration::from_millis(250),
            answered,
            cycles: latency * answered as u32,
            latencies: vec![latency; answered as usize],
            first_bytes: latency / 4 * answered as u32,
            ..Slice::default()
        }
    }

    #[test]
    fn answers_in_bursts_are_not_counted_one_too_many() {
        // 16 workers in step, a second each: bursts of 16 at the ends of a window of five seconds.
        let second = Duration::from_secs(1);
        let mut step = Step::new(16);
        for place in 0..21 {
            step.add(&slice(if place % 4 == 0 { 16 } else { 0 }, second));
        }
        assert!((step.rate() - 16.0).abs() < 1e-9, "{}", step.rate());
        assert!(step.error() < 0.25, "{}", step.error());
        assert!((step.transfer_share().expect("known") - 0.75).abs() < 1e-3);
    }

    #[test]
    fn many_answers_are_counted() {
        let mut step = Step::new(2);
        for place in 0..8 {
            step.add(&slice(99 + place % 3, Duration::from_millis(5)));
        }
        assert!((step.rate() - 4.0 * 99.875).abs() < 1.0, "{}", step.rate());
        assert!(step.error() < 0.02, "{}", step.error());
        let mut none = Step::new(2);
        none.add(&slice(0, Duration::ZERO));
        assert_eq!((none.rate(), none.latency(0.5)), (0.0, None));
        assert!(none.error() >= 1.0);
    }

    #[test]
    fn refusals_are_no_throughput() {
        let mut step = Step::new(1);
        step.add(&Slice { refused: 50, ..slice(50, Duration::from_millis(2)) });
        assert!((step.rate() - 200.0).abs() < 1e-9);
        assert_eq!(step.refused_share(), 0.5);
    }
}
