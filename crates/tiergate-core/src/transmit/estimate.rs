//! What a link carries, where nobody says it: found by packets of the background, of which some are watched until they are acknowledged.
//!
//! While less is sent than the link carries, no packet of the background waits on its way: the virtual queue lets it go only once what was sent
//! before it has left. So a packet that comes later than the way takes says that the link carries less than is thought, and by how much: all
//! that was sent before it left in that time. That none is late says only that it carries no less. So now and then a little more than that is
//! sent, for some milliseconds ([`Trials`]). Once a packet waits then, the link is busy and the shaper has let through at once what it may: what is sent from that packet to the next
//! that waits is what is carried meanwhile. Where nothing waits, more is tried, for longer.
//!
//! | state | what it waits for |
//! |---|---|
//! | nothing is tried | a packet that is not late, once it is time to try again |
//! | more is tried | the first packet that was sent after it |
//! | one was late in a trial | the next, for which a little is left before the link |
//! | in doubt, as a packet was late | others that are late too, or one that is not |
//!
//! Source: the signal is TCP Vegas's (Brakmo and Peterson 1995), in time instead of bytes; what a train of packets says of a link is Dovrolis,
//! Ramanathan and Moore's (2001). Unlike there, both are of all that is sent, the foreground's included.

use super::known::Known;
use super::standing::Standing;
use super::trials::{Trial, Trials};
use super::watched::{Learned, NotYet, PACKET, Sample, Waited, Watched};
use crate::time::Moment;
use std::time::Duration;

/// Before anything is known, in bits a second; and the bounds of what is believed.
const FIRST: f64 = 1e6;
const BOUNDS: [f64; 2] = [1e5, 1e12];
/// A packet is late that waits longer than this, two packets' time, and some of what waits usually differ by from one packet to the next.
const NOISE: Duration = Duration::from_micros(300);
const PACKETS: f64 = 2.0;
const DIFFERENCES: f64 = 2.0;
/// One that counts as lost is late in any case.
const THRESHOLD_MAX: Duration = Duration::from_millis(150);
/// The mean of those differences goes so far with each.
const DIFFERENCE_GAIN: f64 = 1.0 / 16.0;
/// So many late ones one after another are no chance.
const LATE: u32 = 3;
/// The link may have been idle for so much of the time between two late ones.
const IDLE: f64 = 0.1;
/// One that was late says nothing any more after so long.
const OLD: Duration = Duration::from_secs(10);
/// So much of what was found is used while nothing is tried.
const USED_OF_FOUND: f64 = 0.98;
/// So many packets of what even the longest trial has sent may have been let through at once by a shaper.
const AT_ONCE: f64 = 4.0;
/// What is carried is told by what is sent in so many packets' time at least; and in so many times that at most, beyond the way there and back: in more, the link may have been idle.
const MEASURED: [f64; 2] = [12.0, 4.0];
/// After so many trials in which nothing was measured, as the queue was gone before the next packet, so far it rises with each, to find out.
const UNMEASURED: u32 = 3;
const RISE: f64 = 1.01;
/// The link was busy before a packet that waited that long.
const BUSY: Duration = Duration::from_micros(150);
/// What one packet may say at most, down and up: of a link that was found already, and of one that was not.
const FALL_MAX: f64 = 0.1;
const RISE_MAX: [f64; 2] = [1.25, 2.0];
/// How far it rises where a packet was in time that was thought to have to wait; each time twice as far, up to that.
const UNEXPECTED: [f64; 2] = [1.03, 1.25];
/// How far at least the estimate falls once so many are late, and at least where that goes on: each time twice as far, up to that.
const FALL: f64 = 0.97;
const FALL_ON: f64 = 0.5;
/// So much of what is measured after a trial counts, and the rest of what was believed.
const GAIN: f64 = 0.3;
/// What was sent since a packet that was in time says something, if that was sent not longer ago.
const RECENT: Duration = Duration::from_secs(1);
/// How often a packet is watched, at most; how many packets' time there is until the next of its flow; and how long it is waited for beyond its way until
/// others are watched.
const WATCHED_EVERY: Duration = Duration::from_millis(2);
const NEXT_WITHIN: f64 = 8.0;
const LOST: Duration = Duration::from_millis(250);
/// While the background may send nothing, two packets are sent all the same each time that this has passed, and, once the link is found, so many packets' time: else
/// nothing would be learned where the foreground sends more than the link is thought to carry.
const SOUNDS_EVERY: Duration = Duration::from_millis(100);
const SOUNDS_EVERY_PACKETS: f64 = 100.0;
/// What is carried between two packets that were in time says something, if so much time is between them: in less, much of what was written
/// may still be in sockets.
const BETWEEN: Duration = Duration::from_millis(100);
/// Nothing is sent while a watched packet is late by so many times as much: the link has become much slower.
const FAR: f64 = 3.0;
/// A trial was too long in which one was late by so many times as much.
const TOO_LONG: f64 = 2.0;

