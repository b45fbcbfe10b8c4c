//! A bound on the slots from what the origin refuses itself.
//!
//! An origin that answers 429 or 503, once it has so many requests at a time, says where its limit is.
//! Refused requests end at once, so to a law that goes by throughput more slots look better and better, while every
//! request that waits is given away to the next refusal. So where refusals come with load, no more requests are in
//! progress than were when they came, and from time to time one more is tried.
//!
//! An origin that closes the connection without an answer refuses as well, if fewer in progress are seen to be closed less. A path that crashes its workers says nothing of
//! the load, and would halve the limit again and again if it counted as what is answered too late does.
//!
//! Origins also refuse whatever the load: clients that ask too much, a path, everybody during a deploy. So a bound is
//! tried only if requests that were admitted while fewer were in progress are refused less ([`Levels`]). Where all are
//! admitted at the same number that cannot be seen; then a bound is tried if the limit is nearly full and requests wait.
//! Nor can it where another gateway fills what this one leaves free; one bound is tried if most of the limit is in use.
//!
//! Load hits all alike, so what calls for a bound is the share of refusals without the quarter of the groups of flows that
//! is refused most. And each bound is a trial: if too many are left of the refusals there would be had each group kept
//! its share, or it is not plain in time that they are fewer, it is undone, and the share is what is usual from then on.

use super::law::{Completion, OriginLoad};
use super::levels::Levels;
use crate::admit::groups::{group, left_out};
use crate::outcome::End;
use crate::time::Moment;
use std::time::Duration;

/// Answers that a share is taken of; half as many are enough where much is refused.
const ANSWERS: u32 = 128;
/// Much is refused: one of so many answers, or more.
const MUCH: u32 = 3;
/// Refusals after which one more was too many.
const REFUSALS: u32 = 8;
/// A bound that helps leaves this part of the refusals or less. The test (Wald's, of two Poisson means) is neutral at
/// 0.39: a share that was noticed because chance made it high falls to a half by itself.
const LEFT: f64 = 0.1;
/// Evidence, as a logarithm, from which on a bound helps; and from which on it does not. At first six refusals that
/// did not come, or two that did.
const HELPS: f64 = 5.0;
const HELPS_NOT: f64 = -3.0;
/// Bounds that are tried, each by what was seen under the one before.
const TRIES: u32 = 4;
/// How long a trial lasts at most: this, and three times as long as answers take, which is what it takes to see some.
/// Most of the trials that fail end long before; while they last, others have fewer slots.
const TRIAL: (Duration, Duration) = (Duration::from_secs(3), Duration::from_secs(30));
/// Part of the slots that must be in use for one bound to be tried though fewer requests in progress are refused as much:
/// where another gateway fills what this one leaves free, that is how too many look.
const USED: f64 = 0.6;
/// Part of the work before that the origin must do under a bound while requests wait: load that it refuses is not work.
const WORK: f64 = 0.5;
/// Groups of flows; so many of them are one where the most refused are left out, so that each has some answers.
const GROUPS: usize = 64;
const TOGETHER: usize = 4;
/// Share of refusals that calls for a bound: this, and more than twice what is usual.
const SHARE_MIN: f64 = 0.1;
/// How long until one more is tried: at first, and at most; twice as long each time that it was too many. While it
/// is not, twice as many are tried each time.
const RAISE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(16));
/// Answers to requests beyond the old bound that prove it was not too many; and for each refusal among them.
const TAKEN: u32 = 16;
const TAKEN_EACH: u32 = 4;
/// What is usual is forgotten by half in this time, so that a trial that was misled is repeated.
const USUAL_HALF: Duration = Duration::from_secs(120);

/// Answers, and refusals among them.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    answers: u32,
    refusals: u32,
    /// Refusals of requests that were admitted when the limit was nearly full, and while others waited.
    full: u32,
    /// Those that were admitted when most of the slots were in use.
    used: u32,
    /// Those that were not said, but connections closed.
    closed: u32,
    /// Requests in progress when refusals came, themselves included, summed.
    running: u64,
    /// Seconds for which slots were held by what was answered, and by what was refused.
    answered_s: f64,
    refused_s: f64,
}

impl Count {
    fn add(&mut self, more: &Count) {
        self.answers += more.answers;
        self.refusals += more.refusals;
        self.full += more.full;
        self.used += more.used;
        self.closed += more.closed;
        self.running += more.running;
        self.answered_s += more.answered_s;
        self.refused_s += more.refused_s;
    }

    /// Whether it can be told what share is refused, and what part of the slots that takes.
    fn is_enough(&self) -> bool {
        self.answers >= ANSWERS / 2 && self.answers - self.refusals >= ANSWERS / 4
    }

    fn share(&self) -> f64 {
        f64::from(self.refusals) / f64::from(self.answers.max(1))
    }

