//! The token bucket as the kernel keeps it: that of [`crate::admit::partition`] in numbers of 64 bits, without a division where a token is taken.
//!
//! The program in C (`tiergate-kernel`, `bpf/bucket.h`) does the same, operation by operation; a test of that crate compares the two. A level is counted in
//! [`TOKEN`]ths of a token and a rate in [`TOKEN_PER_SECOND`]ths of a token a second, so that rate × nanoseconds is what has come. Rates are rounded to these: below one token a minute that is
//! more than a thousandth, and such policers stay with the gateway.
//!
//! Source: Voigt B §3.1, Voigt D §2.4. The arithmetic is ours.

use crate::admit::bucket::{PARTS, Rate};
use crate::admit::policer::{Per, Settings, Share};

/// A token a second, in the units of a rate.
pub const TOKEN_PER_SECOND: u64 = 1 << 16;
/// A token, in the units of a level.
pub const TOKEN: u64 = TOKEN_PER_SECOND * 1_000_000_000;
/// Most partitions of a bucket. Each costs a settled packet some nanoseconds.
pub const PARTITIONS_MAX: usize = 8;
/// Most tokens of a bucket, all bursts together: what comes in one step is added to it in 64 bits.
pub const TOKENS_MAX: u64 = 65_000;
/// What comes in one step, at most: some 70,000 tokens. A longer pause counts for no more.
const STEP_MAX: u64 = 1 << 62;
/// Levels are kept in proportion to bursts in this many steps.
const PROPORTION_BITS: u32 = 16;

/// A part of a bucket: what comes, and how much of it is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Part {
    /// What comes in a nanosecond.
    pub rate: u64,
    /// How much is kept.
    pub burst: u64,
    /// Whose it is, so that a class keeps what it has when partitions are moved; not read for the overflow.
    pub key: u64,
}

/// What a bucket is to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Wanted {
    /// How many of `parts` there are.
    pub len: u64,
    /// The longest time that is settled at once, in nanoseconds.
    pub longest: u64,
    /// What any class may draw on, and what comes to it apart from what others cannot keep.
    pub overflow: Part,
    /// What each class has of its own.
    pub parts: [Part; PARTITIONS_MAX],
}

/// Why a policer has no bucket in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoBucket {
    /// Each flow has one.
    Flows,
    /// More classes have a share.
    Shares,
    /// It holds more tokens.
    Burst,
    /// The rate is below a token a minute, or above a million a second.
    Rate,
}

impl Wanted {
    /// The bucket of a policer, with the rate that is in force.
    ///
    /// # Errors
    /// Why it cannot be kept in the kernel.
    pub fn of(settings: &Settings, rate: Rate) -> Result<Wanted, NoBucket> {
        let shares = &settings.shares;
        let bursts = shares.iter().map(|it| u64::from(it.burst)).sum::<u64>();
        if settings.per != Per::Rule {
            return Err(NoBucket::Flows);
        }
        if shares.len() > PARTITIONS_MAX {
            return Err(NoBucket::Shares);
        }
        if bursts + u64::from(settings.burst) > TOKENS_MAX {
            return Err(NoBucket::Burst);
        }
        if settings.rate < Rate::per_minute(1) || settings.rate > Rate::per_second(1_000_000) {
            return Err(NoBucket::Rate);
        }
        Ok(Wanted::at(settings.burst, shares, rate.min(settings.rate)))
    }

    /// The same without shares: all that comes is the overflow's.
    pub fn undivided(self) -> Wanted {
        let of_parts = self.parts[..self.len as usize].iter().map(|part| part.rate).sum::<u64>();
        let overflow = Part { rate: self.overflow.rate + of_parts, ..self.overflow };
        Wanted { len: 0, overflow, parts: Default::default(), ..self }
    }

