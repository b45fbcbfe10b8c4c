//! A bound on the slots from what the origin refuses itself.
//!
//! An origin that answers 429, or 503 with `Retry-After`, once it has so many requests at a time, says where its limit is.
//! Refused requests end at once, so to a law that goes by throughput more slots look better and better, while every
//! request that waits is given away to the next refusal. So where refusals come with load, no more requests are in
//! progress than were when they came, and from time to time one more is tried.
//!
//! Origins also answer 429 to clients that ask too much, whatever the load. So what calls for a bound is the share of
//! refusals without the quarter of the groups of flows that is refused most, since load hits all alike. And each bound is
//! a trial: if more is left than a third of the refusals there would be had each group kept its share, it is undone, and
//! the share is what is usual from then on. Until then, where most clients are such, the others have fewer slots.

use super::law::{Completion, OriginLoad};
use crate::admit::groups::{group, left_out};
use crate::outcome::End;
use crate::time::Moment;
use std::time::Duration;

/// Answers that a share is taken of.
const ANSWERS: u32 = 128;
/// Refusals after which one more was too many.
const REFUSALS: u32 = 8;
/// Refusals that a trial must have had time to see, had it changed nothing.
const EXPECTED: f64 = 16.0;
/// A bound helps if no more than this part of the refusals is left that there would be without it. A share that was noticed because chance made
/// it high falls to a half by itself.
const HELPS: f64 = 0.33;
/// Bounds that are tried, each by what was seen under the one before.
const TRIES: u32 = 4;
/// Groups of flows; so many of them are one where the most refused are left out, so that each has some answers.
const GROUPS: usize = 64;
const TOGETHER: usize = 4;
/// Share of refusals that calls for a bound: this, and more than twice what is usual.
const SHARE_MIN: f64 = 0.1;
/// How long until one more is tried: at first, and at most; twice as long each time that it was too many. While it
/// is not, twice as many are tried each time.
const RAISE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(64));
/// What is usual is forgotten by half in this time, so that a trial that was misled is repeated.
const USUAL_HALF: Duration = Duration::from_secs(120);

/// Answers, and refusals among them.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    answers: u32,
    refusals: u32,
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

    /// How many were in progress that were not refused, when others were.
    fn taken(&self) -> u32 {
        let running = self.running as f64 / f64::from(self.refusals.max(1));
        let part = self.answered_s / (self.answered_s + self.refused_s).max(1e-9);
        // One of them was the refused one.
        (running * part).min(running - 1.0).round().max(1.0) as u32
    }
}

/// The same by groups of flows, and all together.
#[derive(Clone, Copy, Debug)]
struct Counts {
    groups: [Count; GROUPS],
    answers: u32,
    refusals: u32,
}

impl Default for Counts {
    fn default() -> Self {
        Counts { groups: [Count::default(); GROUPS], answers: 0, refusals: 0 }
    }
}

impl Counts {
    fn add(&mut self, flow: u64, one: Count) {
        self.groups[group(flow, GROUPS)].add(&one);
        self.answers += one.answers;
        self.refusals += one.refusals;
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
    /// How many bounds were tried.
    tries: u32,
}

/// How many slots the origin lets requests have, as far as its refusals tell.
#[derive(Debug, Default)]
pub(super) struct Pushback {
    most: Option<u32>,
    trial: Option<Trial>,
    counts: Counts,
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
}

impl Pushback {
    /// The most slots; `None`: the origin has refused nothing because of its load.
    pub(super) fn most(&self) -> Option<u32> {
        self.most
    }

    /// A request has ended; returns whether the bound has changed. O(1).
    pub(super) fn finished(&mut self, completion: &Completion<'_>) -> bool {
        let Completion { now, flow, admitted, outcome, load, .. } = *completion;
        let is_refusal = outcome.end == End::Pushback;
        if !is_refusal && outcome.end != End::Served || is_refusal && admitted < self.since {
            return false;
        }
        let held_s = now.since(admitted).as_secs_f64();
        let mut one = Count { answers: 1, ..Count::default() };
        if is_refusal {
            (one.refusals, one.running, one.refused_s) = (1, u64::from(load.running), held_s);
        } else {
            one.answered_s = held_s;
        }
        if is_refusal || self.counts.refusals > 0 || self.trial.is_some() {
            // Counted from the first refusal on: slots must have had time to be what refusals leave.
            self.counts.add(flow, one);
        }
        let before = self.most;
        match &self.trial {
            Some(_) => self.judge(now),
            None if self.raised > 0 && self.counts.refusals >= REFUSALS => self.undo_raise(now),
            None if self.counts.answers >= ANSWERS => self.look(now),
            None => {}
        }
        if self.most == before {
            self.raise(now, load);
        }
        self.most != before
    }

    /// So many answers have come without a trial.
    fn look(&mut self, now: Moment) {
        if self.is_usual(now) {
            self.begin(now);
            return;
        }
        if !self.counts.of_most().is_enough() {
            return;
        }
        self.trial = Some(Trial { counts: self.counts, before: self.most, tries: 1 });
        self.lower();
        (self.raised, self.raise_after) = (0, RAISE.0);
        self.raise_at = now + self.raise_after;
        self.begin(now);
    }