    /// Whether most were refused that found the limit nearly full.
    fn is_full(&self) -> bool {
        2 * self.full > self.refusals
    }

    /// Whether most were refused that found most of the slots in use.
    fn is_used(&self) -> bool {
        2 * self.used > self.refusals
    }

    /// How many were in progress that were not refused, when others were.
    fn taken(&self) -> u32 {
        let running = self.running as f64 / f64::from(self.refusals.max(1));
        let part = self.answered_s / (self.answered_s + self.refused_s).max(1e-9);
        // One of them was the refused one.
        (running * part).min(running - 1.0).round().max(1.0) as u32
    }

    /// How long an answer takes that is not a refusal.
    fn held_s(&self) -> f64 {
        self.answered_s / f64::from((self.answers - self.refusals).max(1))
    }
}

/// The same by groups of flows, and all together.
#[derive(Clone, Copy, Debug)]
struct Counts {
    groups: [Count; GROUPS],
    answers: u32,
    refusals: u32,
    /// Answers that were no refusals and had come before a refusal, summed over the refusals.
    between: u64,
}

impl Default for Counts {
    fn default() -> Self {
        Counts { groups: [Count::default(); GROUPS], answers: 0, refusals: 0, between: 0 }
    }
}

impl Counts {
    fn add(&mut self, flow: u64, one: Count) {
        self.groups[group(flow, GROUPS)].add(&one);
        self.answers += one.answers;
        self.refusals += one.refusals;
        if one.refusals > 0 {
            self.between += u64::from(self.answers - self.refusals);
        }
    }

    /// How many there would be if of each group the share that was refused were the same as before: a client that provokes
    /// refusals asks less often when it waits.
    fn expected(&self, before: &Counts) -> f64 {
        let usual = f64::from(before.refusals) / f64::from(before.answers.max(1));
        let groups = self.groups.iter().zip(&before.groups);
        let expected = groups.map(|(now, before)| {
            let share = if before.answers > 0 { before.share() } else { usual };
            share * f64::from(now.answers)
        });
        expected.sum()
    }

    /// Whether they tell what share is refused.
    fn are_many(&self) -> bool {
        let needed = if MUCH * self.refusals >= self.answers { ANSWERS / 2 } else { ANSWERS };
        self.answers >= needed
    }

    /// See [`Count::is_enough`].
    fn is_enough(&self) -> bool {
        let all = Count { answers: self.answers, refusals: self.refusals, ..Count::default() };
        all.is_enough()
    }

    /// Of all groups but those that are refused most. O(groups).
    fn of_most(&self) -> Count {
        let mut groups = [Count::default(); GROUPS / TOGETHER];
        for (sum, groups) in groups.iter_mut().zip(self.groups.chunks(TOGETHER)) {
            groups.iter().for_each(|count| sum.add(count));
        }
        groups.sort_unstable_by(|one, other| one.share().total_cmp(&other.share()));
        let seen = groups.iter().filter(|count| count.answers > 0).count();
        let mut sum = Count::default();
        groups[..groups.len() - left_out(seen)].iter().for_each(|count| sum.add(count));
        sum
    }
}

/// A bound that has yet to prove itself.
#[derive(Clone, Debug)]
struct Trial {
    /// What was refused before, and the bound.
    counts: Counts,
    before: Option<u32>,
    /// Slots in force before.
    slots: u32,
    /// Whether the limit was nearly full when others were refused.
    was_full: bool,
    /// Answers a second before that were no refusals, and answers since.
    rate: f64,
    answered: u32,
    begun: Moment,
    /// How long an answer takes.
    held: Duration,
    ends: Moment,
    /// How many bounds were tried.
    tries: u32,
}

impl Trial {
    /// Whether the origin does much less than before although requests wait: an origin that has refused because of its load
    /// does as much under the bound.
    fn costs_work(&self, now: Moment, load: OriginLoad) -> bool {
        let before = self.rate * now.since(self.begun).as_secs_f64();
        load.waiting > 0 && f64::from(self.answered) < WORK * before
    }
}

/// How many slots the origin lets requests have, as far as its refusals tell.
#[derive(Debug, Default)]
pub(super) struct Pushback {
    most: Option<u32>,
    trial: Option<Trial>,
    /// By how many were in progress, since the last trial began.
    levels: Levels,
    counts: Counts,
    /// When the first of them came, and answers since then to requests that were admitted since, and were not refused.
    counted: Moment,
    answered: u32,
    /// Refusals of requests that were admitted before do not count: the bound was another.
    since: Moment,
    /// The share of refusals that no bound helps against, as of when.
    usual: f64,
    usual_at: Moment,
    /// When one more is tried, and after how long the next time.
    raise_at: Moment,
    raise_after: Duration,
    /// By how many it was raised last; 0: not since it was lowered.
    raised: u32,
    /// Refusals since then of requests that had not been admitted before it.
    beyond: u32,
    /// Answers to such requests that were no refusals.
    taken: u32,
}

