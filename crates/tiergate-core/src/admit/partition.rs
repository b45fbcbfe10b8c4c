//! A token bucket in logical partitions: what is generated is split between classes by share; what a
//! full partition cannot keep spills into an overflow bucket, on which any class may draw when its own
//! is empty. So a class gets its share under overload, and nothing of what it leaves is lost.
//!
//! Without partitions all tokens go to the overflow bucket: a plain token bucket. What the shares leave
//! of the whole goes there too, and a class without a share lives on it.
//!
//! Over any time t no more than rate × t plus all bursts are admitted.
//!
//! Source: Voigt D §2.4, Figure 4; §3.6 has 3/5 : 2/5 with bursts 20 and 5 and an overflow of 5.

use super::bucket::{Level, PARTS, Rate, Taken};
use crate::names::ClassId;
use crate::time::Moment;
use std::time::Duration;

/// A class's part of a policer's tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The class.
    pub class: ClassId,
    /// Its part of the tokens that are generated, in [`PARTS`]: 6000 are 60 %.
    pub parts: u16,
    /// How many tokens it keeps. More ride out greater bursts.
    pub burst: u32,
}

#[derive(Clone, Debug)]
struct Partition {
    class: ClassId,
    parts: u64,
    level: Level,
}

/// The buckets.
#[derive(Clone, Debug)]
pub(crate) struct Partitions {
    rate: Rate,
    settled: Moment,
    partitions: Vec<Partition>,
    /// What no partition gets by its share.
    unshared: u64,
    overflow: Level,
}

impl Partitions {
    /// Full buckets; `burst` is the overflow bucket's.
    pub(crate) fn new(now: Moment, rate: Rate, burst: u32, shares: &[Share]) -> Self {
        let partition = |share: &Share| Partition {
            class: share.class,
            parts: share.parts.into(),
            level: Level::full(share.burst),
        };
        let shared: u64 = shares.iter().map(|share| u64::from(share.parts)).sum();
        Partitions {
            rate,
            settled: now,
            partitions: shares.iter().map(partition).collect(),
            unshared: PARTS.saturating_sub(shared),
            overflow: Level::full(burst),
        }
    }

    /// Another rate, other bursts and shares from now on: each class keeps what its partition holds, and all
    /// keep what the overflow bucket holds, in proportion to the bursts.
    pub(crate) fn reconfigure(&mut self, now: Moment, rate: Rate, burst: u32, shares: &[Share]) {
        self.settle(now);
        let new = Partitions::new(self.settled, rate, burst, shares);
        let former = std::mem::replace(self, new);
        for partition in &mut self.partitions {
            if let Some(old) = former.own(partition.class) {
                partition.level.fill_as(old.level);
            }
        }
        self.overflow.fill_as(former.overflow);
    }

    /// The class's partition, if it has one. O(partitions).
    fn own(&self, class: ClassId) -> Option<&Partition> {
        self.partitions.iter().find(|partition| partition.class == class)
    }

    /// Whether the class would get a token. O(partitions).
    pub(super) fn has_token(&mut self, now: Moment, class: ClassId) -> bool {
        self.settle(now);
        self.own(class).is_some_and(|own| own.level.has_token()) || self.overflow.has_token()
    }

    /// Takes a token of the class's own, or else of the overflow. O(partitions).
    pub(crate) fn take(&mut self, now: Moment, class: ClassId) -> Option<Taken> {
        self.settle(now);
        let own = self.partitions.iter_mut().find(|partition| partition.class == class);
        if own.is_some_and(|own| own.level.take()) {
            return Some(Taken::Own);
        }
        self.overflow.take().then_some(Taken::Overflow)
    }

    /// Whole tokens that the class could take now.
    pub(super) fn tokens(&mut self, now: Moment, class: ClassId) -> u32 {
        self.settle(now);
        let own = self.own(class).map_or(0, |own| own.level.tokens());
        own.saturating_add(self.overflow.tokens())
    }