/// The estimate of what a link carries.
#[derive(Clone, Debug)]
pub(super) struct Estimate {
    /// Bits a second.
    bits: f64,
    /// Bytes on the wire that were sent since the beginning.
    sent: f64,
    /// Whether the link has ever shown that it carries no more.
    is_found: bool,
    /// How much what packets wait differs from one to the next, in seconds; and what the last one did.
    difference: f64,
    waited_last: f64,
    /// The last that was in time, or by which the estimate fell; and one that was in time some time before, with what was carried until then.
    in_time: Option<Sample>,
    before: Option<(Sample, f64)>,
    /// How many were late since one was in time that had its turn, when that of the last one was known, the last one, and what they say is carried.
    late: u32,
    late_at: Moment,
    late_last: Option<Sample>,
    late_says: f64,
    /// How far it falls if they say nothing.
    fall: f64,
    /// How far it rises if one is in time that was to wait.
    unexpected: f64,
    /// Whether none was in time since.
    is_in_doubt: bool,
    standing: Standing,
    trials: Trials,
    /// One that was late at the end of a trial: what is carried is told by the next, for which something is left before the link.
    late_in_trial: Option<Sample>,
    /// After how many nothing was measured.
    unmeasured: u32,
    /// When the last one began to be watched, and until when no other is.
    watched_at: Option<Moment>,
    watched_until: Moment,
    /// Whether it was sent without a turn.
    watches_sounding: bool,
    /// When the background sent last, and whether it did though there was no room.
    background_at: Moment,
    is_sounding: bool,
    known: Known,
}

impl Estimate {
    pub(super) fn new(now: Moment) -> Self {
        Estimate {
            bits: FIRST,
            sent: 0.0,
            is_found: false,
            difference: 0.0,
            waited_last: 0.0,
            in_time: None,
            before: None,
            late: 0,
            late_at: now,
            late_last: None,
            late_says: 0.0,
            fall: FALL,
            unexpected: UNEXPECTED[0],
            is_in_doubt: false,
            standing: Standing::default(),
            trials: Trials::new(now),
            late_in_trial: None,
            unmeasured: 0,
            watched_at: None,
            watched_until: now,
            watches_sounding: false,
            background_at: now,
            is_sounding: false,
            known: Known::new(),
        }
    }

    /// What is believed, in bits a second.
    pub(super) fn bits(&self) -> u64 {
        self.bits as u64
    }

    /// When the rate of a trial ended that nobody knows the outcome of, if it did.
    pub(super) fn trial_ended_at(&self, now: Moment) -> Option<Moment> {
        self.trials.running().and_then(|it| it.ended_at(now))
    }

    /// What is to be sent at most now, in bits a second.
    pub(super) fn allowed(&self, now: Moment) -> u64 {
        let part = self.trials.more(now).map_or(USED_OF_FOUND, |more| 1.0 + more);
        (self.bits * part) as u64
    }

    /// So many bytes on the wire are sent.
    pub(super) fn sends(&mut self, bytes: f64) {
        self.sent += bytes;
    }

    /// The background sends, by a turn or as a sounding.
    pub(super) fn background_sends(&mut self, now: Moment, by_sounding: bool) {
        (self.background_at, self.is_sounding) = (now, by_sounding);
    }

    /// When the background may send though there is no room.
    pub(super) fn sounds_at(&self) -> Moment {
        let packets = if self.is_found { SOUNDS_EVERY_PACKETS } else { 0.0 };
        let least = Duration::from_secs_f64(packets * PACKET / self.bits);
        self.background_at + SOUNDS_EVERY.max(least)
    }

    /// How much more was thought to wait before the link than did, in bytes on the wire, when a watched packet was sent.
    pub(super) fn thought_too_much(&self, watched: &Watched, waited: Waited) -> f64 {
        (watched.debt - self.bits / 8.0 * waited.most.as_secs_f64()).max(0.0)
    }

