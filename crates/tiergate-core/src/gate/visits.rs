//! Visitors who come a page at a time: short visits, and lulls between them.
//!
//! Each page would find the background in all of the origin, if that took a lull of seconds for the end of all visits.

use crate::time::Moment;
use std::time::Duration;

/// Where lulls last for longer, few come who could feel anything, and most of the time the origin is idle; where visits do, few of their requests
/// come first; and where fewer requests come a second, on average, what they feel is hardly ever known.
const LULL_MAX_S: f64 = 20.0;
const VISIT_MAX_S: f64 = 5.0;
const REQUESTS_MIN_PER_S: f64 = 0.2;
/// As how long either counts at most, so that one night does not make all those before it forgotten.
const COUNTED_MAX_S: f64 = 60.0;
/// By how much of the difference what is usual moves.
const STEP: f64 = 0.2;
/// Nothing is usual before there were so many lulls.
const LULLS_MIN: u32 = 3;

/// How long visits last, and the lulls between them.
#[derive(Debug)]
pub(super) struct Visits {
    /// When the present one began, and the requests in it.
    began: Moment,
    requests: u32,
    /// Lulls that there were, as far as it matters.
    lulls: u32,
    /// What is usual: requests of a visit, how long it lasts, and a lull.
    usual_requests: f64,
    visit_s: f64,
    lull_s: f64,
}

impl Visits {
    pub(super) fn none(now: Moment) -> Self {
        Visits { began: now, requests: 0, lulls: 0, usual_requests: 0.0, visit_s: 0.0, lull_s: 0.0 }
    }

    /// A request comes.
    pub(super) fn came(&mut self) {
        self.requests = self.requests.saturating_add(1);
    }

    /// Somebody is there after a lull; somebody was there last at `busy`. Whether it was short.
    pub(super) fn begins(&mut self, now: Moment, busy: Moment) -> bool {
        let seconds = |from: Moment, to: Moment| to.since(from).as_secs_f64().min(COUNTED_MAX_S);
        let (visit, lull) = (seconds(self.began, busy), seconds(busy, now));
        let requests = f64::from(std::mem::take(&mut self.requests));
        self.began = now;
        let step = if self.lulls == 0 { 1.0 } else { STEP };
        self.usual_requests += step * (requests - self.usual_requests);
        self.visit_s += step * (visit - self.visit_s);
        self.lull_s += step * (lull - self.lull_s);
        self.lulls = (self.lulls + 1).min(LULLS_MIN);
        lull <= LULL_MAX_S
    }

    /// How long lulls last that others of the foreground are expected after; `None`: there are none.
    pub(super) fn usual_lull(&self) -> Option<Duration> {
        let are_short = self.visit_s <= VISIT_MAX_S && self.lull_s <= LULL_MAX_S;
        let are_enough = self.usual_requests >= REQUESTS_MIN_PER_S * (self.visit_s + self.lull_s);
        let is_usual = self.lulls == LULLS_MIN && are_short && are_enough;
        is_usual.then(|| Duration::from_secs_f64(self.lull_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(second)
    }

    /// After visits of so many requests, and so many seconds, so far apart.
    fn after(requests: u32, visit: u64, lull: u64) -> Visits {
        let mut visits = Visits::none(Moment::ZERO);
        for place in 0..50 {
            (0..requests).for_each(|_| visits.came());
            let over = place * (visit + lull) + visit;
            visits.begins(at(over + lull), at(over));
        }
        visits
    }

    fn usual(requests: u32, visit: u64, lull: u64) -> Option<u64> {
        after(requests, visit, lull).usual_lull().map(|it| it.as_secs_f64().round() as u64)
    }

    #[test]
    fn short_visits_are_expected_again_and_long_or_rare_ones_are_not() {
        assert_eq!(Visits::none(Moment::ZERO).usual_lull(), None);
        assert_eq!((usual(10, 1, 5), usual(10, 4, 19)), (Some(5), Some(19)));
        assert_eq!((usual(50, 10, 10), usual(50, 1, 30), usual(50, 1, 86_400)), (None, None, None));
        // As somebody who looks whether the site is there.
        assert_eq!(usual(1, 0, 15), None);
    }

    #[test]
    fn one_night_is_not_the_end_of_what_is_usual() {
        let mut visits = after(10, 1, 5);
        (0..10).for_each(|_| visits.came());
        assert!(!visits.begins(at(80_000), at(301)));
        assert!(visits.usual_lull().is_some());
    }
}
