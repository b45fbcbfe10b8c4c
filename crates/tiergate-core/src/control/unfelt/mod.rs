//! How much background work at the origin the foreground does not feel, found by contrast.
//!
//! The background may have its bound and nothing by turns. What the foreground's requests take, from their arrival to the first byte, is
//! compared between neighbouring turns, as the mean of logarithms about what is usual for requests of their kind. Whatever else
//! changes (load, mix, the origin) hits both turns alike, so that no baseline is kept. The effect is taken to be in proportion to
//! how many background requests were in progress; the bound is where the effect is what is tolerated, with
//! what is not known of it counted in. Where background requests outlast the turns, these get longer; where nothing can be told all the same,
//! the bound sinks.
//!
//! Source: the contrast is ours; what it is for is Eggert and Heidemann's background service (§4).

mod turn;

use crate::names::LaneId;
use crate::time::Moment;
use std::time::Duration;
use turn::{Ends, Turn};

/// How much longer the foreground may take because of the background, in ln.
const TOLERATED: f64 = 0.06;
/// What is added to what a request takes, about as much as its way over the Internet at least: to an origin that answers within a fraction of a millisecond, the effect would else be
/// of microseconds, which no client feels.
const WAY: Duration = Duration::from_millis(1);
/// For the alarm, requests of less than so many seconds are all alike.
const SHORTEST: f64 = 1e-4;
/// How many standard errors of the effect are counted in.
const DOUBT: f64 = 0.25;
/// What is thought of the effect of one background request before anything is known: 0, give or take so much, in ln.
const UNKNOWN: f64 = 0.3;
/// The effect of as many as the bound lets in is never known better than this, in ln.
const CERTAIN: f64 = 0.01;
/// What one pair of turns leaves of what was known: it lasts about 250.
const MEMORY: f64 = 0.996;
/// What is left of it where pairs do not fit any more: by so many standard deviations of their mean over about ten.
const MEMORY_SURPRISED: f64 = 0.2;
const SURPRISE: f64 = 3.0;
const RECENT: f64 = 0.2;
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
/// Fewer requests in a turn say nothing.
const REQUESTS_MIN: u32 = 6;
/// A contrast of fewer background requests in progress says nothing.
const CONTRAST_MIN: f64 = 0.05;
/// Where more than this part of them is still there without, on average, turns get twice as long, where less than that half.
const OUTLASTS: (f64, f64) = (0.6, 0.3);
/// What is left of the bound after a pair that it was used in and that told nothing.
const UNTOLD: f64 = 0.9;
/// By how much the bound changes from one pair to the next, at most: it may shrink faster than it grows.
const GROWS: f64 = 1.5;
const SHRINKS: f64 = 0.4;
/// It is never less: else nothing is learned any more. At first it is this.
const LEAST: f64 = 0.1;
const FIRST: f64 = 1.0;
/// A bound of which less than this part was in use does not grow.
const USED: f64 = 0.6;
/// Where so many requests of a turn take as much longer than is usual on average, in ln, the turn is over at once, and this is left of the
/// bound.
const ALARM: (u32, f64) = (24, 1.0);
const ALARMED: f64 = 0.5;
/// Kinds that fewer than one request in so many is of do not make turns longer.
const FEW: u32 = 10;
/// As what a request of the foreground counts that was refused or failed, in ln: it is worse than one that takes twice as long. For the
/// alarm it counts less, so that a foreground of which many fail anyway does not raise it all the time.
const UNANSWERED: f64 = 3.0;
const UNANSWERED_ALARM: f64 = 1.0;
/// After so many ends of background requests it is looked at once how many the origin refused, else at the end of the turn.
const ENDS: u32 = 8;
/// Turns that are remembered, two pairs: requests that take longer do not count.
const TURNS: usize = 4;
/// By how much of the difference what is usual moves at the end of a pair.
const STEP: f64 = 0.2;
/// Variance of ln of the time within a kind of request before anything is known, and how slowly it is learned.
const VARIANCE: f64 = 1.0;
const VARIANCE_STEP: f64 = 0.01;
/// It is never less: what is equal to the microsecond is so by rounding.
const VARIANCE_MIN: f64 = 1e-3;
/// Seconds of work that a background request may be ahead of its bound: what outlasts it is paid for later.
const CREDIT_MAX_S: f64 = 1.0;
const DEBT_MAX_S: f64 = 600.0;