impl Pushback {
    /// The most slots; `None`: the origin has refused nothing because of its load.
    pub(super) fn most(&self) -> Option<u32> {
        self.most
    }

    /// A request has ended while so many slots were in force; returns whether the bound has changed. Amortised O(1).
    pub(super) fn finished(&mut self, completion: &Completion<'_>, slots: u32) -> bool {
        let Completion { now, flow, admitted, found, outcome, load, .. } = *completion;
        let is_refusal = outcome.is_refusal();
        if !is_refusal && outcome.end != End::Served || is_refusal && admitted < self.since {
            return false;
        }
        if let Some(trial) = &mut self.trial {
            trial.answered += u32::from(!is_refusal);
        }
        let is_counted = match &self.trial {
            // What was admitted before says nothing of the bound.
            Some(_) => admitted >= self.since,
            // Counted from the first refusal on: slots must have had time to be what refusals leave.
            None => is_refusal || self.counts.refusals > 0,
        };
        if is_counted || self.trial.is_none() {
            self.levels.add(now, flow, found, is_refusal);
        }
        if is_counted {
            self.count(completion, slots);
        }
        let old = self.most.map(|most| most - self.raised);
        if !is_refusal && self.raised > 0 && admitted >= self.since {
            self.taken += u32::from(old.is_some_and(|old| found > old));
        }
        let before = self.most;
        match &self.trial {
            Some(_) => self.judge(now, load, slots),
            None if self.raised > 0 && self.beyond >= REFUSALS => self.undo_raise(now),
            None if self.counts.are_many() => self.look(now, slots),
            None => {}
        }
        if self.most == before {
            self.raise(now, load);
        }
        self.most != before
    }

    fn count(&mut self, completion: &Completion<'_>, slots: u32) {
        let Completion { now, flow, admitted, found, outcome, load, .. } = *completion;
        if self.counts.answers == 0 {
            (self.counted, self.answered) = (now, 0);
        }
        let held_s = now.since(admitted).as_secs_f64();
        let mut one = Count { answers: 1, ..Count::default() };
        if outcome.is_refusal() {
            (one.refusals, one.running, one.refused_s) = (1, u64::from(load.running), held_s);
            one.closed = u32::from(outcome.end == End::Failed);
            one.full = u32::from(found >= nearly(slots) && load.waiting > 0);
            let before = self.trial.as_ref().map_or(slots, |trial| trial.slots);
            one.used = u32::from(f64::from(found) >= USED * f64::from(before));
            let old = self.most.map(|most| most - self.raised);
            self.beyond += u32::from(old.is_some_and(|old| found > old));
        } else {
            one.answered_s = held_s;
            self.answered += u32::from(admitted >= self.counted);
        }
        self.counts.add(flow, one);
    }

    /// So many answers have come without a trial.
    fn look(&mut self, now: Moment, slots: u32) {
        if self.is_usual(now) {
            self.begin(now);
            return;
        }
        let most = self.counts.of_most();
        if !most.is_enough() {
            return;
        }
        // Everything was refused and now nothing is: an outage that is over calls for no bound.
        let (refusals, between) = (u64::from(self.counts.refusals), self.counts.between);
        let answered = u64::from(self.counts.answers) - refusals;
        let is_over = 8 * between < refusals * answered;
        let bound = self.bound(&most, most.is_full(), slots).filter(|_| !is_over);
        let Some(bound) = bound else {
            self.begin(now);
            return;
        };
        let counted_s = now.since(self.counted).as_secs_f64().max(1e-3);
        // What was admitted before tells of an origin that took more.
        let answered = self.answered;
        let held = Duration::from_secs_f64(most.held_s()).min(TRIAL.1 / 4);
        let lasts = TRIAL.0 + 3 * held;
        self.trial = Some(Trial {
            counts: self.counts,
            before: self.most,
            slots,
            was_full: most.is_full(),
            rate: f64::from(answered) / counted_s,
            answered: 0,
            begun: now,
            held,
            ends: now + lasts.min(TRIAL.1),
            tries: 1,
        });
        self.lower(now, bound);
        (self.raised, self.raise_after) = (0, RAISE.0);
        self.raise_at = now + self.raise_after;
    }

