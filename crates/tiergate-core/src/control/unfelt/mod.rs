//! How much background work at the origin the foreground does not feel, found by contrast.
//!
//! The background may have its bound and nothing by turns. What the foreground's requests take, from their arrival to the first byte, is
//! compared between neighbouring turns, as the mean of logarithms about what is usual for requests of their kind. Whatever else
//! changes (load, mix, the origin) hits both turns alike, so that no baseline is kept. The effect is taken to be in proportion to
//! how many background requests were in progress when the foreground's came; the bound is where what is likely of it is what is tolerated. What is not
//! known yet only makes the bound grow more slowly. Where background requests outlast the turns, these get longer; where nothing can be told all the same,
//! the bound sinks.
//!
//! All requests together say soonest how much they feel. Their mean says little of the few that take far longer because they found all
//! workers busy, so that these are counted as well. And where a few of them need what the others do not, such as one database, they
//! would pay for all: each kind (`kind`) is looked at for itself as well, and the bound is no more than what the one tolerates that surely feels most.
//! Nor is it more than gets more done (`worth`), than suddenly made requests take far longer (`alarms`), or than makes them longer for as long as the background is there (`rests`).
//!
//! Source: the contrast is ours; what it is for is Eggert and Heidemann's background service (§4).

mod alarms;
mod effect;
mod kind;
mod rests;
mod turn;
mod uneven;
mod worth;

use crate::collections::grown;
use crate::names::LaneId;
use crate::time::Moment;
use alarms::Alarms;
pub use effect::Felt;
use effect::{CONTRAST_MIN, Effect, Numbers};
use kind::Kind;
use rests::Rests;
use std::time::Duration;
use turn::{Ends, REQUESTS_MIN, TURNS, Turn, Turns};
use uneven::Uneven;
use worth::Worth;

/// How much longer the foreground may take because of the background, in ln.
const TOLERATED: f64 = 0.05;
/// What is added to what a request takes, about as much as its way over the Internet at least: to an origin that answers within a fraction of a millisecond, the effect would else be
/// of microseconds, which no client feels.
const WAY: Duration = Duration::from_millis(1);
/// For the alarm, requests of less than so many seconds are all alike.
const SHORTEST: f64 = 1e-4;
/// Where it is to be learned whether more get more done, one turn in so many with the background is with half of what it may have.
const HALF_ONE_IN: u64 = 4;
/// How many standard errors are left out of the effect of all: what is not known yet holds nobody up. With none, chance alone brought the bound down to
/// where nothing is learned any more.
const LIKELY: f64 = 0.5;
/// Requests of the foreground that a turn without background lasts for, and as many times what they take, at least; with
/// background so many times as many; where something else than the bound keeps the background down, which a pause would keep from that
/// for nothing, more.
const REQUESTS: u32 = 24;
const TIMES: f64 = 4.0;
const WITH: u32 = 3;
const WITH_UNUSED: u32 = 15;
/// No turn is shorter. One is no longer either, unless fewer requests came than say something, or background requests outlast it; and then
/// this long.
const TURN_MIN: Duration = Duration::from_millis(20);
const TURN_MAX: Duration = Duration::from_secs(5);
const TURN_LONGEST: Duration = Duration::from_secs(60);
/// Where more than this part of them is still there without, on average, turns get twice as long, where less than that half.
const OUTLASTS: (f64, f64) = (0.6, 0.3);
/// What is left of the bound after a pair that it was used in and that told nothing.
const UNTOLD: f64 = 0.9;
/// By how much the bound changes from one pair to the next, at most: it may shrink faster than it grows, and grows the slower the less is known.
const GROWS: f64 = 1.5;
const SHRINKS: f64 = 0.4;
/// It is never less: else nothing is learned any more. At first it is this.
const LEAST: f64 = 0.1;
const FIRST: f64 = 1.0;
/// A bound of which less than this part was in use does not grow.
const USED: f64 = 0.6;
/// Where so many requests of a turn take as much longer than is usual on average, in ln, or fewer of them so much longer that it is as unlikely, the turn is over at once.
const ALARM: (u32, f64) = (24, 1.0);
/// How slowly it is learned by how much what requests take varies, for the alarm; and it varies by no less, squared.
const RAW_STEP: f64 = 0.01;
const RAW_MIN: f64 = 1e-3;
/// Kinds that fewer than one request in so many is of do not make turns longer.
const FEW: u32 = 10;
/// As what a request of the foreground counts that was refused or failed, in ln: it is worse than one that takes twice as long. For the
/// alarm it counts less, so that a foreground of which many fail anyway does not raise it all the time.
const UNANSWERED: f64 = 3.0;
const UNANSWERED_ALARM: f64 = 1.0;
/// A request took far longer than is usual if by so much, in ln; and as what it counts then among those that took as long as ever, so that of these one in 200 more is
/// tolerated.
const FAR_LONGER: f64 = 1.4;
const TAIL: f64 = 200.0 * TOLERATED;
/// After so many ends of background requests it is looked at once how many the origin refused, else at the end of the turn.
const ENDS: u32 = 8;
/// Seconds that the background may be ahead of its bound, and behind: what outlasts it is paid for later, by a pause.
const CREDIT_MAX_S: f64 = 1.0;
const DEBT_MAX_S: f64 = 600.0;