/// What is known of one kind of requests.
#[derive(Clone, Copy, Debug, Default)]
struct Usual {
    /// Mean of ln of the seconds that they take; `None`: none were answered yet.
    ln: Option<f64>,
    /// Those that were answered in the present pair of turns, and the sum of how far they were from it.
    requests: u32,
    sum: f64,
}

impl Usual {
    /// A pair of turns is over: within it, it stood still, so that no difference between them is lost.
    fn settle(&mut self) {
        let mean = std::mem::take(&mut self.sum) / f64::from(self.requests.max(1));
        self.requests = 0;
        self.ln = self.ln.map(|ln| ln + STEP * mean);
    }
}

/// What the contrast has found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Felt {
    /// By how much longer the foreground takes for each background request in progress, in ln.
    pub each: f64,
    /// Its standard error.
    pub error: f64,
}

/// The bound of the background's requests in progress.
#[derive(Clone, Debug)]
pub(crate) struct Unfelt {
    most: f64,
    /// The last turns, the oldest first; the last is the present one.
    turns: [Turn; TURNS],
    /// By lane.
    usual: Vec<Usual>,
    /// What requests of the slow kinds take, in ln; `None`: not known yet.
    slow: Option<f64>,
    variance: f64,
    /// How many times as much pairs vary as their requests' variance accounts for: those of a queue vary together.
    spread: f64,
    /// Sums of the regression, weighted.
    squares: f64,
    products: f64,
    /// Mean of what did not fit of the last pairs, in standard deviations of one.
    misfit: f64,
    /// Seconds of work that the background may still do, or has done too much of.
    credit_s: f64,
    /// How many times as long as by the foreground alone turns are.
    stretch: f64,
    /// Whether something else than the bound kept the background down in its last turn.
    is_unused: bool,
    /// How background requests ended in this turn.
    ends: Ends,
    seen: Moment,
    /// Makes the lengths of turns uneven, so that nothing periodic keeps step with them.
    uneven: u64,
}

impl Unfelt {
    pub(crate) fn new(now: Moment) -> Self {
        let mut law = Unfelt {
            most: FIRST,
            turns: [Turn::NONE; TURNS],
            usual: Vec::new(),
            slow: None,
            variance: VARIANCE,
            spread: 1.0,
            squares: 0.0,
            products: 0.0,
            misfit: 0.0,
            credit_s: 0.0,
            stretch: 1.0,
            is_unused: false,
            ends: Ends::default(),
            seen: now,
            uneven: 0x9e37_79b9_7f4a_7c15,
        };
        law.begins_anew(now);
        law
    }

    /// How many background requests may be in progress now.
    pub(crate) fn bound(&self) -> u32 {
        match self.present().is_with {
            false => 0,
            true if self.credit_s >= 0.0 => self.most.ceil() as u32,
            true => self.most.floor() as u32,
        }
    }

    /// How many may be on average, while the background has its turn.
    pub(crate) fn most(&self) -> f64 {
        self.most
    }

    /// What is known of how much they are felt.
    pub(crate) fn felt(&self) -> Felt {
        let (each, error) = self.effect();
        Felt { each, error }
    }

    /// Time passes in which so many background requests are in progress, up to `slots` of which could be; a turn that has
    /// lasted long enough ends.
    pub(crate) fn pass(&mut self, now: Moment, running: u32, slots: u32) {
        let elapsed = now.since(self.seen).as_secs_f64();
        self.seen = self.seen.max(now);
        let done_s = f64::from(running) * elapsed;
        self.present_mut().work += done_s;
        let earned_s = if self.present().is_with { self.most * elapsed } else { 0.0 };
        self.credit_s = (self.credit_s + earned_s - done_s).clamp(-DEBT_MAX_S, CREDIT_MAX_S);
        self.most = self.most.min(f64::from(slots.max(1)));
        if now >= self.turn_ends() {
            self.next_turn(now);
        }
    }

    /// Nobody was there to feel anything: what was measured until now is not compared with what comes.
    pub(crate) fn begins_anew(&mut self, now: Moment) {
        self.credit_s = 0.0;
        self.turns = [Turn::NONE; TURNS];
        self.seen = self.seen.max(now);
        self.begin(now, true);
    }