    /// The bound to try; `None` if the refusals do not come with load, as far as can be told. So many slots are in force.
    fn bound(&self, most: &Count, was_full: bool, slots: u32) -> Option<u32> {
        let levels = self.levels.of_most();
        if let Some(split) = levels.split() {
            let bound = most.taken().clamp(*split.start(), *split.end());
            return (bound < slots).then_some(bound);
        }
        let nearly = nearly(slots);
        let is_known = levels.is_known_below(nearly) && !levels.is_worse_from(nearly);
        let is_full = was_full && most.is_full() && !is_known;
        // Where much is refused, more can be won by a lower bound than is lost in a moment.
        let is_much = |trial: &Trial| MUCH * trial.counts.refusals >= trial.counts.answers;
        // That a worker crashes is no word of the load.
        let is_said = 2 * most.closed < most.refusals.max(1);
        let may_be_load = is_full || most.is_used() && self.trial.as_ref().is_none_or(is_much);
        (may_be_load && is_said && slots > 1).then(|| most.taken().min(slots - 1))
    }

    /// Refusals since it was raised: at once, since a slot too many gives requests away as fast as the origin refuses.
    fn undo_raise(&mut self, now: Moment) {
        let Some(most) = self.most else { return };
        if self.is_usual(now) || !self.levels.of_most().is_worse_from(most - self.raised + 1) {
            // Not because of the raise: there are refusals below it as well, or few.
            self.beyond = 0;
            return;
        }
        let by = std::mem::take(&mut self.raised);
        self.most = Some(most - by);
        self.raise_after = if by == 1 { (self.raise_after * 2).min(RAISE.1) } else { RAISE.0 };
        self.raise_at = now + self.raise_after;
        self.begin(now);
    }

    /// Whether no larger share is refused than calls for nothing.
    fn is_usual(&self, now: Moment) -> bool {
        let usual = self.usual(now);
        self.counts.of_most().share() <= SHARE_MIN.max((2.0 * usual).min((1.0 + usual) / 2.0))
    }

    /// Whether there are fewer refusals by the bound.
    fn judge(&mut self, now: Moment, load: OriginLoad, slots: u32) {
        let Some(trial) = &self.trial else { return };
        let (refusals, expected) =
            (f64::from(self.counts.refusals), self.counts.expected(&trial.counts));
        let evidence = (1.0 - LEFT) * expected + refusals * LEFT.ln();
        if evidence >= HELPS && !trial.costs_work(now, load) {
            self.trial = None;
            self.begin(now);
            return;
        }
        let is_over = now >= trial.ends;
        if !is_over && evidence > HELPS_NOT {
            return;
        }
        let (may_lower, was_full) = (!is_over && trial.tries < TRIES, trial.was_full);
        if may_lower && !self.counts.is_enough() {
            return;
        }
        let bound =
            may_lower.then(|| self.bound(&self.counts.of_most(), was_full, slots)).flatten();
        let Some(trial) = &mut self.trial else { return };
        if let Some(bound) = bound {
            trial.tries += 1;
            self.lower(now, bound);
            return;
        }
        self.most = trial.before;
        // Under the bounds fewer may have been refused, for the moment: without them as many as before.
        let shares = [&trial.counts, &self.counts].map(|counts| counts.of_most().share());
        (self.usual, self.usual_at) = (shares[0].max(shares[1]), now);
        self.trial = None;
        self.begin(now);
    }

    /// Tries a bound; what was seen above it says nothing of what comes now.
    /// What comes while requests that were admitted before are still there does not count either.
    fn lower(&mut self, now: Moment, bound: u32) {
        self.most = Some(bound);
        self.levels.clear();
        let held = self.trial.as_ref().map_or(Duration::ZERO, |trial| trial.held);
        self.begin(now + held);
    }

    /// Counts anew, requests that are admitted from now on.
    fn begin(&mut self, now: Moment) {
        (self.counts, self.since) = (Counts::default(), now);
        (self.beyond, self.taken) = (0, 0);
    }

    /// Tries one more, where that makes a difference.
    fn raise(&mut self, now: Moment, load: OriginLoad) {
        let Some(most) = self.most else { return };
        // The last ones were not too many: the next at once.
        let is_taken = self.raised > 0 && self.taken >= TAKEN.max(TAKEN_EACH * self.beyond);
        if is_taken {
            self.raise_after = RAISE.0;
        }
        let is_due = is_taken || now >= self.raise_at;
        if self.trial.is_some() || !is_due || load.running < most || load.waiting == 0 {
            return;
        }
        self.raised = (2 * self.raised).clamp(1, most);
        self.most = Some(most + self.raised);
        self.raise_at = now + self.raise_after;
        self.begin(now);
    }

    fn usual(&self, now: Moment) -> f64 {
        let halves = now.since(self.usual_at).as_secs_f64() / USUAL_HALF.as_secs_f64();
        self.usual * (-halves).exp2()
    }
}

/// From how many in progress a limit of so many slots is nearly full.
fn nearly(slots: u32) -> u32 {
    (u64::from(slots) * 3).div_ceil(4) as u32
}

#[cfg(test)]
mod tests;
