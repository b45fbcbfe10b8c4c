//! When a worker that has ended is started again.

use crate::time::Moment;
use std::time::Duration;

/// When a worker is started again: at once if it had lived for a second, else after a time that doubles with each such end in a
/// row. Whatever the worker does, that is at most two or three starts a second over any longer time.
#[derive(Clone, Debug, Default)]
pub struct Restart {
    started: Option<Moment>,
    /// Ends in a row, each within [`Restart::SHORT`] of the start.
    short_lives: u32,
}

impl Restart {
    /// A worker that ends sooner has failed.
    pub const SHORT: Duration = Duration::from_secs(1);
    /// Wait after the first failure.
    pub const FIRST: Duration = Duration::from_millis(100);
    /// Longest wait.
    pub const LONGEST: Duration = Duration::from_secs(30);

    /// The worker is being started.
    pub fn started(&mut self, now: Moment) {
        self.started = Some(now);
    }

    /// The worker has ended, or could not be started; returns when to start it again.
    pub fn ended(&mut self, now: Moment) -> Moment {
        let lived = self.started.take().map_or(Duration::ZERO, |started| now.since(started));
        if lived >= Self::SHORT {
            self.short_lives = 0;
            return now;
        }
        let wait = Self::FIRST.saturating_mul(1 << self.short_lives.min(16)).min(Self::LONGEST);
        self.short_lives = self.short_lives.saturating_add(1);
        now + wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn waits_double_up_to_half_a_minute_and_a_long_life_forgives() {
        let (mut restart, mut now) = (Restart::default(), Moment::from_millis(5));
        let mut waits = Vec::new();
        for _ in 0..11 {
            restart.started(now);
            let at = restart.ended(now);
            waits.push(at.since(now).as_millis());
            now = at;
        }
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
        restart.started(now);
        now = now + Restart::SHORT;
        assert_eq!(restart.ended(now), now);
        restart.started(now);
        assert_eq!(restart.ended(now), now + Restart::FIRST);
    }

    proptest! {
        /// Whatever lives the worker has, it is started about once a second at most, and always again.
        #[test]
        fn starts_are_bounded(lives in prop::collection::vec(0u64..2500, 1..200)) {
            let (mut restart, mut now) = (Restart::default(), Moment::ZERO);
            let mut starts = Vec::new();
            for life in lives {
                starts.push(now);
                restart.started(now);
                now = now + Duration::from_millis(life);
                let at = restart.ended(now);
                prop_assert!(at >= now && at.since(now) <= Restart::LONGEST);
                now = at;
            }
            for (place, first) in starts.iter().enumerate() {
                let within = starts[place..].iter().filter(|it| it.since(*first) < Duration::from_secs(10));
                // The most: a life of a second, then two failures with 100 and 200 ms between them.
                prop_assert!(within.count() <= 33);
            }
        }

        /// A worker that always fails soon is started about ten times in a minute.
        #[test]
        fn a_worker_that_always_fails_is_left_alone(life in 0u64..999) {
            let (mut restart, mut now, mut starts) = (Restart::default(), Moment::ZERO, 0);
            while now < Moment::from_millis(60_000) {
                starts += 1;
                restart.started(now);
                now = restart.ended(now + Duration::from_millis(life));
            }
            prop_assert!((8..=11).contains(&starts), "{}", starts);
        }
    }
}
