//! The answers of a thread that wait for the link, by class: each has its turn, a segment at a time.
//!
//! | state | who reads | who writes |
//! |---|---|---|
//! | the table | its own thread only | its own thread only |

use crate::timers::Timer;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tiergate_core::class::ClassId;

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
    /// By class.
    queues: Vec<VecDeque<usize>>,
    /// How many stand in all of them.
    len: usize,
    /// A class began to wait since the caller looked.
    has_changed: bool,
    /// The task that calls them, while it waits for that.
    caller: Option<Waker>,
}

impl Table {
    fn queue(&mut self, class: ClassId) -> &mut VecDeque<usize> {
        if class.index() >= self.queues.len() {
            self.queues.resize_with(class.index() + 1, VecDeque::new);
        }
        &mut self.queues[class.index()]
    }

    fn is_empty(&self, class: ClassId) -> bool {
        self.queues.get(class.index()).is_none_or(VecDeque::is_empty)
    }
}

thread_local! {
    static TABLE: RefCell<Table> = RefCell::default();
}

/// An answer's place among those that wait. Belongs to the thread that first waited with it.
#[derive(Debug)]
pub struct Turn {
    class: ClassId,
    is_background: bool,
    place: Option<usize>,
    /// What its client had left of its time when it began to wait.
    paused: Option<Duration>,
}

impl Turn {
    /// Of an answer of that class, which is in the background or is not.
    pub fn new(class: ClassId, is_background: bool) -> Self {
        Turn { class, is_background, place: None, paused: None }
    }

    /// Whether the answer is of the background.
    pub fn is_background(&self) -> bool {
        self.is_background
    }

    /// While it waits for the link, the time of its client stands still; `time`: what the client has for all.
    pub fn pauses(&mut self, timer: &Timer, time: Duration) {
        self.paused.get_or_insert_with(|| timer.pause().unwrap_or(time));
    }

    /// The client's time goes on.
    pub fn goes_on(&mut self, timer: &Timer) {
        if let Some(left) = self.paused.take() {
            timer.arm(left);
        }
    }

    pub(super) fn class(&self) -> ClassId {
        self.class
    }

    /// Whether it may take what there is: nobody of its class waits, or it was called. Once.
    pub(super) fn is_next(&mut self) -> bool {
        TABLE.with_borrow_mut(|table| match self.place.map(|place| &mut table.entries[place]) {
            Some(Entry::Waiting(_)) => false,
            Some(entry @ Entry::Called) => {
                *entry = Entry::Idle;
                true
            }
            _ => table.is_empty(self.class),
        })
    }

    /// It waits, behind all others of its class if it did not wait before. Whether it is the only one of them.
    pub(super) fn wait(&mut self, context: &Context<'_>) -> bool {
        let caller = TABLE.with_borrow_mut(|table| {
            let place = *self.place.get_or_insert_with(|| {
                table.free.pop().unwrap_or_else(|| {
                    table.entries.push(Entry::Idle);
                    table.entries.len() - 1
                })
            });
            match &mut table.entries[place] {
                Entry::Waiting(waker) => {
                    waker.clone_from(context.waker());
                    return None;
                }
                entry => *entry = Entry::Waiting(context.waker().clone()),
            }
            let is_first = table.is_empty(self.class);
            table.queue(self.class).push_back(place);
            table.len += 1;
            table.has_changed |= is_first;
            is_first.then(|| table.caller.take())
        });
        let is_first = caller.is_some();
        caller.flatten().into_iter().for_each(Waker::wake);
        is_first
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
        TABLE.with_borrow_mut(|table| {
            table.has_changed = false;
            match table.len {
                0 => {
                    table.caller = Some(context.waker().clone());
                    Poll::Pending
                }
                _ => Poll::Ready(()),
            }
        })
    })
    .await;
}

/// Ready when a class has begun to wait since [`anybody`] was ready.
pub(super) async fn changed() {
    poll_fn(|context| {
        TABLE.with_borrow_mut(|table| match table.has_changed {
            true => Poll::Ready(()),
            false => {
                table.caller = Some(context.waker().clone());
                Poll::Pending
            }
        })
    })
    .await;
}

/// Whether answers of the class wait on this thread.
pub(super) fn is_here(class: ClassId) -> bool {
    TABLE.with_borrow(|table| !table.is_empty(class))
}

/// A class of which answers wait on this thread.
pub(super) fn any_here() -> Option<ClassId> {
    let of = |table: &Table| table.queues.iter().position(|it| !it.is_empty());
    TABLE.with_borrow(of).map(|place| ClassId(place as u16))
}

/// Calls the one of the class that has waited longest, if any is still there.
pub(super) fn call_next(class: ClassId) {
    let next = TABLE.with_borrow_mut(|table| {
        while let Some(place) = table.queue(class).pop_front() {
            table.len -= 1;
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
        let (class, other) = (ClassId(0), ClassId(2));
        let counts: Vec<Arc<Woken>> = (0..3).map(|_| Arc::default()).collect();
        let wakers: Vec<Waker> = counts.iter().map(|it| it.clone().into()).collect();
        let context = |place: usize| Context::from_waker(&wakers[place]);
        let mut turns: Vec<Turn> = (0..3).map(|_| Turn::new(class, true)).collect();
        assert!(turns[0].is_next(), "nobody waits");
        for (place, turn) in turns.iter_mut().enumerate() {
            assert_eq!(turn.wait(&context(place)), place == 0, "the first is the only one");
            assert!(!turn.wait(&context(place)));
        }
        assert!(turns.iter_mut().all(|turn| !turn.is_next()), "none was called");
        assert!(Turn::new(other, false).is_next(), "nobody of that class waits");
        assert_eq!((is_here(class), is_here(other), any_here()), (true, false, Some(class)));
        call_next(class);
        assert_eq!(woken(&counts), [1, 0, 0]);
        assert!(turns[0].is_next() && !turns[0].is_next(), "once, and others wait");
        turns[0].wait(&context(0));
        turns.remove(1);
        call_next(class);
        assert_eq!(woken(&counts), [1, 0, 1], "the second has left");
        call_next(class);
        assert_eq!(woken(&counts), [2, 0, 1]);
        call_next(class);
        // The places of those that left are used again.
        let mut another = Turn::new(other, false);
        assert!(another.wait(&context(1)));
        assert_eq!((another.place, any_here()), (Some(1), Some(other)));
        drop((another, turns));
        call_next(other);
        assert_eq!((woken(&counts), any_here()), (vec![2, 0, 1], None));
        TABLE.with_borrow(|table| assert_eq!((table.free.len(), table.len), (3, 0)));
    }
}
