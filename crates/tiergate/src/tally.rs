//! Numbers that only grow.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Tally(AtomicU64);

impl Tally {
    /// Counts one.
    pub fn one(&self) {
        self.add(1);
    }

    /// Counts `amount`.
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// What was counted so far.
    pub fn total(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that only grows and that one thread alone adds to. A load and a store: a sixth of the
/// cost of an addition that others may share in. A second writer would lose counts, nothing worse.
#[derive(Debug, Default)]
pub struct ThreadTally(AtomicU64);

impl ThreadTally {
    /// Counts one.
    pub fn one(&self) {
        self.add(1);
    }

    /// Counts `amount`.
    pub fn add(&self, amount: u64) {
        let total = self.0.load(Ordering::Relaxed).wrapping_add(amount);
        self.0.store(total, Ordering::Relaxed);
    }

    /// What was counted so far.
    pub fn total(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