/// What keeps the bound from growing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoundedBy {
    /// What requests of the foreground take, all together.
    All,
    /// What those of a lane take.
    Lane(LaneId),
    /// More do not get more done.
    Throughput,
    /// Requests suddenly took far longer.
    Alarms,
    /// They take longer also in turns without the background, for as long as it is there.
    Lasting,
}

/// The bound of the background's requests in progress.
#[derive(Clone, Debug)]
pub(crate) struct Unfelt {
    most: f64,
    turns: Turns,
    /// By lane.
    kinds: Vec<Kind>,
    /// What is known of all together.
    all: Effect,
    /// And of how many of them take far longer.
    tails: Effect,
    /// And of whether more get more done.
    worth: Worth,
    /// By how much what they take varies without [`WAY`], squared.
    raw_variance: f64,
    /// And of requests that suddenly take far longer.
    alarms: Alarms,
    /// And of what outlasts turns.
    rests: Rests,
    bounded_by: Option<BoundedBy>,
    /// What requests of the slow kinds take, in ln; `None`: not known yet.
    slow: Option<f64>,
    /// For how long the background may still have as many as the bound in progress, beyond that, or is to have none because it had more.
    credit_s: f64,
    /// Background requests in progress, and of these those that began while nobody of the foreground was there.
    running: u32,
    left_over: u32,
    /// How many times as long as by the foreground alone turns are.
    stretch: f64,
    /// Whether something else than the bound kept the background down in its last turn.
    is_unused: bool,
    /// How background requests ended in this turn.
    ends: Ends,
    seen: Moment,
    /// Makes the lengths of turns uneven, so that nothing periodic keeps step with them.
    uneven: Uneven,
}

impl Unfelt {
    pub(crate) fn new(now: Moment) -> Self {
        let mut law = Unfelt {
            most: FIRST,
            turns: Turns::NONE,
            kinds: Vec::new(),
            all: Effect::UNKNOWN,
            tails: Effect::UNKNOWN,
            worth: Worth::UNKNOWN,
            raw_variance: 1.0,
            alarms: Alarms::NONE,
            rests: Rests::none(),
            bounded_by: None,
            slow: None,
            credit_s: 0.0,
            running: 0,
            left_over: 0,
            stretch: 1.0,
            is_unused: false,
            ends: Ends::default(),
            seen: now,
            uneven: Uneven::FIRST,
        };
        law.begins_anew(now, 0, false);
        law
    }

    /// How many background requests may be in progress now.
    pub(crate) fn bound(&self) -> u32 {
        match self.turns.present().is_with {
            false => 0,
            true if self.credit_s >= 0.0 => self.allowed().ceil() as u32,
            true => self.allowed().floor() as u32,
        }
    }