    fn at(burst: u32, shares: &[Share], rate: Rate) -> Wanted {
        let rate = (rate.tokens_per_second() * TOKEN_PER_SECOND as f64).round() as u64;
        let mut wanted = Wanted {
            len: shares.len() as u64,
            longest: STEP_MAX / rate.max(1),
            overflow: Part { rate, burst: u64::from(burst) * TOKEN, key: 0 },
            parts: Default::default(),
        };
        for (part, share) in wanted.parts.iter_mut().zip(shares) {
            let of_rate = rate * u64::from(share.parts) / PARTS;
            let key = share.class.index() as u64;
            *part = Part { rate: of_rate, burst: u64::from(share.burst) * TOKEN, key };
            wanted.overflow.rate = wanted.overflow.rate.saturating_sub(of_rate);
        }
        wanted
    }
}

/// Whose the token was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Took {
    /// None was there.
    Nothing,
    /// That of the partition.
    Own,
    /// That of the overflow.
    Overflow,
}

/// The bucket, as the program in C keeps it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    wanted: Wanted,
    settled: u64,
    overflow: u64,
    parts: [u64; PARTITIONS_MAX],
}

impl Bucket {
    /// A full one at this nanosecond.
    pub fn full(now: u64, wanted: Wanted) -> Bucket {
        let parts = wanted.parts.map(|part| part.burst);
        Bucket { wanted, settled: now, overflow: wanted.overflow.burst, parts }
    }

    /// Another rate, other bursts and shares from now on: each class keeps what it has, and all the overflow, in proportion to the bursts. A class that had
    /// no part has a full one.
    pub fn reconfigure(&mut self, now: u64, wanted: Wanted) {
        self.settle(now);
        let former = *self;
        *self = Bucket { settled: self.settled, ..Bucket::full(now, wanted) };
        for (place, part) in wanted.parts.iter().enumerate().take(wanted.len as usize) {
            let known = former.wanted.parts.iter().take(former.wanted.len as usize);
            if let Some(old) = known.into_iter().position(|it| it.key == part.key) {
                let burst = former.wanted.parts[old].burst;
                self.parts[place] = in_proportion(former.parts[old], burst, part.burst);
            }
        }
        let burst = former.wanted.overflow.burst;
        self.overflow = in_proportion(former.overflow, burst, wanted.overflow.burst);
    }

    /// Takes a token of the partition of that number, or else of the overflow; of the overflow alone, where there is no such partition. O(partitions).
    pub fn take(&mut self, now: u64, partition: usize) -> Took {
        self.settle(now);
        let has_part = partition < self.wanted.len as usize;
        if has_part && self.parts[partition] >= TOKEN {
            self.parts[partition] -= TOKEN;
            return Took::Own;
        }
        if self.overflow >= TOKEN {
            self.overflow -= TOKEN;
            return Took::Overflow;
        }
        Took::Nothing
    }

    fn settle(&mut self, now: u64) {
        // Of two processors' clocks one may be behind.
        let Some(time) = now.checked_sub(self.settled).filter(|time| *time > 0) else { return };
        let time = time.min(self.wanted.longest);
        self.settled = now;
        let mut spilled = self.wanted.overflow.rate * time;
        for place in 0..self.wanted.len as usize {
            let Part { rate, burst, .. } = self.wanted.parts[place];
            let level = self.parts[place] + rate * time;
            self.parts[place] = level.min(burst);
            spilled += level - level.min(burst);
        }
        self.overflow = (self.overflow + spilled).min(self.wanted.overflow.burst);
    }
}

