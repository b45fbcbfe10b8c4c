//! A bound on the slots from how long the origin may take with a class's requests: its service target.
//!
//! A law that goes by throughput finds the fewest slots that give all of it. What that costs in time is up to the origin: its
//! queue grows with the limit, and a class may want answers sooner than that. So its answers are judged in windows: if more
//! of them are late than the target allows, there are fewer slots, else more.
//!
//! Only queueing can be removed. By Little's law the time at the origin is the number in progress over the throughput: while
//! the origin is full, fewer in progress take less time and lose no throughput; when it is not, they take as long and
//! throughput is lost for nothing. So a bound is a trial against the time that answers took before ([`Trial`]). If the
//! limit came down and their time did not follow, or they are late with the fewest slots that there may be, the target
//! cannot be met: the slots are given back, that is reported, and the bound is tried again later.
//!
//! A limit that was not full when answers were late is not what made them late, and is left alone.
//!
//! Sources: the step is that of stochastic approximation (Robbins and Monro 1951) on the logarithm of the limit, so that in
//! the mean as many answers are late as may be. Abdelzaher's controllers (IEEE TPDS 2002) go by a model of the origin that is
//! fitted beforehand; AIMD by single late answers halves the limit for what chance does.

#[cfg(test)]
mod tests;
mod window;

use super::law::Completion;
use crate::named::named;
use crate::outcome::End;
use crate::time::Moment;
use std::time::Duration;
use window::{ANSWERS_MEAN, LN_JUDGED, Times, Trial, Window};

named! {
    /// The part of the requests that a target is for.
    pub enum Quantile {
        /// The half that is fastest.
        P50 = "p50",
        /// Nine of ten.
        P90 = "p90",
        /// Nineteen of twenty.
        P95 = "p95",
        /// Ninety-nine of a hundred.
        P99 = "p99",
    }
}

impl Quantile {
    /// The share of the requests that may take longer, more than 0.
    pub const fn late_share(self) -> f64 {
        match self {
            Quantile::P50 => 0.5,
            Quantile::P90 => 0.1,
            Quantile::P95 => 0.05,
            Quantile::P99 => 0.01,
        }
    }
}

/// How long the origin may take with the requests of a class, from the grant of the slot to the first byte of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceTarget {
    /// No longer than this, more than 0.
    pub time: Duration,
    /// With this part of the requests.
    pub quantile: Quantile,
}

/// How a target fares in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetState {
    /// The target.
    pub target: ServiceTarget,
    /// The most slots by it; `None`: it does not bound them.
    pub slots: Option<u32>,
    /// Whether answers are late and fewer slots would not help.
    pub is_missed: bool,
    /// Answers that were judged since the start.
    pub answers: u64,
    /// Those that were late.
    pub late: u64,
}

impl TargetState {
    /// Of the same target at two limits together.
    pub(crate) fn with(self, other: TargetState) -> Self {
        TargetState {
            target: self.target,
            slots: self.slots.into_iter().chain(other.slots).min(),
            is_missed: self.is_missed || other.is_missed,
            answers: self.answers + other.answers,
            late: self.late + other.late,
        }
    }
}

