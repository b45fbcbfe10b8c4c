//! Durations of which quantiles are asked.

use std::time::Duration;

/// Most durations that are kept, 16 bytes each.
const KEPT_MAX: usize = 32_768;

/// Durations; of more than are kept, every second, fourth, … one.
#[derive(Clone, Debug)]
pub struct Samples {
    kept: Vec<Duration>,
    /// Of so many, one is kept.
    every: u32,
    skipped: u32,
    sum: Duration,
    count: u64,
}

impl Default for Samples {
    fn default() -> Self {
        Samples { kept: Vec::new(), every: 1, skipped: 0, sum: Duration::ZERO, count: 0 }
    }
}

impl Samples {
    /// Takes one in.
    pub fn add(&mut self, duration: Duration) {
        self.count += 1;
        self.sum += duration;
        self.skipped += 1;
        if self.skipped < self.every {
            return;
        }
        self.skipped = 0;
        if self.kept.len() == KEPT_MAX {
            let mut place = 0;
            self.kept.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.every *= 2;
        }
        self.kept.push(duration);
    }

    /// Takes in those of others.
    pub fn extend(&mut self, others: &Samples) {
        let sum = self.sum + others.sum;
        let count = self.count + others.count;
        others.kept.iter().for_each(|it| self.add(*it));
        (self.sum, self.count) = (sum, count);
    }

    /// The quantile (0.0 to 1.0); `None` if there is none. Sorts a copy of what is kept.
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        let mut sorted = self.kept.clone();
        sorted.sort_unstable();
        let place = (quantile.clamp(0.0, 1.0) * sorted.len() as f64).ceil() as usize;
        sorted.get(place.max(1) - 1).copied()
    }

    /// The mean of all, also of those that are not kept.
    pub fn mean(&self) -> Option<Duration> {
        (self.count > 0).then(|| self.sum.div_f64(self.count as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_hold_when_most_are_left_out() {
        let mut samples = Samples::default();
        assert_eq!((samples.quantile(0.5), samples.mean()), (None, None));
        let count = 10 * KEPT_MAX as u64;
        for micros in 1..=count {
            samples.add(Duration::from_micros(micros));
        }
        assert!(samples.kept.len() <= KEPT_MAX);
        for quantile in [0.01, 0.5, 0.99] {
            let found = samples.quantile(quantile).expect("there are some").as_micros() as f64;
            let off = found / (quantile * count as f64) - 1.0;
            assert!(off.abs() < 0.02, "{quantile}: {off}");
        }
        let one = Duration::from_secs(1);
        let mut samples = Samples::default();
        samples.add(one);
        assert_eq!([0.0, 0.5, 1.0].map(|it| samples.quantile(it)), [Some(one); 3]);
    }
}
