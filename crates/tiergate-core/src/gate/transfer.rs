//! A request goes to another server than the one whose slot it has: a retry, where each server has a limit of its own.
//!
//! It gives its slot back first, since two that each wait for the other's would wait for ever, and gets the next that is free at another
//! server, before any that waits for its first: it has had its turn. So no server works on more than it has slots.

use super::pool::{Common, Pool};
use super::transfers::{Granted, Transfer, Transfers};
use super::{Gate, Holds, Slot};
use crate::collections::Key;
use crate::names::ServerId;
use crate::time::Moment;

impl<T> Gate<T> {
    /// The request in the slot is to go to another server than these: its slot is given back, and it gets one of another. `wake` is handed
    /// back by [`Effect::Wake`](super::Effect::Wake) when it has, which [`Gate::is_transferred`] tells. Does nothing
    /// where servers share a limit, or the slot is lent. O(waiting transfers + servers).
    pub fn transfer(&mut self, now: Moment, slot: &mut Slot, not_at: &[ServerId], wake: T) {
        let (now, pool, common) = self.at(now, slot.pool);
        if !pool.limit.is_per_server() || slot.transfer().is_some() || pool.holds_none(slot) {
            return;
        }
        pool.advance(now);
        pool.transfer(now, slot, not_at, wake);
        pool.dispatch(common, now);
    }

    /// Whether the request may go on: it has a slot of the server that [`Slot::server`] says, or needs none. O(1).
    pub fn is_transferred(&mut self, now: Moment, slot: &mut Slot) -> bool {
        let (_, pool, _) = self.at(now, slot.pool);
        pool.is_transferred(slot)
    }
}

impl<T> Pool<T> {
    /// Whether its slot is lent.
    fn holds_none(&self, slot: &Slot) -> bool {
        self.lent_since(slot).is_some() && !self.is_written_off(slot)
    }

    fn transfer(&mut self, now: Moment, slot: &mut Slot, not_at: &[ServerId], wake: T) {
        let slots = slot.grant.slots;
        if !self.is_written_off(slot) {
            self.overtaken.pauses(slot.place);
            self.limit.lend(now, slot.seat(), slots);
            self.lends_resource(now, slot.lane);
            self.classes.load_mut(slot.class).running -= u32::from(slots);
        }
        let (lane, wake, granted) = (slot.lane, Some(wake), None);
        let transfer = Transfer { lane, slots, not_at: not_at.into(), wake, granted };
        slot.holds = Holds::Transfer(self.transfers.add(transfer));
    }

    fn is_transferred(&mut self, slot: &mut Slot) -> bool {
        let Some(key) = slot.transfer() else { return true };
        let Some(granted) = self.transfers.all[key.index()].granted else { return false };
        self.transfers.remove(key);
        (slot.holds, slot.lineup) = (Holds::Slots(granted.seat), granted.lineup);
        (slot.found, slot.found_there) = (granted.found, granted.found_there);
        // Its time at the origin begins anew.
        slot.admitted = granted.at;
        if !self.is_written_off(slot) {
            self.overtaken.goes_on(granted.at, slot.place, granted.seat);
        }
        true
    }

    /// Gives free slots to those that wait for one of another server: before others, and the first of them first.
    #[inline]
    pub(super) fn serve_transfers(&mut self, common: &mut Common<T>, now: Moment) {
        if self.transfers.waiting.first().is_some() {
            self.serve_waiting_transfers(common, now);
        }
    }

    #[cold]
    fn serve_waiting_transfers(&mut self, common: &mut Common<T>, now: Moment) {
        while let Some(first) = self.transfers.waiting.first() {
            let transfer = &self.transfers.all[first];
            let (lane, slots) = (transfer.lane, transfer.slots);
            if !self.has_resource(lane) {
                return;
            }
            let Some(seat) = self.limit.grant_elsewhere(now, slots, &transfer.not_at) else {
                return;
            };
            let class = self.lanes.at(lane).class;
            self.classes.load_mut(class).running += u32::from(slots);
            let (found, lineup) = (self.limit.running_at(seat), self.lineup);
            let found_there = self.takes_resource(now, lane);
            let Transfers { all, waiting, .. } = &mut self.transfers;
            all.unlink(waiting, first);
            let transfer = &mut all[first];
            transfer.granted = Some(Granted { at: now, seat, found, found_there, lineup });
            transfer.wake.take().into_iter().for_each(|wake| common.effects.wake(wake));
        }
    }

    /// The request ends while it waits for a slot of another server, or before it knows that it has one. Whether it does.
    #[inline]
    pub(super) fn gives_up_transfer(&mut self, slot: &mut Slot) -> bool {
        let transfer = slot.transfer();
        transfer.into_iter().for_each(|key| self.drop_transfer(key, slot));
        transfer.is_some()
    }

    #[cold]
    fn drop_transfer(&mut self, key: Key, slot: &mut Slot) {
        slot.holds = Holds::Slots(None);
        let Transfer { lane, slots, granted, .. } = self.transfers.remove(key);
        if let Some(Granted { seat, lineup, .. }) = granted
            && lineup == self.lineup
        {
            self.limit.take_back(seat, slots);
            self.gives_resource(lane);
            let class = self.lanes.at(lane).class;
            self.classes.load_mut(class).running -= u32::from(slots);
        }
    }
}
