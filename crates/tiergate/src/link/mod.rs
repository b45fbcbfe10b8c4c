//! The link that answers leave by: what the foreground sends is charged to it, and the background waits for its turn.
//!
//! | file | what it has |
//! |---|---|
//! | here | the virtual queue of the link, for all threads |
//! | `turns` | the background answers of a thread that wait, and the task that calls the next |
//! | `alarm` | a timer that is exact to some microseconds |
//!
//! What may leave when, the core says ([`VirtualQueue`]).

mod alarm;
mod turns;

use crate::clock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tiergate_core::time::Moment;
use tiergate_core::transmit::VirtualQueue;
pub use turns::Turn;

/// The link, as far as the policy says what it carries.
#[derive(Debug, Default)]
pub struct Link {
    /// Whether there is a queue: asked by every answer.
    is_known: AtomicBool,
    queue: Mutex<Option<VirtualQueue>>,
}

/// How long who waits for the link is not looked at, at most.
const LOOKS_EVERY: Duration = Duration::from_millis(100);
/// Bytes that are taken at a time where nothing is known of the link any more.
const UNBOUND: u64 = 1 << 16;

const HELD: &str = "no code panics while it holds the link";

impl Link {
    /// The policy in force says that it carries so many bits a second, or does not say it. Who waits notices it soon.
    pub fn set(&self, now: Moment, capacity: Option<u64>) {
        let mut queue = self.queue.lock().expect(HELD);
        match (queue.as_mut(), capacity) {
            (Some(queue), Some(capacity)) => queue.set_capacity(now, capacity),
            _ => *queue = capacity.map(|capacity| VirtualQueue::new(now, capacity)),
        }
        self.is_known.store(queue.is_some(), Ordering::Relaxed);
    }

    /// Whether the policy says what it carries.
    pub fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    /// So many bytes of the foreground have been written.
    pub fn charge(&self, bytes: u64) {
        if let Some(queue) = &mut *self.queue.lock().expect(HELD) {
            queue.charge(clock::now(), bytes);
        }
    }

    /// Ready with how many of so many bytes the background may write now; else the task is woken in its turn.
    pub fn poll_take(&self, turn: &mut Turn, wanted: u64, context: &Context<'_>) -> Poll<u64> {
        if !turn.is_next() {
            turn.wait(context);
            return Poll::Pending;
        }
        let now = clock::now();
        let taken = match &mut *self.queue.lock().expect(HELD) {
            Some(queue) => queue.take(now, wanted),
            // A reload has taken the bound away; another may set it again.
            None => Ok(UNBOUND),
        };
        match taken {
            Ok(bytes) => Poll::Ready(bytes),
            Err(_) => {
                turn.wait(context);
                Poll::Pending
            }
        }
    }

    /// Calls those that wait on this thread, one after another, for as long as the runtime lives.
    pub async fn call_turns(&self) {
        let mut alarm = None;
        loop {
            turns::anybody().await;
            let now = clock::now();
            let at = self.queue.lock().expect(HELD).as_mut().map(|queue| queue.ready_at(now));
            if let Some(at) = at.filter(|at| *at > now) {
                // Meanwhile the foreground may send, or a reload set another capacity.
                let time = at.since(now).min(LOOKS_EVERY);
                alarm.get_or_insert_with(alarm::Alarm::new).sleep(time).await;
                continue;
            }
            turns::call_next();
            // Who was called goes first.
            tokio::task::yield_now().await;
        }
    }
}
