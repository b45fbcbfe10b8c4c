//! The retry budget: how many requests may be sent to the origin once more.
//!
//! When an origin fails, every request that is tried again is one more for whoever is left, or for
//! whoever is just coming back: at the worst moment the load is a multiple of what clients ask for. So
//! retries are at most a share of the requests, and some a second, so that a site with few requests
//! has any. A request that gets no retry fails as it would have failed after the retry.
//!
//! In every ten seconds that begin with a whole second of the clock there are at most
//! share × requests + floor × 10 s retries.
//!
//! Source: Finagle's `RetryBudget` (ten seconds, 20 % and 10 a second), Envoy's `retry_budget` (20 % of the
//! requests in progress, at least 3). By a window and not by tokens that are saved up, so that quiet
//! hours do not pay for a storm.

use crate::time::Moment;
use std::time::Duration;

/// Slices of the window, each as long as [`SLICE`].
const SLICES: usize = 10;
/// A slice of the window.
const SLICE: Duration = Duration::from_secs(1);

/// How many retries there may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowance {
    /// Retries by requests, 0.0 to 1.0.
    pub share: f64,
    /// Retries a second, however few requests there are.
    pub floor: u32,
}

/// Requests and retries of the last ten seconds.
#[derive(Clone, Debug, Default)]
pub struct RetryBudget {
    requests: [u32; SLICES],
    retries: [u32; SLICES],
    /// Sums over all slices.
    requests_sum: u64,
    retries_sum: u64,
    /// The slice that is being counted in, from the clock's origin.
    current: u64,
}

impl RetryBudget {
    /// Counts a request's first attempt. O(1): a slice is cleared once.
    pub fn request(&mut self, now: Moment) {
        let place = self.pass(now);
        self.requests[place] = self.requests[place].saturating_add(1);
        self.requests_sum += 1;
    }

    /// Whether there may be another retry now.
    pub fn allows(&mut self, now: Moment, allowance: Allowance) -> bool {
        self.pass(now);
        let of_requests = allowance.share * self.requests_sum as f64;
        let floor = u64::from(allowance.floor) * SLICES as u64;
        self.retries_sum < of_requests as u64 + floor
    }

    /// Counts a retry.
    pub fn retry(&mut self, now: Moment) {
        let place = self.pass(now);
        self.retries[place] = self.retries[place].saturating_add(1);
        self.retries_sum += 1;
    }

    /// Forgets what is older than the window; the place of the current slice.
    fn pass(&mut self, now: Moment) -> usize {
        let slice = now.nanos() / SLICE.as_nanos() as u64;
        // A moment of another thread may be a little older: it counts as now.
        let ahead = slice.saturating_sub(self.current).min(SLICES as u64);
        for step in 1..=ahead {
            let place = place_of(self.current + step);
            self.requests_sum -= u64::from(std::mem::take(&mut self.requests[place]));
            self.retries_sum -= u64::from(std::mem::take(&mut self.retries[place]));
        }
        self.current = self.current.max(slice);
        place_of(self.current)
    }
}

fn place_of(slice: u64) -> usize {
    (slice % SLICES as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const USUAL: Allowance = Allowance { share: 0.2, floor: 1 };

    fn at(ms: u64) -> Moment {
        Moment::from_millis(ms)
    }

    /// As many retries as there may be at that moment.
    fn drain(budget: &mut RetryBudget, now: Moment, allowance: Allowance) -> u32 {
        let mut count = 0;
        while budget.allows(now, allowance) {
            budget.retry(now);
            count += 1;
        }
        count
    }

    #[test]
    fn retries_are_a_share_of_the_requests_and_some_a_second() {
        let mut budget = RetryBudget::default();
        assert_eq!(drain(&mut budget, at(0), USUAL), 10, "the floor of ten seconds");
        for number in 0..100 {
            budget.request(at(number));
        }
        assert_eq!(drain(&mut budget, at(100), USUAL), 20);
        assert_eq!(drain(&mut budget, at(9_999), USUAL), 0);
        // With the retries their requests are forgotten.
        assert_eq!(drain(&mut budget, at(10_000), USUAL), 10);
        let mut none = RetryBudget::default();
        none.request(at(0));
        assert!(!none.allows(at(0), Allowance { share: 0.0, floor: 0 }));
    }

    #[test]
    fn quiet_hours_do_not_pay_for_a_storm() {
        let mut budget = RetryBudget::default();
        for second in 0..3600 {
            for _ in 0..10 {
                budget.request(at(second * 1000));
            }
        }
        assert_eq!(
            drain(&mut budget, at(3_599_000), USUAL),
            30,
            "20 % of ten seconds, and the floor"
        );
    }

    #[test]
    fn a_reload_keeps_what_was_counted() {
        let mut budget = RetryBudget::default();
        assert_eq!(drain(&mut budget, at(0), USUAL), 10);
        assert_eq!(drain(&mut budget, at(0), Allowance { floor: 2, ..USUAL }), 10);
    }

    proptest! {
        /// Against all moments, kept whole.
        #[test]
        fn the_window_holds(
            share in 0_u32..=4,
            floor in 0_u32..3,
            events in prop::collection::vec((0_u64..1500, any::<bool>()), 1..300),
        ) {
            let share = f64::from(share) / 4.0;
            let (mut budget, allowance) = (RetryBudget::default(), Allowance { share, floor });
            let (mut now, mut requests, mut retries) = (0, Vec::new(), Vec::new());
            for (gap, is_retry) in events {
                // Mostly dense, now and then a pause.
                now += if gap < 1400 { gap / 20 } else { gap * 4 };
                let slice = now / 1000;
                let recent = |times: &[u64]| {
                    times.iter().filter(|&&time| time / 1000 + 10 > slice).count() as u32
                };
                if is_retry {
                    let most = (share * f64::from(recent(&requests))) as u32 + floor * 10;
                    let allowed = recent(&retries) < most;
                    prop_assert_eq!(budget.allows(at(now), allowance), allowed, "at {} ms", now);
                    if allowed {
                        budget.retry(at(now));
                        retries.push(now);
                    }
                } else {
                    budget.request(at(now));
                    requests.push(now);
                }
            }
        }
    }
}
