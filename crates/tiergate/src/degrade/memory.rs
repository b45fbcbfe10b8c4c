//! A bound on the memory that all threads take together.

use std::sync::{Condvar, Mutex, PoisonError};

/// Bytes that may be taken. A thread that wants more than is left waits for the others.
#[derive(Debug)]
pub(super) struct Memory {
    /// Most bytes at a time.
    most: u64,
    left: Mutex<u64>,
    freed: Condvar,
}

/// Bytes that were taken; free again when dropped.
#[derive(Debug)]
pub(super) struct Taken<'a>(&'a Memory, u64);

impl Memory {
    /// So many bytes.
    pub(super) fn new(most: u64) -> Self {
        Memory { most, left: Mutex::new(most), freed: Condvar::new() }
    }

    /// Takes so many bytes, after waiting for them; `None` if there will never be so many.
    ///
    /// A thread must take all that it needs at once: two that each hold a part would wait for each other.
    pub(super) fn take(&self, bytes: u64) -> Option<Taken<'_>> {
        if bytes > self.most {
            return None;
        }
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = self.freed.wait_while(left, |left| *left < bytes);
        *wait.unwrap_or_else(PoisonError::into_inner) -= bytes;
        Some(Taken(self, bytes))
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *self.0.left.lock().unwrap_or_else(PoisonError::into_inner) += self.1;
        self.0.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn threads_never_hold_more_than_there_is() {
        let (memory, held, most) = (Memory::new(10), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (memory, held, most) = (&memory, &held, &most);
                scope.spawn(move || {
                    for round in 0..200 {
                        let bytes = 1 + (thread * 3 + round) % 10;
                        let _taken = memory.take(bytes).expect("it is within the bound");
                        let now = held.fetch_add(bytes, Ordering::SeqCst) + bytes;
                        most.fetch_max(now, Ordering::SeqCst);
                        held.fetch_sub(bytes, Ordering::SeqCst);
                    }
                });
            }
        });
        assert!(most.into_inner() <= 10);
        assert!(memory.take(11).is_none() && memory.take(10).is_some());
    }
}