/// A window has so many answers, and so many that may be late: then ln of the quantile is known to a tenth or so.
const ANSWERS: f64 = 200.0;
const LATE_ALLOWED: f64 = 5.0;
/// It is shorter if that many are late, and so many times as many as may be: the bound comes down at once.
const MUCH: (u32, f64) = (10, 3.0);
/// It lasts at least this long, since answers that come together are late together; and at most.
const WINDOW: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
/// A window that is over before it has its answers raises the bound by this, as ln, if no more were late than may be.
const LN_UNKNOWN: f64 = 0.1;
/// How far a step goes down at most that follows one up.
const LN_DOWN: f64 = 0.2;
/// A step up that was clearly too far is repeated after this, at first and at most; twice as long each time.
const RAISE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(32));
/// The part of a change of the limit (both as ln) by which times must follow: less buys nothing that is worth the throughput.
const FOLLOWS: f64 = 0.25;
/// Slots are given back up to this many times (ln) as there were before, and again as many in each window while answers take
/// no longer than this many times (ln) as long as then: a law that does not see the others at a shared origin climbs for ever.
/// If they take that much longer, another gateway had the slots meanwhile or the origin has changed: a bound is tried again.
const LN_BACK: f64 = 0.2;
const LN_LONGER: (f64, f64) = (0.1, 0.4);
/// Standard deviations of a count of late answers that are not chance; and where slots are given back for it.
const SURE: f64 = 2.0;
const VERY_SURE: f64 = 3.0;
/// After how long a bound is tried again that did not help: at first, and at most; twice as long each time.
const RETRY: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(960));
/// A class without answers for so long bounds nobody.
const LAPSE: Duration = Duration::from_secs(60);
/// What was admitted before a step is gone after the target or twice the mean time, but no more than this is waited for it.
const SETTLES_MAX_S: f64 = 10.0;

/// Keeps the time that the origin takes with a class's requests at its target.
#[derive(Clone, Debug)]
pub(super) struct Target {
    settings: ServiceTarget,
    /// A fraction, so that small steps add up.
    bound: Option<f64>,
    trial: Option<Trial>,
    window: Window,
    /// What the bound was before the last step, if that went up.
    raised_from: Option<f64>,
    /// No step goes beyond this until then, since such a step was too far.
    ceiling: f64,
    raise_at: Moment,
    raise_after: Duration,
    is_missed: bool,
    /// Set while the target cannot be met: times with the slots that were given back.
    missed: Option<Times>,
    retry_at: Moment,
    retry_after: Duration,
    answered: Moment,
    has_lapsed: bool,
    answers: u64,
    late: u64,
}

impl Target {
    pub(super) fn new(settings: ServiceTarget) -> Self {
        Target {
            settings,
            bound: None,
            trial: None,
            window: Window::default(),
            raised_from: None,
            ceiling: f64::INFINITY,
            raise_at: Moment::ZERO,
            raise_after: RAISE.0,
            is_missed: false,
            missed: None,
            retry_at: Moment::ZERO,
            retry_after: RETRY.0,
            answered: Moment::ZERO,
            has_lapsed: false,
            answers: 0,
            late: 0,
        }
    }

    /// Another target; what was found is where the search for the new one begins.
    pub(super) fn reconfigure(&mut self, now: Moment, settings: ServiceTarget) {
        if settings != self.settings {
            let Target { bound, answered, answers, late, .. } = *self;
            *self = Target { bound, answered, answers, late, ..Target::new(settings) };
            self.begin(now);
        }
    }

    /// The most slots, at least 1; `None`: they are not bounded.
    pub(super) fn most(&self) -> Option<u32> {
        let bound = self.bound.filter(|_| !self.has_lapsed)?;
        Some((bound as u32).max(1))
    }

    pub(super) fn state(&self) -> TargetState {
        let Target { settings: target, is_missed, answers, late, .. } = *self;
        TargetState { target, slots: self.most(), is_missed, answers, late }
    }

    /// Whether answers are late and fewer slots do not help.
    pub(super) fn is_missed(&self) -> bool {
        self.is_missed
    }

    /// Nothing is evidence that was in progress until now.
    pub(super) fn is_away(&mut self, now: Moment) {
        self.window = Window { from: now, admitted: now, ..Window::default() };
    }

    /// A request of another class has ended. Whether the bound has changed. O(1).
    pub(super) fn passes(&mut self, now: Moment) -> bool {
        if self.bound.is_none() || self.has_lapsed || now.since(self.answered) < LAPSE {
            return false;
        }
        self.has_lapsed = true;
        true
    }