fn in_proportion(level: u64, burst: u64, wanted: u64) -> u64 {
    if burst == wanted {
        return level;
    }
    match burst >> PROPORTION_BITS {
        0 => wanted,
        step => ((level / step).min(1 << PROPORTION_BITS)) * (wanted >> PROPORTION_BITS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admit::partition::Partitions;
    use crate::names::ClassId;
    use crate::time::Moment;
    use proptest::prelude::*;
    use std::time::Duration;

    fn policer(rate: Rate, burst: u32, shares: &[(u16, u32)]) -> Settings {
        let share = |(class, (parts, burst)): (usize, &(u16, u32))| Share {
            class: ClassId(class as u16),
            parts: *parts,
            burst: *burst,
        };
        Settings {
            name: "p".into(),
            key: None,
            rate,
            burst,
            per: Per::Rule,
            shares: shares.iter().enumerate().map(share).collect(),
            inbound: None,
            announce: false,
        }
    }

    #[test]
    fn what_the_kernel_cannot_keep_is_said() {
        let of = |settings: &Settings| Wanted::of(settings, settings.rate).err();
        let plain = |rate| policer(rate, 5, &[]);
        assert_eq!(of(&plain(Rate::per_minute(1))), None);
        assert_eq!(of(&plain(Rate::of_thousandths(999, 60))), Some(NoBucket::Rate));
        assert_eq!(of(&plain(Rate::per_second(1_000_001))), Some(NoBucket::Rate));
        let all = TOKENS_MAX as u32;
        assert_eq!(of(&policer(Rate::per_second(1), all, &[])), None);
        assert_eq!(of(&policer(Rate::per_second(1), all, &[(1, 1)])), Some(NoBucket::Burst));
        assert_eq!(of(&policer(Rate::per_second(1), 1, &[(1, 1); 8])), None);
        assert_eq!(of(&policer(Rate::per_second(1), 1, &[(1, 1); 9])), Some(NoBucket::Shares));
        let flows = Settings { per: Per::Flow { flows_max: 9 }, ..plain(Rate::per_second(1)) };
        assert_eq!(of(&flows), Some(NoBucket::Flows));
    }

    #[test]
    fn the_rate_in_force_is_at_most_that_of_the_policy() {
        let settings = policer(Rate::per_second(100), 5, &[]);
        let at =
            |rate| Wanted::of(&settings, Rate::per_second(rate)).expect("it can").overflow.rate;
        assert_eq!((at(40), at(1000)), (40 * TOKEN_PER_SECOND, 100 * TOKEN_PER_SECOND));
        assert_eq!(at(0), 0, "a controller may stop it altogether");
    }

    #[test]
    fn the_longest_pause_and_the_highest_rate_do_not_overflow() {
        for (rate, shares) in [(1_000_000, &[(10_000, 60_000)][..]), (1, &[]), (1, &[(1, 60_000)])]
        {
            let settings = policer(Rate::per_second(rate), 5000, shares);
            let wanted = Wanted::of(&settings, settings.rate).expect("it can");
            let mut bucket = Bucket::full(0, wanted);
            assert_ne!(bucket.take(u64::MAX, 0), Took::Nothing);
            assert_eq!(bucket.take(3, 0), bucket.clone().take(3, 0), "a clock that is behind");
        }
    }

    proptest! {
        /// What passes is what the gateway's own policer lets pass, to one token at each change of rate and where rounding decides.
        #[test]
        fn it_lets_pass_what_the_gateway_would(
            rate in 1_u32..5000,
            burst in 0_u32..50,
            shares in prop::collection::vec((0_u16..1200, 1_u32..30), 0..=PARTITIONS_MAX),
            steps in prop::collection::vec((0_u64..40_000_000, 0_usize..10), 1..400),
            later in 1_u32..5000,
        ) {
            let highest = rate.max(later);
            let settings = policer(Rate::per_second(highest), burst, &shares);
            let bucket_at = |rate| Wanted::of(&settings, Rate::per_second(rate)).expect("it can");
            let mut bucket = Bucket::full(0, bucket_at(rate));
            let of_gateway = Rate::per_second(rate);
            let mut gateway = Partitions::new(Moment::ZERO, of_gateway, burst, &settings.shares);
            let (mut now, mut passed, mut wanted) = (0, 0_i64, 0_i64);
            for (place, (pause, class)) in steps.iter().enumerate() {
                if place == steps.len() / 2 {
                    bucket.reconfigure(now, bucket_at(later));
                    let moment = Moment::ZERO + Duration::from_nanos(now);
                    gateway.reconfigure(moment, Rate::per_second(later), burst, &settings.shares);
                }
                now += pause;
                let moment = Moment::ZERO + Duration::from_nanos(now);
                let mine = bucket.take(now, *class);
                let theirs = gateway.take(moment, ClassId(*class as u16));
                passed += i64::from(mine != Took::Nothing);
                wanted += i64::from(theirs.is_some());
            }
            let close = 2 + shares.len() as i64;
            prop_assert!((passed - wanted).abs() <= close, "{} of the kernel, {} of the gateway", passed, wanted);
        }
    }
}
