//! Slots that may be taken back before their requests have ended, by class, and those that are being given
//! back: because their requests are preemptible, or because their clients are too slow or have left.

use crate::collections::{Key, List, Slab, grown};
use crate::names::ClassId;

/// One slot that may be taken back.
#[derive(Debug)]
struct Entry<T> {
    class: ClassId,
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

/// What is known of one class.
#[derive(Clone, Copy, Debug, Default)]
struct OfClass {
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
    /// By class id.
    classes: Vec<OfClass>,
}

impl<T> Revocable<T> {
    pub(super) fn new() -> Self {
        Revocable { slab: Slab::default(), unmarked: 0, classes: Vec::new() }
    }

    /// Makes room for a class.
    pub(super) fn make_room(&mut self, class: ClassId) {
        grown(&mut self.classes, class.index());
    }

    /// Names a slot, as the youngest. O(1). Bounded by the slots.
    pub(super) fn add(&mut self, class: ClassId, slots: u16, wake: T) -> Key {
        let key = self.insert(class, slots, wake);
        self.slab.append(&mut self.classes[class.index()].unmarked, key.index());
        key
    }

    /// The same, as the oldest.
    pub(super) fn add_oldest(&mut self, class: ClassId, slots: u16, wake: T) -> Key {
        let key = self.insert(class, slots, wake);
        self.slab.prepend(&mut self.classes[class.index()].unmarked, key.index());
        key
    }

    fn insert(&mut self, class: ClassId, slots: u16, wake: T) -> Key {
        self.unmarked += 1;
        self.slab.insert(Entry { class, slots, wake: Some(wake) })
    }

    /// The slot is back, or may not be taken back any more. O(1).
    pub(super) fn remove(&mut self, key: Key) {
        let entry = &self.slab[key.index()];
        let of_class = &mut self.classes[entry.class.index()];
        match entry.wake {
            Some(_) => {
                self.slab.unlink(&mut of_class.unmarked, key.index());
                self.unmarked -= 1;
            }
            None => of_class.marked -= u32::from(entry.slots),
        }
        self.slab.remove(key.index());
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

    /// Marks one of the class, the one that was named last or first. Returns what wakes its owner; `None` if
    /// the class has none.
    pub(super) fn mark(&mut self, class: ClassId, which: Which) -> Option<T> {
        let of_class = &mut self.classes[class.index()];
        let chosen = match which {
            Which::Youngest => of_class.unmarked.last()?,
            Which::Oldest => of_class.unmarked.first()?,
        };
        self.slab.unlink(&mut of_class.unmarked, chosen);
        self.unmarked -= 1;
        let entry = &mut self.slab[chosen];
        of_class.marked += u32::from(entry.slots);
        entry.wake.take()
    }

    /// Whether a slot of the class could be marked.
    pub(super) fn has(&self, class: ClassId) -> bool {
        self.classes[class.index()].unmarked.len() > 0
    }

    /// How many slots the youngest request of the class that could be marked holds.
    pub(super) fn youngest(&self, class: ClassId) -> Option<u32> {
        let youngest = self.classes[class.index()].unmarked.last()?;
        Some(u32::from(self.slab[youngest].slots))
    }

    /// Slots of the class that are marked and not back.
    pub(super) fn marked_of(&self, class: ClassId) -> u32 {
        self.classes[class.index()].marked
    }

    /// Slots of all classes that are marked and not back.
    pub(super) fn marked(&self) -> u32 {
        self.classes.iter().map(|of_class| of_class.marked).sum()
    }
}
