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
mod tests {
    use super::*;
    use crate::names::{ClassId, LaneId};
    use crate::outcome::Outcome;

    /// An origin with endless work before it, which takes 40 ms for an answer, and what it refuses.
    struct World {
        pushback: Pushback,
        slots: u32,
        now_ms: u64,
        /// When requests that it works on end, and how many were there with them when they came.
        working: std::collections::VecDeque<(u64, u32)>,
        /// How it refuses.
        refusal: End,
        answers: u32,
        refusals: u32,
        most: Vec<u32>,
    }

    impl World {
        fn new(slots: u32) -> Self {
            let working = std::collections::VecDeque::new();
            let (pushback, most) = (Pushback::default(), Vec::new());
            let refusal = End::Pushback;
            World { pushback, slots, now_ms: 0, working, refusal, answers: 0, refusals: 0, most }
        }

        fn limit(&self) -> u32 {
            self.pushback.most().unwrap_or(u32::MAX).min(self.slots)
        }

        fn end(&mut self, end: End, admitted_ms: u64, found: u32, running: u32) {
            self.end_of((self.answers + self.refusals).into(), end, admitted_ms, found, running);
        }

        fn end_of(&mut self, flow: u64, end: End, admitted_ms: u64, found: u32, running: u32) {
            let completion = Completion {
                now: Moment::from_millis(self.now_ms),
                class: ClassId(0),
                lane: LaneId(0),
                flow,
                admitted: Moment::from_millis(admitted_ms),
                waited: Duration::ZERO,
                found,
                outcome: &Outcome::without_answer(end),
                load: OriginLoad { running, waiting: 1000 },
            };
            self.pushback.finished(&completion, self.limit());
            match end {
                end if end == self.refusal => self.refusals += 1,
                _ => self.answers += 1,
            }
        }

        /// Runs, with what the origin refuses, by the number of the request and how many others are there.
        fn run(&mut self, ms: u64, refuses: impl Fn(u32, u32) -> bool) {
            for _ in 0..ms {
                self.now_ms += 1;
                while let Some((_, found)) =
                    self.working.pop_front_if(|(end, _)| *end <= self.now_ms)
                {
                    let running = self.working.len() as u32 + 1;
                    self.end(End::Served, self.now_ms.saturating_sub(40), found, running);
                }
                // No more than the network brings in a millisecond.
                for _ in 0..4 {
                    let others = self.working.len() as u32;
                    if others >= self.limit() {
                        break;
                    }
                    if refuses(self.answers + self.refusals, others) {
                        self.end(self.refusal, self.now_ms, others + 1, others + 1);
                    } else {
                        self.working.push_back((self.now_ms + 40, others + 1));
                    }
                }
                self.most.push(self.limit());
            }
        }
    }

    #[test]
    fn no_more_are_in_progress_than_the_origin_takes() {
        let mut world = World::new(1000);
        world.run(1000, |_, others| others >= 32);
        assert_eq!(world.pushback.most(), Some(32));
        (world.answers, world.refusals) = (0, 0);
        world.run(300_000, |_, others| others >= 32);
        assert!(world.answers > 235_000, "{}", world.answers);
        // Trying one more costs a few requests, and less and less often.
        assert!(world.refusals < world.answers / 1000, "{}", world.refusals);
        assert!(world.most.iter().skip(1000).all(|most| (31..=33).contains(most)));
    }

    #[test]
    fn an_origin_that_closes_connections_beyond_so_many_gets_no_more() {
        let mut world = World::new(1000);
        world.refusal = End::Failed;
        world.run(200, |_, others| others >= 32);
        world.slots = 40;
        world.run(20_000, |_, others| others >= 32);
        assert!((31..=33).contains(&world.limit()), "{}", world.limit());
    }

    /// A path crashes its worker, whatever the load: no bound is tried, which the others would wait for.
    #[test]
    fn connections_closed_whatever_the_load_take_no_slots() {
        for one_in in [2, 3, 10] {
            let mut world = World::new(10);
            world.refusal = End::Failed;
            world.run(60_000, |number, _| number % one_in == 0);
            assert!(world.most.iter().all(|most| *most == 10), "one in {one_in}");
        }
    }

    #[test]
    fn an_origin_that_takes_more_gets_more() {
        let mut world = World::new(100);
        world.run(10_000, |_, others| others >= 32);
        world.run(120_000, |_, others| others >= 64);
        assert!((60..=65).contains(&world.limit()), "{}", world.limit());
        world.run(300_000, |_, _| false);
        assert_eq!(world.limit(), 100);
    }

