//! So many requests in progress at a time, within the bounds of rate and number: a closed loop.

use super::exchange::{Connection, Ended, Sending, exchange};
use super::target::Target;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tiergate_core::calibrate::{Settings, Slice};
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// Before a place asks again after a refusal or a failure: an origin in trouble is not pressed.
const PAUSE: Duration = Duration::from_millis(100);
/// A place that is later than its turn by as much does not make up for it: bursts stay short.
const BURST: Duration = Duration::from_millis(10);
/// Shorter waits are not slept for: a timer is no finer.
const TIMER: Duration = Duration::from_millis(1);

/// The load; ended when dropped.
pub(super) struct Generator {
    shared: Arc<Shared>,
    places: Vec<JoinHandle<()>>,
    last: Instant,
}

struct Shared {
    target: Target,
    sending: Sending,
    /// Places beyond this number end.
    concurrency: AtomicU32,
    state: Mutex<State>,
}

/// Under the lock of [`Shared`]; written by every place, taken by [`Generator::slice`].
struct State {
    slice: Slice,
    failure: Option<String>,
    /// When the next request may be sent.
    next: Instant,
    gap: Duration,
    left: u64,
}

impl Generator {
    /// Without load until [`Generator::concurrency`] is called.
    pub(super) fn new(target: Target, sending: Sending, settings: &Settings) -> Self {
        let state = State {
            slice: Slice::default(),
            failure: None,
            next: Instant::now(),
            gap: Duration::from_secs_f64(1.0 / settings.rate_max),
            left: settings.requests_max,
        };
        let (concurrency, state) = (AtomicU32::new(0), Mutex::new(state));
        let shared = Arc::new(Shared { target, sending, concurrency, state });
        Generator { shared, places: Vec::new(), last: Instant::now() }
    }

    /// So many requests in progress from now on. With fewer than before, those in progress are waited for.
    pub(super) fn concurrency(&mut self, concurrency: u32) {
        self.shared.concurrency.store(concurrency, Ordering::Relaxed);
        for place in 0..concurrency {
            let run = || tokio::spawn(run(self.shared.clone(), place));
            match self.places.get_mut(place as usize) {
                Some(task) if task.is_finished() => *task = run(),
                Some(_) => {}
                None => self.places.push(run()),
            }
        }
    }

    /// What happened since the last time, without utilizations.
    pub(super) fn slice(&mut self) -> Slice {
        let now = Instant::now();
        let length = now - std::mem::replace(&mut self.last, now);
        Slice { length, ..std::mem::take(&mut self.shared.lock().slice) }
    }

    /// Ends all requests, and says what failed last.
    pub(super) fn stop(self) -> Option<String> {
        self.shared.lock().failure.take()
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        self.shared.concurrency.store(0, Ordering::Relaxed);
        self.places.iter().for_each(JoinHandle::abort);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long the next request must wait; `None`: there is none left.
    fn turn(&self) -> Option<Duration> {
        let (mut state, now) = (self.lock(), Instant::now());
        state.left = state.left.checked_sub(1)?;
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        let turn = state.next.max(earliest);
        state.next = turn + state.gap;
        Some(turn.saturating_duration_since(now))
    }
}

/// One place of the loop: a request, its answer, the next request.
async fn run(shared: Arc<Shared>, place: u32) {
    let mut kept: Option<Connection> = None;
    let mut last = Instant::now();
    while place < shared.concurrency.load(Ordering::Relaxed) {
        let Some(wait) = shared.turn() else { return };
        if wait > TIMER {
            sleep(wait).await;
        }
        let again = || {
            let wait = shared.turn()?;
            shared.lock().slice.resent += 1;
            Some(wait)
        };
        let ended = exchange(&mut kept, &shared.target, &shared.sending, again).await;
        let is_answered = matches!(ended, Ended::Answered(_));
        let now = Instant::now();
        shared.lock().count(ended, now - std::mem::replace(&mut last, now));
        if !is_answered {
            sleep(PAUSE).await;
        }
    }
}

impl State {
    fn count(&mut self, ended: Ended, cycle: Duration) {
        let slice = &mut self.slice;
        match ended {
            Ended::Answered(answer) => {
                slice.answered += 1;
                slice.cycles += cycle;
                slice.bytes += answer.bytes;
                slice.first_bytes += answer.first_byte;
                slice.latencies.push(answer.whole);
            }
            Ended::Refused => {
                slice.refused += 1;
                slice.cycles += cycle;
            }
            Ended::Failed(why) => {
                slice.failed += 1;
                self.failure = Some(why);
            }
        }
    }
}
