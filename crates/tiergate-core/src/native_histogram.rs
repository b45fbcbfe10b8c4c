//! A finer histogram of durations, and its form as a native histogram of Prometheus: exponential buckets, of which only those with
//! a count are told.
//!
//! It is counted in 16 buckets per doubling of whole µs, which [`FineHistogram::coarse`] sums up to exactly those of [`Histogram`],
//! and each of which lies, by its middle, in one exponential bucket. So a duration is at most 3.2 % off when its
//! exponential bucket, which is 9.1 % wide, is told (more only below 16 µs).
//!
//! Source: Prometheus "Native Histograms", standard schemas: bucket `i` of schema `s` has the durations above 2^((i-1)/2^s) s and up to
//! 2^(i/2^s) s.

use crate::histogram::Histogram;
use std::time::Duration;

/// Buckets per doubling.
const PER_OCTAVE: usize = 16;
/// Those of them that one bucket of [`Histogram`] has.
const PER_COARSE: usize = (BUCKETS - 1) / (Histogram::BUCKETS - 1);
/// Octaves from 1 µs up, as those of [`Histogram`].
const OCTAVES: usize = 30;
const BUCKETS: usize = PER_OCTAVE * OCTAVES + 1;

/// The finest schema told: 8 buckets per doubling.
const SCHEMA: i32 = 3;
/// Most buckets told; with more, the schema is coarser by one, of which there are 117 at most.
pub const BUCKETS_MAX: usize = 160;
/// Durations below it are in no bucket but the zero bucket, in µs.
const ZERO_BELOW_US: u32 = 2;

/// Counts durations in 16 buckets per doubling from 1 µs to 2^30 µs. About 4 KiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FineHistogram {
    buckets: Box<[u64; BUCKETS]>,
    sum_us: u64,
}

impl Default for FineHistogram {
    fn default() -> Self {
        FineHistogram { buckets: Box::new([0; BUCKETS]), sum_us: 0 }
    }
}

/// A native histogram of durations.
#[derive(Clone, Debug, PartialEq)]
pub struct Exponential {
    /// How fine the buckets are: 2^`schema` of them per doubling.
    pub schema: i32,
    /// Durations up to it are counted in `zero_count`, in seconds.
    pub zero_threshold: f64,
    /// How many they are.
    pub zero_count: u64,
    /// Index and count of each bucket that has any, lowest first; at most [`BUCKETS_MAX`].
    pub buckets: Vec<(i32, u64)>,
}

/// Consecutive buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first one's index; in all spans but the first: how many buckets without a count are before it.
    pub offset: i32,
    /// How many they are.
    pub length: u32,
}

impl FineHistogram {
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
    }

    /// Adds to the sum of what was counted elsewhere. In µs.
    pub fn add_sum(&mut self, sum_us: u64) {
        self.sum_us = self.sum_us.saturating_add(sum_us);
    }

    /// What [`Histogram`] would have counted.
    pub fn coarse(&self) -> Histogram {
        let mut coarse = Histogram::default();
        for (bucket, count) in self.buckets.iter().enumerate() {
            coarse.add_counted(bucket / PER_COARSE, *count);
        }
        coarse.add_sum(self.sum_us);
        coarse
    }

    /// The same as a native histogram.
    pub fn exponential(&self) -> Exponential {
        let fine = self.at(SCHEMA);
        if fine.buckets.len() <= BUCKETS_MAX { fine } else { self.at(SCHEMA - 1) }
    }

    fn at(&self, schema: i32) -> Exponential {
        let (mut zero_count, mut buckets) = (0, Vec::<(i32, u64)>::new());
        for (bucket, count) in self.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            if lower_us(bucket) < f64::from(ZERO_BELOW_US) {
                zero_count += count;
                continue;
            }
            let index = ((middle_us(bucket) / 1e6).log2() * 2f64.powi(schema)).ceil() as i32;
            match buckets.last_mut() {
                Some((last, sum)) if *last == index => *sum += count,
                _ => buckets.push((index, *count)),
            }
        }
        let zero_threshold = f64::from(ZERO_BELOW_US) / 1e6;
        Exponential { schema, zero_threshold, zero_count, buckets }
    }
}

impl Exponential {
    /// The buckets as the exposition tells them: where they are, and by how much each count is above the one before it, the first
    /// above 0.
    pub fn spans(&self) -> (Vec<Span>, Vec<i64>) {
        let (mut spans, mut deltas) = (Vec::<Span>::new(), Vec::new());
        let (mut next, mut before) = (0, 0);
        for (index, count) in &self.buckets {
            match spans.last_mut() {
                Some(span) if *index == next => span.length += 1,
                // The first one's offset is its index.
                _ => spans.push(Span { offset: index - next, length: 1 }),
            }
            next = index + 1;
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            deltas.push(count - before);
            before = count;
        }
        (spans, deltas)
    }
}

/// Octave by the highest bit, sixteenth by the four bits below it.
fn bucket_of(us: u64) -> usize {
    if us == 0 {
        return 0;
    }
    let octave = us.ilog2() as usize;
    let part = if octave >= 4 { (us >> (octave - 4)) & 15 } else { (us << (4 - octave)) & 15 };
    (octave * PER_OCTAVE + part as usize).min(BUCKETS - 1)
}

