//! The token bucket <rate, burst>: tokens are generated at a rate and kept up to a burst; who is
//! admitted takes one.
//!
//! All arithmetic is in whole numbers, so that nothing drifts: after years the bucket has generated
//! exactly rate × time. Rates are counted in thousandths of a token a day, which makes "60/s",
//! "10/m" and "1.5/h" exact; a level is counted in [`TOKEN`]ths of a token, so that rate × nanoseconds ×
//! share needs no division.
//!
//! Source: Voigt B §3.1 (<rate, burst>). The arithmetic is ours.

use std::time::Duration;

/// Thousandths of a token that a rate's unit is counted in.
const THOUSANDTHS: u64 = 1000;
/// Nanoseconds of a day.
pub(super) const DAY_NANOS: u64 = 86_400 * 1_000_000_000;
/// What a whole is divided into where tokens are split by share: hundredths of a per cent.
pub const PARTS: u64 = 10_000;
/// One token, in the units of a level.
pub(super) const TOKEN: u128 = THOUSANDTHS as u128 * DAY_NANOS as u128 * PARTS as u128;

/// How many tokens come in a time. Exact for whole thousandths of a token per second, minute, hour
/// or day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate {
    /// Thousandths of a token a day.
    millis_per_day: u64,
}

impl Rate {
    /// The highest: a thousand million tokens a second.
    pub const MAX: Rate = Rate::per_second(1_000_000_000);

    /// So many tokens a second, at most [`Rate::MAX`].
    pub const fn per_second(tokens: u32) -> Self {
        Rate::of_thousandths(tokens as u64 * THOUSANDTHS, 1)
    }

    /// So many tokens a minute, at most [`Rate::MAX`].
    pub const fn per_minute(tokens: u32) -> Self {
        Rate::of_thousandths(tokens as u64 * THOUSANDTHS, 60)
    }

    /// Thousandths of a token in so many seconds (1 to 86,400; rounded down where they do not divide
    /// a day), at most [`Rate::MAX`].
    pub const fn of_thousandths(thousandths: u64, seconds: u64) -> Self {
        let per_day = thousandths as u128 * 86_400 / seconds as u128;
        let most = 1_000_000_000 * THOUSANDTHS as u128 * 86_400;
        Rate { millis_per_day: (if per_day < most { per_day } else { most }) as u64 }
    }

    /// The nearest rate to so many tokens a second: for controllers. What is no number is 0.
    pub fn of_per_second(tokens: f64) -> Self {
        let most = Rate::MAX.millis_per_day;
        // A cast saturates, and makes 0 of NaN.
        let per_day = (tokens * THOUSANDTHS as f64 * 86_400.0).round() as u64;
        Rate { millis_per_day: per_day.min(most) }
    }

    /// Tokens a second.
    pub fn tokens_per_second(self) -> f64 {
        self.millis_per_day as f64 / (THOUSANDTHS as f64 * 86_400.0)
    }

    /// Whether no token ever comes.
    pub const fn is_zero(self) -> bool {
        self.millis_per_day == 0
    }

    /// Thousandths of a token in a day.
    pub(super) const fn thousandths_per_day(self) -> u64 {
        self.millis_per_day
    }

    /// What comes in a time to one that gets `parts` of all [`PARTS`]. Saturates far above any burst.
    pub(super) fn amount(self, time: Duration, parts: u64) -> u128 {
        // 2⁶⁴ ns × 2⁵⁷: fits; times the parts it may not.
        let nanos = time.as_nanos().min(u64::MAX.into());
        (nanos * u128::from(self.millis_per_day)).saturating_mul(parts.into())
    }

    /// How long it takes until so much has come, rounded up to the nanosecond; [`Duration::MAX`] if
    /// it never does.
    pub(super) fn time_for(self, amount: u128, parts: u64) -> Duration {
        match u128::from(self.millis_per_day) * u128::from(parts) {
            0 => Duration::MAX,
            // An amount is at most a few bursts: far below 2⁶⁴ ns but for absurdly low rates.
            speed => Duration::from_nanos(amount.div_ceil(speed).try_into().unwrap_or(u64::MAX)),
        }
    }
}

