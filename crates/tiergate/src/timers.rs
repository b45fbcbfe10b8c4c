//! Time-outs of connections: coarse, and free on the request path.
//!
//! A connection changes its time-out several times a request (head, body, write, origin, idle).
//! A timer wheel would pay a lock and a list operation each time. Here a change is a store into the
//! thread's table; a task of each thread looks through the table every [`TICK`] and wakes the tasks
//! that are overdue. So a time-out comes up to two ticks late,
//! never early.
//!
//! | state | who reads | who writes |
//! |---|---|---|
//! | the table | its own thread only | its own thread only |

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// How often the table is looked through.
pub const TICK: Duration = Duration::from_millis(100);

/// How long an idle connection may still bring a request once the gateway drains.
const DRAIN_IDLE: Duration = Duration::from_secs(1);

const NEVER: u64 = u64::MAX;

#[derive(Debug)]
struct Entry {
    /// In ticks of this thread.
    deadline: u64,
    /// Between two requests: may be cut short when the gateway drains.
    idle: bool,
    waker: Option<Waker>,
    next_free: usize,
}

#[derive(Debug)]
struct Table {
    tick: u64,
    entries: Vec<Entry>,
    free: Option<usize>,
}

thread_local! {
    static TABLE: RefCell<Table> =
        const { RefCell::new(Table { tick: 0, entries: Vec::new(), free: None }) };
}

/// A connection's time-out. Belongs to the thread that made it.
#[derive(Debug)]
pub struct Timer {
    place: usize,
}

impl Timer {
    /// A timer that never fires until it is armed.
    pub fn new() -> Self {
        TABLE.with_borrow_mut(|table| {
            let entry = Entry { deadline: NEVER, idle: false, waker: None, next_free: usize::MAX };
            let place = match table.free {
                Some(place) => {
                    let next = table.entries[place].next_free;
                    table.free = (next != usize::MAX).then_some(next);
                    table.entries[place] = entry;
                    place
                }
                None => {
                    table.entries.push(entry);
                    table.entries.len() - 1
                }
            };
            Timer { place }
        })
    }

    /// One that fires `after` from now (zero: never).
    pub fn armed(after: Duration) -> Self {
        let timer = Timer::new();
        timer.arm(after);
        timer
    }

    /// Fires `after` from now (zero: never).
    pub fn arm(&self, after: Duration) {
        self.set(after, false);
    }

    /// Fires `after` from now, or sooner when the gateway drains.
    pub fn arm_idle(&self, after: Duration) {
        self.set(after, true);
    }

    /// Stops it; how long it had left. `None`: it was not armed.
    pub fn pause(&self) -> Option<Duration> {
        TABLE.with_borrow_mut(|table| {
            let entry = &mut table.entries[self.place];
            let deadline = std::mem::replace(&mut entry.deadline, NEVER);
            let ticks = deadline.saturating_sub(table.tick).max(1);
            (deadline != NEVER).then(|| TICK * u32::try_from(ticks).unwrap_or(u32::MAX))
        })
    }

    fn set(&self, after: Duration, idle: bool) {
        TABLE.with_borrow_mut(|table| {
            let entry = &mut table.entries[self.place];
            entry.idle = idle;
            entry.deadline = if after.is_zero() { NEVER } else { table.tick + ticks(after) };
        });
    }

    /// Whether the timer has fired; if not, the task is woken when it does.
    pub fn poll_expired(&self, context: &mut Context<'_>) -> bool {
        TABLE.with_borrow_mut(|table| {
            let entry = &mut table.entries[self.place];
            if entry.deadline <= table.tick {
                return true;
            }
            match &mut entry.waker {
                Some(waker) if waker.will_wake(context.waker()) => {}
                slot => *slot = Some(context.waker().clone()),
            }
            false
        })
    }

