//! How many requests are in progress next, and when the ramp ends.

use super::capacity::PLATEAU;
use super::step::{Slice, Step};
use std::time::Duration;

/// Bounds of a ramp, and how exactly it measures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Most requests in progress.
    pub concurrency_max: u32,
    /// Most requests a second; what sends them keeps to it.
    pub rate_max: f64,
    /// Most requests in all.
    pub requests_max: u64,
    /// Longest time.
    pub time_max: Duration,
    /// Time at first that is not measured: caches fill, processes start.
    pub warm_up: Duration,
    /// Shortest and longest time that a step is measured.
    pub step: (Duration, Duration),
    /// A step ends once its throughput is known as exactly: standard error relative to it.
    pub error: f64,
}

impl Default for Settings {
    /// At most 256 at once, 10,000 requests a second, 200,000 requests, two minutes.
    fn default() -> Self {
        Settings {
            concurrency_max: 256,
            rate_max: 10_000.0,
            requests_max: 200_000,
            time_max: Duration::from_secs(120),
            warm_up: Duration::from_secs(2),
            step: (Duration::from_secs(2), Duration::from_secs(15)),
            error: 0.02,
        }
    }
}

/// Twice the concurrency must bring so much more throughput, or the origin is saturated.
const GROWTH: f64 = 0.08;
/// Part of a step's time until it is measured: requests of the step before are in progress still.
const SETTLING: Duration = Duration::from_millis(500);
/// Of the longest time of a step, so much may pass until every place of the loop has had an answer.
const SETTLING_MAX: f64 = 0.5;
/// Failures, and their share of all requests of a step, that end the ramp; the same of refusals, which end the step.
const FAILURES: (u64, f64) = (3, 0.01);
const REFUSALS: (u64, f64) = (3, 0.02);
/// As much of the rate that may be sent is all of it: pacing has gaps.
const RATE_FULL: f64 = 0.9;
/// The knee is known to this part of it.
const KNEE: f64 = 0.25;
/// Fewer answers tell nothing, however long it took.
const ANSWERS_MIN: u64 = 20;
/// Nor do fewer for each place of the loop.
const TURNS_MIN: u64 = 3;
/// A difference of as many standard errors is clear.
const CLEAR: f64 = 3.0;
/// The first throughput is only compared with that of twice the concurrency: known as exactly, it will do.
const ROUGH: f64 = 0.1;
/// Growth that would be so many times the least one is not ruled out where errors are large: then the load rises once more.
const POSSIBLE: f64 = 3.0;
/// A step that shows no growth may be so many times as long: it is the one that tells the capacity.
const HOLD: u32 = 3;

/// What is to be done after a slice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
    /// As before.
    GoOn,
    /// So many requests in progress from now on.
    Concurrency(u32),
    /// No further request.
    End(End),
}

/// Why a ramp ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Throughput no longer grew: the capacity is known.
    Saturated,
    /// The origin refuses (429, 503) more requests at once.
    Refused,
    /// Requests failed.
    Failed,
    /// A bound came first; the capacity is at least what was seen.
    Concurrency,
    /// The rate that may be sent was reached.
    Rate,
    /// All requests that may be sent were.
    Requests,
    /// The time was over.
    Time,
}

impl End {
    /// Whether it ended because the origin was at its capacity.
    pub fn is_capacity(self) -> bool {
        matches!(self, End::Saturated | End::Refused)
    }

    /// Whether the origin may be asked for something else now: it is well.
    pub fn goes_on(self) -> bool {
        self != End::Failed
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Twice as many with each step.
    Rise,
    /// Between a concurrency that is too low for the plateau and one that reaches it.
    Knee { low: u32, high: u32 },
    /// Between a concurrency without refusals and one with them.
    Refusals { low: u32, high: u32 },
    /// Once more at the knee.
    Back(End),
}

/// A ramp: takes what was measured, says what is done next.
#[derive(Clone, Debug)]
pub struct Ramp {
    settings: Settings,
    phase: Phase,
    step: Step,
    done: Vec<Step>,
    /// Since the concurrency changed.
    since: Duration,
    ended_since: u64,
    failed_since: u64,
    refused_since: u64,
    is_warm: bool,
    went_back: bool,
    requests: u64,
    elapsed: Duration,
}

impl Ramp {
    /// A ramp that begins with one request at a time.
    pub fn new(settings: Settings) -> Self {
        Ramp {
            settings,
            phase: Phase::Rise,
            step: Step::new(1),
            done: Vec::new(),
            since: Duration::ZERO,
            ended_since: 0,
            failed_since: 0,
            refused_since: 0,
            is_warm: false,
            went_back: false,
            requests: 0,
            elapsed: Duration::ZERO,
        }
    }

