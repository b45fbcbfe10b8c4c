//! Deadline feasibility: who cannot be served before the deadline is refused at once, not after
//! waiting for it in vain.
//!
//! A class's backlog is served at some rate, whatever decides it: the origin's capacity, what more
//! important classes leave, minimum shares. That rate is counted while requests of the class wait.
//! An arrival that would stand behind more requests than are served before its deadline has nothing
//! to wait for; and a client that is told so at once can ask elsewhere, while one that waits holds a
//! connection and memory here.
//!
//! Nothing is judged by a rate that was not seen for long enough, or not lately: see
//! [`DrainRate::is_feasible`]; what a stall of the origin takes does not count: see
//! [`super::stall`]. Some of the places are kept from newcomers: see [`patience`].
//!
//! Source: ours; the drain rate as the measure of a queue is that of RFC 8033 (PIE, §4.2).

use crate::time::Moment;
use std::time::Duration;

/// Backlogged time from which a rate is believed.
const KNOWN: Duration = Duration::from_millis(100);
/// Backlogged time at which what was counted is halved: the rate is that of the last 2 to 4 seconds.
const REMEMBERED: Duration = Duration::from_secs(4);
/// What was counted fades while nothing waits: by this time's part of it at every moment, so that it is
/// less than [`KNOWN`] after 40 seconds without a backlog, and gone after a single pause this long.
const FADING: Duration = Duration::from_secs(10);
/// Backlogged time after which a rate says also which of fewer requests than there are slots can be served;
/// the request's deadline, if that is shorter. What is counted is never less in a lasting backlog.
const TURNED_OVER: Duration = Duration::from_secs(2);
/// Time without any progress after which an origin is taken to have stopped for good. Until then, as many wait as could be served
/// at the rate of before: for no longer than their deadlines, and without slots.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Share of what would be served before the deadline that may wait, at least and at most: the rate is an
/// estimate, and who is served at the very last moment has waited for nothing if the client leaves then
/// too.
const SHARE: (f64, f64) = (0.5, 0.9);
/// Whoever waits in vain takes a fiftieth off the share, whoever is served puts a two-thousandth of what
/// is missing back, and each second a 128th: at a share of 0.7 somewhat less than one in a hundred
/// waits in vain.
const TAKEN: f64 = 1.0 / 50.0;
const PUT_BACK: f64 = 1.0 / 2000.0;
const PUT_BACK_A_SECOND: f64 = 1.0 / 128.0;
/// Part of the deadline within which all who wait in vain do so for one reason, and count as one.
const TOGETHER: u32 = 10;

/// Part of its patience that a newcomer lacks.
pub(super) const NEWCOMERS_LACK: u32 = 8;
/// One in so many answers does not let its connection go on: connections that never end shall not keep
/// others out for ever.
const GOING_ON_MAX: u32 = 100;

/// How long a request may wait as far as the length of the backlog is concerned.
///
/// Whoever goes on after an answer has a part of the places for itself: what is half done is of use
/// only if it comes to its end, and a newcomer that is refused has cost nothing yet. Each answer lets
/// one request go on, which comes when the answered one has left its place, so that a few places do;
/// without, under overload, it and any newcomer have the same chance, and no long session comes to its
/// end.
///
/// Source: ours for connections; a few places kept for whom they matter are trunk reservation (Key,
/// "Optimal control and trunk reservation in loss networks", 1990).
pub fn patience(deadline: Duration, is_newcomer: bool) -> Duration {
    if is_newcomer { deadline - deadline / NEWCOMERS_LACK } else { deadline }
}

/// Whether the connection that has had so many requests answered may go on after the latest.
pub fn goes_on(answered: u32) -> bool {
    answered > 0 && !answered.is_multiple_of(GOING_ON_MAX)
}