    /// A background request of a flow has ended; the origin refused it, or failed it, or did not.
    pub(crate) fn ended(&mut self, flow: u64, refused: bool) {
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

    /// A request of the foreground that came then was answered; `took`: from its arrival to the first byte. `None`: it was refused or
    /// failed, which is as bad as if it had taken much longer.
    pub(crate) fn answered(&mut self, arrived: Moment, lane: LaneId, took: Option<Duration>) {
        if self.usual.len() <= lane.index() {
            self.usual.resize(lane.index() + 1, Usual::default());
        }
        let (x, raw) = match took {
            None => (UNANSWERED, UNANSWERED_ALARM),
            Some(took) => {
                let ln = (took + WAY).as_secs_f64().ln();
                let usual = &mut self.usual[lane.index()];
                let usually = *usual.ln.get_or_insert(ln);
                let x = ln - usually;
                usual.requests += 1;
                usual.sum += x;
                let without = |seconds: f64| (seconds - WAY.as_secs_f64()).max(SHORTEST);
                (x, (without(ln.exp()) / without(usually.exp())).ln())
            }
        };
        self.variance += VARIANCE_STEP * (x * x - self.variance);
        self.variance = self.variance.max(VARIANCE_MIN);
        let came_in = |turn: &&mut Turn| turn.began <= arrived;
        if let Some(turn) = self.turns.iter_mut().rev().find(came_in) {
            turn.requests += 1;
            turn.sum += x;
            turn.raw += raw;
        }
        let turn = *self.present();
        let raw = turn.raw / f64::from(turn.requests.max(1));
        if turn.is_with && turn.requests >= ALARM.0 && raw > ALARM.1 && turn.work > 0.0 {
            self.most = (ALARMED * self.most).max(LEAST);
            self.next_turn(self.seen);
        }
    }

    fn present(&self) -> &Turn {
        &self.turns[TURNS - 1]
    }

    fn present_mut(&mut self) -> &mut Turn {
        &mut self.turns[TURNS - 1]
    }

    /// When the present turn is over if no request of the foreground comes.
    pub(crate) fn turn_ends(&self) -> Moment {
        let turn = self.present();
        let times = if turn.is_with { self.times() } else { 1 };
        let usual = self.longest_usual().clamp(TURN_MIN, TURN_LONGEST);
        let longest = TURN_MAX.mul_f64(self.stretch).max(usual).min(TURN_LONGEST);
        if turn.requests < REQUESTS_MIN {
            return turn.began + TURN_LONGEST;
        }
        if turn.requests < REQUESTS * times {
            return turn.began + longest;
        }
        let uneven = 1.0 + (self.uneven >> 48) as f64 / 65_536.0;
        let least = times * usual.mul_f64(uneven * self.stretch);
        turn.began + least.min(longest)
    }

    /// How many times as long as the turn without it that of the background lasts.
    fn times(&self) -> u32 {
        if self.is_unused { WITH_UNUSED } else { WITH }
    }

    /// As many times what requests take, about, as a turn is to last.
    fn longest_usual(&self) -> Duration {
        let any = || self.usual.iter().filter_map(|it| it.ln).fold(f64::MIN, f64::max);
        let usual = self.slow.unwrap_or_else(any);
        Duration::try_from_secs_f64(TIMES * usual.exp()).unwrap_or(TURN_MIN)
    }

    /// What requests take, in ln, of the slowest kinds that a tenth of those in this pair of turns are of. `None`: nothing was answered.
    fn slowest(&self) -> Option<f64> {
        let mut kinds: Vec<(f64, u32)> =
            self.usual.iter().filter_map(|it| Some((it.ln?, it.requests))).collect();
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
        let lasted = now.since(self.present().began).as_secs_f64();
        self.present_mut().lasted = lasted;
        // Where hardly anybody comes, there is nothing to compare.
        let is_trickle =
            self.present().requests < REQUESTS_MIN && lasted >= TURN_LONGEST.as_secs_f64();
        let turn = *self.present();
        // Hardly anything of the background was there: that a turn without it says nothing is known before.
        let is_absent = turn.is_with && turn.present() < CONTRAST_MIN;
        let is_with = !turn.is_with || is_trickle || is_absent;
        if turn.is_with {
            self.is_unused = !self.is_used(&turn);
        }
        if is_with {
            // Of the pair before this one, which has been answered as far as it is waited for.
            self.compare();
            self.slow = self.slowest().or(self.slow);
            self.usual.iter_mut().for_each(Usual::settle);
        }
        self.begin(now, is_with);
    }

    /// Whether the bound was what kept a turn's background down.
    fn is_used(&self, turn: &Turn) -> bool {
        turn.present() >= USED * turn.bound.min(self.most)
    }

    fn begin(&mut self, now: Moment, is_with: bool) {
        self.turns.rotate_left(1);
        self.turns[TURNS - 1] = Turn { is_with, began: now, ..Turn::NONE };
        self.uneven ^= self.uneven << 13;
        self.uneven ^= self.uneven >> 7;
        self.uneven ^= self.uneven << 17;
        self.settle_refusals();
        self.ends = Ends::default();
        let bound = self.bound();
        self.present_mut().bound = f64::from(bound);
    }

    /// The oldest pair of turns says how much the background is felt.
    fn compare(&mut self) {
        let [with, without] = [self.turns[0], self.turns[1]];
        if !with.is_with || without.is_with {
            return;
        }
        let is_used = self.is_used(&with);
        if with.requests.min(without.requests) < REQUESTS_MIN {
            // Beside the background the foreground is hardly answered.
            if without.requests >= 2 * REQUESTS_MIN && is_used {
                self.most = (SHRINKS * self.most).max(LEAST);
            }
            return;
        }
        let contrast = with.present() - without.present();
        let still_there = without.present() / with.present().max(1e-9);
        if with.present() >= CONTRAST_MIN && still_there > OUTLASTS.0 {
            self.stretch = (2.0 * self.stretch).min(TURN_LONGEST.div_duration_f64(TURN_MIN));
        } else if still_there < OUTLASTS.1 {
            self.stretch = (self.stretch / 2.0).max(1.0);
        }
        if contrast >= CONTRAST_MIN {
            self.learn(contrast, &with, &without);
            self.settle(is_used);
        } else if is_used && with.present() >= CONTRAST_MIN {
            self.most = (UNTOLD * self.most).max(LEAST);
        } else {
            self.settle(false);
        }
    }

    fn learn(&mut self, contrast: f64, with: &Turn, without: &Turn) {
        let difference = with.mean() - without.mean();
        let counts = 1.0 / f64::from(with.requests) + 1.0 / f64::from(without.requests);
        let (each, error) = self.effect();
        let rest = difference - each * contrast;
        let expected = self.variance * counts;
        let variance = expected * self.spread + (contrast * error).powi(2);
        self.misfit += RECENT * ((rest / variance.sqrt()).clamp(-SURPRISE, SURPRISE) - self.misfit);
        let spread = (rest * rest / expected).min(SURPRISE * SURPRISE * self.spread);
        self.spread = (self.spread + 0.05 * (spread - self.spread)).clamp(1.0, 20.0);
        // The standard deviation of such a mean.
        let is_surprise = self.misfit.abs() > SURPRISE * (RECENT / (2.0 - RECENT)).sqrt();
        let memory = if is_surprise { MEMORY_SURPRISED } else { MEMORY };
        if is_surprise {
            self.misfit = 0.0;
        }
        let weight = 1.0 / (expected * self.spread);
        self.squares = memory * self.squares + weight * contrast * contrast;
        self.products = memory * self.products + weight * contrast * difference;
        // What was learned of many at once is not known of few better than this.
        let known_max = (self.most.max(contrast) / CERTAIN).powi(2);
        if self.squares > known_max {
            self.products *= known_max / self.squares;
            self.squares = known_max;
        }
        debug_assert!(self.squares.is_finite() && self.products.is_finite());
    }

    /// The effect of one background request, and its standard error.
    fn effect(&self) -> (f64, f64) {
        let known = self.squares + 1.0 / (UNKNOWN * UNKNOWN);
        (self.products / known, known.sqrt().recip())
    }

    /// The bound follows what is known.
    fn settle(&mut self, is_used: bool) {
        let (each, error) = self.effect();
        // What chance explains as well counts for half, and less than that for little: mostly there is no effect at all.
        let certain = (each.max(0.0) / error).powi(2);
        let felt = (each.max(0.0) * certain / (1.0 + certain) + DOUBT * error).max(1e-9);
        let grows = if is_used && self.longest_usual() < TURN_LONGEST { GROWS } else { 1.0 };
        let wanted = (TOLERATED / felt).clamp(SHRINKS * self.most, grows * self.most);
        self.most = wanted.max(LEAST);
    }
}

#[cfg(test)]
mod tests;