    #[test]
    fn an_origin_that_takes_more_after_a_long_time_gets_it_soon() {
        let mut world = World::new(100);
        world.run(300_000, |_, others| others >= 6);
        assert!((5..=7).contains(&world.limit()), "{}", world.limit());
        world.run(25_000, |_, others| others >= 64);
        assert!((60..=65).contains(&world.limit()), "{}", world.limit());
    }

    #[test]
    fn an_origin_that_takes_a_quarter_of_before_is_followed() {
        for seed in 1..=10 {
            let mut site = Site::new(60);
            site.random = seed;
            site.run(15_000, 130.0, 300.0, |_, _, others| others >= 32);
            site.run(10_000, 130.0, 300.0, |_, _, others| others >= 8);
            for _ in 0..30 {
                site.run(1_000, 130.0, 300.0, |_, _, others| others >= 8);
                assert!((7..=10).contains(&site.limit()), "{seed}: {}", site.limit());
            }
        }
    }

    #[test]
    fn an_origin_that_refuses_some_clients_whatever_the_load_loses_no_slots() {
        for each in [2, 3, 10] {
            let mut world = World::new(40);
            world.run(300_000, |number, _| number % each == 0);
            let held = world.most.iter().filter(|most| **most < 40).count();

            assert!(held < world.most.len() / 20, "1 of {each}: {held}");
            let settled = &world.most[10_000..];
            let mean = settled.iter().sum::<u32>() as f64 / settled.len() as f64;
            assert!(mean > 39.8, "1 of {each}: {mean}");
        }
    }

    /// So many addresses, and some that ask for what is always refused: often at first, seldom while slots are few.
    /// Returns for which part of the time there were fewer.
    fn beside_provokers(good: u32, provokers: u32) -> f64 {
        let mut world = World::new(40);
        for number in 0..50_000 {
            let each = if world.limit() == 40 { 4 } else { 20 };
            let (flow, end) = match number % each {
                0 => (number / each % provokers, End::Pushback),
                _ => (100 + number % good, End::Served),
            };
            world.now_ms += 2;
            let limit = world.limit();
            world.end_of(flow.into(), end, world.now_ms - 1, limit, limit);
            world.most.push(world.limit());
        }
        let held = world.most.iter().filter(|most| **most < 40).count();
        held as f64 / world.most.len() as f64
    }

    #[test]
    fn an_address_that_provokes_refusals_takes_nobodys_slots() {
        for (good, provokers) in [(2, 1), (3, 1), (8, 2), (100, 3)] {
            assert_eq!(beside_provokers(good, provokers), 0.0, "{provokers} beside {good}");
        }
    }

    #[test]
    fn many_that_provoke_refusals_take_slots_for_a_moment() {
        for (good, provokers) in [(1, 2), (3, 3), (6, 6)] {
            let held = beside_provokers(good, provokers);
            assert!(held < 0.1, "{provokers} beside {good}: {held}");
        }
    }

    #[test]
    fn both_kinds_of_refusals_are_told_apart() {
        let mut world = World::new(1000);
        world.run(60_000, |number, others| others >= 32 || number % 10 == 0);
        let late = &world.most[30_000..];
        let near = late.iter().filter(|most| (28..=34).contains(*most)).count();
        assert!(near > late.len() * 9 / 10, "{near} of {}", late.len());
    }

    #[test]
    fn refusals_of_requests_of_before_do_not_count() {
        let mut world = World::new(1000);
        world.run(1000, |_, others| others >= 32);
        let since = world.pushback.since.nanos() / 1_000_000;
        let before = world.pushback.counts.answers;
        world.end(End::Pushback, since - 1, 33, 33);
        assert_eq!(world.pushback.counts.answers, before);
        world.end(End::Pushback, since, 33, 33);
        assert_eq!(world.pushback.counts.answers, before + 1);
    }

    /// What asks: a client or a provoker, and which.
    #[derive(Clone, Copy)]
    struct Ask {
        flow: u64,
        provokes: bool,
        /// Between 0 and 1.
        chance: f64,
    }

    /// A gateway with so many slots before an origin, and clients that come by chance.
    struct Site {
        pushback: Pushback,
        slots: u32,
        now_ms: u64,
        random: u64,
        queue: std::collections::VecDeque<Ask>,
        /// When it ends and was admitted, how many were there then, and whether it is refused.
        running: Vec<(u64, u64, u32, Ask, bool)>,
        /// How long the origin takes to refuse a request.
        refusal_ms: u64,
        /// Requests of provokers a second, and how many there are.
        provokers: (f64, u64),
        most: Vec<u32>,
    }

    impl Site {
        fn new(slots: u32) -> Self {
            Site {
                pushback: Pushback::default(),
                slots,
                now_ms: 0,
                random: 1,
                queue: Default::default(),
                running: Vec::new(),
                refusal_ms: 1,
                provokers: (0.0, 1),
                most: Vec::new(),
            }
        }

