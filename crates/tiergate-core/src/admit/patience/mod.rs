//! How long requests of a class may wait for a slot, learned from clients that leave while they are served.
//!
//! A policy's deadline is a guess. Where clients leave earlier, a queue that is served in order of arrival
//! serves those who are about to leave: each answer is late by a little, and all work is for nobody. So the
//! gate notes how long requests had waited that got a slot, and whether their clients left before the answer began.
//! Where clients leave of those that waited for longer than some time, requests are refused, and expire, at that time
//! ([`Patience::deadline`]), but never later than the policy says.
//!
//! A client that leaves the queue says nothing: it takes no slot, and makes room for those who stay. (Where some clients
//! leave soon and others wait, only those who wait are served, as many as without the others.) Nor does one that would have left
//! even if its request had not waited, such as a search box that asks at each key, or any client while the origin is slow: it shows how
//! impatient its address is, but not how long may be waited. What counts is how many more leave than of requests that hardly
//! waited.
//!
//! Nor do those count that leave at one moment: when a load test ends or a proxy in front restarts, all leave. Patience
//! shows itself for as long as an overload lasts, so in each period only so many count as having left as the period
//! before lets expect. And a few addresses that leave again and again must not speak for all: the share of those who leave
//! is taken by groups of flows, and of the most impatient half of the groups those are left out that are less patient than
//! chance would make them ([`super::groups`]).
//!
//! Requests that would wait for longer are refused, so that nobody sees whether they still would be served for nobody.
//! What is known fades, and as it does the time grows step by step, until clients leave again or the policy's is reached.

use super::groups::group;
use crate::outcome::Outcome;
use crate::time::Moment;
use std::time::Duration;

/// Times are told apart by a fifth: so many steps for each doubling.
const STEPS: f64 = 4.0;
/// Shortest and longest time that are told apart.
const SHORTEST: Duration = Duration::from_millis(10);
const BINS: usize = 48;
/// Requests that a share is taken of.
const ENOUGH: f32 = 8.0;
const ENOUGH_USUAL: f32 = 32.0;
/// How many more clients may leave than of requests that hardly waited, and how many standard errors that must be out
/// of the question.
const MORE: f32 = 0.04;
const SURE: f32 = 1.5;
/// Variance of a share of which nothing was seen.
const UNSURE: f32 = 0.02;
/// Groups of flows. Not fewer while there are few requests: then thirty addresses would be in most of them.
const GROUPS: usize = 128;
/// Requests that nobody left, added to each group's: one that left of one proves little.
const EACH: f32 = 4.0;
/// All is forgotten when of those who left no more than this counts.
const FORGOTTEN: f32 = 0.1;
/// Requests with which a group is one of them.
const SEEN: f32 = 0.02;
/// In a period at most so many times as many count as having left as counted in the one before, and these.
const PERIOD: Duration = Duration::from_millis(250);
const GROWTH: u32 = 2;
const LEFT_AT_ONCE: u32 = 2;
/// Requests count half after this time, and after so many others.
const HALF_LIFE: Duration = Duration::from_secs(30);
const REQUESTS: f32 = 4096.0;
/// The same while requests find free slots.
const HALF_LIFE_IDLE: Duration = Duration::from_millis(500);
/// How long clients must have been seen to leave before anything follows from it: at first those are seen who ask most.
const FIRST: Duration = Duration::from_secs(3);
/// How often the deadline is computed anew; how long until it is a step longer, and how many requests.
const INTERVAL: Duration = Duration::from_millis(100);
const STEP: (Duration, f32) = (Duration::from_millis(250), 32.0);
/// Part of the difference to the latest answer by which the mean time of an answer moves.
const WEIGHT: f64 = 1.0 / 32.0;
/// Shortest deadline, and shortest in times of an answer: a queue that is shorter would leave slots idle.
const DEADLINE_MIN: Duration = Duration::from_millis(10);
const ANSWERS_MIN: f64 = 0.25;

/// Requests of some flows by how long they had waited for their slots: those whose clients left before the answer
/// began, each by the part of an answer's time for which it held its slot, and all others.
#[derive(Clone, Copy, Debug)]
struct Group {
    left: [f32; BINS],
    stayed: [f32; BINS],
    /// Those that would have been left without any wait.
    late: f32,
}

impl Group {
    const NONE: Group = Group { left: [0.0; BINS], stayed: [0.0; BINS], late: 0.0 };

    fn fade(&mut self, kept: f32) {
        let counts = self.left.iter_mut().chain(&mut self.stayed);
        counts.chain([&mut self.late]).for_each(|count| *count *= kept);
    }
}

/// Requests, and those of them whose clients left.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    left: f32,
    all: f32,
}

impl Count {
    fn add(&mut self, more: Count) {
        self.left += more.left;
        self.all += more.all;
    }

    fn share(&self) -> f32 {
        self.left / self.all
    }

    /// Variance of the share.
    fn variance(&self) -> f32 {
        let share = self.share();
        (share * (1.0 - share) + UNSURE) / self.all
    }