    /// Runs one poll function until it is ready or the timer has fired.
    ///
    /// # Errors
    /// `TimedOut`, or what the function returns. Cancel safe if the function is.
    pub async fn bound<R>(
        &self,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<io::Result<R>>,
    ) -> io::Result<R> {
        poll_fn(|context| match poll(context) {
            Poll::Ready(result) => Poll::Ready(result),
            Poll::Pending if self.poll_expired(context) => {
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
            Poll::Pending => Poll::Pending,
        })
        .await
    }
}

impl Default for Timer {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // The thread's table may be gone already when the thread itself ends.
        let _ = TABLE.try_with(|table| {
            let mut table = table.borrow_mut();
            let free = table.free.replace(self.place);
            let entry = &mut table.entries[self.place];
            entry.deadline = NEVER;
            entry.waker = None;
            entry.next_free = free.unwrap_or(usize::MAX);
        });
    }
}

/// Rounds up, and one more because the present tick is partly over. In 64 bits: a division of 128 is a
/// call, and time-outs are set several times a request.
fn ticks(after: Duration) -> u64 {
    const A_SECOND: u64 = (1_000 / TICK.as_millis()) as u64;
    let rest = u64::from(after.subsec_nanos().div_ceil(TICK.as_nanos() as u32));
    after.as_secs().min(NEVER / 4 / A_SECOND) * A_SECOND + rest + 1
}

/// Moves the thread's time on by one tick per [`TICK`] that has passed and wakes the tasks that are overdue.
fn sweep(ticks_passed: u64, draining: bool) {
    let overdue: Vec<Waker> = TABLE.with_borrow_mut(|table| {
        table.tick += ticks_passed;
        let now = table.tick;
        let idle_until = now + ticks(DRAIN_IDLE);
        let mut overdue = Vec::new();
        for entry in &mut table.entries {
            if draining && entry.idle {
                entry.deadline = entry.deadline.min(idle_until);
            }
            if entry.deadline <= now
                && let Some(waker) = entry.waker.take()
            {
                overdue.push(waker);
            }
        }
        overdue
    });
    for waker in overdue {
        waker.wake();
    }
}

/// Looks through this thread's table for as long as the runtime lives. `draining` is asked each tick.
pub async fn run(draining: impl Fn() -> bool) {
    let mut interval = tokio::time::interval(TICK);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let start = tokio::time::Instant::now();
    let mut passed = 0;
    loop {
        interval.tick().await;
        // A late tick counts for all that were missed, so that time-outs keep real time.
        crate::clock::now();
        let total = (start.elapsed().as_millis() / TICK.as_millis()) as u64;
        sweep(total - passed, draining());
        passed = total;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn fires_once_its_time_has_passed_and_never_early() {
        let sweeper = tokio::spawn(run(|| false));
        let timer = Timer::new();
        timer.arm(Duration::from_secs(2));
        let start = tokio::time::Instant::now();
        let result = timer.bound(|_| Poll::<io::Result<()>>::Pending).await;
        assert_eq!(result.expect_err("nothing else ends it").kind(), io::ErrorKind::TimedOut);
        let took = start.elapsed();
        assert!(took >= Duration::from_secs(2), "{took:?}");
        assert!(took <= Duration::from_millis(2300), "{took:?}");
        sweeper.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn draining_cuts_idle_waits_short_and_no_others() {
        let sweeper = tokio::spawn(run(|| true));
        let (idle, busy) = (Timer::new(), Timer::new());
        idle.arm_idle(Duration::from_secs(60));
        busy.arm(Duration::from_secs(60));
        let start = tokio::time::Instant::now();
        let _ = idle.bound(|_| Poll::<io::Result<()>>::Pending).await;
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
        let _ = busy.bound(|_| Poll::<io::Result<()>>::Pending).await;
        assert!(start.elapsed() >= Duration::from_secs(60), "{:?}", start.elapsed());
        sweeper.abort();
    }

    #[test]
    fn times_are_rounded_up_to_ticks() {
        for (millis, expected) in [(1, 2), (100, 2), (101, 3), (999, 11), (2_000, 21)] {
            assert_eq!(ticks(Duration::from_millis(millis)), expected, "{millis} ms");
        }
        assert_eq!(ticks(Duration::from_nanos(1)), 2);
        assert!(ticks(Duration::MAX) < NEVER / 2);
    }

    #[test]
    fn places_are_used_again() {
        let first = Timer::new();
        let place = first.place;
        drop(first);
        assert_eq!(Timer::new().place, place);
    }
}
