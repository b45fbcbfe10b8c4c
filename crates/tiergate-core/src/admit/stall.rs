//! Stalls: the origin does nothing for a moment, as while it collects garbage, and then goes on as before.
//!
//! While nothing at all ends, a queue seems to be served slowly. If that were believed, requests would be refused that are
//! served in time as soon as the origin goes on, and for seconds after, since what was counted is remembered
//! ([`DrainRate`](super::feasible::DrainRate)). So the time since a request was last served says nothing yet, and a
//! pause far longer than requests usually take is taken out of the count when it ends.
//!
//! Some origins pause by nature: a single worker with a few long requests among short ones. There the pauses are
//! part of the rate. So only a tenth of the time is ever taken out: nine tenths at most of what would be served in time may
//! wait anyway.
//!
//! Source: ours.

use crate::time::Moment;
use std::time::Duration;

/// Usual times of a request without anything having ended after which the origin has stalled; and the least time. With
/// a single slot and exponential times, one request in 50 takes so long.
const USUAL_TIMES: f64 = 4.0;
const STALL_MIN_S: f64 = 0.1;
/// Part of the time that may be taken out, and how much of it is kept for later.
const SHARE: f64 = 0.1;
const KEPT_S: f64 = 10.0;
/// Weight of the latest request in the usual time; and how many times the usual it counts for at most, so that those which
/// a stall held up do not hide the next one.
const WEIGHT: f64 = 1.0 / 16.0;
const COUNTS_MAX: f64 = 2.0;

/// When a pool's requests begin and end at the origin, and which pauses between them are stalls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stalls {
    /// When a request last began or ended.
    progress: Moment,
    /// How long a request usually has its slot; 0: none was answered yet.
    usual_s: f64,
    /// What may be taken out, as of `kept_at`.
    kept_s: f64,
    kept_at: Moment,
}

impl Default for Stalls {
    fn default() -> Self {
        let (progress, kept_at) = (Moment::ZERO, Moment::ZERO);
        Stalls { progress, usual_s: 0.0, kept_s: KEPT_S, kept_at }
    }
}

impl Stalls {
    /// When a request last began or ended.
    pub(crate) fn progress(&self) -> Moment {
        self.progress
    }

    /// A request begins or ends. `anybody_waits`: and others have been waiting until now. Returns how much of the time
    /// since the one before is to be taken out; zero, if that was no stall. O(1).
    pub(crate) fn progressed(&mut self, now: Moment, anybody_waits: bool) -> Duration {
        let is_over = anybody_waits && self.is_stalled(now);
        let gap = now.since(self.progress);
        self.progress = now;
        if !is_over {
            return Duration::ZERO;
        }
        let earned_s = now.since(self.kept_at).as_secs_f64() * SHARE;
        let kept_s = (self.kept_s + earned_s).min(KEPT_S);
        let taken_s = gap.as_secs_f64().min(kept_s);
        (self.kept_s, self.kept_at) = (kept_s - taken_s, now);
        Duration::from_secs_f64(taken_s)
    }

    /// A request was answered that had its slot for so long.
    pub(crate) fn answered(&mut self, held: Duration) {
        let held_s = held.as_secs_f64();
        if self.usual_s == 0.0 {
            self.usual_s = held_s;
        }
        self.usual_s += (held_s.min(self.usual_s * COUNTS_MAX) - self.usual_s) * WEIGHT;
    }

    /// For how long nothing has begun or ended; `None`: nothing is known of how long that usually is.
    pub(crate) fn pause(&self, now: Moment) -> Option<Duration> {
        (self.usual_s > 0.0).then(|| now.since(self.progress))
    }

    /// Whether nothing has ended for far longer than usual, if others wait.
    pub(crate) fn is_stalled(&self, now: Moment) -> bool {
        let least_s = (self.usual_s * USUAL_TIMES).max(STALL_MIN_S);
        self.pause(now).is_some_and(|pause| pause.as_secs_f64() > least_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Answers every 20 ms, each of which took 80 ms, until `now`.
    fn steady(stalls: &mut Stalls, begin: Moment, count: u32) -> Moment {
        (1..=count).fold(begin, |_, number| {
            let now = begin + 20 * MS * number;
            stalls.answered(80 * MS);
            assert_eq!(stalls.progressed(now, true), Duration::ZERO);
            now
        })
    }

    #[test]
    fn a_pause_far_longer_than_requests_take_is_a_stall() {
        let mut stalls = Stalls::default();
        let now = steady(&mut stalls, Moment::ZERO, 50);
        assert!(!stalls.is_stalled(now + 300 * MS));
        assert!(stalls.is_stalled(now + 330 * MS));
        assert_eq!(stalls.progressed(now + 1200 * MS, true), 1200 * MS);
        assert!(!stalls.is_stalled(now + 1200 * MS));
    }

    #[test]
    fn a_pause_in_which_nobody_waited_is_none() {
        let mut stalls = Stalls::default();
        let now = steady(&mut stalls, Moment::ZERO, 50);
        assert_eq!(stalls.progressed(now + 1200 * MS, false), Duration::ZERO);
    }

    #[test]
    fn nothing_is_a_stall_before_the_first_answer() {
        let stalls = Stalls::default();
        assert!(!stalls.is_stalled(Moment::ZERO + 5000 * MS));
        assert_eq!(stalls.pause(Moment::ZERO + 5000 * MS), None);
    }

    #[test]
    fn those_that_a_stall_held_up_do_not_hide_the_next() {
        let mut stalls = Stalls::default();
        let now = steady(&mut stalls, Moment::ZERO, 50);
        (0..8).for_each(|_| stalls.answered(1280 * MS));
        assert!(stalls.is_stalled(now + 1200 * MS));
    }

    #[test]
    fn pauses_that_come_again_and_again_are_part_of_the_rate() {
        let mut stalls = Stalls::default();
        let mut now = steady(&mut stalls, Moment::ZERO, 50);
        let (begin, mut taken) = (now, Duration::ZERO);
        for _ in 0..100 {
            now = steady(&mut stalls, now, 25) + 500 * MS;
            taken += stalls.progressed(now, true);
        }
        let most = Duration::from_secs_f64(KEPT_S) + now.since(begin).mul_f64(SHARE);
        assert!(taken <= most, "{taken:?} of {:?}", now.since(begin));
        assert!(taken > most.mul_f64(0.9), "{taken:?}");
    }
}