    /// How many on average while this turn lasts.
    fn allowed(&self) -> f64 {
        if self.turns.present().is_half { self.worth.whole(self.most) / 2.0 } else { self.most }
    }

    /// How many may be on average, while the background has its turn.
    pub(crate) fn most(&self) -> f64 {
        self.most
    }

    /// What is known of how much they are felt.
    pub(crate) fn felt(&self) -> Felt {
        self.all.felt()
    }

    /// What keeps the bound from growing now, if anything is known that does.
    pub(crate) fn bounded_by(&self) -> Option<BoundedBy> {
        if self.rests.is_held() { Some(BoundedBy::Lasting) } else { self.bounded_by }
    }

    /// Until when the background has nothing, to show what outlasts turns, or because of what that has shown.
    pub(crate) fn rests_until(&self) -> Option<Moment> {
        self.rests.until()
    }

    /// Time passes in which so many background requests are in progress, up to `slots` of which could be, and so many more may be that were given up; a turn that has
    /// lasted long enough ends.
    pub(crate) fn pass(&mut self, now: Moment, running: u32, given_up: u32, slots: u32) {
        let elapsed = now.since(self.seen).as_secs_f64();
        self.seen = self.seen.max(now);
        self.turns.present_mut().work += f64::from(running + given_up) * elapsed;
        self.left_over = self.left_over.min(running);
        let earned_s = (1.0 - f64::from(running - self.left_over) / self.allowed()) * elapsed;
        // What outlasts its turn is no more than might be in progress then.
        let earned_s = if self.turns.present().is_with { earned_s } else { earned_s.min(0.0) };
        self.credit_s = (self.credit_s + earned_s).clamp(-DEBT_MAX_S, CREDIT_MAX_S);
        self.running = running + given_up;
        self.most = self.most.min(f64::from(slots.max(1)));
        let was_resting = self.rests.until().is_some();
        self.rests.pass(now, elapsed, running);
        let is_rested = was_resting && self.rests.until().is_none();
        if is_rested || now >= self.turn_ends() {
            if self.rests.most() < self.most {
                self.becomes(self.rests.most());
            }
            self.next_turn(now);
        }
    }

    /// Somebody of the foreground is there again: what was measured before is not compared with what comes. So many background requests
    /// are in progress; if they may `go_on`, so many may be from now on, as far as nothing is known against it: what is felt of them will tell.
    pub(crate) fn begins_anew(&mut self, now: Moment, running: u32, go_on: bool) {
        (self.running, self.left_over) = (running, running);
        if go_on {
            self.most = self.most.max(f64::from(running).min(self.wanted().0));
        }
        self.credit_s = 0.0;
        self.bounded_by = None;
        let turn = self.turns.present();
        let tried_s = if turn.is_rest { 0.0 } else { now.since(turn.began).as_secs_f64() };
        self.alarms.passes(false, tried_s, false);
        self.worth.begins_anew();
        self.rests.begins_anew();
        self.turns = Turns::NONE;
        self.kinds.iter_mut().for_each(Kind::begins_anew);
        self.seen = self.seen.max(now);
        self.begin(now, self.rests.until().is_none());
    }

    /// The lane's requests are none of the foreground's any more, but of the background: what is known of them says nothing.
    pub(crate) fn forgets(&mut self, lane: LaneId) {
        self.worth = Worth::UNKNOWN;
        self.rests.forgets(lane);
        if let Some(kind) = self.kinds.get_mut(lane.index()) {
            *kind = Kind::default();
        }
        self.bounded_by = self.bounded_by.filter(|it| *it != BoundedBy::Lane(lane));
    }

    /// A background request of a flow has ended, which began then; the origin answered after so long, or refused it, or failed it.
    pub(crate) fn ended(
        &mut self,
        began: Moment,
        flow: u64,
        took: Option<Duration>,
        refused: bool,
    ) {
        if let (Some(turn), Some(took)) = (self.turns.of(began), took) {
            self.turns.at_mut(turn).own.note(self.worth.time(took + WAY));
        }
        self.ends.note(flow, refused);
        if refused && self.ends.count >= ENDS {
            self.settle_refusals();
        }
    }