    /// What of what was sent since a watched packet waits before the link, in bytes on the wire, once it was acknowledged. After a trial, also what the link let
    /// through at once, so that it can do so again: all that was sent beyond what it carries since the trial began.
    pub(super) fn left_since(&mut self, now: Moment, watched: &Watched, waited: Waited) -> f64 {
        let kept = self.late_in_trial.map_or(0.0, |it| it.waited);
        let kept = kept.min(self.threshold().as_secs_f64());
        let left = self.sent - watched.sent - self.bits / 8.0 * (waited.way.as_secs_f64() + kept);
        let owed = match self.late_in_trial {
            None => self.trials.owed(now, self.sent, self.bits),
            Some(_) => 0.0,
        };
        left.max(owed).max(0.0)
    }

    /// Whether a packet of that flow that is sent now is to be watched instead of one that is, if any. O(1).
    pub(super) fn watches(&self, now: Moment, flow: u64) -> bool {
        let late_at = self.is_in_doubt.then_some(self.late_at);
        if self.known.seeks(now, late_at) && !self.known.counts(now, flow, LATE) {
            return false;
        }
        let is_over = self.trials.running().is_some_and(|it| {
            it.is_before(now) && self.watched_at.is_none_or(|at| !it.is_before(at))
        });
        // What has its turn says more than what was sent without.
        let is_better = self.watches_sounding && !self.is_sounding;
        now >= self.watched_until || is_over || is_better
    }

    /// The one that is watched is sent now, or the packet after it, so that the time counts from now on, and the way there and back is so long.
    pub(super) fn watch(
        &mut self,
        now: Moment,
        flow: u64,
        debt: f64,
        way: Option<Duration>,
    ) -> Watched {
        let next = Duration::from_secs_f64(NEXT_WITHIN * PACKET / self.bits);
        let time = way.map_or(next.max(WATCHED_EVERY), |way| way + LOST);
        (self.watched_at, self.watched_until) = (Some(now), now + time);
        self.watches_sounding = self.is_sounding;
        Watched { flow, at: now, sent: self.sent, is_sounding: self.is_sounding, debt }
    }

    /// Nothing more is to be learned from one that is watched.
    pub(super) fn forgets(&mut self, watched: &Watched) {
        if self.watched_at == Some(watched.at) {
            self.watched_until = watched.at + WATCHED_EVERY;
            self.watches_sounding = false;
        }
    }

    /// What to do as a packet that is watched was not acknowledged so far; `way`: how long the way there and back takes.
    pub(super) fn not_yet(&mut self, now: Moment, watched: &Watched, way: Duration) -> NotYet {
        let late = now.since(watched.at).saturating_sub(way);
        let is_late = late > self.far() && !watched.is_sounding;
        if is_late && !self.known.counts(now, watched.flow, LATE) {
            self.known.ignores(now);
            self.forgets(watched);
            return NotYet::GivesUp;
        }
        if is_late { NotYet::Holds } else { NotYet::Waits }
    }

    /// A watched packet was acknowledged, or counts as lost. O(1).
    pub(super) fn learns(&mut self, now: Moment, watched: &Watched, waited: Waited) -> Learned {
        self.forgets(watched);
        let threshold = self.threshold();
        let waits = (waited.least + waited.most).as_secs_f64() / 2.0;
        let sample = Sample { at: watched.at, sent: watched.sent, waited: waits };
        let is_late = waited.least > threshold;
        let is_in_time = waited.most <= threshold;
        if is_late && watched.is_sounding {
            return Learned::Nothing;
        }
        if is_late && !self.known.counts(now, watched.flow, LATE) {
            self.known.ignores(now);
            return Learned::Nothing;
        }
        if !watched.is_sounding
            && let Some(carried) = self.standing.sees(sample, waits > self.least_threshold())
            && carried < self.bits
        {
            self.late_says = carried;
            return self.falls(now, sample);
        }
        if let Some(trial) = self.trials.running() {
            // One that was sent before its end says enough if it is that late.
            let is_enough = waited.least > self.far() && watched.at > trial.from.at;
            if trial.is_before(watched.at) || is_enough {
                let learned = self.judges(now, trial, sample, waited);
                if is_in_time {
                    self.comes_in_time(now, watched, sample, waited.most);
                }
                return learned;
            }
        }
        if let Some(late) = self.late_in_trial.filter(|it| sample.at > it.at) {
            if waited.least >= BUSY && waited.least <= self.far() {
                return self.measures(now, late, sample, waited.way);
            }
            self.late_in_trial = None;
            if is_in_time {
                self.comes_in_time(now, watched, sample, waited.most);
                return Learned::Waits;
            }
            self.trials.owe_nothing();
        }
        if self.trials.running().is_none() && waited.most.saturating_sub(waited.least) <= threshold
        {
            self.differs(waits, threshold);
        }
        if is_in_time {
            self.comes_in_time(now, watched, sample, waited.most);
            return Learned::InTime;
        }
        if is_late && self.trials.running().is_none() {
            return self.is_late(now, watched.flow, sample);
        }
        Learned::Nothing
    }

