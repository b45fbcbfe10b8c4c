//! What has happened in a run so far.
//!
//! Written by the generator's thread, read by whoever shows it. Each lock is held for a few counter
//! updates only.

use super::counts::Outcome;
use super::meter::Usage;
use super::plan::Plan;
use super::population::Population;
use super::schedule::Ends;
use super::series::Series;
use super::tally::{SessionTally, Tally, Times};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// One population's part.
#[derive(Clone, Debug, Default)]
pub(super) struct Course {
    /// By step.
    pub(super) steps: Vec<Tally>,
    /// By step: good answers that came in it, whenever they were asked for.
    pub(super) answered: Vec<u64>,
    /// By step: bytes of answers that came in it, whatever became of them.
    pub(super) received: Vec<u64>,
    /// By step; empty without sessions.
    pub(super) sessions: Vec<SessionTally>,
    /// By second.
    pub(super) series: Series,
    /// Since the last [`Live::recent`].
    recent: Tally,
}

impl Course {
    fn new(population: &Population) -> Self {
        let steps = population.steps.len();
        let sessions = if population.session.is_some() { steps } else { 0 };
        Self {
            steps: vec![Tally::default(); steps],
            answered: vec![0; steps],
            received: vec![0; steps],
            sessions: vec![SessionTally::default(); sessions],
            ..Self::default()
        }
    }
}

/// All populations.
pub(crate) struct Live {
    courses: Vec<Mutex<Course>>,
    lateness: Mutex<Times>,
    usage: Mutex<Usage>,
}

impl Live {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            courses: plan.populations.iter().map(|p| Mutex::new(Course::new(p))).collect(),
            lateness: Mutex::new(Times::default()),
            usage: Mutex::new(Usage::default()),
        }
    }

    /// What happened to a population since this was last called.
    pub(crate) fn recent(&self, population: usize) -> Tally {
        std::mem::take(&mut lock(&self.courses[population]).recent)
    }

    /// A population's part as it is now.
    pub(super) fn course(&self, population: usize) -> Course {
        lock(&self.courses[population]).clone()
    }

    /// How late 99 % of arrivals were not exceeded.
    pub(super) fn lateness_p99(&self) -> Duration {
        lock(&self.lateness).quantile(0.99).unwrap_or_default()
    }

    /// What the generator has used.
    pub(super) fn usage(&self) -> Usage {
        *lock(&self.usage)
    }

    pub(super) fn used(&self, usage: Usage) {
        *lock(&self.usage) = usage;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic in between leaves at worst one request uncounted.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// When a request or session was due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    pub(super) at: Instant,
    pub(super) step: usize,
}

/// Writes one population's part.
pub(super) struct Log {
    live: Arc<Live>,
    population: usize,
    begun: Instant,
    ends: Ends,
    step_last: usize,
}

impl Log {
    /// The part of the population of that number, in a run that began at `begun`.
    pub(super) fn new(
        live: Arc<Live>,
        number: usize,
        population: &Population,
        begun: Instant,
    ) -> Self {
        let ends = Ends::of(&population.steps);
        Self { live, population: number, begun, ends, step_last: population.steps.len() - 1 }
    }

    /// Something is due at that moment; after the last step, it counts to the last.
    pub(super) fn due(&self, at: Instant) -> Due {
        let step = self.ends.step_at(at.saturating_duration_since(self.begun));
        Due { at, step: step.unwrap_or(self.step_last) }
    }

    /// An arrival that was due has begun.
    pub(super) fn arrived(&self, due: Due) {
        lock(&self.live.lateness).record(due.at.elapsed());
    }

    /// A request that was due is sent.
    pub(super) fn sent(&self, due: Due) {
        let mut course = self.course();
        course.steps[due.step].counts.sent += 1;
        course.recent.counts.sent += 1;
        course.series.sent(due.at.saturating_duration_since(self.begun));
    }

    /// It has ended, after so many attempts, the last of which brought so many bytes.
    pub(super) fn ended(&self, due: Due, outcome: Outcome, attempts: u64, bytes: u64) {
        let now = Instant::now();
        let (latency, at) = (now.saturating_duration_since(due.at), now - self.begun);
        let mut course = self.course();
        let course = &mut *course;
        for tally in [&mut course.steps[due.step], &mut course.recent] {
            tally.ended(outcome, latency);
            tally.attempts += attempts;
            tally.bytes += if outcome == Outcome::Ok { bytes } else { 0 };
        }
        course.series.ended(at, outcome, latency);
        if outcome == Outcome::Ok
            && let Some(step) = self.ends.step_at(at)
        {
            course.answered[step] += 1;
        }
    }

    /// So many bytes of answers have come now.
    pub(super) fn received(&self, bytes: usize) {
        let (at, bytes) = (self.begun.elapsed(), bytes as u64);
        let mut course = self.course();
        course.series.received(at, bytes);
        if let Some(step) = self.ends.step_at(at) {
            course.received[step] += bytes;
        }
    }

    /// Whether the last step has ended.
    pub(super) fn is_over(&self) -> bool {
        self.ends.step_at(self.begun.elapsed()).is_none()
    }

    /// A session that was due begins.
    pub(super) fn session_begun(&self, due: Due) {
        self.course().sessions[due.step].counts.begun += 1;
    }

    /// Its first request was answered well.
    pub(super) fn session_started(&self, due: Due) {
        self.course().sessions[due.step].counts.started += 1;
    }

    /// It was completed, in that time without thinking.
    pub(super) fn session_completed(&self, due: Due, lasting: Duration) {
        let step = self.ends.step_at(self.begun.elapsed());
        let sessions = &mut self.course().sessions;
        sessions[due.step].completed(lasting);
        if let Some(step) = step {
            sessions[step].counts.completed_in_it += 1;
        }
    }

    fn course(&self) -> MutexGuard<'_, Course> {
        lock(&self.live.courses[self.population])
    }
}