        fn limit(&self) -> u32 {
            self.pushback.most().unwrap_or(u32::MAX).min(self.slots)
        }

        /// SplitMix64.
        fn chance(&mut self) -> f64 {
            self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut bits = self.random;
            bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((bits ^ bits >> 31) >> 11) as f64 / (1u64 << 53) as f64
        }

        /// So many requests a second from 1,000 clients, whose answers take so long. What the origin refuses, by when, who and
        /// how many others it works on, ends sooner. Clients that would wait more than a second leave.
        fn run(
            &mut self,
            ms: u64,
            rate: f64,
            service_ms: f64,
            refuses: impl Fn(u64, Ask, u32) -> bool,
        ) {
            for _ in 0..ms {
                self.now_ms += 1;
                while let Some(at) = self.running.iter().position(|one| one.0 <= self.now_ms) {
                    let running = self.running.len() as u32;
                    let (_, admitted, found, ask, refused) = self.running.swap_remove(at);
                    let end = if refused { End::Pushback } else { End::Served };
                    let completion = Completion {
                        now: Moment::from_millis(self.now_ms),
                        class: ClassId(0),
                        lane: LaneId(0),
                        flow: ask.flow,
                        admitted: Moment::from_millis(admitted),
                        waited: Duration::ZERO,
                        found,
                        outcome: &Outcome::without_answer(end),
                        load: OriginLoad { running, waiting: self.queue.len() as u32 },
                    };
                    let limit = self.limit();
                    self.pushback.finished(&completion, limit);
                    self.admit(service_ms, &refuses);
                }
                let (provoked, provokers) = self.provokers;
                for (each, flows, provokes) in [(rate, 1000, false), (provoked, provokers, true)] {
                    if self.chance() < each / 1000.0 {
                        let flow =
                            (self.chance() * flows as f64) as u64 + if provokes { 5000 } else { 0 };
                        let ask = Ask { flow, provokes, chance: self.chance() };
                        if (self.queue.len() as f64) < rate {
                            self.queue.push_back(ask);
                        }
                    }
                }
                self.admit(service_ms, &refuses);
                self.most.push(self.limit());
            }
        }

        fn admit(&mut self, service_ms: f64, refuses: &impl Fn(u64, Ask, u32) -> bool) {
            while (self.running.len() as u32) < self.limit() {
                let Some(ask) = self.queue.pop_front() else { return };
                let others = self.running.iter().filter(|one| !one.4).count() as u32;
                let refused = refuses(self.now_ms, ask, others);
                let takes = if refused {
                    self.refusal_ms
                } else {
                    (service_ms * (0.8 + 0.4 * self.chance())) as u64
                };
                let found = self.running.len() as u32 + 1;
                self.running.push((self.now_ms + takes, self.now_ms, found, ask, refused));
            }
        }

        /// A bound may be tried now and then, but not lowered again, and is undone soon.
        fn assert_barely_held(&self) {
            let least = self.most.iter().min().expect("it ran");
            assert!(*least >= self.slots.div_ceil(3), "{least}");
            let part = self.held_s() * 1000.0 / self.most.len() as f64;
            assert!(part < 0.04, "{part}");
        }

        /// For how many seconds there were fewer slots.
        fn held_s(&self) -> f64 {
            self.most.iter().filter(|most| **most < self.slots).count() as f64 / 1000.0
        }
    }

    #[test]
    fn a_deploy_at_light_load_takes_no_slots() {
        for (rate, service_ms) in [(40.0, 100.0), (10.0, 1000.0), (3.0, 1000.0), (200.0, 20.0)] {
            let mut site = Site::new(14);
            site.run(60_000, rate, service_ms, |now, _, _| (15_000..25_000).contains(&now));
            assert_eq!(site.held_s(), 0.0, "{rate} of {service_ms} ms");
        }
    }

    #[test]
    fn an_outage_that_is_over_takes_no_slots() {
        for seed in 1..=5 {
            let mut site = Site::new(10);
            // Refused after a second, so that the limit is full meanwhile.
            (site.random, site.refusal_ms) = (seed, 1000);
            site.run(120_000, 40.0, 100.0, |now, _, _| (30_000..60_000).contains(&now));
            assert_eq!(site.held_s(), 0.0, "{seed}");
        }
    }

    #[test]
    fn a_deploy_of_one_of_two_servers_takes_no_slots() {
        let mut site = Site::new(14);
        // It answers at once, so that it has the fewest requests in progress and gets the most.
        site.run(60_000, 40.0, 100.0, |now, ask, others| {
            (15_000..25_000).contains(&now) && (others > 0 || ask.chance < 0.5)
        });
        assert_eq!(site.held_s(), 0.0);
    }