    /// Requests that are to be in progress.
    pub fn concurrency(&self) -> u32 {
        self.step.concurrency
    }

    /// The step under way, as far as it was measured.
    pub fn step(&self) -> &Step {
        &self.step
    }

    /// The steps that are complete.
    pub fn steps(&self) -> &[Step] {
        &self.done
    }

    /// Whether the last step is the one for which the load went back to the knee.
    pub fn went_back(&self) -> bool {
        self.went_back
    }

    /// How long it has taken.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Requests that have ended or were sent once more, also those that are not measured.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Takes in what happened since the last time.
    pub fn take(&mut self, slice: &Slice) -> Order {
        let ended = slice.answered + slice.refused + slice.failed;
        self.requests += ended + slice.resent;
        self.elapsed += slice.length;
        (self.since, self.ended_since) = (self.since + slice.length, self.ended_since + ended);
        self.failed_since += slice.failed;
        self.refused_since += slice.refused;
        let is_measured = self.is_settled(slice);
        if is_measured {
            self.step.add(slice);
        }
        if beyond(self.failed_since, FAILURES, self.ended_since) || self.only_fails() {
            return Order::End(End::Failed);
        }
        if beyond(self.refused_since, REFUSALS, self.ended_since) {
            return self.refused();
        }
        if self.elapsed >= self.settings.time_max {
            return self.bounded(End::Time);
        }
        if self.requests >= self.settings.requests_max {
            return self.bounded(End::Requests);
        }
        if is_measured && self.is_complete() {
            return self.complete();
        }
        match self.phase {
            Phase::Knee { high, .. } if self.is_late() => {
                self.phase = Phase::Back(End::Saturated);
                self.go(high)
            }
            Phase::Refusals { .. } if self.is_late() => self.saturated(End::Refused),
            _ => Order::GoOn,
        }
    }

    /// Whether there is only time left to go back to the knee: a capacity that is not seen again is only a lower bound.
    fn is_late(&self) -> bool {
        self.elapsed + SETTLING + self.settings.step.1 >= self.settings.time_max
    }

    /// Whether the slice is of the step alone: its first moments are not, and at the very first the origin is cold.
    fn is_settled(&mut self, slice: &Slice) -> bool {
        let before = self.since - slice.length;
        if !self.is_warm {
            self.is_warm = before >= self.settings.warm_up;
            if !self.is_warm {
                return false;
            }
        }
        let longest = self.settings.step.1.mul_f64(SETTLING_MAX);
        let has_turned = self.ended_since >= u64::from(self.step.concurrency);
        self.step.time > Duration::ZERO || before >= longest || (before >= SETTLING && has_turned)
    }

    fn only_fails(&self) -> bool {
        self.failed_since > 0 && self.failed_since == self.ended_since
    }

    fn is_complete(&self) -> bool {
        let (shortest, longest) = self.settings.step;
        let (step, before) = (&self.step, self.done.last());
        let holds = self.phase == Phase::Rise && before.is_some_and(|before| !grows(before, step));
        let longest = if holds { longest * HOLD } else { longest };
        let answers = ANSWERS_MIN.max(TURNS_MIN * u64::from(step.concurrency));
        let tells = step.time >= shortest && step.answered >= answers;
        let is_known = step.error() <= self.settings.error || self.is_clear();
        step.time >= longest || (tells && (is_known || (holds && self.is_late())))
    }

    /// Whether it is clear already what comes next.
    fn is_clear(&self) -> bool {
        match (self.phase, self.done.last()) {
            (Phase::Rise, None) => self.step.error() <= ROUGH,
            (Phase::Rise, Some(before)) => {
                let (growth, error) = growth(before, &self.step);
                growth - CLEAR * error > least_growth(before, &self.step, 1.0)
            }
            (Phase::Knee { .. }, _) => {
                let (rate, plateau) = (self.step.rate(), PLATEAU * self.highest());
                (rate - plateau).abs() > CLEAR * self.step.error() * rate
            }
            // How much it does there counts, if it is not refused.
            (Phase::Refusals { .. } | Phase::Back(_), _) => false,
        }
    }

    /// A step is complete.
    fn complete(&mut self) -> Order {
        let step = std::mem::take(&mut self.step);
        let concurrency = step.concurrency;
        let grows = self.done.last().is_none_or(|before| grows(before, &step));
        let rate = step.rate();
        self.done.push(step);
        let most = self.settings.concurrency_max;
        match self.phase {
            Phase::Rise => {
                // Before all: what is not sent does not grow.
                if rate >= RATE_FULL * self.settings.rate_max {
                    return Order::End(End::Rate);
                }
                if !grows {
                    return self.saturated(End::Saturated);
                }
                match concurrency >= most {
                    true => Order::End(End::Concurrency),
                    false => self.go(concurrency.saturating_mul(2).min(most)),
                }
            }
            Phase::Knee { low, high } => {
                let reaches = rate >= PLATEAU * self.highest();
                let (low, high) = if reaches { (low, concurrency) } else { (concurrency, high) };
                self.narrow(low, high, End::Saturated)
            }
            Phase::Refusals { low: _, high } => self.below_refusals(concurrency, high),
            Phase::Back(end) => {
                self.went_back = true;
                Order::End(end)
            }
        }
    }