    /// Fewer may be in progress where the origin refuses them, but not for the sake of one client whose requests fail.
    fn settle_refusals(&mut self) {
        if self.ends.says_too_many() {
            self.ends.is_settled = true;
            self.most = (self.most / 2.0).max(LEAST);
        }
    }

    /// A request of the foreground comes.
    pub(crate) fn came(&mut self) {
        let running = f64::from(self.running);
        let turn = self.turns.present_mut();
        turn.found += running;
        turn.came += 1;
    }

    /// A request of the foreground that came then was answered; `took`: from its arrival to the first byte. `None`: it was refused or
    /// failed, which is as bad as if it had taken much longer.
    pub(crate) fn answered(&mut self, arrived: Moment, lane: LaneId, took: Option<Duration>) {
        let turn = self.turns.of(arrived);
        let kind = grown(&mut self.kinds, lane.index());
        let mut rests = |ln| self.rests.answered(self.seen, arrived, lane, ln);
        let (x, raw) = match took {
            None => {
                if let Some(usual) = kind.usual {
                    rests(usual + UNANSWERED);
                }
                (UNANSWERED, UNANSWERED_ALARM)
            }
            Some(took) => {
                let ln = (took + WAY).as_secs_f64().ln();
                let x = kind.answered(ln);
                rests(ln);
                let without = |ln: f64| (ln.exp() - WAY.as_secs_f64()).max(SHORTEST);
                (x, (without(ln) / without(ln - x)).ln())
            }
        };
        kind.note(turn, x);
        // About what is usual, not about others of the turn: what moves whole turns counts as chance, too.
        self.all.varies(x * x);
        let Some(place) = turn else { return };
        let turn = self.turns.at_mut(place);
        turn.raw += raw;
        self.raw_variance += RAW_STEP * (raw * raw - self.raw_variance);
        turn.taken.note(x);
        if let Some(square) = turn.tails.note(if x > FAR_LONGER { TAIL } else { 0.0 }) {
            self.tails.varies(square);
        }
        self.raises_alarm(place);
    }

    /// Where requests of a turn suddenly take far longer, and it is the present one and with the background, it is over at once.
    fn raises_alarm(&mut self, place: usize) {
        let turn = *self.turns.at(place);
        let (longer, deviations) = self.turns.longer(place);
        let part = f64::from(ALARM.0) / f64::from(turn.requests().max(1));
        let is_raised = turn.alarm >= Some(turn.is_beside());
        if is_raised || turn.requests() < REQUESTS_MIN || longer <= ALARM.1 * part.sqrt().max(1.0) {
            return;
        }
        self.turns.at_mut(place).alarm = Some(turn.is_beside());
        if self.turns.counts(place) {
            self.alarms.count(turn.is_beside(), deviations);
        }
        if !turn.is_beside() || place + 1 < TURNS {
            return;
        }
        let deviations = if self.left_over > 0 { 0.0 } else { deviations };
        if let Some(most) = self.alarms.answer(turn.found(), deviations) {
            // Not by the bound: more may be in progress, for as long as that takes, and as many as the bound be harmless.
            let most = self.most.min(most);
            let Felt { each, error } = self.all.felt();
            if (each + error) * turn.found() < TOLERATED {
                // What was known is wrong.
                self.becomes(most);
            }
            self.most = most.max(LEAST);
        }
        self.next_turn(self.seen);
    }

    /// When the present turn is over if no request of the foreground comes.
    pub(crate) fn turn_ends(&self) -> Moment {
        if let Some(until) = self.rests.until() {
            return until;
        }
        let turn = self.turns.present();
        let times = if turn.is_with { self.times() } else { 1 };
        let usual = self.longest_usual().clamp(TURN_MIN, TURN_LONGEST);
        let longest = TURN_MAX.mul_f64(self.stretch).max(usual).min(TURN_LONGEST);
        if turn.requests() < REQUESTS_MIN {
            return turn.began + TURN_LONGEST;
        }
        let uneven = 1.0 + self.uneven.part();
        if turn.requests() < REQUESTS * times {
            return turn.began + longest.mul_f64(0.25 + uneven / 2.0);
        }
        let least = times * usual.mul_f64(uneven * self.stretch);
        turn.began + least.min(longest)
    }

