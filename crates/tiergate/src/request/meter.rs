//! Processor time that the gateway spends on requests, measured for one in [`EVERY`] on average.
//!
//! What is measured is the request's own path: its head, the decision, what is read and written for it, with the system calls. What many
//! share is not: accepting connections, handshakes, HTTP/2 frames, timers.
//!
//! Two readings of the thread's clock for each step of a request that is measured; of the others, a look at a number.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::time::Duration;

/// One request in so many is measured, at random: what comes in a pattern is measured alike.
pub(crate) const EVERY: u32 = 64;

/// A request that is measured, while its thread works on it.
#[derive(Clone, Copy)]
struct Step {
    /// What earlier steps took.
    before: Duration,
    /// The thread's clock when this one began.
    began: Duration,
}

thread_local! {
    /// Requests until one is measured; `None`: it was not drawn yet.
    static UNTIL: Cell<Option<u32>> = const { Cell::new(None) };
    static STEP: Cell<Option<Step>> = const { Cell::new(None) };
}

/// Whether the request that begins now is measured.
pub(super) fn is_due() -> bool {
    // From none to twice as many: one in `EVERY` on average.
    let draw = || fastrand::u32(0..2 * EVERY - 1);
    let until = UNTIL.get().unwrap_or_else(draw);
    UNTIL.set(Some(until.checked_sub(1).unwrap_or_else(draw)));
    until == 0
}

/// While a step is measured; dropped also where it panics.
struct Measuring;

impl Drop for Measuring {
    fn drop(&mut self) {
        STEP.set(None);
    }
}

/// Measures a request's path while it is gone.
pub(super) async fn measured(mut path: Pin<Box<impl Future<Output = ()>>>) {
    let mut before = Duration::ZERO;
    poll_fn(|context| {
        let began = thread_clock();
        STEP.set(Some(Step { before, began }));
        let measuring = Measuring;
        let polled = path.as_mut().poll(context);
        drop(measuring);
        before += thread_clock().saturating_sub(began);
        polled
    })
    .await;
}

/// What the request at hand has taken so far; `None`: it is not measured.
pub(super) fn so_far() -> Option<Duration> {
    let Step { before, began } = STEP.get()?;
    Some(before + thread_clock().saturating_sub(began))
}

/// Processor time of this thread.
fn thread_clock() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn one_in_so_many_is_due() {
        let due = (0..64_000).filter(|_| is_due()).count();
        assert!((800..1250).contains(&due), "{due} of 1,000 expected");
    }

    #[tokio::test]
    async fn the_time_of_a_path_is_its_own() {
        assert_eq!(so_far(), None);
        let work = |ms| {
            let until = Instant::now() + Duration::from_millis(ms);
            while Instant::now() < until {}
        };
        let taken = Cell::new(None);
        let path = Box::pin(async {
            work(20);
            tokio::task::yield_now().await;
            work(20);
            taken.set(so_far());
        });
        let others = async {
            assert_eq!(so_far(), None, "while it waits, nobody is measured");
            work(200);
        };
        tokio::join!(measured(path), others);
        let taken = taken.get().expect("it was measured");
        // The thread may have had the processor for a part of that time only.
        assert!(
            taken > Duration::from_millis(2) && taken < Duration::from_millis(120),
            "{taken:?}"
        );
        assert_eq!(so_far(), None);
    }
}