    /// More than a few requests of the step were refused: it is as high as the origin lets it be.
    fn refused(&mut self) -> Order {
        let concurrency = self.step.concurrency;
        let best = self.done.iter().map(|it| it.concurrency).filter(|it| *it < concurrency).max();
        match (self.phase, best) {
            (_, None) => Order::End(End::Refused),
            // It refuses what it took before: once more would not help.
            (Phase::Back(end), _) => Order::End(end),
            // It took more before: enough to know, and to leave it alone.
            (Phase::Knee { low, .. }, Some(_)) => {
                self.phase = Phase::Back(End::Refused);
                self.go(low)
            }
            (_, Some(low)) => self.below_refusals(low, concurrency),
        }
    }

    /// Looks for the most that the origin takes without refusing, between one that it does and one that it does not.
    fn below_refusals(&mut self, low: u32, high: u32) -> Order {
        if high - low > (f64::from(low) * KNEE / 2.0).max(1.0) as u32 {
            self.phase = Phase::Refusals { low, high };
            return self.go(low + (high - low) / 2);
        }
        self.saturated(End::Refused)
    }

    /// Throughput grows no further: where does it begin not to?
    fn saturated(&mut self, end: End) -> Order {
        let plateau = PLATEAU * self.highest();
        let on_it = self.done.iter().filter(|it| it.rate() >= plateau);
        let high = on_it.map(|it| it.concurrency).min().unwrap_or(1);
        let below = self.done.iter().map(|it| it.concurrency).filter(|it| *it < high);
        let low = below.max().unwrap_or(0);
        self.narrow(low, high, end)
    }

    fn narrow(&mut self, low: u32, high: u32, end: End) -> Order {
        if low > 0 && high - low > (f64::from(low) * KNEE).max(1.0) as u32 && end == End::Saturated
        {
            self.phase = Phase::Knee { low, high };
            return self.go(low + (high - low) / 2);
        }
        self.phase = Phase::Back(end);
        self.go(high)
    }

    fn highest(&self) -> f64 {
        self.done.iter().map(Step::rate_least).fold(0.0, f64::max)
    }

    fn go(&mut self, concurrency: u32) -> Order {
        self.step = Step::new(concurrency);
        (self.since, self.ended_since) = (Duration::ZERO, 0);
        (self.failed_since, self.refused_since) = (0, 0);
        Order::Concurrency(concurrency)
    }

    /// A bound ends it. What was to come after saturation was only to tell more of it.
    fn bounded(&mut self, end: End) -> Order {
        let step = std::mem::take(&mut self.step);
        // A step that was cut short counts if it is as long as one may be.
        let counts =
            step.time >= self.settings.step.0 || (self.done.is_empty() && step.answered > 0);
        match self.phase {
            Phase::Rise if counts => {
                let grew = |before| growth(before, &step).0 >= least_growth(before, &step, 1.0);
                let grows = self.done.last().is_none_or(grew);
                self.done.push(step);
                Order::End(if grows { end } else { End::Saturated })
            }
            Phase::Rise => Order::End(end),
            Phase::Knee { .. } => Order::End(End::Saturated),
            Phase::Refusals { .. } => Order::End(End::Refused),
            Phase::Back(end) => {
                if counts && step.error() <= ROUGH {
                    self.done.push(step);
                    self.went_back = true;
                }
                Order::End(end)
            }
        }
    }
}

/// Whether throughput grew with concurrency as it does below saturation, or may have.
fn grows(before: &Step, now: &Step) -> bool {
    let (growth, error) = growth(before, now);
    growth >= least_growth(before, now, 1.0)
        || growth + error >= least_growth(before, now, POSSIBLE)
}

/// By which factor throughput grew, and the standard error of that.
fn growth(before: &Step, now: &Step) -> (f64, f64) {
    let growth = now.rate() / before.rate().max(1e-9);
    (growth, growth * before.error().hypot(now.error()))
}

/// So many times the factor by which it must grow.
fn least_growth(before: &Step, now: &Step, times: f64) -> f64 {
    let doublings = f64::from(now.concurrency) / f64::from(before.concurrency.max(1)) - 1.0;
    1.0 + times * GROWTH * doublings
}

fn beyond(count: u64, (least, share): (u64, f64), of: u64) -> bool {
    count >= least && count as f64 > share * of as f64
}