    /// What packets wait differs by that much: a queue that grows does not by much at once.
    fn differs(&mut self, waits: f64, threshold: Duration) {
        let difference = (waits - self.waited_last).abs().min(threshold.as_secs_f64());
        self.difference += DIFFERENCE_GAIN * (difference - self.difference);
        self.waited_last = waits;
    }

    /// A packet was in time: all that was sent since another that was has been carried meanwhile.
    fn comes_in_time(&mut self, now: Moment, watched: &Watched, sample: Sample, most: Duration) {
        self.known.is_in_time(now, watched.flow);
        if watched.debt * 8.0 > self.bits * 2.0 * self.threshold().as_secs_f64() {
            // It was to wait, and did not.
            self.rises(self.bits * self.unexpected);
            self.unexpected = (self.unexpected * self.unexpected).min(UNEXPECTED[1]);
        } else {
            self.unexpected = UNEXPECTED[0];
        }
        (self.in_time, self.is_in_doubt) = (Some(sample), false);
        if !watched.is_sounding {
            (self.late, self.fall) = (0, FALL);
        }
        let Some((before, carried_before)) = self.before else {
            self.before = Some((sample, 0.0));
            return;
        };
        if sample.at.since(before.at) < BETWEEN {
            return;
        }
        let carried = sample.carried_since(before, most.as_secs_f64().max(before.waited));
        self.before = Some((sample, carried));
        // What is written at once may lie in sockets, but not in two such times alike.
        self.rises(carried.min(carried_before));
    }

    /// So much is carried, or more. Whether that is more than was believed.
    fn rises(&mut self, carried: f64) -> bool {
        let most = self.bits * RISE_MAX[usize::from(!self.is_found)];
        let risen = self.bits.max(carried.min(most));
        let has_risen = risen > self.bits;
        self.bits = risen;
        self.bound();
        has_risen
    }

    /// A packet was in time, and nothing is thought to wait before the link now: more is tried, if it is time to.
    pub(super) fn tries(&mut self, now: Moment) {
        if self.trials.are_due(now) {
            let waited = self.in_time.map_or(0.0, |it| it.waited);
            let from = Sample { at: now, sent: self.sent, waited };
            self.trials.begin(from, self.bits, self.threshold());
        }
    }

    /// What a trial has shown.
    fn judges(&mut self, now: Moment, trial: Trial, sample: Sample, waited: Waited) -> Learned {
        let threshold = self.threshold().as_secs_f64();
        let is_under_load = sample.is_full_since(trial.from, self.bits);
        self.trials.end(now);
        if waited.least.as_secs_f64() - trial.from.waited > threshold / 2.0 && is_under_load {
            // More than is carried, if the shaper let some through at once: not where a trial just before it had used that up.
            let carried = sample.carried_since(trial.from, sample.waited);
            let is_first = self.is_found && !self.trials.are_rising();
            self.unmeasured += 1;
            let rise = if self.unmeasured > UNMEASURED { RISE - 1.0 } else { 0.0 };
            let most = if is_first { rise } else { self.trials.tried() };
            // One packet may be late for other reasons: if far less is carried, others are late, too.
            let least = if self.is_found { 1.0 / RISE_MAX[0] } else { FALL_MAX };
            self.bits = carried.clamp(self.bits * least, self.bits * (1.0 + most));
            let is_too_long = waited.least.as_secs_f64() > TOO_LONG * threshold;
            self.trials.were_late(now, trial.from, is_too_long);
            (self.is_found, self.late_in_trial) = (true, Some(sample));
            self.bound();
            return Learned::Waits;
        }
        let most = waited.most.as_secs_f64();
        if most > threshold {
            return Learned::Nothing;
        }
        if self.is_found && is_under_load && self.trials.lengthen(now, trial.from) {
            return Learned::Nothing;
        }
        let at_once = if self.is_found { AT_ONCE * PACKET / 8.0 } else { 0.0 };
        let sample = Sample { sent: sample.sent - at_once, ..sample };
        if self.rises(sample.carried_since(trial.from, most.max(trial.from.waited))) {
            self.trials.raise(now);
        } else if self.is_found && is_under_load {
            self.trials.owe_nothing();
            self.trials.rest(now);
        }
        Learned::Nothing
    }