    /// Whether clearly more left than of the `usual` ones; `None`: that may be chance.
    fn is_more_than(&self, usual: Option<Count>) -> Option<bool> {
        let (part, variance) = usual.map_or((0.0, 0.0), |it| (it.share(), it.variance()));
        let more = self.share() - part - MORE;
        (more.abs() > SURE * (self.variance() + variance).sqrt()).then_some(more > 0.0)
    }
}

/// The requests of all groups but the most impatient ones, by how long they had waited. O(groups · bins).
fn of_most(groups: &[Group; GROUPS]) -> [Count; BINS] {
    let mut order = [(0.0, &groups[0], Count::default()); GROUPS];
    let mut seen = 0;
    for group in groups {
        let (left, stayed) =
            (group.left.iter().sum::<f32>() + group.late, group.stayed.iter().sum::<f32>());
        let all = left + stayed;
        if all >= SEEN {
            order[seen] = (left / (all + EACH), group, Count { left, all });
            seen += 1;
        }
    }
    let order = &mut order[..seen];
    order.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
    // The median group is not theirs as long as they are in less than half of the groups, whatever they send.
    let (most, worst) = order.split_at(seen.div_ceil(2));
    let mut sum = Count::default();
    most.iter().for_each(|(_, _, of)| sum.add(*of));
    // Where all are alike, the worst are so by chance, and without them too few would seem to leave.
    let is_like_most = |of: &Count| {
        let expected = of.all * sum.share();
        of.left <= expected + 3.0 * expected.sqrt() + 0.5
    };
    let like_most = worst.iter().filter(|(_, _, of)| is_like_most(of));
    let mut sums = [Count::default(); BINS];
    for (_, group, _) in most.iter().chain(like_most) {
        for ((sum, left), stayed) in sums.iter_mut().zip(group.left).zip(group.stayed) {
            sum.add(Count { left, all: left + stayed });
        }
    }
    sums
}

/// Mean time from a slot to the first byte of an answer; recent ones count most.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AnswerTime {
    /// Seconds; 0: there was none yet.
    mean_s: f64,
}

impl AnswerTime {
    /// One took so long.
    pub(crate) fn took(&mut self, took: Duration) {
        let took_s = took.as_secs_f64();
        if self.mean_s == 0.0 {
            self.mean_s = took_s;
        }
        self.mean_s += (took_s - self.mean_s) * WEIGHT;
    }

    /// Their mean; zero: there was none yet.
    pub(crate) fn mean(&self) -> Duration {
        Duration::from_secs_f64(self.mean_s)
    }
}

/// What is known of the clients of one class.
#[derive(Clone, Debug)]
pub(crate) struct Patience {
    /// `None`: nobody left lately.
    groups: Option<Box<[Group; GROUPS]>>,
    /// When the first of them was seen.
    begun: Moment,
    /// In all groups: requests, and those whose clients left.
    requests: f32,
    leavers: f32,
    /// Since when a period goes on, and how many count as having left in it and in the one before.
    period: Moment,
    leaving: [u32; 2],
    /// When the counts last faded; how many requests have found a free slot since then, and how many were refused because
    /// of their deadlines.
    faded: Moment,
    idle: u32,
    refused: u32,
    /// The bin that is too long to wait for, since when, and how many requests since then; `None`: not known.
    too_long: Option<usize>,
    since: Moment,
    tried: f32,
    /// Those that hardly waited.
    usual: Option<Count>,
    answers: AnswerTime,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            groups: None,
            begun: Moment::ZERO,
            requests: 0.0,
            leavers: 0.0,
            period: Moment::ZERO,
            leaving: [0; 2],
            faded: Moment::ZERO,
            idle: 0,
            refused: 0,
            too_long: None,
            since: Moment::ZERO,
            tried: 0.0,
            usual: None,
            answers: AnswerTime::default(),
        }
    }
}

/// The bin of a time: the one whose times begin with it or shortly before.
fn bin(time: Duration) -> usize {
    let doublings = (time.as_secs_f64() / SHORTEST.as_secs_f64()).log2();
    ((doublings * STEPS).max(0.0) as usize).min(BINS - 1)
}

/// When the times of a bin begin.
fn begin(bin: usize) -> Duration {
    SHORTEST.mul_f64((bin as f64 / STEPS).exp2())
}

impl Patience {
    /// A request that waited for `waited` gave its slot back after `held`. O(1); O(groups · bins) ten times a second
    /// while clients leave.
    pub(crate) fn finished(
        &mut self,
        now: Moment,
        flow: u64,
        waited: Duration,
        held: Duration,
        outcome: &Outcome,
    ) {
        let Outcome { first_byte, left, .. } = *outcome;
        let has_left = left.is_some_and(|left| first_byte.is_none_or(|byte| left < byte));
        if has_left && !self.may_leave(now) {
            return;
        }
        if let Some(first_byte) = first_byte {
            self.answers.took(first_byte);
        }
        if has_left || self.groups.is_some() {
            let part = (held.as_secs_f64() / self.answers.mean_s.max(1e-6)).min(1.0) as f32;
            let count = if has_left { part } else { 1.0 };
            if self.groups.is_none() {
                self.begun = now;
            }
            let groups = self.groups.get_or_insert_with(|| Box::new([Group::NONE; GROUPS]));
            let group = &mut groups[group(flow, GROUPS)];
            match (has_left, outcome.is_late(waited)) {
                (true, true) => group.late += count,
                (true, false) => group.left[bin(waited)] += count,
                (false, _) => group.stayed[bin(waited)] += count,
            }
            self.leavers += if has_left { count } else { 0.0 };
            self.observed(now, count);
        }
    }

