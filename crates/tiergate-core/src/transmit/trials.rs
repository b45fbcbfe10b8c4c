//! When more is sent than the link is thought to carry, by how much, and for how long.
//!
//! A shaper lets some bytes through at once after it was idle, so that a short trial makes no packet wait whatever the link carries: one that found nothing is
//! followed by one that is twice as long. Afterwards all that was sent beyond what is carried is to leave: what waits, and as much as the shaper let through,
//! or else the foreground would not find it as it was.

use super::watched::{PACKET, Sample};
use crate::time::Moment;
use std::time::Duration;

/// By so much more is tried first, and after each success; twice as much after each further one, up to that.
const TRIED: [f64; 2] = [0.25, 1.0];
/// So many times the time of a late packet is to wait at the end of a trial in which nothing more is carried; it has at least so many packets.
const WAITS: f64 = 1.5;
const PACKETS: f64 = 6.0;
/// How many times as long a trial may become.
const LONGER_MAX: f64 = 4.0;
/// None is longer, unless it takes that many packets.
const TIME_MAX: Duration = Duration::from_millis(250);
/// More may have been carried before this, and the shaper has been idle since.
const RAISED: Duration = Duration::from_secs(1);
/// How often more is tried where nothing is changing; and how soon after a trial that said nothing.
const EVERY: Duration = Duration::from_millis(1500);
const AGAIN: Duration = Duration::from_millis(100);

/// More is tried.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    /// As it was when it began.
    pub(super) from: Sample,
    ends: Moment,
}

impl Trial {
    /// When it ended, if it did until now.
    pub(super) fn ended_at(&self, now: Moment) -> Option<Moment> {
        self.is_before(now).then_some(self.ends)
    }

    /// Whether one that was sent then was sent after it.
    pub(super) fn is_before(&self, at: Moment) -> bool {
        at >= self.ends
    }
}

/// Trials, one after another.
#[derive(Clone, Debug)]
pub(super) struct Trials {
    running: Option<Trial>,
    /// When the first of those began that ended with one in which a packet was late, until what they sent beyond what the link carries is to leave.
    owes_since: Option<Sample>,
    /// How many times longer than the shortest they are.
    longer: f64,
    /// By how much more is tried.
    tried: f64,
    /// When more was carried last.
    raised_at: Option<Moment>,
    next_at: Moment,
}

impl Trials {
    /// The first is to be at once.
    pub(super) fn new(now: Moment) -> Self {
        Trials {
            running: None,
            owes_since: None,
            longer: 1.0,
            tried: TRIED[1],
            raised_at: None,
            next_at: now,
        }
    }

    /// The one of which nothing is known so far.
    pub(super) fn running(&self) -> Option<Trial> {
        self.running
    }

    /// By how much more is sent now; `None`: as much as is thought to be carried.
    pub(super) fn more(&self, now: Moment) -> Option<f64> {
        self.running.filter(|it| now < it.ends).map(|_| self.tried)
    }

    /// By how much more is or was tried.
    pub(super) fn tried(&self) -> f64 {
        self.tried
    }

    /// Whether another is to begin.
    pub(super) fn are_due(&self, now: Moment) -> bool {
        now >= self.next_at && self.running.is_none()
    }

    /// One begins from there, on a link of so many bits a second, where a packet is late that waits for longer than `threshold`.
    pub(super) fn begin(&mut self, from: Sample, bits: f64, threshold: Duration) {
        if self.raised_at.is_some_and(|at| from.at.since(at) > RAISED) {
            self.tried = TRIED[0];
        }
        let excess = WAITS * self.longer * threshold.as_secs_f64() / self.tried;
        let train = PACKETS * PACKET / (bits * (1.0 + self.tried));
        let ends = from.at + Duration::from_secs_f64(excess.min(TIME_MAX.as_secs_f64()).max(train));
        self.running = Some(Trial { from, ends });
    }

    /// It is known what became of it, or soon will be; another follows before long, unless something else is said.
    pub(super) fn end(&mut self, now: Moment) {
        self.running = None;
        self.next_at = now + AGAIN;
    }

    /// What it was to find was found, or was not what was looked for: the next is only after some time, and a small one.
    pub(super) fn rest(&mut self, now: Moment) {
        (self.tried, self.next_at) = (TRIED[0], now + EVERY);
    }

    /// Packets were late in one that began there; very late, if it was too long.
    pub(super) fn were_late(&mut self, now: Moment, from: Sample, is_too_long: bool) {
        // What was begun long ago, and came to nothing, has left.
        let began = self.owes_since.filter(|it| from.at.since(it.at) < EVERY);
        self.owes_since = Some(began.unwrap_or(from));
        if is_too_long {
            self.longer = (self.longer / 2.0).max(1.0);
        }
        self.rest(now);
    }

