//! What is counted of lookups.

use crate::tally::Tally;
use std::sync::atomic::{AtomicU64, Ordering};

/// How a lookup ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupResult {
    /// The address has a name, and the name has the address.
    Confirmed,
    /// The address has no name.
    NoName,
    /// It has names, but none of them has the address.
    Unconfirmed,
    /// No server answered in time.
    Failed,
}

impl LookupResult {
    /// Every result, in the order of their indices.
    pub const ALL: [LookupResult; 4] = [
        LookupResult::Confirmed,
        LookupResult::NoName,
        LookupResult::Unconfirmed,
        LookupResult::Failed,
    ];

    /// The label in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            LookupResult::Confirmed => "confirmed",
            LookupResult::NoName => "no_name",
            LookupResult::Unconfirmed => "unconfirmed",
            LookupResult::Failed => "failed",
        }
    }
}

/// Counters of the process; they survive reloads.
#[derive(Debug, Default)]
pub struct LookupCounters {
    /// Lookups that ended, by [`LookupResult::ALL`].
    pub results: [Tally; LookupResult::ALL.len()],
    pub(super) entries: AtomicU64,
    /// Lookups dropped because the queue was full.
    pub dropped_queue: Tally,
    /// Lookups dropped because the client's network had used its budget.
    pub dropped_network: Tally,
}

impl LookupCounters {
    /// Addresses in the cache, looked up or being looked up.
    pub fn entries(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    /// Lookups that ended, by [`LookupResult::ALL`].
    pub fn results(&self) -> [u64; LookupResult::ALL.len()] {
        self.results.each_ref().map(Tally::total)
    }
}
