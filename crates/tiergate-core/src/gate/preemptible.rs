//! The slots that may be preempted, by class, and those that are being given back.

use crate::class::ClassId;
use crate::collections::{Key, List, Slab};

/// One slot whose owner permits its preemption.
#[derive(Debug)]
struct Entry<T> {
    class: ClassId,
    slots: u16,
    /// Gone once it has been marked.
    wake: Option<T>,
}

/// What is known of one class.
#[derive(Clone, Copy, Debug, Default)]
struct OfClass {
    /// Those that are not marked, in the order in which they were named.
    unmarked: List,
    /// Slots that are marked and not back.
    marked: u32,
}

/// The preemptible slots.
#[derive(Debug)]
pub(super) struct Preemptible<T> {
    slab: Slab<Entry<T>>,
    /// How many are not marked.
    unmarked: u32,
    classes: Vec<OfClass>,
}

impl<T> Preemptible<T> {
    pub(super) fn new(classes: usize) -> Self {
        let classes = vec![OfClass::default(); classes];
        Preemptible { slab: Slab::default(), unmarked: 0, classes }
    }

    /// Names a slot. O(1). Bounded by the slots.
    pub(super) fn add(&mut self, class: ClassId, slots: u16, wake: T) -> Key {
        let key = self.slab.insert(Entry { class, slots, wake: Some(wake) });
        self.slab.append(&mut self.classes[class.index()].unmarked, key.index());
        self.unmarked += 1;
        key
    }

    /// The slot is back, or may not be preempted any more. O(1).
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

    /// Marks the youngest of the class. Returns what wakes its owner; `None` if the class has none.
    pub(super) fn mark(&mut self, class: ClassId) -> Option<T> {
        let of_class = &mut self.classes[class.index()];
        let youngest = of_class.unmarked.last()?;
        self.slab.unlink(&mut of_class.unmarked, youngest);
        self.unmarked -= 1;
        let entry = &mut self.slab[youngest];
        of_class.marked += u32::from(entry.slots);
        entry.wake.take()
    }

    /// Whether a slot of the class could be marked.
    pub(super) fn has(&self, class: ClassId) -> bool {
        self.classes[class.index()].unmarked.len() > 0
    }

    /// Slots of the class that are marked and not back.
    pub(super) fn marked_of(&self, class: ClassId) -> u32 {
        self.classes[class.index()].marked
    }

    /// Slots of all classes that are marked and not back.
    pub(super) fn marked(&self) -> u32 {
        self.classes.iter().map(|of_class| of_class.marked).sum()
    }

    /// Another plan is in force; of a class that others join, its own order is kept and theirs follows.
    pub(super) fn reclass(&mut self, classes: usize, moved: &[ClassId]) {
        let former = std::mem::replace(&mut self.classes, vec![OfClass::default(); classes]);
        for (old, &new) in former.iter().zip(moved) {
            let of_class = &mut self.classes[new.index()];
            of_class.marked += old.marked;
            let unmarked: Vec<u32> = self.slab.list(&old.unmarked).collect();
            for index in unmarked {
                self.slab.append(&mut of_class.unmarked, index);
            }
        }
        // Marked ones are in no list, but give their slots back to a class.
        for (_, entry) in self.slab.iter_mut() {
            entry.class = moved[entry.class.index()];
        }
    }
}
