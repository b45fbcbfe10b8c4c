//! Names by address: hash sets with a lock each.
//!
//! | state | written by | read by | lock |
//! |---|---|---|---|
//! | a set | requests (use), the resolver (answers) | requests | its own, held for at most 8 comparisons |
//! | number of places taken | the resolver, requests that file | a scrape | none |

use super::NameCounters;
use super::set::{Look, Said, Set, WAYS};
use foldhash::quality::RandomState;
use std::hash::BuildHasher;
use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Addresses and their names. Bounded: at most 64 bytes an address, and its name (at most 253 bytes, and
/// 16 for counting).
#[derive(Debug)]
pub(super) struct Cache {
    sets: Box<[Mutex<Set>]>,
    /// Keyed by the process: nobody can choose addresses that fall into the same set.
    hasher: RandomState,
    taken: AtomicUsize,
    counters: Arc<NameCounters>,
}

impl Cache {
    /// A cache of at most `entries_max` addresses, and of at least one set.
    pub(super) fn new(entries_max: usize, counters: Arc<NameCounters>) -> Self {
        let sets = (entries_max / WAYS).max(1);
        let sets = (0..sets).map(|_| Mutex::default()).collect();
        Cache { sets, hasher: RandomState::default(), taken: AtomicUsize::new(0), counters }
    }

    /// Addresses that are known or looked up.
    pub(super) fn len(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    fn one_more(&self) {
        self.taken.fetch_add(1, Ordering::Relaxed);
        self.counters.known.fetch_add(1, Ordering::Relaxed);
    }

    fn set(&self, address: Ipv6Addr) -> MutexGuard<'_, Set> {
        let place = self.hasher.hash_one(u128::from(address)) as usize % self.sets.len();
        self.sets[place].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of an address at second `now`. If a look-up is due, `file` is asked to file it,
    /// under the set's lock, so that no address is filed twice; it must not block.
    pub(super) fn look(&self, address: Ipv6Addr, now: u32, file: impl FnOnce() -> bool) -> Look {
        let mut set = self.set(address);
        let look = set.look(address, now);
        if look.wanted && file() && set.file(address, now) {
            self.one_more();
        }
        look
    }

    /// The look-up of an address has ended.
    pub(super) fn settle(&self, address: Ipv6Addr, said: Said, now: u32) {
        if self.set(address).settle(address, said, now) {
            self.one_more();
        }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.counters.known.fetch_sub(self.len() as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_no_more_than_it_may() {
        for (entries_max, least) in [(1, 8), (64, 64), (1000, 1000)] {
            let cache = Cache::new(entries_max, Arc::default());
            for number in 0..20_000u128 {
                let address = Ipv6Addr::from(number);
                assert!(cache.look(address, 0, || true).wanted);
                assert!(!cache.look(address, 0, || panic!("filed twice")).wanted);
            }
            assert_eq!(cache.len(), least, "{entries_max}");
        }
        let bytes = size_of::<Mutex<Set>>() / WAYS;
        assert!(bytes <= 64, "the documented bytes of an address: {bytes}");
    }

    #[test]
    fn what_was_not_filed_may_be_filed_later() {
        let cache = Cache::new(100, Arc::default());
        let address = Ipv6Addr::LOCALHOST;
        assert!(cache.look(address, 0, || false).wanted);
        assert_eq!(cache.len(), 0);
        assert!(cache.look(address, 0, || true).wanted);
        assert!(!cache.look(address, 0, || true).wanted);
        cache.settle(address, Said { name: Some("a.test".into()), ttl: 9, failed: false }, 0);
        assert_eq!(cache.look(address, 1, || false).name.as_deref(), Some("a.test"));
        assert_eq!(cache.len(), 1);
    }
}
