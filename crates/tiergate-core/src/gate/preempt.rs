//! Preemption: a running request of a preemptible class is cancelled for a waiting one of a class
//! above, when no slot is free.
//!
//! The gate cannot end a request; it marks a slot and hands back the waker that the slot's owner left
//! ([`Gate::permit_preemption`]). The owner ends the request and gives the slot back with
//! [`crate::outcome::End::Preempted`]. At most so many slots are being given back at a time as are
//! waited for above, and no class is preempted below what it is guaranteed, rounded up to whole slots.
//!
//! Source: issue 5; the youngest is preempted since least of its work is lost.

use super::pool::{Common, Pool};
use super::revocable::Which;
use super::wait::Chosen;
use super::{Gate, Slot};
use crate::time::Moment;

impl<T> Gate<T> {
    /// Says that the request in the slot is safe to repeat and may be preempted by a more important
    /// one: `wake` is then handed back as an [`Effect::Wake`](super::Effect::Wake), [`Gate::is_preempted`] is true, and the
    /// slot is to come back soon, with [`crate::outcome::End::Preempted`]. `false`, and nothing
    /// noted, where the class is not preemptible or it was said before. O(1) and a look at who waits.
    pub fn permit_preemption(&mut self, now: Moment, slot: &mut Slot, wake: T) -> bool {
        let (now, pool, common) = self.at(now, slot.pool);
        let class = slot.class;
        let is_settled = slot.preemptible.is_some() || slot.is_beside();
        if !pool.classes.at(class).settings.preemptible || is_settled {
            return false;
        }
        slot.preemptible = Some(pool.preemptible.add(class.index(), slot.slots(), wake));
        pool.advance(now);
        pool.reclaim(common, now);
        true
    }

    /// Takes back what [`Gate::permit_preemption`] said: the request goes on to its end, because its
    /// answer has begun. If it was to be preempted, another one is. O(classes).
    pub fn forbid_preemption(&mut self, now: Moment, slot: &mut Slot) {
        let (now, pool, common) = self.at(now, slot.pool);
        if let Some(key) = slot.preemptible.take() {
            pool.preemptible.remove(key);
            pool.advance(now);
            pool.reclaim(common, now);
        }
    }

    /// Whether the gate wants the slot back for a more important request.
    pub fn is_preempted(&self, slot: &Slot) -> bool {
        let preemptible = &self.pool_of(slot.pool).preemptible;
        slot.preemptible.is_some_and(|key| preemptible.is_marked(key))
    }
}

impl<T> Pool<T> {
    /// Takes back slots for the next request, if it finds no room. O(classes); nothing where no slot may be
    /// taken back.
    pub(super) fn reclaim(&mut self, common: &mut Common<T>, now: Moment) {
        if self.backlog.len() == 0 {
            return;
        }
        self.end_slow_of_background(common, now);
        if self.preemptible.is_empty() && self.slow.is_empty() {
            return;
        }
        self.end_slow_at_resources(common);
        if self.ready() == 0 {
            return;
        }
        // Who takes the place of one whose time is over is known at the tick that is due.
        if let Some(next) = self.next(now)
            && !next.is_over
            && !self.limit.fits(next.slots)
        {
            self.end_slow(common, &next);
            self.preempt(common, &next);
        }
    }

    /// Marks a slot to be preempted if the next request is of a class above one that has such a slot.
    fn preempt(&mut self, common: &mut Common<T>, &Chosen { rank, .. }: &Chosen) {
        let above: u32 = self.classes.loads()[..=rank].iter().map(|load| load.waiting).sum();
        if self.preemptible.marked() >= above {
            return;
        }
        let mut below = (rank + 1..self.classes.loads().len()).rev();
        if let Some(victim) = below.find(|&victim| self.may_give(victim, rank))
            && let Some(wake) =
                self.preemptible.mark(self.classes.of_rank(victim).index(), Which::Youngest)
        {
            common.effects.wake(wake);
        }
    }

    /// Whether the youngest request of the class can be preempted for one of a class above. Those that are being ended hold
    /// nothing any more.
    fn may_give(&self, rank: usize, to: usize) -> bool {
        let Some(slots) = self.preemptible.youngest(self.classes.of_rank(rank).index()) else {
            return false;
        };
        let loads = self.classes.loads();
        let left = |other: usize| {
            let marked = self.preemptible.marked_of(self.classes.of_rank(other).index());
            let held = loads[other].running.saturating_sub(marked);
            if other == rank { held.saturating_sub(slots) } else { held }
        };
        self.schedule.may_give(rank, to, loads, self.limit.slots(), left)
    }
}
