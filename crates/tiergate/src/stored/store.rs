//! The copies, with their bounds.

use super::context::Context;
use super::copy::Copy;
use crate::budget::Budget;
use crate::tally::Tally;
use moka::Expiry;
use moka::ops::compute::Op;
use moka::sync::Cache;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use tiergate_core::request::Field;
use tiergate_core::time::Moment;

/// Most copies of one target, told apart by `Vary`, scheme and pool. Beyond it the oldest goes.
pub(super) const VARIANTS_MAX: usize = 8;
/// How many epochs there are; targets share them by hash. One that is shared costs a copy that is not kept, nothing else.
const EPOCHS: usize = 1024;
/// What an entry of the cache takes beside its bytes, by measurement and rounded up.
const OVERHEAD: usize = 512;

/// Host and target of requests, as the origin gets them; the host in lower case.
pub(super) type Key = Arc<[u8]>;

/// The bounds of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreBounds {
    /// Bytes in all.
    pub bytes_max: usize,
    /// Bytes of a body, and of a head.
    pub body_max: usize,
}

/// What a store counts, over all that there were.
#[derive(Debug, Default)]
pub struct StoreCounters {
    /// Answers kept.
    pub kept: Tally,
    /// Targets that were changed, and whose copies went for it.
    pub dropped: Tally,
    /// Bytes of copies that are being made.
    pub making: Arc<Budget>,
    current: Mutex<Weak<Store>>,
}

impl StoreCounters {
    /// The store that is in use from now on.
    pub fn follow(&self, store: Option<&Arc<Store>>) {
        let store = store.map_or_else(Weak::new, Arc::downgrade);
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = store;
    }

    /// How many targets there are copies of, and the bytes that they take.
    pub fn size(&self) -> (u64, u64) {
        let store = self.current.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        store.map_or((0, 0), |store| store.size())
    }
}

/// Copies of answers.
#[derive(Debug)]
pub struct Store {
    /// Its bounds.
    pub bounds: StoreBounds,
    copies: Cache<Key, Variants>,
    epochs: Box<[AtomicU32]>,
    pub(super) counters: Arc<StoreCounters>,
}

/// The copies of one target, the oldest first.
type Variants = Arc<[Arc<Copy>]>;

/// Drops copies that nobody may get any more.
struct Expires;

impl Expiry<Key, Variants> for Expires {
    fn expire_after_create(&self, _: &Key, copies: &Variants, _: Instant) -> Option<Duration> {
        copies.iter().map(|copy| copy.lifetime).max()
    }

    fn expire_after_update(
        &self,
        _: &Key,
        copies: &Variants,
        _: Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        copies.iter().map(|copy| copy.lifetime).max()
    }
}

impl Store {
    /// An empty one.
    pub fn new(bounds: StoreBounds, counters: Arc<StoreCounters>) -> Self {
        let weigh = |key: &Key, copies: &Variants| {
            let bytes = copies.iter().map(|copy| copy.weight()).sum::<usize>();
            u32::try_from(bytes + key.len() + OVERHEAD).unwrap_or(u32::MAX)
        };
        // The rest is for those that are being made.
        let bytes_max = bounds.bytes_max - bounds.bytes_max / 4;
        let copies = Cache::builder().max_capacity(bytes_max as u64).weigher(weigh);
        Store {
            bounds,
            copies: copies.expire_after(Expires).build(),
            epochs: (0..EPOCHS).map(|_| AtomicU32::new(0)).collect(),
            counters,
        }
    }

    /// How many targets there are copies of, and the bytes that they take.
    pub fn size(&self) -> (u64, u64) {
        self.copies.run_pending_tasks();
        (self.copies.entry_count(), self.copies.weighted_size())
    }

    /// The latest copy for a request with these fields, however old.
    pub(super) fn find(
        &self,
        key: &Key,
        context: &Context,
        fields: &[Field<'_>],
    ) -> Option<Arc<Copy>> {
        let copies = self.copies.get(key)?;
        copies.iter().rev().find(|copy| copy.is_for(context, fields)).cloned()
    }

    /// Keeps a copy, in place of one for the same requests; unless its target has changed since `epoch` was read.
    pub(super) fn keep(&self, key: &Key, copy: Copy, epoch: u32, now: Moment) {
        let copy = Arc::new(copy);
        let _ = self.copies.entry_by_ref(key).and_compute_with(|known| {
            if self.epoch(key) != epoch {
                return Op::Nop;
            }
            let known = known.map(moka::Entry::into_value);
            let others = known.iter().flat_map(|known| known.iter());
            let others = others.filter(|it| !it.is_replaced_by(&copy) && !it.is_over(now));
            let mut copies: Vec<_> = others.cloned().collect();
            if copies.len() >= VARIANTS_MAX {
                copies.remove(0);
            }
            copies.push(copy);
            self.counters.kept.one();
            Op::Put(copies.into())
        });
        // A change that came between the look at the epoch and the put found nothing to remove.
        if self.epoch(key) != epoch {
            self.copies.invalidate(key);
        }
        // Else what was put in counts only later, and the bound would not hold meanwhile.
        self.copies.run_pending_tasks();
    }

    /// Drops every copy of a target, and those that are being made of it.
    pub(super) fn drop_copies(&self, key: &Key) {
        self.epochs[self.epoch_place(key)].fetch_add(1, Ordering::SeqCst);
        if self.copies.remove(key).is_some() {
            self.counters.dropped.one();
        }
    }

    /// Changes when the target does.
    pub(super) fn epoch(&self, key: &Key) -> u32 {
        self.epochs[self.epoch_place(key)].load(Ordering::SeqCst)
    }

    fn epoch_place(&self, key: &Key) -> usize {
        let hash = foldhash::fast::FixedState::default().hash_one(&**key);
        hash as usize % EPOCHS
    }
}
