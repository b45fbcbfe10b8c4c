//! Names by address: hash sets with a lock each.
//!
//! | state | written by | read by | lock |
//! |---|---|---|---|
//! | a set | requests (use), the resolver (answers) | requests | its own, held for at most 8 comparisons |
//! | number of entries | the resolver, requests | a scrape | none |

use super::counters::LookupCounters;
use super::set::{Answer, Cached, Set, WAYS};
use foldhash::quality::RandomState;
use std::hash::BuildHasher;
use std::net::Ipv6Addr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Addresses and their names. Bounded: at most 64 bytes an address, and its name (at most 253 bytes, and
/// 16 for counting).
#[derive(Debug)]
pub(super) struct Cache {
    sets: Box<[Mutex<Set>]>,
    /// Keyed by the process: a client cannot choose addresses of one set.
    hasher: RandomState,
    counters: Arc<LookupCounters>,
}

impl Cache {
    /// A cache of at most `entries_max` addresses, and of at least one set.
    pub(super) fn new(entries_max: usize, counters: Arc<LookupCounters>) -> Self {
        let sets = (entries_max / WAYS).max(1);
        let sets = (0..sets).map(|_| Mutex::default()).collect();
        Cache { sets, hasher: RandomState::default(), counters }
    }

    fn one_more(&self) {
        self.counters.entries.fetch_add(1, Ordering::Relaxed);
    }

    fn set(&self, address: Ipv6Addr) -> MutexGuard<'_, Set> {
        let place = self.hasher.hash_one(u128::from(address)) as usize % self.sets.len();
        self.sets[place].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The entry of an address at second `now`. If a lookup is due, `enqueue` is called under the set's
    /// lock, so that no address is queued twice; it must not block, and returns whether there was room.
    pub(super) fn get(
        &self,
        address: Ipv6Addr,
        now: u32,
        enqueue: impl FnOnce() -> bool,
    ) -> Cached {
        let mut set = self.set(address);
        let found = set.get(address, now);
        if found.due && enqueue() && set.mark_pending(address, now) {
            self.one_more();
        }
        found
    }

    /// Takes in the answer of a lookup.
    pub(super) fn store(&self, address: Ipv6Addr, answer: Answer, now: u32) {
        if self.set(address).store(address, answer, now) {
            self.one_more();
        }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        let len =
            |set: &mut Mutex<Set>| set.get_mut().unwrap_or_else(PoisonError::into_inner).len();
        let len: usize = self.sets.iter_mut().map(len).sum();
        self.counters.entries.fetch_sub(len as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_at_most_entries_max() {
        for (entries_max, least) in [(1, 8), (64, 64), (1000, 1000)] {
            let cache = Cache::new(entries_max, Arc::default());
            for number in 0..20_000u128 {
                let address = Ipv6Addr::from(number);
                assert!(cache.get(address, 0, || true).due);
                assert!(!cache.get(address, 0, || panic!("queued twice")).due);
            }
            assert_eq!(cache.counters.entries(), least, "{entries_max}");
        }
        let bytes = size_of::<Mutex<Set>>() / WAYS;
        assert!(bytes <= 64, "the documented bytes of an address: {bytes}");
    }

    #[test]
    fn a_lookup_that_was_not_queued_may_be_queued_later() {
        let cache = Cache::new(100, Arc::default());
        let address = Ipv6Addr::LOCALHOST;
        assert!(cache.get(address, 0, || false).due);
        assert_eq!(cache.counters.entries(), 0);
        assert!(cache.get(address, 0, || true).due);
        assert!(!cache.get(address, 0, || true).due);
        cache.store(address, Answer { name: Some("a.test".into()), ttl: 9, failed: false }, 0);
        assert_eq!(cache.get(address, 1, || false).name.as_deref(), Some("a.test"));
        assert_eq!(cache.counters.entries(), 1);
    }
}
