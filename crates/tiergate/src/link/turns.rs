//! The background answers of a thread that wait for the link: each has its turn, a segment at a time.
//!
//! | state | who reads | who writes |
//! |---|---|---|
//! | the table | its own thread only | its own thread only |

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

/// Where an answer stands.
#[derive(Debug, Default)]
enum Entry {
    /// It does not wait.
    #[default]
    Idle,
    /// It waits to be called.
    Waiting(Waker),
    /// It was called, and may take what there is.
    Called,
    /// It is gone, and still stands in the queue.
    Gone,
}

#[derive(Debug, Default)]
struct Table {
    entries: Vec<Entry>,
    free: Vec<usize>,
    queue: VecDeque<usize>,
    /// The task that calls them, while nobody waits.
    caller: Option<Waker>,
}

thread_local! {
    static TABLE: RefCell<Table> = RefCell::default();
}

/// A background answer's place among those that wait. Belongs to the thread that first waited with it.
#[derive(Debug, Default)]
pub struct Turn {
    place: Option<usize>,
}

impl Turn {
    /// Whether it may take what there is: nobody waits, or it was called. Once.
    pub(super) fn is_next(&mut self) -> bool {
        TABLE.with_borrow_mut(|table| match self.place.map(|place| &mut table.entries[place]) {
            Some(Entry::Waiting(_)) => false,
            Some(entry @ Entry::Called) => {
                *entry = Entry::Idle;
                true
            }
            _ => table.queue.is_empty(),
        })
    }

    /// It waits, behind all others if it did not wait before.
    pub(super) fn wait(&mut self, context: &Context<'_>) {
        let caller = TABLE.with_borrow_mut(|table| {
            let place = *self.place.get_or_insert_with(|| {
                table.free.pop().unwrap_or_else(|| {
                    table.entries.push(Entry::Idle);
                    table.entries.len() - 1
                })
            });
            match &mut table.entries[place] {
                Entry::Waiting(waker) => waker.clone_from(context.waker()),
                entry => {
                    *entry = Entry::Waiting(context.waker().clone());
                    table.queue.push_back(place);
                }
            }
            table.caller.take()
        });
        caller.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(place) = self.place else { return };
        // The thread's table may be gone already when the thread itself ends.
        let _ = TABLE.try_with(|table| {
            let mut table = table.borrow_mut();
            match std::mem::take(&mut table.entries[place]) {
                Entry::Waiting(_) => table.entries[place] = Entry::Gone,
                _ => table.free.push(place),
            }
        });
    }
}

/// Ready when anybody waits.
pub(super) async fn anybody() {
    poll_fn(|context| {
        TABLE.with_borrow_mut(|table| match table.queue.is_empty() {
            false => Poll::Ready(()),
            true => {
                table.caller = Some(context.waker().clone());
                Poll::Pending
            }
        })
    })
    .await;
}

/// Calls the one that has waited longest, if any is still there.
pub(super) fn call_next() {
    let next = TABLE.with_borrow_mut(|table| {
        while let Some(place) = table.queue.pop_front() {
            match std::mem::replace(&mut table.entries[place], Entry::Called) {
                Entry::Waiting(waker) => return Some(waker),
                _ => {
                    table.entries[place] = Entry::Idle;
                    table.free.push(place);
                }
            }
        }
        None
    });
    next.into_iter().for_each(Waker::wake);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Woken(AtomicU32);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn woken(counts: &[Arc<Woken>]) -> Vec<u32> {
        counts.iter().map(|it| it.0.load(Ordering::Relaxed)).collect()
    }

    #[test]
    fn each_that_waits_is_called_in_turn_and_who_left_is_passed_over() {
        let counts: Vec<Arc<Woken>> = (0..3).map(|_| Arc::default()).collect();
        let wakers: Vec<Waker> = counts.iter().map(|it| it.clone().into()).collect();
        let context = |place: usize| Context::from_waker(&wakers[place]);
        let mut turns: Vec<Turn> = (0..3).map(|_| Turn::default()).collect();
        assert!(turns[0].is_next(), "nobody waits");
        for (place, turn) in turns.iter_mut().enumerate() {
            turn.wait(&context(place));
            turn.wait(&context(place));
        }
        assert!(turns.iter_mut().all(|turn| !turn.is_next()), "none was called");
        call_next();
        assert_eq!(woken(&counts), [1, 0, 0]);
        assert!(turns[0].is_next() && !turns[0].is_next(), "once, and others wait");
        turns[0].wait(&context(0));
        turns.remove(1);
        call_next();
        assert_eq!(woken(&counts), [1, 0, 1], "the second has left");
        call_next();
        assert_eq!(woken(&counts), [2, 0, 1]);
        call_next();
        // The places of those that left are used again.
        let mut other = Turn::default();
        other.wait(&context(1));
        assert_eq!(other.place, Some(1));
        drop((other, turns));
        call_next();
        assert_eq!(woken(&counts), [2, 0, 1]);
        TABLE.with_borrow(|table| assert_eq!((table.free.len(), table.queue.len()), (3, 0)));
    }
}