/// How fast the backlog of one class is served.
#[derive(Clone, Copy, Debug)]
pub struct DrainRate {
    served: f64,
    backlogged_s: f64,
    /// Backlogged time since any request of the pool last began or ended. Counts when the next one does.
    pending_s: f64,
    seen: Moment,
    /// Share of what would be served before the deadline that may wait: the less steady the rate, the
    /// less.
    share: f64,
    /// When something was last taken off the share.
    taken: Moment,
}

impl DrainRate {
    /// Nothing is known before `now`.
    pub fn since(now: Moment) -> Self {
        DrainRate {
            served: 0.0,
            backlogged_s: 0.0,
            pending_s: 0.0,
            seen: now,
            share: SHARE.1,
            taken: Moment::ZERO,
        }
    }

    /// Lets time pass, in which requests of the class waited or none did. Call before either
    /// changes. `progress`: when any request of the pool last began or ended, at most `now`. A few nanoseconds.
    pub fn pass(&mut self, now: Moment, waiting: bool, progress: Moment) {
        if progress >= self.seen {
            self.backlogged_s += std::mem::take(&mut self.pending_s);
            self.elapse(progress, waiting);
            self.backlogged_s += std::mem::take(&mut self.pending_s);
        }
        self.elapse(now, waiting);
        while self.backlogged_s > REMEMBERED.as_secs_f64() {
            self.served /= 2.0;
            self.backlogged_s /= 2.0;
        }
    }

    fn elapse(&mut self, now: Moment, waiting: bool) {
        let elapsed_s = now.since(self.seen).as_secs_f64();
        self.seen = self.seen.max(now);
        let put_back = (elapsed_s * PUT_BACK_A_SECOND).min(1.0);
        self.share += (SHARE.1 - self.share) * put_back;
        if waiting {
            self.pending_s += elapsed_s;
        } else {
            let left = (1.0 - elapsed_s * const { 1.0 / FADING.as_secs() as f64 }).max(0.0);
            self.served *= left;
            self.backlogged_s *= left;
        }
    }

    /// The time until then says nothing. A few nanoseconds.
    pub fn skip(&mut self, until: Moment) {
        self.seen = self.seen.max(until);
    }

    /// So much of the time since the latest progress was a stall. Call before that which ends it.
    pub fn excuse(&mut self, stalled: Duration) {
        self.pending_s = (self.pending_s - stalled.as_secs_f64()).max(0.0);
    }

    /// A request of the class left the backlog for a slot.
    pub fn served(&mut self) {
        self.served += 1.0;
        self.share += (SHARE.1 - self.share) * PUT_BACK;
    }

    /// A request waited in vain for so long, one of so many. Nothing is learned from one that
    /// would wait whatever the share, nor from one whose own deadline was much shorter than its
    /// class's.
    pub fn expired(
        &mut self,
        now: Moment,
        waited: Duration,
        deadline: Duration,
        waiting: u32,
        slots: u32,
    ) {
        let seen_s = self.backlogged_s + self.pending_s;
        let tells = judges(seen_s, waiting.saturating_sub(1), deadline, slots);
        let tells = tells && waited >= deadline / 2;
        if tells && now.since(self.taken) >= deadline / TOGETHER {
            self.taken = now;
            self.share = (self.share * (1.0 - TAKEN)).max(SHARE.0);
        }
    }

    /// Requests a second, the present pause included; `None` while too little is known.
    pub fn per_second(&self) -> Option<f64> {
        let seen_s = self.backlogged_s + self.pending_s;
        (seen_s >= KNOWN.as_secs_f64()).then(|| self.served / seen_s)
    }

    /// Whether a request that would stand behind `waiting` others can be served within `deadline`, as far as
    /// that is known.
    ///
    /// One may always wait: a class that is not served at all just now is back within one service time if
    /// those above it pause.
    ///
    /// `pause`: for how long no request of the pool has begun or ended, if it is known how long that usually is. It says
    /// nothing until it is [`PAUSE_MAX`] long: the origin may go on at once, as fast as before.
    pub fn is_feasible(
        &self,
        waiting: u32,
        deadline: Duration,
        slots: u32,
        pause: Option<Duration>,
    ) -> bool {
        let is_short = pause.is_some_and(|pause| pause < PAUSE_MAX);
        let seen_s = self.backlogged_s + if is_short { 0.0 } else { self.pending_s };
        // One more may be about to be served: without it, a rate of nothing in a tenth of a second would
        // refuse who can wait for an hour.
        let most = (self.served + 1.0) / seen_s;
        let served_until_then = most * deadline.as_secs_f64() * self.share;
        !judges(seen_s, waiting, deadline, slots) || f64::from(waiting) < served_until_then
    }
}

