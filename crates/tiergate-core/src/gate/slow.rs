//! Slow clients, and those that have left: requests that hold a slot and make no use of it.
//!
//! A client that sends its body, or takes its answer, a byte at a time holds a slot for as long as it likes, and
//! a few dozen of them hold all. The owner of a slot says when its client has become too slow
//! ([`Gate::slows`]). Beyond a share of the slots ([`Spec::slow_slots_max`]) such requests are ended as soon
//! as others wait: the least important class first, and of that the client that has been slow for longest. (The youngest
//! would lose least, but that is the client that stumbles for a moment beside others who are slow for ever.)
//! While nobody waits, they are let be: ending them would serve no one. Those of the background end once they have long kept all others of it waiting. Those that hold a slot of a resource may hold the same share of its
//! slots, and end as soon as others wait for it.
//!
//! A request whose client has left holds its slot until the origin is done. One that takes so long that it
//! likely never ends ([`Gate::overstays`]) shares the bound of the slow ones. Of a class it ends before them, since
//! no client waits for it at all; and the one that is named last first: an origin that does come to an end is done
//! with the others sooner, and how long they took tells how long to wait for the next
//! ([`Bounds`](crate::origin::Bounds)).
//!
//! [`Spec::slow_slots_max`]: crate::plan::Spec::slow_slots_max

use super::lent::Lends;
use super::pool::{Common, Pool};
use super::revocable::{Revocable, Which};
use super::wait::Chosen;
use super::{Gate, Slot};
use crate::time::Moment;

impl<T> Gate<T> {
    /// The client of the request in the slot is too slow. If the request is to end because of it, `wake` is
    /// handed back as an [`Effect::Wake`](super::Effect::Wake), [`Gate::is_to_end`] is true, and the slot is to come
    /// back soon. Nothing if it was said before. O(classes).
    pub fn slows(&mut self, now: Moment, slot: &mut Slot, wake: T) {
        let (now, pool, common) = self.at(now, slot.pool);
        if slot.lent().is_some_and(|(lends, _)| lends == Lends::Sends) {
            // One that has kept its place has its slot again: others of the background may wait for it, so that it may have to end.
            pool.resume(now, slot);
        }
        if slot.slow.is_none() && !slot.is_lent_beside() {
            slot.slow_beside = slot.is_beside();
            let (lane, slots) = (slot.lane.index(), slot.slots());
            slot.slow = Some(pool.slow_of(slot).add(lane, slots, wake));
            pool.advance(now);
            pool.reclaim(common, now);
        }
    }

    /// The client of the request in the slot has left, and the origin has worked on for longer than is usual. The rest
    /// as with [`Gate::slows`].
    pub fn overstays(&mut self, now: Moment, slot: &mut Slot, wake: T) {
        let (now, pool, common) = self.at(now, slot.pool);
        if slot.slow.is_none() && !slot.is_lent_beside() {
            slot.slow_beside = slot.is_beside();
            let (lane, slots) = (slot.lane.index(), slot.slots());
            slot.slow = Some(pool.slow_of(slot).add_oldest(lane, slots, wake));
            pool.advance(now);
            pool.reclaim(common, now);
        }
    }

    /// The client has become fast enough again, or has left; a request that was to end is not spared. O(1).
    pub fn quickens(&mut self, slot: &mut Slot) {
        if !self.is_to_end(slot)
            && let Some(key) = slot.slow.take()
        {
            self.pool_of_mut(slot.pool).slow_of(slot).remove(key);
        }
    }

    /// Whether the request in the slot is to end because its client is too slow, or has left.
    pub fn is_to_end(&self, slot: &Slot) -> bool {
        self.pool_of(slot.pool).is_ending(slot)
    }
}

impl<T> Pool<T> {
    /// Marks requests to be ended whose clients are slow or have left, for those that find no room: at most a slot
    /// for each that waits, or as many as the next one takes. O(classes) for each.
    pub(super) fn end_slow(&mut self, common: &mut Common<T>, next: &Chosen) {
        let share = f64::from(self.limit.slots()) * common.plan.slow_slots_max;
        let waiting = self.ready();
        while self.slow.unmarked() > share as u32
            && self.slow.marked() < waiting.max(u32::from(next.slots))
        {
            let classes = self.classes.ranked().iter().rev();
            let mut lanes = classes.flat_map(|class| self.lanes.of_class(*class));
            let least = lanes.find(|lane| self.slow.has(lane.index()));
            let Some(wake) = least.and_then(|lane| self.slow.mark(lane.index(), Which::Oldest))
            else {
                return;
            };
            common.effects.wake(wake);
        }
    }

    /// Whether it was said of the slot that the request is to end because of its client.
    pub(super) fn is_ending(&self, slot: &Slot) -> bool {
        let slow = if slot.slow_beside { &self.slow_beside } else { &self.slow };
        slot.slow.is_some_and(|key| slow.is_marked(key))
    }

    /// Where the slot is named while its client is slow or has left.
    pub(super) fn slow_of(&mut self, slot: &Slot) -> &mut Revocable<T> {
        if slot.slow_beside { &mut self.slow_beside } else { &mut self.slow }
    }

    /// Marks one of the background to be ended, if those in progress have long kept all others of it waiting. One at a time. O(lanes of the background).
    pub(super) fn end_slow_of_background(&mut self, common: &mut Common<T>, now: Moment) {
        if self.slow.is_empty() && self.slow_beside.is_empty() {
            return;
        }
        let Some(background) = self.background.as_ref().filter(|it| it.is_stuck(now)) else {
            return;
        };
        let lanes = || background.lanes.iter().map(|lane| lane.index());
        let marked = |lane: usize| self.slow.marked_of(lane) + self.slow_beside.marked_of(lane);
        let waits = background.lanes.iter().any(|lane| self.lanes.at(*lane).waiting > 0);
        if !waits || lanes().any(|lane| marked(lane) > 0) {
            return;
        }
        let wake = lanes().rev().find_map(|lane| {
            let beside = self.slow_beside.mark(lane, Which::Oldest);
            beside.or_else(|| self.slow.mark(lane, Which::Oldest))
        });
        wake.into_iter().for_each(|wake| common.effects.wake(wake));
    }

    /// The same of each resource that requests wait for: they hold the part of its slots that they may hold of the pool's.
    pub(super) fn end_slow_at_resources(&mut self, common: &mut Common<T>) {
        if self.slow.is_empty() {
            return;
        }
        for resource in self.resources.iter().filter(|it| it.holds_up_any()) {
            let share = f64::from(resource.limit.slots()) * common.plan.slow_slots_max;
            let lanes = || resource.lanes.iter().map(|lane| lane.index());
            let mut unmarked: u32 = lanes().map(|lane| self.slow.unmarked_of(lane)).sum();
            // Requests, though it counts slots of the pool: no more of them are ended than wait.
            let mut marked: u32 = lanes().map(|lane| self.slow.marked_of(lane)).sum();
            while unmarked > share as u32 && marked < resource.waiting {
                let with_any = resource.lanes.iter().filter(|lane| self.slow.has(lane.index()));
                let least =
                    with_any.max_by_key(|lane| self.classes.rank(self.lanes.at(**lane).class));
                let Some(wake) = least.and_then(|lane| self.slow.mark(lane.index(), Which::Oldest))
                else {
                    break;
                };
                common.effects.wake(wake);
                (unmarked, marked) = (unmarked - 1, marked + 1);
            }
        }
    }
}