    /// Refusals since it was raised: at once, since a slot too many gives requests away as fast as the origin refuses.
    fn undo_raise(&mut self, now: Moment) {
        if self.is_usual(now) {
            self.raised = 0;
            return;
        }
        let by = std::mem::take(&mut self.raised);
        self.most = self.most.map(|most| most - by);
        self.raise_after = if by == 1 { (self.raise_after * 2).min(RAISE.1) } else { RAISE.0 };
        self.raise_at = now + self.raise_after;
        self.begin(now);
    }

    /// Whether no larger share is refused than calls for nothing.
    fn is_usual(&self, now: Moment) -> bool {
        self.counts.of_most().share() <= SHARE_MIN.max(2.0 * self.usual(now))
    }

    /// Whether there are fewer refusals by the bound.
    fn judge(&mut self, now: Moment) {
        let Some(trial) = &mut self.trial else { return };
        let each = f64::from(trial.counts.answers) / f64::from(trial.counts.refusals.max(1));
        let (answers, refusals) = (f64::from(self.counts.answers), self.counts.refusals);
        if answers < (EXPECTED * each).max(f64::from(ANSWERS / 2)) {
            return;
        }
        let left = f64::from(refusals) / self.counts.expected(&trial.counts).max(1e-9);
        if left > HELPS {
            if trial.tries < TRIES {
                trial.tries += 1;
                self.lower();
                self.begin(now);
                return;
            }
            self.most = trial.before;
            // Under the bounds fewer may have been refused, for the moment: without them as many as before.
            let shares = [&trial.counts, &self.counts].map(|counts| counts.of_most().share());
            (self.usual, self.usual_at) = (shares[0].max(shares[1]), now);
        }
        self.trial = None;
        self.begin(now);
    }

    /// No more than were in progress when others were refused, and fewer than before.
    fn lower(&mut self) {
        let taken = self.counts.of_most().taken();
        self.most = Some(self.most.map_or(taken, |most| taken.min(most - 1).max(1)));
    }

    /// Counts anew, requests that are admitted from now on.
    fn begin(&mut self, now: Moment) {
        (self.counts, self.since) = (Counts::default(), now);
    }

    /// Tries one more, where that makes a difference.
    fn raise(&mut self, now: Moment, load: OriginLoad) {
        let Some(most) = self.most else { return };
        if self.trial.is_some() || now < self.raise_at || load.running < most || load.waiting == 0 {
            return;
        }
        if self.raised > 0 {
            // The last one was not too many.
            self.raise_after = (self.raise_after / 2).max(RAISE.0);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::ClassId;
    use crate::outcome::Outcome;

    /// An origin with endless work before it, which takes 40 ms for an answer, and what it refuses.
    struct World {
        pushback: Pushback,
        slots: u32,
        now_ms: u64,
        /// When requests that it works on end.
        working: std::collections::VecDeque<u64>,
        answers: u32,
        refusals: u32,
        most: Vec<u32>,
    }

    impl World {
        fn new(slots: u32) -> Self {
            let working = std::collections::VecDeque::new();
            let (pushback, most) = (Pushback::default(), Vec::new());
            World { pushback, slots, now_ms: 0, working, answers: 0, refusals: 0, most }
        }

        fn limit(&self) -> u32 {
            self.pushback.most().unwrap_or(u32::MAX).min(self.slots)
        }

        fn end(&mut self, end: End, admitted_ms: u64, running: u32) {
            self.end_of((self.answers + self.refusals).into(), end, admitted_ms, running);
        }

        fn end_of(&mut self, flow: u64, end: End, admitted_ms: u64, running: u32) {
            let completion = Completion {
                now: Moment::from_millis(self.now_ms),
                class: ClassId(0),
                flow,
                admitted: Moment::from_millis(admitted_ms),
                outcome: &Outcome::without_answer(end),
                load: OriginLoad { running, waiting: 1000 },
            };
            self.pushback.finished(&completion);
            match end {
                End::Pushback => self.refusals += 1,
                _ => self.answers += 1,
            }
        }

        /// Runs, with what the origin refuses, by the number of the request and how many others are there.
        fn run(&mut self, ms: u64, refuses: impl Fn(u32, u32) -> bool) {
            for _ in 0..ms {
                self.now_ms += 1;
                while self.working.front().is_some_and(|end| *end <= self.now_ms) {
                    let running = self.working.len() as u32;
                    self.working.pop_front();
                    self.end(End::Served, self.now_ms.saturating_sub(40), running);
                }
                // No more than the network brings in a millisecond.
                for _ in 0..4 {
                    let others = self.working.len() as u32;
                    if others >= self.limit() {
                        break;
                    }
                    if refuses(self.answers + self.refusals, others) {
                        self.end(End::Pushback, self.now_ms, others + 1);
                    } else {
                        self.working.push_back(self.now_ms + 40);
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
    fn an_origin_that_takes_more_gets_more() {
        let mut world = World::new(100);
        world.run(10_000, |_, others| others >= 32);
        world.run(120_000, |_, others| others >= 64);
        assert!((60..=65).contains(&world.limit()), "{}", world.limit());
        world.run(300_000, |_, _| false);
        assert_eq!(world.limit(), 100);
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
            world.end_of(flow.into(), end, world.now_ms - 1, 40);
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
        world.end(End::Pushback, since - 1, 33);
        assert_eq!(world.pushback.counts.answers, before);
        world.end(End::Pushback, since, 33);
        assert_eq!(world.pushback.counts.answers, before + 1);
    }
}