    /// None was late: another follows at once that is twice as long. Whether there is one.
    pub(super) fn lengthen(&mut self, now: Moment, from: Sample) -> bool {
        self.owes_since.get_or_insert(from);
        let is_longest = self.longer >= LONGER_MAX;
        if !is_longest {
            (self.longer, self.next_at) = (2.0 * self.longer, now);
        }
        !is_longest
    }

    /// More was carried: another follows at once that tries twice as much.
    pub(super) fn raise(&mut self, now: Moment) {
        (self.tried, self.next_at) = ((2.0 * self.tried).min(TRIED[1]), now);
        (self.raised_at, self.owes_since) = (Some(now), None);
    }

    /// Whether those before have found that more is carried, so that the shaper had no time to be idle.
    pub(super) fn are_rising(&self) -> bool {
        self.tried > TRIED[0]
    }

    /// What they sent beyond what is carried is not known: something else was late.
    pub(super) fn owe_nothing(&mut self) {
        self.owes_since = None;
    }

    /// The link carries less than was thought: what was found of it before says nothing.
    pub(super) fn begin_anew(&mut self) {
        (self.owes_since, self.longer) = (None, 1.0);
    }

    /// What was sent beyond what is carried since those began that ended with one in which packets were late, if `sent` was sent until now: it is to leave. In bytes on the
    /// wire, once for each.
    pub(super) fn owed(&mut self, now: Moment, sent: f64, bits: f64) -> f64 {
        self.owes_since
            .take()
            .map_or(0.0, |began| sent - began.sent - bits / 8.0 * now.since(began.at).as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BITS: f64 = 10e6;
    const THRESHOLD: Duration = Duration::from_millis(3);

    fn at(millis: u64) -> Sample {
        Sample { at: Moment::from_millis(millis), sent: 0.0, waited: 0.0 }
    }

    /// How long one takes that begins then, in milliseconds.
    fn length(trials: &mut Trials, millis: u64) -> u128 {
        trials.begin(at(millis), BITS, THRESHOLD);
        let ends = trials.running().expect("it has begun").ends;
        ends.since(Moment::from_millis(millis)).as_millis()
    }

    #[test]
    fn one_that_found_nothing_is_followed_by_a_longer_one_and_a_late_packet_shortens_it() {
        let mut trials = Trials::new(Moment::ZERO);
        trials.rest(Moment::ZERO);
        let mut lengths = Vec::new();
        for millis in [1500, 1600, 1700] {
            let now = Moment::from_millis(millis);
            assert!(trials.are_due(now));
            lengths.push(length(&mut trials, millis));
            assert!(!trials.are_due(now), "one is running");
            trials.end(now);
            assert!(!trials.are_due(now));
            assert_eq!(trials.lengthen(now, at(millis)), millis < 1700);
        }
        // A quarter more for so long that a threshold and a half is to wait.
        assert_eq!(lengths, [18, 36, 72]);
        trials.were_late(Moment::from_millis(1800), at(1700), true);
        assert!(!trials.are_due(Moment::from_millis(3299)));
        assert_eq!(length(&mut trials, 3300), 36);
    }

    #[test]
    fn what_a_trial_sent_beyond_what_is_carried_is_owed_once() {
        let mut trials = Trials::new(Moment::ZERO);
        trials.begin(at(0), BITS, THRESHOLD);
        let now = Moment::from_millis(40);
        trials.end(now);
        assert!(trials.lengthen(now, at(0)));
        trials.begin(at(20), BITS, THRESHOLD);
        trials.end(now);
        trials.were_late(now, at(20), false);
        // 50,000 bytes are carried in that time.
        assert_eq!(trials.owed(now, 58_000.0, BITS), 8_000.0);
        assert_eq!(trials.owed(now, 58_000.0, BITS), 0.0);
        // Nor does a later one owe since an earlier that came to nothing.
        assert!(trials.lengthen(now, at(40)));
        trials.were_late(Moment::from_millis(5040), at(5000), false);
        assert_eq!(trials.owed(Moment::from_millis(5040), 58_000.0, BITS), 8_000.0);
    }

    #[test]
    fn more_is_tried_only_while_it_runs() {
        let mut trials = Trials::new(Moment::ZERO);
        trials.begin(at(0), BITS, THRESHOLD);
        assert_eq!(trials.more(Moment::from_millis(1)), Some(TRIED[1]));
        assert_eq!(trials.more(Moment::from_millis(5)), None);
        trials.rest(Moment::ZERO);
        assert!(!trials.are_rising());
        trials.raise(Moment::ZERO);
        assert!(trials.are_rising() && trials.tried() == 2.0 * TRIED[0]);
    }
}