    /// A request of the class has ended, while `slots` were in force, of which there are `floor` at least. Whether the bound
    /// has changed. O(1).
    pub(super) fn finished(&mut self, completion: &Completion<'_>, slots: u32, floor: u32) -> bool {
        let Completion { now, admitted, found, .. } = *completion;
        let Some(took) = self.took(completion) else { return false };
        let is_late = took > self.settings.time;
        self.answers += 1;
        self.late += u64::from(is_late);
        self.answered = now;
        let has_lapsed = std::mem::replace(&mut self.has_lapsed, false);
        if has_lapsed {
            self.begin(now);
        }
        let before = self.most();
        if now >= self.window.from && admitted >= self.window.admitted {
            self.window.add(took, is_late, found, slots);
            if self.is_over(now) {
                self.conclude(now, slots, f64::from(floor.max(1)));
            }
        }
        has_lapsed || self.most() != before
    }

    /// How long the origin took, as far as it counts: with what has no answer, only if that was longer than the target. A client
    /// that takes its time with the answer does not count, nor do answers that cost nothing.
    fn took(&self, completion: &Completion<'_>) -> Option<Duration> {
        let Completion { now, admitted, outcome, .. } = *completion;
        let held = now.since(admitted);
        match outcome.end {
            End::Served | End::Upgraded => outcome.first_byte,
            End::Cancelled if outcome.first_byte.is_some() => outcome.first_byte,
            End::Cancelled | End::TimedOut | End::Error => {
                Some(outcome.first_byte.unwrap_or(held)).filter(|took| *took > self.settings.time)
            }
            End::Pushback | End::Failed | End::Preempted => None,
        }
    }

    fn share(&self) -> f64 {
        self.settings.quantile.late_share()
    }

    /// Answers that a window wants.
    fn wanted(&self) -> u32 {
        ANSWERS.max(LATE_ALLOWED / self.share()) as u32
    }

    fn is_over(&self, now: Moment) -> bool {
        let Window { from, times, late, .. } = self.window;
        let lasts = now.since(from);
        let allowed = self.share() * f64::from(times.answers);
        // Times are compared before the first step and after some.
        let is_compared =
            self.trial.as_ref().is_none_or(|trial| trial.ln_fewer(&times) >= LN_JUDGED.0);
        let is_much = late >= MUCH.0
            && f64::from(late) >= MUCH.1 * allowed
            && (times.answers >= ANSWERS_MEAN.0 || !is_compared);
        lasts >= WINDOW.0 && (times.answers >= self.wanted() || is_much || lasts >= WINDOW.1)
    }

    /// The window is over: takes a step, or gives up.
    fn conclude(&mut self, now: Moment, slots: u32, floor: f64) {
        let window = self.window;
        let ln_step = window.ln_step(self.share());
        let deviation = window.deviation(self.share());
        if deviation <= -SURE {
            (self.is_missed, self.missed, self.retry_after) = (false, None, RETRY.0);
        }
        if let Some(trial) = &mut self.trial {
            trial.add(&window.times);
        }
        let raised_from = self.raised_from.take();
        match self.bound {
            _ if let Some(before) = self.missed => {
                let ln_longer = window.times.ln_time() - before.ln_time();
                let is_due = now >= self.retry_at || ln_longer >= LN_LONGER.1;
                if is_due && deviation >= SURE {
                    self.try_fewer(now, floor, ln_step);
                } else if ln_longer <= LN_LONGER.0 {
                    self.bound = self.bound.map(|bound| {
                        if slots >= bound as u32 { bound * LN_BACK.exp() } else { bound }
                    });
                }
            }
            None if deviation >= SURE => self.try_fewer(now, floor, ln_step),
            None => {}
            Some(bound) if ln_step < 0.0 => {
                let ln_step = match raised_from {
                    Some(before) => {
                        self.was_too_far(now, before, deviation);
                        ln_step.max(-LN_DOWN)
                    }
                    None => ln_step,
                };
                self.lower(now, bound, (slots, floor), ln_step);
            }
            // More than are used would be a guess.
            Some(bound) if slots >= bound as u32 && 2 * window.full > window.times.answers => {
                self.is_missed = false;
                let is_unknown = window.times.answers < self.wanted();
                let ln_more = if is_unknown { LN_UNKNOWN } else { 0.0 };
                if bound > self.ceiling {
                    (self.ceiling, self.raise_after) = (f64::INFINITY, RAISE.0);
                }
                self.raise(now, bound, ln_step.max(ln_more));
            }
            Some(_) => {}
        }
        self.begin(now);
    }