/// Whether what was seen in so many seconds is enough to refuse a request that would stand behind `waiting` others.
/// Fewer than there are slots are judged by no rate that was seen for a shorter time than they would wait: slots
/// that were given at one moment may all come free at one moment.
fn judges(seen_s: f64, waiting: u32, deadline: Duration, slots: u32) -> bool {
    let needed = if waiting < slots { deadline.clamp(KNOWN, TURNED_OVER) } else { KNOWN };
    waiting > 0 && seen_s >= needed.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A backlog served at that rate for so long, from `begin`.
    fn served(drain: &mut DrainRate, begin: f64, rate: f64, seconds: f64) {
        let count = (rate * seconds) as u32;
        drain.pass(at(begin), false, at(begin));
        for number in 1..=count {
            let now = at(begin + f64::from(number) / rate);
            drain.pass(now, true, now);
            drain.served();
        }
        drain.pass(at(begin + seconds), true, at(begin + seconds));
    }

    fn at(second: f64) -> Moment {
        Moment::ZERO + Duration::from_secs_f64(second)
    }

    /// The length of the longest queue whose last place can be served within `deadline`.
    fn longest(drain: &DrainRate, deadline: Duration, slots: u32) -> u32 {
        (0..).find(|&len| !drain.is_feasible(len, deadline, slots, None)).unwrap()
    }

    const HALF: Duration = Duration::from_millis(500);

    #[test]
    fn nothing_known_refuses_nobody() {
        let mut drain = DrainRate::since(Moment::ZERO);
        assert!(drain.is_feasible(1_000_000, HALF, 1, None));
        served(&mut drain, 0.0, 100.0, 0.05);
        assert!(drain.is_feasible(1_000_000, HALF, 1, None), "50 ms are not enough");
    }

    #[test]
    fn as_many_may_wait_as_are_served_before_the_deadline() {
        let mut drain = DrainRate::since(Moment::ZERO);
        served(&mut drain, 0.0, 400.0, 2.0);
        let len = longest(&drain, HALF, 16);
        assert!((170..=182).contains(&len), "{len}: nine tenths of 200");
        let len = longest(&drain, HALF * 2, 16);
        assert!((350..=362).contains(&len), "{len}: twice the deadline");
    }

    #[test]
    fn waits_in_vain_lower_the_share_and_time_brings_it_back() {
        let mut drain = DrainRate::since(Moment::ZERO);
        served(&mut drain, 0.0, 400.0, 2.0);
        let before = longest(&drain, HALF, 16);
        for number in 1..=100 {
            let now = at(2.0 + f64::from(number) / 10.0);
            drain.expired(now, HALF, HALF, 1, 16);
            drain.expired(now, HALF / 10, HALF, 100, 16);
        }
        assert_eq!(longest(&drain, HALF, 16), before, "nothing could have been foreseen");
        (0..100).for_each(|_| drain.expired(at(13.0), HALF, HALF, 100, 16));
        assert!(longest(&drain, HALF, 16) >= before * 97 / 100, "all at once are one");
        for number in 0..100 {
            drain.expired(at(14.0 + f64::from(number) / 10.0), HALF, HALF, 100, 16);
        }
        let half = longest(&drain, HALF, 16);
        assert!((98..=102).contains(&half), "{half}: half of what is served");
        served(&mut drain, 24.0, 400.0, 20.0);
        assert!(longest(&drain, HALF, 16) >= before * 9 / 10, "served in time again");
    }

    #[test]
    fn no_deadline_is_too_long_for_a_newcomer() {
        assert_eq!(patience(Duration::MAX, false), Duration::MAX);
        assert!(patience(Duration::MAX, true) < Duration::MAX);
    }

    #[test]
    fn a_starved_class_keeps_one_and_until_that_is_known_as_many_as_there_are_slots() {
        let mut drain = DrainRate::since(Moment::ZERO);
        drain.pass(at(0.4), true, at(0.4));
        assert_eq!(drain.per_second(), Some(0.0));
        assert_eq!(longest(&drain, HALF, 16), 16);
        drain.pass(at(5.0), true, at(5.0));
        assert_eq!(longest(&drain, HALF, 16), 1);
        assert_eq!(longest(&drain, Duration::from_secs(60), 16), 22, "0.4 a second, at most");
    }

    #[test]
    fn a_change_is_believed_within_seconds() {
        let mut drain = DrainRate::since(Moment::ZERO);
        served(&mut drain, 0.0, 400.0, 20.0);
        served(&mut drain, 20.0, 100.0, 4.0);
        let len = longest(&drain, HALF, 16);
        assert!(len <= 80, "{len}: 45 would be right, 180 was before");
        served(&mut drain, 24.0, 400.0, 4.0);
        let len = longest(&drain, HALF, 16);
        assert!(len > 130, "{len}");
    }

    #[test]
    fn a_pause_says_nothing_for_a_while_and_a_stall_is_not_remembered() {
        let pause = |seconds| Some(Duration::from_secs_f64(seconds));
        let mut drain = DrainRate::since(Moment::ZERO);
        served(&mut drain, 0.0, 400.0, 2.0);
        assert!(drain.is_feasible(175, HALF, 16, pause(0.0)));
        drain.pass(at(2.4), true, at(2.0));
        assert!(drain.is_feasible(175, HALF, 16, pause(0.4)), "it may go on at once");
        assert!(!drain.is_feasible(175, HALF, 16, None), "nothing is known of pauses");
        drain.pass(at(3.0), true, at(2.0));
        assert!(!drain.is_feasible(175, HALF, 16, pause(10.0)), "it has not");
        let mut without = drain;
        drain.excuse(HALF * 2);
        drain.pass(at(3.0), true, at(3.0));
        assert!(drain.is_feasible(175, HALF, 16, pause(0.0)));
        without.pass(at(3.0), true, at(3.0));
        assert!(!without.is_feasible(175, HALF, 16, pause(0.0)));
    }

    #[test]
    fn yesterday_is_forgotten() {
        let mut drain = DrainRate::since(Moment::ZERO);
        served(&mut drain, 0.0, 400.0, 4.0);
        drain.pass(at(9.0), false, at(9.0));
        assert!(drain.per_second().is_some(), "a pause of seconds keeps what is known");
        drain.pass(at(60.0), false, at(60.0));
        assert_eq!(drain.per_second(), None);
    }

    #[test]
    fn what_was_long_ago_is_forgotten_also_where_it_is_asked_for_now_and_then() {
        let mut drain = DrainRate::since(Moment::ZERO);
        served(&mut drain, 0.0, 400.0, 4.0);
        (0..60)
            .map(|second| at(4.0 + f64::from(second)))
            .for_each(|now| drain.pass(now, false, now));
        assert_eq!(drain.per_second(), None, "a minute without a backlog");
        let mut drain = DrainRate::since(Moment::ZERO);
        served(&mut drain, 0.0, 400.0, 4.0);
        for number in 1..720 {
            // Every five seconds one waits for 30 ms.
            let now = 4.0 + f64::from(number) * 5.0;
            drain.pass(at(now), false, at(now));
            drain.pass(at(now + 0.03), true, at(now + 0.03));
            drain.served();
        }
        let rate = drain.per_second();
        assert!(rate.is_none_or(|rate| rate < 50.0), "{rate:?}: an hour ago it was 400");
    }
}
