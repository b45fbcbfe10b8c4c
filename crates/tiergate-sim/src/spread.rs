//! Exact counts and finely binned quantiles of durations.

/// Buckets per factor of e: each is 2 % wide, fine enough to judge a ratio of 1.25.
const PER_E: f64 = 50.0;
/// From 1 µs to 1,000 s.
const BUCKETS: usize = 1037;

/// Durations of a class: count, sum and a histogram with buckets 2 % wide.
#[derive(Clone, Debug, Default)]
pub struct Spread {
    /// Empty until something is counted: most are of phases and classes without a request.
    buckets: Vec<u32>,
    count: u64,
    sum_ns: f64,
}

impl Spread {
    /// Counts one duration.
    pub fn record(&mut self, nanos: u64) {
        if self.buckets.is_empty() {
            self.buckets = vec![0; BUCKETS];
        }
        let us = (nanos as f64 / 1e3).max(1.0);
        let bucket = (us.ln() * PER_E) as usize;
        self.buckets[bucket.min(BUCKETS - 1)] += 1;
        self.count += 1;
        self.sum_ns += nanos as f64;
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean in milliseconds; 0 when empty.
    pub fn mean_ms(&self) -> f64 {
        self.sum_ns / 1e6 / self.count.max(1) as f64
    }

    /// The `quantile` (0.0 to 1.0) in milliseconds, to 2 %; 0 when empty.
    pub fn quantile_ms(&self, quantile: f64) -> f64 {
        let rank = ((quantile * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (place, &count) in self.buckets.iter().enumerate() {
            seen += u64::from(count);
            if seen >= rank {
                return ((place as f64 + 0.5) / PER_E).exp() / 1e3;
            }
        }
        0.0
    }

    /// Adds another's counts.
    pub fn merge(&mut self, other: &Spread) {
        if self.buckets.is_empty() {
            self.buckets.clone_from(&other.buckets);
        } else {
            for (bucket, more) in self.buckets.iter_mut().zip(&other.buckets) {
                *bucket += more;
            }
        }
        self.count += other.count;
        self.sum_ns += other.sum_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_to_two_percent() {
        let mut spread = Spread::default();
        for ms in 1..=1000_u64 {
            spread.record(ms * 1_000_000);
        }
        for quantile in [0.1, 0.5, 0.99] {
            let error = spread.quantile_ms(quantile) / (quantile * 1000.0) - 1.0;
            assert!(error.abs() < 0.02, "{quantile}: {error}");
        }
        assert!((spread.mean_ms() - 500.5).abs() < 1e-6);
        assert_eq!(Spread::default().quantile_ms(0.5), 0.0);
    }
}
