//! A policer's bucket by what nftables has: limits, each a rate in whole tokens and a burst, that know nothing of one another.
//!
//! A bucket without shares is one limit, and exact. With shares each class has a limit of its own, and all have one for the overflow. What a class leaves cannot spill into the overflow there. So the overflow
//! has the policer's whole rate, which is the most that could spill: no fewer pass than should, and at most the rate and the shares' rates together. The gateway, which decides again, refuses the others.

use super::bucket::{Part, TOKEN, TOKEN_PER_SECOND, Wanted};

/// What a rate is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Tokens a second.
    Second,
    /// A minute.
    Minute,
    /// An hour.
    Hour,
    /// A day.
    Day,
    /// A week.
    Week,
}

impl Unit {
    /// How long it is.
    pub const fn seconds(self) -> u64 {
        match self {
            Unit::Second => 1,
            Unit::Minute => 60,
            Unit::Hour => 3600,
            Unit::Day => 86_400,
            Unit::Week => 7 * 86_400,
        }
    }

    /// As nftables writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Second => "second",
            Unit::Minute => "minute",
            Unit::Hour => "hour",
            Unit::Day => "day",
            Unit::Week => "week",
        }
    }
}

/// A limit: full at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// So many tokens come; at least one.
    pub tokens: u64,
    /// In this time.
    pub per: Unit,
    /// How many it keeps; at least one.
    pub burst: u32,
}

/// A policer's limits; `None`: no token ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Of each class that has a share.
    pub parts: Vec<Option<Limit>>,
    /// Of all.
    pub overflow: Option<Limit>,
}

impl Limits {
    /// Those of a bucket.
    pub fn of(wanted: &Wanted) -> Limits {
        let Wanted { len, overflow, parts, .. } = wanted;
        let parts = &parts[..(*len as usize).min(parts.len())];
        let whole = overflow.rate + parts.iter().map(|part| part.rate).sum::<u64>();
        Limits {
            parts: parts.iter().map(Limit::of).collect(),
            overflow: Limit::of(&Part { rate: whole, ..*overflow }),
        }
    }
}

impl Limit {
    /// As near as whole tokens come, in the shortest time that makes it exact, or in a day. There is no rate of zero: a token a week stands for it, and what the burst holds.
    fn of(part: &Part) -> Option<Limit> {
        let burst = u32::try_from(part.burst / TOKEN).ok().filter(|burst| *burst > 0)?;
        if part.rate == 0 {
            return Some(Limit { tokens: 1, per: Unit::Week, burst });
        }
        let exact = [Unit::Second, Unit::Minute, Unit::Hour].into_iter().find_map(|per| {
            let tokens = tokens(part.rate, per);
            // Of a rate the last digit is rounded.
            let is_exact =
                (tokens * TOKEN_PER_SECOND).abs_diff(part.rate * per.seconds()) <= per.seconds();
            (is_exact && tokens > 0).then_some((tokens, per))
        });
        let (tokens, per) = exact.unwrap_or((tokens(part.rate, Unit::Day).max(1), Unit::Day));
        Some(Limit { tokens, per, burst })
    }
}