    /// A packet that was sent after a trial in which one was late: if it waited, too, the link was busy in between, and carried what was sent meanwhile.
    fn measures(&mut self, now: Moment, late: Sample, sample: Sample, way: Duration) -> Learned {
        let time = sample.at.since(late.at).as_secs_f64();
        let least = MEASURED[0] * PACKET / self.bits;
        if time < least {
            return Learned::Nothing;
        }
        self.late_in_trial = None;
        let is_full = sample.is_full_since(late, self.bits * USED_OF_FOUND);
        if time > MEASURED[1] * least + way.as_secs_f64() || !is_full {
            return Learned::Waits;
        }
        self.unmeasured = 0;
        let carried = sample.carried_since(late, sample.waited);
        let carried = carried.clamp(self.bits / RISE_MAX[0], self.bits * RISE_MAX[0]);
        self.bits += GAIN * (carried - self.bits);
        self.trials.rest(now);
        self.bound();
        Learned::Waits
    }

    /// A packet was late.
    fn is_late(&mut self, now: Moment, flow: u64, sample: Sample) -> Learned {
        if now.since(self.late_at) > OLD {
            self.late = 0;
        }
        if self.late == 0 {
            self.late_says = 0.0;
        }
        self.known.is_late(flow);
        self.late_says = self.says(sample).unwrap_or(self.late_says);
        (self.late, self.late_last, self.late_at, self.is_in_doubt) =
            (self.late + 1, Some(sample), now, true);
        if self.late < LATE { Learned::Nothing } else { self.falls(now, sample) }
    }

    /// What is carried, by a late packet: what was sent since another left meanwhile, if the link was busy until then.
    fn says(&self, sample: Sample) -> Option<f64> {
        let former = self.late_last.filter(|it| self.late > 0 && sample.at > it.at);
        if let Some(former) = former {
            // It was with what the former waited for, and perhaps idle for a moment until this one was sent.
            let since = sample.at.since(former.at).as_secs_f64();
            let idle = (since - former.waited).max(0.0);
            let time = since + sample.waited - former.waited;
            return (idle < IDLE * time).then(|| sample.carried_since(former, sample.waited));
        }
        let before = self.before.map(|(it, _)| it).or(self.in_time);
        let before = before.filter(|it| sample.at.since(it.at) < RECENT)?;
        let time = sample.at.since(before.at).as_secs_f64() + sample.waited;
        let is_long = time > MEASURED[0] * PACKET / self.bits;
        let is_full = sample.is_full_since(before, self.bits * USED_OF_FOUND);
        (is_full && is_long).then(|| sample.carried_since(before, sample.waited))
    }

    /// So many were late that less is carried: as much as the last of them says that can say it, else a little less.
    fn falls(&mut self, now: Moment, sample: Sample) -> Learned {
        let part = if self.late_says > 0.0 { self.late_says / self.bits } else { self.fall };
        self.bits *= part.clamp(FALL_MAX, FALL);
        self.fall = (self.fall * self.fall).max(FALL_ON);
        (self.is_found, self.late, self.is_in_doubt) = (true, 0, false);
        self.trials.begin_anew();
        (self.in_time, self.before) = (Some(sample), None);
        // Whose link is slower by itself is not known any more.
        self.known = Known::new();
        self.trials.rest(now);
        self.bound();
        Learned::Waits
    }

    fn bound(&mut self) {
        self.bits = self.bits.clamp(BOUNDS[0], BOUNDS[1]);
    }

    /// Who waits longer is late for other reasons than a trial, or the link has become much slower.
    fn far(&self) -> Duration {
        self.threshold().mul_f64(FAR).min(THRESHOLD_MAX)
    }

    /// Who waits longer has found a queue, if all the others have, too.
    fn least_threshold(&self) -> f64 {
        let least = NOISE.as_secs_f64() + PACKET / self.bits + self.difference;
        least / 2.0
    }

    /// Who waits longer is late.
    fn threshold(&self) -> Duration {
        let packets = PACKETS * PACKET / self.bits;
        let threshold = NOISE + Duration::from_secs_f64(packets + DIFFERENCES * self.difference);
        threshold.min(THRESHOLD_MAX)
    }
}

#[cfg(test)]
mod tests;