    /// How many times as long as the turn without it that of the background lasts.
    fn times(&self) -> u32 {
        if self.is_unused { WITH_UNUSED } else { WITH }
    }

    /// As many times what requests take, about, as a turn is to last.
    fn longest_usual(&self) -> Duration {
        let any = || self.kinds.iter().filter_map(|it| it.usual).fold(f64::MIN, f64::max);
        let usual = self.slow.unwrap_or_else(any);
        Duration::try_from_secs_f64(TIMES * usual.exp()).unwrap_or(TURN_MIN)
    }

    /// What requests take, in ln, of the slowest kinds that a tenth of those in this pair of turns are of. `None`: nothing was answered.
    fn slowest(&self) -> Option<f64> {
        let mut kinds: Vec<(f64, u32)> =
            self.kinds.iter().filter_map(|it| Some((it.usual?, it.requests))).collect();
        kinds.sort_by(|a, b| b.0.total_cmp(&a.0));
        let all: u32 = kinds.iter().map(|it| it.1).sum();
        let mut slower = 0;
        let of_many = |(_, requests): &&(f64, u32)| {
            slower += requests;
            slower * FEW >= all
        };
        kinds.iter().find(of_many).filter(|_| all > 0).map(|it| it.0)
    }

    fn next_turn(&mut self, now: Moment) {
        let lasted = now.since(self.turns.present().began).as_secs_f64();
        self.turns.present_mut().lasted = lasted;
        // Where hardly anybody comes, there is nothing to compare.
        let is_trickle =
            self.turns.present().requests() < REQUESTS_MIN && lasted >= TURN_LONGEST.as_secs_f64();
        let turn = *self.turns.present();
        // While it rests, nothing is tried.
        let tried_s = if turn.is_rest { 0.0 } else { lasted };
        self.alarms.passes(turn.is_beside(), tried_s, self.turns.counts(TURNS - 1));
        // Hardly anything of the background was there: that a turn without it says nothing is known before.
        let is_absent = turn.is_with && turn.present() < CONTRAST_MIN;
        let is_with = !turn.is_with || is_trickle || is_absent;
        if !is_with {
            self.rests.begins(now);
        }
        if turn.is_with && !turn.is_half {
            self.is_unused = !self.is_used(&turn);
            self.worth.found(turn.present(), !self.is_unused);
        }
        // Where nobody comes, nothing is learned or forgotten.
        let is_empty = is_trickle && turn.came == 0;
        if is_with && !is_empty {
            // Of the pair before this one, which has been answered as far as it is waited for.
            self.compare();
            self.slow = self.slowest().or(self.slow);
            self.kinds.iter_mut().for_each(Kind::settle);
            self.all.forget();
            self.tails.forget();
        }
        self.begin(now, is_with);
    }

    /// Whether the bound was what kept a turn's background down.
    fn is_used(&self, turn: &Turn) -> bool {
        turn.present() >= USED * turn.bound.min(self.most)
    }

    fn begin(&mut self, now: Moment, is_with: bool) {
        let variance = self.raw_variance.max(RAW_MIN);
        let is_rest = self.rests.until().is_some();
        self.turns.begin(Turn { is_with, is_rest, began: now, variance, ..Turn::NONE });
        self.kinds.iter_mut().for_each(Kind::begin);
        self.uneven.go_on();
        let may_halve = is_with && self.worth.wants_half(self.most);
        self.turns.present_mut().is_half = may_halve && self.uneven.is_one_in(HALF_ONE_IN);
        self.settle_refusals();
        self.ends = Ends::default();
        let (bound, whole) = (self.allowed(), self.worth.whole(self.most));
        let turn = self.turns.present_mut();
        (turn.bound, turn.number) = (bound, bound.min(whole));
    }

