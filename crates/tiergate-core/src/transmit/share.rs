//! What a policy says of a class's part of the link.

use std::time::Duration;

/// What of the link a class is sure of, and its part of what is left.
///
/// Source: Voigt A (Nemesis), 2.1: a reservation of (period, slice, extra), in time of the link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Of each period it has the link for so long, if it wants it. Zero: it is sure of nothing.
    pub slice: Duration,
    /// How long a period is.
    pub period: Duration,
    /// Whether it also has its part of what nobody reserved or used.
    pub extra: bool,
    /// How large that part is, relative to the others'. More than 0.
    pub weight: f64,
}

impl Share {
    /// Of a class that a policy says nothing of, where it does of another: it is sure of nothing.
    pub const REST: Share =
        Share { slice: Duration::ZERO, period: Self::PERIOD_DEFAULT, extra: true, weight: 1.0 };
    /// The period where none is said.
    pub const PERIOD_DEFAULT: Duration = Duration::from_millis(100);
    /// The shortest and the longest period. In a shorter one most links carry no packet; a longer one is a gap that clients notice.
    pub const PERIODS: [Duration; 2] = [Duration::from_millis(1), Duration::from_secs(10)];

    /// The part of the link that it is sure of, 0 to 1.
    pub fn part(&self) -> f64 {
        self.slice.as_secs_f64() / self.period.as_secs_f64()
    }

    /// Checks what the scheduler relies on.
    ///
    /// # Errors
    /// The first fault found, for a person.
    pub fn check(&self) -> Result<(), &'static str> {
        let [least, most] = Self::PERIODS;
        match self {
            _ if !(least..=most).contains(&self.period) => Err("period must be 1 ms to 10 s"),
            _ if self.slice > self.period => Err("slice must be at most the period"),
            _ if self.slice.is_zero() && !self.extra => {
                Err("a class without a slice and without extra would never send")
            }
            _ if !(self.weight.is_finite() && self.weight > 0.0) => {
                Err("weight must be more than 0")
            }
            _ => Ok(()),
        }
    }
}