/// What a bucket holds, and how much it can hold. It is filled and drawn on by whoever keeps the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Level {
    held: u128,
    most: u128,
}

impl Level {
    /// A full one that holds so many tokens.
    pub(super) fn full(burst: u32) -> Self {
        let most = u128::from(burst) * TOKEN;
        Level { held: most, most }
    }

    /// Adds tokens; returns what does not fit.
    pub(super) fn fill(&mut self, amount: u128) -> u128 {
        let room = self.most - self.held;
        let fits = amount.min(room);
        self.held += fits;
        amount - fits
    }

    /// Whether a whole token is there.
    pub(super) fn has_token(&self) -> bool {
        self.held >= TOKEN
    }

    /// Takes a token, if a whole one is there.
    pub(super) fn take(&mut self) -> bool {
        let there = self.has_token();
        if there {
            self.held -= TOKEN;
        }
        there
    }

    /// Whether nothing more fits.
    pub(super) fn is_full(&self) -> bool {
        self.held == self.most
    }

    /// Whole tokens.
    pub(super) fn tokens(&self) -> u32 {
        (self.held / TOKEN) as u32
    }

    /// Whole tokens that fit.
    pub(super) fn most(&self) -> u32 {
        (self.most / TOKEN) as u32
    }

    /// What is missing to the next whole token; nothing if there is one.
    pub(super) fn missing(&self) -> u128 {
        TOKEN.saturating_sub(self.held)
    }

    /// Makes it as full as another, in proportion.
    pub(super) fn fill_as(&mut self, other: Level) {
        // In thousandths of a token, or the product would not fit.
        let fine = TOKEN / u128::from(THOUSANDTHS);
        self.held = match other.most {
            most if most == self.most => other.held,
            0 => self.most,
            most => (other.held / fine) * (self.most / fine) / (most / fine) * fine,
        };
    }
}

/// What was taken of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// A token of one's own.
    Own,
    /// A token of the overflow.
    Overflow,
    /// Nothing: who asks is let through, because there is no room to keep a bucket for it.
    Untracked,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_rate_is_at_most_the_highest() {
        assert_eq!(Rate::of_per_second(f64::NAN), Rate::default());
        assert_eq!(Rate::of_per_second(f64::INFINITY), Rate::MAX);
        assert_eq!(Rate::of_per_second(-1.0), Rate::default());
        assert_eq!(Rate::default().time_for(TOKEN, PARTS), Duration::MAX);
    }

    #[test]
    fn a_level_is_resized_in_proportion() {
        let mut level = Level::full(100);
        while level.take() {}
        level.fill(11 * TOKEN);
        let mut larger = Level::full(200);
        larger.fill_as(level);
        assert_eq!(larger.tokens(), 22);
        let mut smaller = Level::full(10);
        smaller.fill_as(larger);
        assert_eq!(smaller.tokens(), 1);
    }

    #[test]
    fn rates_are_exact_by_second_minute_hour_and_day() {
        for (rate, time) in [
            (Rate::per_second(60), SECOND / 60 * 60),
            (Rate::per_minute(10), SECOND * 6),
            (Rate::of_thousandths(1500, 3600), SECOND * 2400),
            (Rate::of_thousandths(1, 86_400), SECOND * 86_400 * 1000),
        ] {
            assert!(rate.amount(time + SECOND / 60, PARTS) >= TOKEN);
            let wait = rate.time_for(TOKEN, PARTS);
            assert!(rate.amount(wait, PARTS) >= TOKEN);
            assert!(rate.amount(wait - Duration::from_nanos(1), PARTS) < TOKEN);
        }
        assert_eq!(Rate::per_minute(10).time_for(TOKEN, PARTS), SECOND * 6);
        assert!((Rate::per_minute(90).tokens_per_second() - 1.5).abs() < 1e-12);
    }
}
