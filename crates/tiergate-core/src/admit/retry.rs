//! When a refused client is told to come back: the number in `Retry-After`.
//!
//! It is the time that what waits before the client takes, so that whoever keeps to it finds a place.
//! Clients that are told the same number at the same moment would come back at the same moment, as the
//! next overload: so each is told up to half as much more, at random.
//!
//! Source: RFC 9110 §10.2.3 (`Retry-After`); jitter as in Brooker, "Exponential Backoff And Jitter"
//! (2015), by the server instead of the client, because most clients have none.

use std::time::Duration;

/// The least and the most that a client is told, jitter apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The least; rounded up to a whole second, and at least one: "0" would invite back at once.
    pub min: Duration,
    /// The most, rounded up; what is longer is a guess, and a client that is told hours is lost. Not
    /// less than `min`.
    pub max: Duration,
}

/// Whole seconds after which a client may come back that could be served in `wait`.
///
/// `wait` is rounded up and brought within the bounds; up to half as much, and at least up to one
/// second, is added by `random`, of which every value is as likely as every other. So the result is
/// from `min` to one and a half times `max` (from 1 to 2 if `max` is 1). A few nanoseconds.
pub fn seconds(wait: Duration, bounds: Bounds, random: u64) -> u64 {
    let min = rounded_up(bounds.min).max(1);
    let base = rounded_up(wait).clamp(min, rounded_up(bounds.max).max(min));
    let choices = u128::from((base / 2).max(1)) + 1;
    // The upper half of the product is even over the choices.
    let more = (u128::from(random) * choices) >> 64;
    base.saturating_add(more as u64)
}

/// Whole seconds, rounded up.
pub fn rounded_up(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOUNDS: Bounds = Bounds { min: Duration::from_secs(1), max: Duration::from_secs(30) };

    fn at(wait_ms: u64, random: u64) -> u64 {
        seconds(Duration::from_millis(wait_ms), BOUNDS, random)
    }

    #[test]
    fn the_wait_is_rounded_up_and_kept_within_the_bounds() {
        for (wait_ms, told) in
            [(0, 1), (1, 1), (1000, 1), (1001, 2), (7300, 8), (30_000, 30), (90_000, 30)]
        {
            assert_eq!(at(wait_ms, 0), told, "{wait_ms} ms");
        }
        assert_eq!(seconds(Duration::MAX, BOUNDS, 0), 30, "a starved class");
    }

    #[test]
    fn up_to_half_as_much_is_added_and_each_number_as_often_as_the_others() {
        for (wait_ms, most) in [(0, 2), (1000, 2), (2000, 3), (8000, 12), (60_000, 45)] {
            let base = at(wait_ms, 0);
            assert_eq!(at(wait_ms, u64::MAX), most, "{wait_ms} ms");
            let mut counts = vec![0_u32; (most - base + 1) as usize];
            let many = 1000 * counts.len() as u64;
            for number in 0..many {
                let random = (u128::from(number) << 64) / u128::from(many);
                counts[(at(wait_ms, random as u64) - base) as usize] += 1;
            }
            assert!(counts.iter().all(|count| count.abs_diff(1000) <= 1), "{counts:?}");
        }
    }

    #[test]
    fn nothing_overflows() {
        let bounds = Bounds { min: Duration::MAX, max: Duration::MAX };
        assert_eq!(seconds(Duration::MAX, bounds, u64::MAX), u64::MAX);
        // Bounds the wrong way round: the least counts.
        let bounds = Bounds { min: Duration::from_secs(5), max: Duration::ZERO };
        assert_eq!(seconds(Duration::ZERO, bounds, 0), 5);
    }

    proptest! {
        #[test]
        fn longer_waits_are_never_told_less(
            one in 0_u64..100_000, other in 0_u64..100_000, random: u64,
        ) {
            prop_assert!(at(one.min(other), random) <= at(one.max(other), random));
            prop_assert!((1..=45).contains(&at(one, random)));
        }
    }
}