    /// A bound below what late answers found, if those found the limit nearly full.
    fn try_fewer(&mut self, now: Moment, floor: f64, ln_step: f64) {
        let Window { times, late, full_late, .. } = self.window;
        // By Little's law, if the fewest slots gave as much throughput as these.
        let ln_fastest = times.ln_time() - (times.ln_found() - floor.ln()).max(0.0);
        if ln_fastest > self.settings.time.as_secs_f64().ln() {
            return self.give_up(now, times);
        }
        if 2 * full_late < late {
            self.is_missed = true;
            return;
        }
        (self.trial, self.missed) = (Some(Trial::of(times)), None);
        self.bound = Some((self.window.late_found() * ln_step.exp()).max(floor));
    }

    /// Fewer slots than the bound; gives up if those before did not help.
    fn lower(&mut self, now: Moment, mut bound: f64, (slots, floor): (u32, f64), ln_step: f64) {
        let window = self.window;
        let deviation = window.deviation(self.share());
        if slots < bound as u32 {
            // Something else bounds them.
            if deviation < SURE || 2 * window.full_late < window.late {
                return;
            }
            bound = bound.min(window.late_found());
        }
        let mut trial = self.trial.unwrap_or(Trial::of(window.times));
        match trial.follows() {
            Some(follows) if follows < FOLLOWS => {
                return self.give_up(now, trial.first);
            }
            Some(_) => trial = trial.goes_on(),
            None if trial.ln_fewer(&window.times) < 0.0 => trial = Trial::of(window.times),
            None => {}
        }
        if bound <= floor && deviation >= VERY_SURE {
            return self.give_up(now, trial.first);
        }
        self.trial = Some(trial);
        self.bound = Some((bound * ln_step.exp()).max(floor));
    }

    /// More slots, as far as they were not too many lately.
    fn raise(&mut self, now: Moment, bound: f64, ln_step: f64) {
        let more = bound * ln_step.exp();
        let most = if now < self.raise_at { self.ceiling } else { f64::INFINITY };
        self.raised_from = Some(bound);
        self.bound = Some(more.min(most).max(bound));
    }

    /// Answers were late after a step up from `before`.
    fn was_too_far(&mut self, now: Moment, before: f64, deviation: f64) {
        let is_more = self.bound.is_some_and(|bound| bound as u32 > before as u32);
        if is_more && deviation >= SURE {
            (self.ceiling, self.raise_at) = (before, now + self.raise_after);
            self.raise_after = (2 * self.raise_after).min(RAISE.1);
        }
    }

    /// The target cannot be met by fewer slots: they are given back.
    fn give_up(&mut self, now: Moment, before: Times) {
        self.bound = Some(before.ln_found().exp() * LN_BACK.exp());
        (self.trial, self.is_missed) = (None, true);
        self.missed = Some(before);
        self.retry_at = now + self.retry_after;
        self.retry_after = (2 * self.retry_after).min(RETRY.1);
    }

    /// Counts anew. After a step, once those that were admitted before it are gone, so that neither they nor those that are
    /// quick count for more than their part.
    fn begin(&mut self, now: Moment) {
        let settles = match self.bound {
            Some(_) => self.settings.time.as_secs_f64().max(2.0 * self.window.times.mean_s()),
            None => 0.0,
        };
        let settles = Duration::from_secs_f64(settles.min(SETTLES_MAX_S));
        let admitted = if self.bound.is_some() { now } else { self.window.admitted };
        self.window = Window { from: now + settles, admitted, ..Window::default() };
    }
}
