//! The copies, with their bounds.

use super::context::Context;
use super::copy::Copy;
use crate::budget::Budget;
use crate::tally::Tally;
use moka::Expiry;
use moka::ops::compute::Op;
use moka::sync::Cache;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use tiergate_core::request::Field;
use tiergate_core::stored::{Room, room};
use tiergate_core::time::Moment;

/// Most copies of one target, told apart by `Vary`, scheme and pool.
pub(super) const VARIANTS_MAX: usize = 8;
/// How many epochs there are; targets share them by a hash that is another in each process. One that is shared costs a copy that is not kept,
/// or not served at the end of a wait, nothing else.
const EPOCHS: usize = 1 << 16;
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
    /// How often copies of a target went because they were no longer true.
    pub dropped: Tally,
    /// Bytes of copies that are being made.
    pub making: Arc<Budget>,
    /// Bytes of copies that anyone has: the store, or a request that found it there.
    pub live: Arc<Budget>,
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
    /// Clients cannot tell which targets share an epoch.
    hasher: RandomState,
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
            hasher: RandomState::new(),
            counters,
        }
    }

    /// How many targets there are copies of, and the bytes that they take.
    pub fn size(&self) -> (u64, u64) {
        self.copies.run_pending_tasks();
        (self.copies.entry_count(), self.copies.weighted_size())
    }

    /// The latest copy for a request with these fields, however old; it counts as asked for.
    pub(super) fn find(
        &self,
        key: &Key,
        context: &Context,
        fields: &[Field<'_>],
    ) -> Option<Arc<Copy>> {
        let copies = self.copies.get(key)?;
        let copy = copies.iter().rev().find(|copy| copy.is_for(context, fields))?;
        copy.hits.fetch_add(1, Ordering::Relaxed);
        Some(copy.clone())
    }

    /// Keeps a copy, in place of one for the same requests; unless its target has changed since `epoch` was read, every other copy of the
    /// target is in use, or the memory is.
    pub(super) fn keep(&self, key: &Key, mut copy: Copy, epoch: u32, now: Moment) {
        // What was evicted lives on in the requests that found it.
        let live_max = self.bounds.bytes_max.saturating_sub(self.counters.making.used());
        let take = || self.counters.live.take(copy.weight(), live_max);
        let live = take().or_else(|| {
            // What was evicted may still be there.
            self.copies.run_pending_tasks();
            take()
        });
        if live.is_none() {
            return;
        }
        copy.live = live;
        let mut was_put = false;
        let _ = self.copies.entry_by_ref(key).and_compute_with(|known| {
            if self.epoch(key) != epoch {
                return Op::Nop;
            }
            let known = known.map(moka::Entry::into_value);
            let known = known.iter().flat_map(|known| known.iter());
            let (replaced, mut copies): (Vec<_>, Vec<_>) = known
                .filter(|it| !it.is_over(now))
                .cloned()
                .partition(|it| it.is_replaced_by(&copy));
            let hits = |it: &Arc<Copy>| it.hits.load(Ordering::Relaxed);
            if copies.len() >= VARIANTS_MAX {
                match room(copies.iter().map(hits)) {
                    Room::InPlaceOf(place) => drop(copies.remove(place)),
                    Room::None => return Op::Nop,
                }
            }
            // What was asked for long ago counts less and less.
            copy.hits = replaced.iter().map(hits).max().map_or(0, |hits| hits / 2).into();
            copies.push(Arc::new(copy));
            self.counters.kept.one();
            was_put = true;
            Op::Put(copies.into())
        });
        // A change that came between the look at the epoch and the put found nothing to remove.
        if was_put && self.epoch(key) != epoch {
            self.copies.invalidate(key);
        }
        // Else what was put in counts only later, and the bound would not hold meanwhile.
        self.copies.run_pending_tasks();
    }

    /// The target has changed: drops every copy of it, those that are being made, and those that requests have found and wait with.
    pub(super) fn change(&self, key: &Key) {
        self.epochs[self.epoch_place(key)].fetch_add(1, Ordering::SeqCst);
        if let Some(copies) = self.copies.remove(key) {
            copies.iter().for_each(|copy| copy.drop_for_all());
            self.counters.dropped.one();
        }
    }

    /// What requests like this one get is no longer true: drops the copies that they would have got.
    pub(super) fn drop_copies_for(&self, key: &Key, context: &Context, fields: &[Field<'_>]) {
        if !self.copies.contains_key(key) {
            return;
        }
        let _ = self.copies.entry_by_ref(key).and_compute_with(|known| {
            let Some(known) = known.map(moka::Entry::into_value) else { return Op::Nop };
            let (gone, left): (Vec<_>, Vec<_>) =
                known.iter().cloned().partition(|copy| copy.is_for(context, fields));
            if gone.is_empty() {
                return Op::Nop;
            }
            gone.iter().for_each(|copy| copy.drop_for_all());
            self.counters.dropped.one();
            if left.is_empty() { Op::Remove } else { Op::Put(left.into()) }
        });
    }

    /// Changes when the target does.
    pub(super) fn epoch(&self, key: &Key) -> u32 {
        self.epochs[self.epoch_place(key)].load(Ordering::SeqCst)
    }

    fn epoch_place(&self, key: &Key) -> usize {
        self.hasher.hash_one(&**key) as usize % EPOCHS
    }
}
