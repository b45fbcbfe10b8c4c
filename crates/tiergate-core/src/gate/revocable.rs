//! Slots that may be taken back before their requests have ended, by group (a class, or a lane), and those that are being given
//! back: because their requests are preemptible, or because their clients are too slow or have left.

use crate::collections::{Key, List, Slab, grown};

/// One slot that may be taken back.
#[derive(Debug)]
struct Entry<T> {
    group: usize,
    slots: u16,
    /// Gone once it has been marked.
    wake: Option<T>,
}

/// Which of several slots is taken back.
#[derive(Clone, Copy, Debug)]
pub(super) enum Which {
    /// The one that was named last.
    Youngest,
    /// The one that was named first, or as the oldest.
    Oldest,
}

/// What is known of one group.
#[derive(Clone, Copy, Debug, Default)]
struct OfGroup {
    /// Those that are not marked, the oldest first.
    unmarked: List,
    /// Slots that are marked and not back.
    marked: u32,
}

/// The slots that may be taken back for one reason.
#[derive(Debug)]
pub(super) struct Revocable<T> {
    slab: Slab<Entry<T>>,
    /// How many are not marked.
    unmarked: u32,
    /// Slots that are named, marked or not.
    slots: u32,
    /// By number.
    groups: Vec<OfGroup>,
}

impl<T> Revocable<T> {
    pub(super) fn new() -> Self {
        Revocable { slab: Slab::default(), unmarked: 0, slots: 0, groups: Vec::new() }
    }

    /// Makes room for a group.
    pub(super) fn make_room(&mut self, group: usize) {
        grown(&mut self.groups, group);
    }

    /// Names a slot, as the youngest. O(1). Bounded by the slots.
    pub(super) fn add(&mut self, group: usize, slots: u16, wake: T) -> Key {
        let key = self.insert(group, slots, wake);
        self.slab.append(&mut self.groups[group].unmarked, key.index());
        key
    }

    /// The same, as the oldest.
    pub(super) fn add_oldest(&mut self, group: usize, slots: u16, wake: T) -> Key {
        let key = self.insert(group, slots, wake);
        self.slab.prepend(&mut self.groups[group].unmarked, key.index());
        key
    }

    fn insert(&mut self, group: usize, slots: u16, wake: T) -> Key {
        self.unmarked += 1;
        self.slots += u32::from(slots);
        self.slab.insert(Entry { group, slots, wake: Some(wake) })
    }

    /// The slot is back, or may not be taken back any more. O(1).
    pub(super) fn remove(&mut self, key: Key) {
        let entry = &self.slab[key.index()];
        let of_group = &mut self.groups[entry.group];
        self.slots -= u32::from(entry.slots);
        match entry.wake {
            Some(_) => {
                self.slab.unlink(&mut of_group.unmarked, key.index());
                self.unmarked -= 1;
            }
            None => of_group.marked -= u32::from(entry.slots),
        }
        self.slab.remove(key.index());
    }

    /// How many slots are named. O(1).
    pub(super) fn slots(&self) -> u32 {
        self.slots
    }

    pub(super) fn is_marked(&self, key: Key) -> bool {
        self.slab[key.index()].wake.is_none()
    }

    /// Whether no slot could be marked. O(1).
    pub(super) fn is_empty(&self) -> bool {
        self.unmarked == 0
    }

    /// How many requests could be marked. O(1).
    pub(super) fn unmarked(&self) -> u32 {
        self.unmarked
    }

    /// Marks one of the group, the one that was named last or first. Returns what wakes its owner; `None` if
    /// the group has none.
    pub(super) fn mark(&mut self, group: usize, which: Which) -> Option<T> {
        let of_group = &mut self.groups[group];
        let chosen = match which {
            Which::Youngest => of_group.unmarked.last()?,
            Which::Oldest => of_group.unmarked.first()?,
        };
        self.slab.unlink(&mut of_group.unmarked, chosen);
        self.unmarked -= 1;
        let entry = &mut self.slab[chosen];
        of_group.marked += u32::from(entry.slots);
        entry.wake.take()
    }

    /// Whether a slot of the group could be marked.
    pub(super) fn has(&self, group: usize) -> bool {
        self.groups[group].unmarked.len() > 0
    }

    /// How many slots the youngest request of the group that could be marked holds.
    pub(super) fn youngest(&self, group: usize) -> Option<u32> {
        let youngest = self.groups[group].unmarked.last()?;
        Some(u32::from(self.slab[youngest].slots))
    }

    /// Slots of the group that are marked and not back.
    pub(super) fn marked_of(&self, group: usize) -> u32 {
        self.groups[group].marked
    }

    /// How many requests of the group could be marked.
    pub(super) fn unmarked_of(&self, group: usize) -> u32 {
        self.groups[group].unmarked.len()
    }

    /// Slots of all groups that are marked and not back.
    pub(super) fn marked(&self) -> u32 {
        self.groups.iter().map(|of_group| of_group.marked).sum()
    }
}