    /// A request found a free slot.
    pub(crate) fn idle(&mut self) {
        self.idle = self.idle.saturating_add(1);
    }

    /// A request was refused because of its deadline.
    pub(crate) fn refused(&mut self) {
        self.refused = self.refused.saturating_add(1);
    }

    /// Whether one more that left counts.
    fn may_leave(&mut self, now: Moment) -> bool {
        let passed = now.since(self.period);
        if passed >= PERIOD {
            let before = if passed < 2 * PERIOD { self.leaving[0] } else { 0 };
            (self.period, self.leaving) = (now, [0, before]);
        }
        let [leaving, before] = &mut self.leaving;
        let counts = *leaving < GROWTH * *before + LEFT_AT_ONCE;
        *leaving += u32::from(counts);
        counts
    }

    /// How long a request may wait for its slot to be answered while its client is there; at most
    /// `policys`. O(1).
    pub(crate) fn deadline(&self, policys: Duration) -> Duration {
        let Some(too_long) = self.too_long else { return policys };
        begin(too_long).max(self.least()).min(policys)
    }

    /// How long an answer usually takes from its slot on.
    pub(crate) fn answer(&self) -> Duration {
        self.answers.mean()
    }

    /// The time after which clients leave; `None`: not known.
    pub(crate) fn known(&self) -> Option<Duration> {
        self.too_long.map(|bin| begin(bin) + self.answer())
    }

    fn observed(&mut self, now: Moment, count: f32) {
        self.requests += count;
        self.tried += count;
        let passed = now.since(self.faded);
        if passed < INTERVAL {
            return;
        }
        // A queue that is short on purpose runs empty now and then: it might be longer, but is not over.
        let (idle, refused) = (std::mem::take(&mut self.idle), std::mem::take(&mut self.refused));
        let is_idle = idle > refused;
        let half = if is_idle { HALF_LIFE_IDLE } else { HALF_LIFE };
        let old = 0.5_f64.powf(passed.as_secs_f64() / half.as_secs_f64()) as f32;
        let kept = old.min(REQUESTS / self.requests.max(REQUESTS));
        self.faded = now;
        self.requests *= kept;
        self.leavers *= kept;
        if self.leavers < FORGOTTEN {
            (self.groups, self.requests, self.leavers) = (None, 0.0, 0.0);
            (self.too_long, self.usual) = (None, None);
        }
        let Some(groups) = &mut self.groups else { return };
        groups.iter_mut().for_each(|group| group.fade(kept));
        let is_early = now.since(self.begun) < FIRST;
        let seen = if is_early { None } else { self.seen_too_long() };
        let before = self.too_long;
        let is_tried = now.since(self.since) >= STEP.0 && self.tried >= STEP.1;
        let longer = match before {
            Some(bin) if !is_idle => bin + usize::from(idle > 0 || is_tried),
            _ => BINS,
        };
        let bin = seen.unwrap_or(BINS).min(longer);
        self.too_long = (bin < BINS).then_some(bin);
        if self.too_long != before {
            (self.since, self.tried) = (now, 0.0);
        }
    }

    /// The shortest time that is too long, also together with all longer ones: those who wait for much longer than others
    /// stay. If they alone are served, nothing is wrong; where a few are served beside many who leave, the others count.
    fn seen_too_long(&mut self) -> Option<usize> {
        let counts = of_most(self.groups.as_deref()?);
        let (short, long) = counts.split_at(bin(self.least()) + 1);
        let mut usual = Count::default();
        short.iter().for_each(|count| usual.add(*count));
        if usual.all >= ENOUGH_USUAL {
            self.usual = Some(usual);
        }
        let (mut found, mut range, mut longer) = (None, Count::default(), Count::default());
        for (bin, count) in long.iter().enumerate().rev() {
            range.add(*count);
            longer.add(*count);
            if range.all < ENOUGH {
                continue;
            }
            // With those that waited for a little less, if it is not sure.
            let Some(is_too_long) = range.is_more_than(self.usual) else { continue };
            if is_too_long && longer.is_more_than(self.usual) == Some(true) {
                found = Some(short.len() + bin);
            }
            range = Count::default();
        }
        found
    }

    /// Waiting for less would leave slots idle.
    fn least(&self) -> Duration {
        DEADLINE_MIN.max(Duration::from_secs_f64(self.answers.mean_s * ANSWERS_MIN))
    }
}

#[cfg(test)]
mod tests;
