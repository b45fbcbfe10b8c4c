//! Finds clients that are too slow while their request holds a slot.
//!
//! The rate is that of whole [`WINDOW`]s in which the request waited for nothing but its client. Whoever is fast
//! pays a comparison at each wait, and no timer.

use crate::clock;
use crate::door::SlotGuard;
use crate::timers::Timer;
use std::task::Context;
use std::time::Duration;
use tiergate_core::time::Moment;

/// Time over which the rate is measured.
const WINDOW: Duration = Duration::from_secs(2);

/// What is known of a client's rate.
#[derive(Debug, Default)]
pub(super) struct SlowDetector(Option<Box<Watch>>);

/// Which way the bytes go that a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The client sends its request's body.
    Sends,
    /// It takes the answer.
    Takes,
}

#[derive(Debug)]
struct Watch {
    timer: Timer,
    way: Way,
    since: Moment,
    /// Bytes sent or taken when the window began.
    bytes: u64,
    is_slow: bool,
}

impl SlowDetector {
    /// The request waits for its client, which has moved `bytes` that `way` so far. Says whether it is to
    /// end because of it; the task is woken when that may have changed.
    pub(super) fn poll_waits(
        &mut self,
        (way, bytes): (Way, u64),
        rate_min: u64,
        slot: &mut Option<SlotGuard<'_>>,
        context: &mut Context<'_>,
    ) -> bool {
        let Some(slot) = slot else { return false };
        if rate_min == 0 {
            return false;
        }
        let watch = self.0.get_or_insert_with(|| {
            let timer = Timer::new();
            timer.arm(WINDOW);
            Box::new(Watch { timer, way, since: clock::now(), bytes, is_slow: false })
        });
        if watch.way != way {
            // A body and an answer may take turns: each is counted by itself.
            (watch.way, watch.since, watch.bytes) = (way, clock::now(), bytes);
            watch.timer.arm(WINDOW);
        }
        if watch.timer.poll_expired(context) {
            let now = clock::now();
            let rate = (bytes - watch.bytes) as f64 / now.since(watch.since).as_secs_f64();
            let is_slow = rate < rate_min as f64;
            if is_slow != watch.is_slow {
                let _ = slot.poll_slow(is_slow, context);
                watch.is_slow = is_slow;
            }
            (watch.bytes, watch.since) = (bytes, now);
            watch.timer.arm(WINDOW);
            // So that the task is woken at its end.
            let _ = watch.timer.poll_expired(context);
        }
        watch.is_slow && slot.is_to_end()
    }

    /// The request waits for the origin, or for nothing.
    pub(super) fn goes_on(&mut self, slot: &mut Option<SlotGuard<'_>>, context: &mut Context<'_>) {
        if let Some(watch) = self.0.take()
            && watch.is_slow
            && let Some(slot) = slot
        {
            let _ = slot.poll_slow(false, context);
        }
    }
}
