//! Preemption: a running request of a preemptible class is cancelled for a waiting one of a class
//! above, when no slot is free.
//!
//! The gate cannot end a request; it marks a slot and hands back the waker that the slot's owner left
//! ([`Gate::permit_preemption`]). The owner ends the request and gives the slot back with
//! [`crate::outcome::End::Preempted`]. At most so many slots are being given back at a time as are
//! waited for above, and no class is preempted below what it is guaranteed.
//!
//! Source: issue 5; the youngest is preempted since least of its work is lost.

use super::wait::Chosen;
use super::{Gate, Slot};
use crate::names::ClassId;
use crate::time::Moment;

const NONE: u32 = u32::MAX;

/// One slot whose owner permits its preemption.
#[derive(Debug)]
struct Entry<T> {
    class: ClassId,
    slots: u16,
    /// Gone once it has been marked.
    wake: Option<T>,
    previous: u32,
    next: u32,
}

/// The preemptible slots: by class, in the order in which they were named.
#[derive(Debug)]
pub(super) struct Preemptible<T> {
    slab: Vec<Entry<T>>,
    free: u32,
    /// How many are not marked.
    unmarked: u32,
    /// By class: the youngest that is not marked.
    youngest: Vec<u32>,
    /// By class: slots that are marked and not back.
    marked: Vec<u32>,
}

impl<T> Preemptible<T> {
    pub(super) fn new() -> Self {
        Preemptible {
            slab: Vec::new(),
            free: NONE,
            unmarked: 0,
            youngest: Vec::new(),
            marked: Vec::new(),
        }
    }

    /// Makes room for so many class ids.
    pub(super) fn make_room(&mut self, classes: usize) {
        self.youngest.resize(classes.max(self.youngest.len()), NONE);
        self.marked.resize(self.youngest.len(), 0);
    }

    /// O(1). Bounded by the slots.
    fn add(&mut self, class: ClassId, slots: u16, wake: T) -> u32 {
        let previous = self.youngest[class.index()];
        let entry = Entry { class, slots, wake: Some(wake), previous, next: NONE };
        let place = match self.free {
            NONE => {
                self.slab.push(entry);
                self.slab.len() as u32 - 1
            }
            place => {
                self.free = self.slab[place as usize].next;
                self.slab[place as usize] = entry;
                place
            }
        };
        if previous != NONE {
            self.slab[previous as usize].next = place;
        }
        self.youngest[class.index()] = place;
        self.unmarked += 1;
        place
    }

    fn unlink(&mut self, place: u32) {
        self.unmarked -= 1;
        let Entry { class, previous, next, .. } = self.slab[place as usize];
        if previous != NONE {
            self.slab[previous as usize].next = next;
        }
        match next {
            NONE => self.youngest[class.index()] = previous,
            next => self.slab[next as usize].previous = previous,
        }
    }

    /// The slot is back. O(1).
    pub(super) fn remove(&mut self, place: u32) {
        let entry = &mut self.slab[place as usize];
        match entry.wake.take() {
            Some(_) => self.unlink(place),
            None => self.marked[entry.class.index()] -= u32::from(entry.slots),
        }
        self.slab[place as usize].next = self.free;
        self.free = place;
    }

    fn is_marked(&self, place: u32) -> bool {
        self.slab[place as usize].wake.is_none()
    }

    /// Marks the youngest of the class. Returns what wakes its owner.
    fn mark(&mut self, class: ClassId) -> Option<T> {
        let place = self.youngest[class.index()];
        if place == NONE {
            return None;
        }
        self.unlink(place);
        let entry = &mut self.slab[place as usize];
        self.marked[class.index()] += u32::from(entry.slots);
        entry.wake.take()
    }

    /// Slots of all classes that are marked and not back.
    fn marked(&self) -> u32 {
        self.marked.iter().sum()
    }
}

impl<T> Gate<T> {
    /// Says that the request in the slot is safe to repeat and may be broken off for a more important
    /// one: `wake` is then handed back by [`Gate::next_wake`], [`Gate::is_preempted`] is true, and the
    /// slot is to come back soon, with [`crate::outcome::End::Preempted`]. `false`, and nothing
    /// noted, where the class is not preemptible or it was said before. O(1) and a look at who waits.
    pub fn permit_preemption(&mut self, now: Moment, slot: &mut Slot, wake: T) -> bool {
        let class = slot.class;
        if !self.classes.at(class).settings.preemptible || slot.preemptible != NONE {
            return false;
        }
        slot.preemptible = self.preemptible.add(class, slot.slots(), wake);
        self.advance(now);
        self.preempt(now);
        true
    }

    /// Takes back what [`Gate::permit_preemption`] said: the request goes on to its end, because its
    /// answer has begun. If it was to be preempted, another one is. O(classes).
    pub fn forbid_preemption(&mut self, now: Moment, slot: &mut Slot) {
        if slot.preemptible != NONE {
            self.preemptible.remove(slot.preemptible);
            slot.preemptible = NONE;
            self.advance(now);
            self.preempt(now);
        }
    }

    /// Marks a slot to be preempted if the next request finds no room and is of a class above one that has
    /// such a slot. O(classes); nothing where no slot is preemptible.
    pub(super) fn preempt(&mut self, now: Moment) {
        if self.preemptible.unmarked == 0 || self.backlog.len() == 0 {
            return;
        }
        let Some(Chosen { rank, slots, .. }) = self.next(now) else {
            return;
        };
        if self.fits(slots) {
            return;
        }
        let above: u32 = self.classes.loads()[..=rank].iter().map(|load| load.waiting).sum();
        if self.preemptible.marked() >= above {
            return;
        }
        let victim = (rank + 1..self.classes.loads().len()).rev().find_map(|rank| {
            let victim = self.classes.of_rank(rank);
            let has_any = self.preemptible.youngest[victim.index()] != NONE;
            (has_any && self.may_break_into(rank, victim)).then_some(victim)
        });
        if let Some(victim) = victim
            && let Some(wake) = self.preemptible.mark(victim)
        {
            self.wakes.push(wake);
        }
    }

    /// Whether the class holds more than it is sure of, those that are to be given back left out: what it
    /// is sure of it would ask back at once.
    fn may_break_into(&self, rank: usize, class: ClassId) -> bool {
        let sure = self.schedule.sure(rank) * f64::from(self.limit.slots());
        let running = self.classes.loads()[rank].running;
        let held = running.saturating_sub(self.preemptible.marked[class.index()]);
        f64::from(held) > sure
    }

    /// Whether the gate wants the slot back for a more important request.
    pub fn is_preempted(&self, slot: &Slot) -> bool {
        slot.preemptible != NONE && self.preemptible.is_marked(slot.preemptible)
    }
}

impl Slot {
    pub(super) const NOT_PREEMPTIBLE: u32 = NONE;
}