    #[test]
    fn a_path_that_is_refused_takes_few_slots_for_a_moment() {
        for seed in 1..=5 {
            let mut site = Site::new(10);
            (site.random, site.provokers) = (seed, (12.0, 1000));
            site.run(300_000, 40.0, 100.0, |_, ask, _| ask.provokes);
            site.assert_barely_held();
        }
    }

    #[test]
    fn refusals_by_chance_take_few_slots_for_a_moment() {
        for seed in 1..=5 {
            let mut site = Site::new(10);
            site.random = seed;
            site.run(300_000, 20.0, 300.0, |_, ask, _| ask.chance < 0.14);
            site.assert_barely_held();
        }
    }

    #[test]
    fn provokers_at_light_load_take_few_slots_for_a_moment() {
        for (provokers, rate) in [(8, 16.0), (12, 12.0), (12, 100.0)] {
            let mut site = Site::new(10);
            site.provokers = (rate, provokers);
            site.run(300_000, 40.0, 100.0, |_, ask, _| ask.provokes);
            site.assert_barely_held();
        }
    }

    #[test]
    fn bursts_of_refusals_for_all_take_no_slots() {
        let mut site = Site::new(10);
        site.run(300_000, 40.0, 100.0, |now, _, _| now % 10_000 < 2000);
        assert_eq!(site.held_s(), 0.0);
    }

    #[test]
    fn a_trial_ends_in_time() {
        // Slots are always full and requests wait, so that it may be the load; few answers come that could tell.
        let mut site = Site::new(4);
        site.run(600_000, 20.0, 1000.0, |_, ask, _| ask.chance < 0.2);
        let mut longest = 0;
        for held in site.most.split(|most| *most == 4) {
            longest = longest.max(held.len());
        }
        assert!(longest > 0, "there was a trial");
        assert!(longest <= 7000, "{longest} ms");
        assert!(site.held_s() < 40.0, "{}", site.held_s());
    }

    #[test]
    fn a_limit_is_found_whether_or_not_the_load_is_always_full() {
        // Seconds in turn with much and little load.
        for (service_ms, full) in [(40.0, 1.4), (100.0, 1.4), (100.0, 2.5), (300.0, 1.4)] {
            let (mut site, rate) = (Site::new(24), 8000.0 / service_ms);
            for _ in 0..60 {
                site.run(1000, rate * full, service_ms, |_, _, others| others >= 8);
                site.run(1000, rate * 0.5, service_ms, |_, _, others| others >= 8);
            }
            let late = &site.most[60_000..];
            let near = late.iter().filter(|most| (7..=9).contains(*most)).count();
            assert!(
                near > late.len() * 9 / 10,
                "{service_ms} ms, {full}: {near} of {}",
                late.len()
            );
        }
    }

    #[test]
    fn a_limit_is_found_where_the_load_is_full_from_the_first_moment() {
        for (n, slots, service_ms) in
            [(8, 10, 100.0), (8, 40, 40.0), (2, 10, 100.0), (16, 20, 300.0), (8, 10, 1000.0)]
        {
            let (mut site, rate) = (Site::new(slots), 3000.0 * f64::from(n) / service_ms);
            site.run(120_000, rate.min(900.0), service_ms, |_, _, others| others >= n);
            let late = &site.most[60_000..];
            let near = late.iter().filter(|most| (n..=n + 1).contains(*most)).count();
            assert!(
                near > late.len() * 9 / 10,
                "{n} of {slots}, {service_ms} ms: {near}, {:?}",
                late.last()
            );
        }
    }

    /// The origin takes half of what comes, so that each second until then costs 27 requests.
    #[test]
    fn where_half_is_refused_a_bound_is_tried_soon() {
        let mut took = Vec::new();
        for seed in 1..=10 {
            let mut site = Site::new(10);
            site.random = seed;
            while site.limit() == 10 && site.now_ms < 10_000 {
                site.run(10, 55.0, 300.0, |_, _, others| others >= 8);
            }
            took.push(site.now_ms);
        }
        took.sort_unstable();
        assert!(took[9] < 2000, "{took:?}");
    }

    #[test]
    fn a_limit_that_falls_is_found() {
        let mut site = Site::new(100);
        site.run(60_000, 900.0, 80.0, |_, _, others| others >= 32);
        assert!((31..=33).contains(&site.limit()), "{}", site.limit());
        site.run(20_000, 900.0, 80.0, |_, _, others| others >= 16);
        assert!((15..=17).contains(&site.limit()), "{}", site.limit());
        site.run(60_000, 900.0, 80.0, |_, _, others| others >= 32);
        assert!((30..=33).contains(&site.limit()), "{}", site.limit());
    }
}