/// Lower bound of a bucket, inclusive.
fn lower_us(bucket: usize) -> f64 {
    let (octave, part) = (bucket / PER_OCTAVE, bucket % PER_OCTAVE);
    2f64.powi(octave as i32) * (1.0 + part as f64 / PER_OCTAVE as f64)
}

/// The middle of what a bucket has: durations are counted in whole µs, so that it is at least 1 µs wide.
fn middle_us(bucket: usize) -> f64 {
    let width = 2f64.powi((bucket / PER_OCTAVE) as i32) / PER_OCTAVE as f64;
    lower_us(bucket) + width.max(1.0) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(spans: impl IntoIterator<Item = Duration>) -> FineHistogram {
        let mut histogram = FineHistogram::default();
        for span in spans {
            let (bucket, us) = FineHistogram::bucket(span);
            histogram.add_counted(bucket, 1);
            histogram.add_sum(us);
        }
        histogram
    }

    /// The buckets that spans and deltas stand for.
    fn read(spans: &[Span], deltas: &[i64]) -> Vec<(i32, u64)> {
        let (mut index, mut count, mut deltas) = (0, 0, deltas.iter());
        let mut buckets = Vec::new();
        for span in spans {
            index += span.offset;
            for _ in 0..span.length {
                count += deltas.next().unwrap();
                buckets.push((index, count.try_into().unwrap()));
                index += 1;
            }
        }
        assert_eq!(deltas.next(), None);
        buckets
    }

    #[test]
    fn nothing_and_very_little_are_in_no_bucket() {
        let empty = FineHistogram::default().exponential();
        assert_eq!((empty.zero_count, empty.spans()), (0, (vec![], vec![])));
        let little = of([0, 1, 1].map(Duration::from_micros)).exponential();
        assert_eq!((little.zero_count, little.buckets), (3, vec![]));
        let (spans, deltas) = of([1, 1, 1, 2].map(Duration::from_secs)).exponential().spans();
        // 1 s is the upper bound of bucket 0, 2 s of bucket 8.
        assert_eq!(spans, [Span { offset: 0, length: 1 }, Span { offset: 7, length: 1 }]);
        assert_eq!(deltas, [3, -2]);
    }

    #[test]
    fn of_too_many_buckets_half_are_told() {
        let all = of((0..FineHistogram::BUCKETS)
            .map(|it| Duration::from_nanos((lower_us(it) * 1e3) as u64 + 1)));
        let told = all.exponential();
        assert_eq!(told.schema, 2);
        assert!(told.buckets.len() <= BUCKETS_MAX, "{}", told.buckets.len());
        let counted = told.zero_count + told.buckets.iter().map(|it| it.1).sum::<u64>();
        assert_eq!(counted, all.coarse().count());
    }

    fn durations() -> impl Strategy<Value = Vec<Duration>> {
        // As many of each magnitude, from 16 µs to an hour.
        let one = (4.0..31.7f64).prop_map(|log| Duration::from_secs_f64(log.exp2() / 1e6));
        prop::collection::vec(one, 1..300)
    }

    proptest! {
        #[test]
        fn it_sums_up_to_the_coarse_one(spans in durations(), more in prop::collection::vec(any::<u32>(), 0..50)) {
            let spans: Vec<_> = spans.into_iter().chain(more.into_iter().map(|us| Duration::from_micros(us.into()))).collect();
            let mut coarse = Histogram::default();
            spans.iter().for_each(|span| coarse.record(*span));
            prop_assert_eq!(of(spans).coarse(), coarse);
        }

        #[test]
        fn spans_say_where_counts_are_and_quantiles_are_those_of_the_samples(mut spans in durations()) {
            let histogram = of(spans.iter().copied()).exponential();
            let (told, deltas) = histogram.spans();
            prop_assert!(histogram.buckets.len() <= BUCKETS_MAX);
            prop_assert_eq!(read(&told, &deltas), histogram.buckets.clone());
            prop_assert!(told.iter().skip(1).all(|span| span.offset > 0));
            let count: u64 = histogram.buckets.iter().map(|it| it.1).sum();
            prop_assert_eq!(count + histogram.zero_count, spans.len() as u64);
            spans.sort();
            for quantile in [0.0, 0.5, 0.9, 0.99, 1.0] {
                let rank = ((quantile * count as f64).ceil() as u64).max(1);
                let mut seen = 0;
                let (index, _) = histogram.buckets.iter().find(|it| { seen += it.1; seen >= rank }).unwrap();
                let bound = |index: i32| (f64::from(index) / 2f64.powi(histogram.schema)).exp2();
                let exact = spans[rank as usize - 1].as_secs_f64();
                // Above 2^30 µs all are in the last one.
                let exact = exact.min(middle_us(BUCKETS - 1) / 1e6);
                prop_assert!(exact > bound(index - 1) / 1.0321, "{exact} below bucket {index}");
                prop_assert!(exact < bound(*index) * 1.0321, "{exact} above bucket {index}");
            }
        }
    }
}