    /// Whole tokens that the class finds after a pause.
    pub(super) fn most(&self, class: ClassId) -> u32 {
        let own = self.own(class).map_or(0, |own| own.level.most());
        own.saturating_add(self.overflow.most())
    }

    /// How long until the class gets a token if nobody else takes any: zero if there is one,
    /// [`Duration::MAX`] if none ever comes.
    pub(super) fn next_token(&mut self, now: Moment, class: ClassId) -> Duration {
        self.settle(now);
        let time = |own: &Partition| self.rate.time_for(own.level.missing(), own.parts);
        let own = self.own(class).map_or(Duration::MAX, time);
        let full = self.partitions.iter().filter(|partition| partition.level.is_full());
        let spilling = self.unshared + full.map(|partition| partition.parts).sum::<u64>();
        match self.overflow.missing() {
            0 => Duration::ZERO,
            missing => own.min(self.rate.time_for(missing, spilling)),
        }
    }

    /// Generates what has come since the last time. Nothing is taken in between, so that it does not
    /// matter when in between a partition became full.
    fn settle(&mut self, now: Moment) {
        let time = now.since(self.settled);
        if time.is_zero() {
            return;
        }
        self.settled = now;
        let mut spilled = self.rate.amount(time, self.unshared);
        for partition in &mut self.partitions {
            let excess = partition.level.fill(self.rate.amount(time, partition.parts));
            spilled = spilled.saturating_add(excess);
        }
        self.overflow.fill(spilled);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREMIUM: ClassId = ClassId(0);
    const STANDARD: ClassId = ClassId(1);
    const OTHER: ClassId = ClassId(2);

    fn paper(rate: u32) -> Partitions {
        let shares = [
            Share { class: PREMIUM, parts: 6000, burst: 20 },
            Share { class: STANDARD, parts: 4000, burst: 5 },
        ];
        Partitions::new(Moment::ZERO, Rate::per_second(rate), 5, &shares)
    }

    fn drain(buckets: &mut Partitions, now: Moment, class: ClassId) -> u32 {
        let mut taken = 0;
        while buckets.take(now, class).is_some() {
            taken += 1;
        }
        taken
    }

    const SECOND: Duration = Duration::from_secs(1);

    /// A token bucket without partitions.
    fn plain(now: Moment, rate: Rate, burst: u32) -> Partitions {
        Partitions::new(now, rate, burst, &[])
    }

    fn take(buckets: &mut Partitions, now: Moment) -> bool {
        buckets.take(now, OTHER).is_some()
    }

    #[test]
    fn it_gives_the_burst_and_then_the_rate() {
        let mut bucket = plain(Moment::ZERO, Rate::per_second(2), 3);
        let mut now = Moment::ZERO;
        let taken = (0..10).filter(|_| take(&mut bucket, now)).count();
        assert_eq!(taken, 3);
        now = now + SECOND / 2 - Duration::from_nanos(1);
        assert!(!take(&mut bucket, now), "a nanosecond early");
        assert!(take(&mut bucket, now + Duration::from_nanos(1)));
        now = now + SECOND * 3600;
        assert_eq!(bucket.tokens(now, OTHER), 3, "no more than the burst is kept");
    }

    #[test]
    fn years_of_odd_intervals_lose_nothing() {
        // 7 a minute, asked at intervals that divide nothing, for ten years.
        let (rate, step) = (Rate::per_minute(7), Duration::new(3599, 999_999_937));
        let mut bucket = plain(Moment::ZERO, rate, 1000);
        let (mut now, mut taken) = (Moment::ZERO, 0_u128);
        while take(&mut bucket, now) {
            taken += 1;
        }
        for _ in 0..87_600 {
            now = now + step;
            while take(&mut bucket, now) {
                taken += 1;
            }
        }
        assert_eq!(taken, 1000 + u128::from(now.nanos()) * 7 / 60_000_000_000);
    }

    #[test]
    fn the_longest_time_and_the_highest_rate_do_not_overflow() {
        let mut bucket = plain(Moment::ZERO, Rate::MAX, u32::MAX);
        assert!(take(&mut bucket, Moment::NEVER));
        assert_eq!(bucket.tokens(Moment::NEVER, OTHER), u32::MAX - 1);
    }

    #[test]
    fn a_rate_changes_from_now_on() {
        let mut bucket = plain(Moment::ZERO, Rate::per_second(10), 100);
        while take(&mut bucket, Moment::ZERO) {}
        let now = Moment::ZERO + SECOND;
        bucket.reconfigure(now, Rate::per_second(1), 100, &[]);
        assert_eq!(bucket.tokens(now, OTHER), 10, "what came at the former rate");
        assert_eq!(bucket.tokens(now + SECOND, OTHER), 11);
    }

    #[test]
    fn a_class_has_its_own_and_then_the_overflow() {
        let mut buckets = paper(100);
        assert_eq!(buckets.tokens(Moment::ZERO, PREMIUM), 25);
        assert_eq!(drain(&mut buckets, Moment::ZERO, PREMIUM), 25);
        assert_eq!(drain(&mut buckets, Moment::ZERO, STANDARD), 5, "the overflow is gone");
        assert_eq!(drain(&mut buckets, Moment::ZERO, OTHER), 0);
        let now = Moment::from_millis(100);
        assert_eq!(drain(&mut buckets, now, STANDARD), 4);
        assert_eq!(drain(&mut buckets, now, PREMIUM), 6);
    }

    #[test]
    fn what_a_full_partition_cannot_keep_goes_to_whoever_asks() {
        let mut buckets = paper(100);
        drain(&mut buckets, Moment::ZERO, PREMIUM);
        // Standard is full from the beginning: its 40 a second spill.
        let now = Moment::from_millis(100);
        assert_eq!(buckets.take(now, PREMIUM), Some(Taken::Own));
        assert_eq!(drain(&mut buckets, now, PREMIUM), 9);
        assert_eq!(buckets.tokens(now, STANDARD), 5);
    }

    #[test]
    fn the_next_token_comes_when_it_says() {
        let mut buckets = paper(100);
        drain(&mut buckets, Moment::ZERO, PREMIUM);
        drain(&mut buckets, Moment::ZERO, STANDARD);
        for class in [PREMIUM, STANDARD, OTHER] {
            let mut buckets = buckets.clone();
            let wait = buckets.next_token(Moment::ZERO, class);
            if class == OTHER {
                assert_eq!(wait, Duration::MAX, "nothing spills while all are empty");
                continue;
            }
            let then = Moment::ZERO + wait;
            assert!(!buckets.has_token(then - Duration::from_nanos(1), class), "{class:?}");
            assert!(buckets.has_token(then, class), "{class:?}");
            assert_eq!(buckets.next_token(then, class), Duration::ZERO);
        }
    }

    #[test]
    fn a_rest_that_nobody_has_a_share_of_is_everybodys() {
        let shares = [Share { class: PREMIUM, parts: 2500, burst: 1 }];
        let mut buckets = Partitions::new(Moment::ZERO, Rate::per_second(40), 1000, &shares);
        drain(&mut buckets, Moment::ZERO, PREMIUM);
        let now = Moment::from_millis(100);
        assert_eq!(drain(&mut buckets, now, OTHER), 3);
        assert_eq!(drain(&mut buckets, now, PREMIUM), 1);
    }

    #[test]
    fn a_reload_keeps_what_is_there_in_proportion() {
        let mut buckets = paper(100);
        for _ in 0..10 {
            buckets.take(Moment::ZERO, PREMIUM);
        }
        let shares = [Share { class: PREMIUM, parts: 6000, burst: 40 }];
        buckets.reconfigure(Moment::ZERO, Rate::per_second(100), 10, &shares);
        assert_eq!(buckets.tokens(Moment::ZERO, PREMIUM), 20 + 10);
        assert_eq!(buckets.tokens(Moment::ZERO, STANDARD), 10);
    }
}
