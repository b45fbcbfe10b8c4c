//! What clients take, connections, memory and files: bounded for the whole process, given back when its part is
//! dropped.
//!
//! | state | who reads | who writes |
//! |---|---|---|
//! | what is in use | every thread, a scrape | every thread: an atomic |

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What all clients take together of one thing.
#[derive(Debug, Default)]
pub struct Budget {
    /// Bytes, or how many.
    used: AtomicUsize,
}

impl Budget {
    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Takes `bytes`, unless more than `max` would then be in use.
    pub fn take(self: &Arc<Self>, bytes: usize, max: usize) -> Option<Reserved> {
        let fits = |used: usize| used.checked_add(bytes).filter(|&used| used <= max);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).ok()?;
        Some(Reserved { budget: self.clone(), bytes })
    }
}

/// A part of the [`Budget`]. Dropped, it goes back.
#[derive(Debug)]
pub struct Reserved {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Reserved {
    /// Takes `bytes` more; `false` if more than `max` would then be in use.
    pub fn grow(&mut self, bytes: usize, max: usize) -> bool {
        let Some(mut more) = self.budget.take(bytes, max) else { return false };
        self.bytes += std::mem::take(&mut more.bytes);
        true
    }

    /// How much it is.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What one request may take of the budget.
#[derive(Clone, Copy, Debug)]
pub struct Allowance<'b> {
    /// The process's.
    pub budget: &'b Arc<Budget>,
    /// Bytes that all requests together may take.
    pub total_max: usize,
    /// Bytes that this one may take.
    pub own_max: usize,
}

impl Allowance<'_> {
    /// Takes `bytes` more, where the request has `own` already.
    pub fn take(&self, own: usize, bytes: usize) -> Option<Reserved> {
        let fits = own.checked_add(bytes).is_some_and(|sum| sum <= self.own_max);
        fits.then(|| self.budget.take(bytes, self.total_max)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_holds_and_what_is_dropped_comes_back() {
        let budget = Arc::new(Budget::default());
        let first = budget.take(60, 100).expect("nothing is in use");
        assert!(budget.take(41, 100).is_none());
        assert!(budget.take(usize::MAX, 100).is_none());
        let second = budget.take(40, 100).expect("exactly the bound");
        assert_eq!((budget.used(), first.bytes()), (100, 60));
        drop(first);
        assert_eq!(budget.used(), 40);
        assert!(budget.take(1, 40).is_none(), "a bound that was lowered");
        drop(second);
        assert_eq!(budget.used(), 0);
        let mut growing = budget.take(10, 100).expect("nothing is in use");
        assert!(growing.grow(90, 100) && !growing.grow(1, 100));
        assert_eq!((budget.used(), growing.bytes()), (100, 100));
        drop(growing);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_request_has_a_bound_of_its_own() {
        let budget = Arc::new(Budget::default());
        let allowance = Allowance { budget: &budget, total_max: 100, own_max: 50 };
        assert!(allowance.take(20, 31).is_none());
        assert_eq!(allowance.take(20, 30).expect("within both").bytes(), 30);
        assert!(Allowance { own_max: 200, ..allowance }.take(0, 101).is_none());
    }
}
