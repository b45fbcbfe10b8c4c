//! What is seen of a class's answers, and what follows from it for the next step.

use crate::time::Moment;
use std::time::Duration;

/// A step, as ln, for each share of late answers that is too few or too many: chance moves the limit by a few percent.
const GAIN: f64 = 0.1;
/// So many times the target is no reason for fewer slots: where they make no difference, the limit would go anywhere.
const BORNE: f64 = 1.02;
/// How far one step goes down at most.
const LN_STEP_DOWN: f64 = 0.5;
/// By how much, as ln, the limit must have come down for times to be compared: if they are known so well that what they follow
/// by has no greater error, and in any case.
pub(super) const LN_JUDGED: (f64, f64) = (0.2, 0.5);
const FOLLOWS_ERROR: f64 = 0.15;
/// Answers that a mean time is taken of: at least; and of no more windows than are needed for so many.
pub(super) const ANSWERS_MEAN: (u32, u32) = (100, 4000);
/// A limit is nearly full from this part of its slots on.
const FULL: f64 = 0.75;

/// How long answers took, and at how many in progress.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    pub(super) answers: u32,
    /// Slots in use when they were admitted, summed.
    found: u64,
    /// Their seconds, summed, and squared and summed.
    s: f64,
    s_squared: f64,
}

impl Times {
    pub(super) fn add(&mut self, took: Duration, found: u32) {
        let s = took.as_secs_f64();
        self.answers += 1;
        self.found += u64::from(found);
        self.s += s;
        self.s_squared += s * s;
    }

    fn merge(&mut self, more: &Times) {
        self.answers += more.answers;
        self.found += more.found;
        self.s += more.s;
        self.s_squared += more.s_squared;
    }

    fn count(&self) -> f64 {
        f64::from(self.answers.max(1))
    }

    /// Mean, seconds, more than 0.
    pub(super) fn mean_s(&self) -> f64 {
        // The origin's clock is no finer.
        (self.s / self.count()).max(1e-6)
    }

    /// ln of the mean, and the square of its error.
    pub(super) fn ln_time(&self) -> f64 {
        self.mean_s().ln()
    }

    pub(super) fn error_squared(&self) -> f64 {
        let spread = self.s_squared / self.count() / self.mean_s().powi(2) - 1.0;
        spread.max(0.0) / self.count()
    }

    /// ln of the number in progress on average.
    pub(super) fn ln_found(&self) -> f64 {
        (self.found as f64 / self.count()).max(1.0).ln()
    }
}

/// What came of fewer slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    /// With as many as at its begin.
    pub(super) first: Times,
    /// With as many as when times had followed last, and with clearly fewer.
    before: Times,
    fewer: Times,
}

impl Trial {
    pub(super) fn of(first: Times) -> Self {
        Trial { first, before: first, fewer: Times::default() }
    }

    /// Times have followed so far.
    pub(super) fn goes_on(self) -> Self {
        Trial { before: self.fewer, fewer: Times::default(), ..self }
    }

    /// By how much, as ln, fewer are in progress than before.
    pub(super) fn ln_fewer(&self, times: &Times) -> f64 {
        self.before.ln_found() - times.ln_found()
    }

    /// Takes the times of a window.
    pub(super) fn add(&mut self, times: &Times) {
        if self.ln_fewer(times) < LN_JUDGED.0 {
            return;
        }
        if self.fewer.answers >= ANSWERS_MEAN.1 {
            self.fewer = Times::default();
        }
        self.fewer.merge(times);
    }

    /// By what part of the change times have followed; `None`: that is not known yet.
    pub(super) fn follows(&self) -> Option<f64> {
        if self.fewer.answers < ANSWERS_MEAN.0 {
            return None;
        }
        let ln_fewer = self.ln_fewer(&self.fewer);
        let error = (self.before.error_squared() + self.fewer.error_squared()).sqrt() / ln_fewer;
        let is_known = error <= FOLLOWS_ERROR || ln_fewer >= LN_JUDGED.1;
        is_known.then(|| (self.before.ln_time() - self.fewer.ln_time()) / ln_fewer)
    }
}

/// Answers of a class, since the last step.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    /// Answers count from then on, to requests that were admitted since.
    pub(super) from: Moment,
    pub(super) admitted: Moment,
    pub(super) times: Times,
    pub(super) late: u32,
    /// Answers that were admitted when the limit was nearly full, and late ones among them.
    pub(super) full: u32,
    pub(super) full_late: u32,
    /// Slots in use when late ones were admitted, summed.
    pub(super) found_late: u64,
}

impl Window {
    pub(super) fn add(&mut self, took: Duration, is_late: bool, found: u32, slots: u32) {
        let is_full = f64::from(found) >= FULL * f64::from(slots);
        self.times.add(took, found);
        self.full += u32::from(is_full);
        if is_late {
            self.late += 1;
            self.full_late += u32::from(is_full);
            self.found_late += u64::from(found);
        }
    }

    /// The number in progress that late answers found.
    pub(super) fn late_found(&self) -> f64 {
        self.found_late as f64 / f64::from(self.late.max(1))
    }

    /// The next step, as ln. A few answers say little: to them are added those that are late by the target.
    pub(super) fn ln_step(&self, share: f64) -> f64 {
        let late = f64::from(self.late) + 0.5;
        let allowed = share * f64::from(self.times.answers) + 0.5;
        // How many are late when an exponential tail is that much longer.
        let borne = share.powf(1.0 / BORNE - 1.0);
        (GAIN * (borne - late / allowed)).max(-LN_STEP_DOWN)
    }

    /// By how many standard deviations more are late than may be.
    pub(super) fn deviation(&self, share: f64) -> f64 {
        let allowed = share * f64::from(self.times.answers);
        (f64::from(self.late) - allowed) / (allowed * (1.0 - share)).sqrt().max(1e-9)
    }
}