/// How many come in the time, to the nearest.
const fn tokens(rate: u64, per: Unit) -> u64 {
    (rate * per.seconds() + TOKEN_PER_SECOND / 2) / TOKEN_PER_SECOND
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admit::bucket::Rate;
    use crate::admit::policer::{Per, Settings, Share};
    use crate::early::bucket::Bucket;
    use crate::early::bucket::Took;
    use crate::names::ClassId;
    use proptest::prelude::*;

    fn limits(policy: Rate, rate: Rate, burst: u32, shares: &[(u16, u32)]) -> (Wanted, Limits) {
        let share = |(class, (parts, burst)): (usize, &(u16, u32))| Share {
            class: ClassId(class as u16),
            parts: *parts,
            burst: *burst,
        };
        let settings = Settings {
            name: String::new(),
            key: None,
            rate: policy,
            burst,
            per: Per::Rule,
            shares: shares.iter().enumerate().map(share).collect(),
            inbound: None,
            announce: false,
        };
        let wanted = Wanted::of(&settings, rate).expect("within bounds");
        (wanted, Limits::of(&wanted))
    }

    #[test]
    fn rates_are_exact_in_the_shortest_time_that_makes_them_so() {
        let of = |rate| limits(rate, rate, 5, &[]).1.overflow.expect("a limit");
        for (rate, tokens, per) in [
            (Rate::per_second(50), 50, Unit::Second),
            (Rate::per_second(1_000_000), 1_000_000, Unit::Second),
            (Rate::per_minute(1), 1, Unit::Minute),
            (Rate::per_minute(20), 20, Unit::Minute),
            (Rate::of_thousandths(2500, 1), 150, Unit::Minute),
            (Rate::of_thousandths(100_000, 3600), 100, Unit::Hour),
        ] {
            assert_eq!(of(rate), Limit { tokens, per, burst: 5 });
        }
        // As controllers have them.
        let Limit { tokens, per, .. } = of(Rate::of_per_second(37.423_456));
        let found = tokens as f64 / per.seconds() as f64;
        assert!((found / 37.423_456 - 1.0).abs() < 1e-5, "{found}");
    }

    #[test]
    fn no_burst_is_no_limit_and_no_rate_leaves_the_burst() {
        let ten = Rate::per_second(10);
        assert_eq!(limits(ten, ten, 0, &[]).1.overflow, None);
        let none = limits(ten, Rate::default(), 7, &[(5000, 0)]).1;
        let week = Some(Limit { tokens: 1, per: Unit::Week, burst: 7 });
        assert_eq!(none, Limits { parts: vec![None], overflow: week });
    }

    #[test]
    fn the_overflow_has_the_whole_rate() {
        let ten = Rate::per_second(10);
        let found = limits(ten, ten, 3, &[(6000, 20), (3000, 8)]).1;
        let limit = |tokens, burst| Some(Limit { tokens, per: Unit::Second, burst });
        let wanted = Limits { parts: vec![limit(6, 20), limit(3, 8)], overflow: limit(10, 3) };
        assert_eq!(found, wanted);
    }

    /// A limit as Linux keeps it (`nft_limit_eval`): nanoseconds.
    struct Kept {
        cost: u64,
        most: u64,
        held: u64,
        last: u64,
    }

    impl Kept {
        fn new(limit: Limit) -> Kept {
            let cost = limit.per.seconds() * 1_000_000_000 / limit.tokens;
            let most = cost * u64::from(limit.burst);
            Kept { cost, most, held: most, last: 0 }
        }

        fn take(&mut self, now: u64) -> bool {
            self.held = (self.held + now - self.last).min(self.most);
            self.last = now;
            let passes = self.held >= self.cost;
            if passes {
                self.held -= self.cost;
            }
            passes
        }
    }

    proptest! {
        /// In any time at least as many pass as the bucket lets pass, and without shares no more: to one token.
        #[test]
        fn no_fewer_pass_than_the_bucket_has_tokens_for(
            rate in 1_u32..2000,
            burst in 0_u32..30,
            shares in prop::collection::vec((0_u16..1200, 0_u32..20), 0..=4),
            steps in prop::collection::vec((0_u64..20_000_000, 0_usize..6), 1..400),
        ) {
            let rate = Rate::per_second(rate);
            let (wanted, limits) = limits(rate, rate, burst, &shares);
            let mut bucket = Bucket::full(0, wanted);
            let mut parts: Vec<Option<Kept>> =
                limits.parts.iter().map(|it| it.map(Kept::new)).collect();
            let mut overflow = limits.overflow.map(Kept::new);
            let (mut now, mut passed, mut wanted) = (0, 0_i64, 0_i64);
            for (pause, class) in steps {
                now += pause;
                let own = parts.get_mut(class).and_then(Option::as_mut);
                let passes = own.is_some_and(|it| it.take(now))
                    || overflow.as_mut().is_some_and(|it| it.take(now));
                passed += i64::from(passes);
                wanted += i64::from(bucket.take(now, class) != Took::Nothing);
                prop_assert!(passed >= wanted - 1 - shares.len() as i64, "{} of {}", passed, wanted);
                if shares.is_empty() {
                    prop_assert!(passed <= wanted + 1, "{} of {}", passed, wanted);
                }
            }
        }
    }
}