    /// The oldest pair of turns says how much the background is felt.
    fn compare(&mut self) {
        let [with, without] = self.turns.oldest();
        if !with.is_with || without.is_with {
            return;
        }
        let is_used = self.is_used(&with);
        let is_told = self.worth.is_told_by(with.number, with.present(), is_used);
        if with.alarm.is_none() && is_told {
            self.worth.learn(with.number, with.own);
        }
        if with.requests().min(without.requests()) < REQUESTS_MIN {
            // Beside the background the foreground is hardly answered.
            if without.requests() >= 2 * REQUESTS_MIN && is_used {
                self.most = (SHRINKS * self.most).max(LEAST);
            }
            return;
        }
        let contrast = with.found() - without.found();
        let still_there = without.present() / with.present().max(1e-9);
        if with.present() >= CONTRAST_MIN && still_there > OUTLASTS.0 {
            self.stretch = (2.0 * self.stretch).min(TURN_LONGEST.div_duration_f64(TURN_MIN));
        } else if still_there < OUTLASTS.1 && !without.is_rest {
            self.stretch = (self.stretch / 2.0).max(1.0);
        }
        if contrast >= CONTRAST_MIN {
            let numbers = Numbers { present: with.found(), contrast, most: self.most };
            self.all.learn(numbers, with.taken, without.taken);
            self.tails.learn(numbers, with.tails, without.tails);
            self.kinds.iter_mut().for_each(|kind| kind.learn(numbers));
            self.settle(is_used && !with.is_half);
        } else if is_used && with.present() >= CONTRAST_MIN {
            self.most = (UNTOLD * self.most).max(LEAST);
        } else {
            self.settle(false);
        }
    }

    /// The bound follows what is known. O(kinds).
    fn settle(&mut self, is_used: bool) {
        let (wanted, by) = self.wanted();
        let Felt { error, .. } = self.all.felt();
        let known = (TOLERATED / (error * self.most)).min(1.0);
        let is_in_vain = self.worth.seems_in_vain();
        let grows = is_used && self.longest_usual() < TURN_LONGEST && !is_in_vain;
        let grows = if grows { 1.0 + (GROWS - 1.0) * known } else { 1.0 };
        self.becomes(wanted.clamp(SHRINKS * self.most, grows * self.most));
        let by = if wanted <= self.most { Some(by) } else { None };
        self.bounded_by = by.or(is_in_vain.then_some(BoundedBy::Throughput));
    }

    /// The bound is another one, and of far fewer, what is known of many says little. O(kinds).
    fn becomes(&mut self, most: f64) {
        let before = std::mem::replace(&mut self.most, most.max(LEAST));
        let (ratio, each) = (self.most / before, self.all.felt().each);
        self.all.forgets_far(ratio);
        self.tails.forgets_far(ratio);
        self.kinds.iter_mut().for_each(|kind| kind.forgets_far(ratio, each));
    }

    /// The bound by what is known, however far it is, and what makes it so low. O(kinds).
    fn wanted(&self) -> (f64, BoundedBy) {
        let Felt { each, error } = self.all.felt();
        let felt = (each - LIKELY * error).max(self.tails.surely());
        let by_all = TOLERATED / felt.max(1e-9);
        let by_all = by_all.min(self.all.unhurt(TOLERATED)).min(self.tails.unhurt(TOLERATED));
        let by_kind = |(lane, kind): (usize, &Kind)| {
            let most = TOLERATED / kind.surely_felt().max(1e-9);
            (most.min(kind.unhurt(TOLERATED)), BoundedBy::Lane(LaneId(lane as u32)))
        };
        let by_kinds = self.kinds.iter().enumerate().map(by_kind);
        let others = [
            (self.worth.most(), BoundedBy::Throughput),
            (self.alarms.most(), BoundedBy::Alarms),
            (self.rests.most(), BoundedBy::Lasting),
        ];
        let all = (by_all, BoundedBy::All);
        let lower = |a: (f64, BoundedBy), b: (f64, BoundedBy)| if b.0 < a.0 { b } else { a };
        others.into_iter().chain(by_kinds).fold(all, lower)
    }
}

#[cfg(test)]
mod tests;
