//! A histogram of durations with a fixed size and a fixed relative error.

use std::time::Duration;

/// Buckets per doubling: each is at most 25 % wide.
const PER_OCTAVE: usize = 4;
/// Octaves from 1 µs up: the last ends above 17 minutes.
const OCTAVES: usize = 30;
const BUCKETS: usize = PER_OCTAVE * OCTAVES + 1;

/// Counts durations in buckets whose width grows with the value: 4 per doubling from 1 µs to
/// 2^30 µs. Recording costs a few instructions and never allocates. About 1 KiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    buckets: Box<[u64; BUCKETS]>,
    count: u64,
    sum_us: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { buckets: Box::new([0; BUCKETS]), count: 0, sum_us: 0 }
    }
}

impl Histogram {
    /// Counts one duration.
    pub fn record(&mut self, span: Duration) {
        let (bucket, us) = Self::bucket(span);
        self.buckets[bucket] += 1;
        self.count += 1;
        self.sum_us = self.sum_us.saturating_add(us);
    }

    /// How many buckets there are.
    pub const BUCKETS: usize = BUCKETS;

    /// The bucket of a duration, from 0; and the duration in whole µs.
    pub fn bucket(span: Duration) -> (usize, u64) {
        let us = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        (bucket_of(us), us)
    }

    /// Adds durations that were counted elsewhere, in a bucket, without their sum.
    pub fn add_counted(&mut self, bucket: usize, count: u64) {
        self.buckets[bucket] += count;
        self.count += count;
    }

    /// Adds to the sum of what was counted elsewhere. In µs.
    pub fn add_sum(&mut self, sum_us: u64) {
        self.sum_us = self.sum_us.saturating_add(sum_us);
    }

    /// How many durations were recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Sum of all recorded durations, in seconds.
    pub fn sum_seconds(&self) -> f64 {
        self.sum_us as f64 / 1e6
    }

    /// Upper bound of the bucket in which the `quantile` (0.0 to 1.0) lies; `None` when empty.
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        if self.count == 0 {
            return None;
        }
        let rank = ((quantile.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let place = self.buckets.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        Some(Duration::from_micros(upper_us(place.unwrap_or(BUCKETS - 1))))
    }

    /// What was recorded since `earlier`, a former state of this histogram.
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        let mut buckets = self.buckets.clone();
        for (bucket, before) in buckets.iter_mut().zip(earlier.buckets.iter()) {
            *bucket = bucket.saturating_sub(*before);
        }
        Histogram {
            buckets,
            count: self.count.saturating_sub(earlier.count),
            sum_us: self.sum_us.saturating_sub(earlier.sum_us),
        }
    }

    /// Counts what another has recorded, too.
    pub fn add(&mut self, other: &Histogram) {
        for (bucket, more) in self.buckets.iter_mut().zip(other.buckets.iter()) {
            *bucket += more;
        }
        self.count += other.count;
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
    }

    /// Counts at each doubling: `(upper bound in seconds, how many in that octave)`, lowest first.
    pub fn octaves(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        (0..OCTAVES).map(|octave| {
            let first = octave * PER_OCTAVE;
            // The open-ended last bucket belongs to no octave; it is in `count` only.
            let count = self.buckets[first..first + PER_OCTAVE].iter().sum();
            (upper_us(first + PER_OCTAVE - 1) as f64 / 1e6, count)
        })
    }
}

/// Octave by the highest bit, quarter by the two bits below it.
fn bucket_of(us: u64) -> usize {
    if us == 0 {
        return 0;
    }
    let octave = us.ilog2() as usize;
    let quarter = if octave >= 2 { (us >> (octave - 2)) & 3 } else { (us << (2 - octave)) & 3 };
    (octave * PER_OCTAVE + quarter as usize).min(BUCKETS - 1)
}

/// Upper bound of a bucket in µs, exclusive.
fn upper_us(bucket: usize) -> u64 {
    let (octave, quarter) = (bucket / PER_OCTAVE, (bucket % PER_OCTAVE) as u64);
    (((5 + quarter) << octave) / 4).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_lies_below_its_bucket_s_bound_and_within_a_quarter_of_it() {
        for us in (1..100_000u64).chain([1 << 20, (1 << 29) + 12_345]) {
            let upper = upper_us(bucket_of(us));
            assert!(us <= upper, "{us} above {upper}");
            assert!(upper as f64 <= us as f64 * 1.25 + 1.0, "{us} far below {upper}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_and_octaves_count_everything() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        for ms in 1..=100 {
            histogram.record(Duration::from_millis(ms));
        }
        let median = histogram.quantile(0.5).expect("not empty").as_secs_f64();
        assert!((0.050..0.0625).contains(&median), "{median}");
        assert_eq!(histogram.octaves().map(|(_, count)| count).sum::<u64>(), 100);
        assert!((histogram.sum_seconds() - 5.05).abs() < 1e-9);
    }

    #[test]
    fn what_is_added_counts_as_if_it_was_recorded() {
        let [mut one, mut other, mut both] = [(); 3].map(|()| Histogram::default());
        for ms in 1..=100 {
            let span = Duration::from_millis(ms);
            both.record(span);
            if ms % 3 == 0 { one.record(span) } else { other.record(span) }
        }
        one.add(&other);
        assert_eq!(one, both);
    }

    #[test]
    fn what_is_counted_elsewhere_counts_as_if_it_was_recorded() {
        let [mut one, mut other] = [(); 2].map(|()| Histogram::default());
        for ms in [0, 1, 3, 70_000, u64::MAX] {
            let span = Duration::from_millis(ms);
            one.record(span);
            let (bucket, us) = Histogram::bucket(span);
            other.add_counted(bucket, 1);
            other.add_sum(us);
        }
        assert_eq!(one, other);
    }

    #[test]
    fn since_gives_the_difference() {
        let mut histogram = Histogram::default();
        histogram.record(Duration::from_millis(1));
        let before = histogram.clone();
        histogram.record(Duration::from_secs(1));
        let after = histogram.since(&before);
        assert_eq!(after.count(), 1);
        assert!(after.quantile(0.0).expect("one value") >= Duration::from_secs(1));
    }
}
