//! A request goes to another server than the one whose slot it has: a retry, where each server has a limit of its own.
//!
//! It gives its slot back first, since two that each wait for the other's would wait for ever, and gets the next that is free at another
//! server, before any that waits for its first and is of no more important class: it has had its turn. So no server works on more than it
//! has slots. The server that it leaves gets one request at a time until one is answered.

use super::pool::{Common, Pool};
use super::transfers::{Granted, Transfer, Transfers};
use super::{Gate, Holds, Slot};
use crate::collections::Key;
use crate::names::ServerId;
use crate::time::Moment;

/// So many that wait are looked at, the oldest, for one that may have a free slot.
const LOOKED_AT: usize = 64;

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
            if slot.server().is_some_and(|server| not_at.contains(&server)) {
                self.limit.doubt(slot.seat());
            }
            if !slot.is_beside() {
                self.limit.lend(now, slot.seat(), slots);
            }
            self.lends_resource(now, slot.lane);
            *self.classes.load_mut(slot.class).held(slot.is_beside()) -= u32::from(slots);
        }
        let (lane, wake, granted) = (slot.lane, Some(wake), None);
        let not_at = not_at.into();
        let transfer = Transfer { lane, slots, since: now, not_at, wake, granted };
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

    /// Gives free slots to those that wait for one of another server, as long as no request of a more important class is next. O(1) where
    /// none waits.
    #[inline]
    pub(super) fn serve_transfers(&mut self, common: &mut Common<T>, now: Moment) {
        while self.transfers.waiting.first().is_some() && self.serve_transfer(common, now) {}
    }

    /// Gives slots to the most important of the oldest, of equals the oldest. Whether there was any that may have them. O(servers) for
    /// each that is looked at.
    #[cold]
    fn serve_transfer(&mut self, common: &mut Common<T>, now: Moment) -> bool {
        if !self.limit.has_free() {
            return false;
        }
        let rank = |transfer: &Transfer<T>| self.classes.rank(self.lanes.at(transfer.lane).class);
        let mut best: Option<(usize, u32)> = None;
        let mut at = self.transfers.waiting.first();
        for _ in 0..LOOKED_AT {
            let Some(index) = at else { break };
            let transfer = &self.transfers.all[index];
            let rank = rank(transfer);
            if best.is_none_or(|(best, _)| rank < best)
                && self.has_resource(transfer.lane)
                && self.limit.fits_elsewhere(transfer.slots, &transfer.not_at)
            {
                best = Some((rank, index));
            }
            at = self.transfers.all.next(index);
        }
        let Some((rank, index)) = best else { return false };
        if self.ready() > 0 && self.next(now).is_some_and(|next| !next.is_over && next.rank < rank)
        {
            return false;
        }
        let transfer = &self.transfers.all[index];
        let (lane, slots) = (transfer.lane, transfer.slots);
        let seat = self.limit.grant_elsewhere(now, slots, &transfer.not_at);
        let seat = seat.expect("just looked");
        let class = self.lanes.at(lane).class;
        self.classes.load_mut(class).running += u32::from(slots);
        let (found, lineup) = (self.limit.running_at(seat), self.lineup);
        let found_there = self.takes_resource(now, lane);
        let Transfers { all, waiting, .. } = &mut self.transfers;
        all.unlink(waiting, index);
        let transfer = &mut all[index];
        transfer.granted = Some(Granted { at: now, seat, found, found_there, lineup });
        transfer.wake.take().into_iter().for_each(|wake| common.effects.wake(wake));
        true
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
