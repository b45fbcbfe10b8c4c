//! Slots that are lent: while a request waits for nothing but its client, or once others have overtaken it (`overtaken`), its
//! slot goes to the next.
//!
//! A client that sends an upload, or takes a long answer, at the pace of its link makes the origin wait, and no limit that is
//! found by how much the origin gets done is right for such requests: a few would hold all slots of an origin that is idle, and
//! where none of them ends, nothing shows that there may be more. Clients that are slower than is worth a connection are
//! another matter (`slow`).
//!
//! Only where the limit is found while serving. A number that a policy gives is the most that may be in progress at the origin.
//!
//! A request that has sent all takes its slot back at once, also where none is free: it is at the origin already. So many could
//! come at once; therefore few of these are lent (`lent`).

use super::lent::Lends;
use super::pool::Pool;
use super::{Gate, Slot};
use crate::collections::Key;
use crate::control::{Completion, OriginLoad};
use crate::names::ClassId;
use crate::outcome::Outcome;
use crate::time::Moment;

impl<T> Gate<T> {
    /// The request in the slot waits for nothing but its client: the slot goes to the next, until [`Gate::takes_back`] or
    /// the end. `outcome`: how it will have ended as far as is known. `false`, and nothing done, where the limit is given, as
    /// many are lent as may be, or this one is. O(classes + log waiting).
    pub fn lend(&mut self, now: Moment, slot: &mut Slot, lends: Lends, outcome: &Outcome) -> bool {
        let (now, pool, common) = self.at(now, slot.pool);
        if slot.lent.is_some() || pool.overtaken.lent(slot.place).is_some() {
            return false;
        }
        if !pool.is_adaptive() || pool.is_written_off(slot) || !pool.lent.one_more(lends) {
            return false;
        }
        pool.lend(now, slot, lends, outcome);
        pool.dispatch(common, now);
        true
    }

    /// The request has been sent: the origin works on it, from now on. Nothing if its slot is not lent. O(classes).
    pub fn takes_back(&mut self, now: Moment, slot: &mut Slot) {
        let (now, pool, _) = self.at(now, slot.pool);
        pool.takes_back(now, slot);
    }

    /// How many slots are lent in the default pool.
    pub fn lent(&self) -> u32 {
        self.default_pool().lent()
    }
}

impl<T> Pool<T> {
    /// Slots that are lent.
    pub fn lent(&self) -> u32 {
        self.lent.all()
    }

    fn lend(&mut self, now: Moment, slot: &mut Slot, lends: Lends, outcome: &Outcome) {
        self.advance(now);
        let waiting = self.backlog.len() as u32;
        let load = OriginLoad { running: self.limit.running(), waiting };
        self.progressed(now);
        self.overtaken.pauses(slot.place);
        self.limit.lend(now, slot.grant.slots);
        self.classes.load_mut(slot.class).running -= u32::from(slot.grant.slots);
        slot.lent = Some((lends, now));
        if lends == Lends::Takes {
            // The origin has done its work but for the rest of the answer.
            let Slot { class, admitted, flow, found, .. } = *slot;
            self.completed(&Completion { now, class, flow, admitted, found, outcome, load });
        }
    }

    fn takes_back(&mut self, now: Moment, slot: &mut Slot) {
        if slot.lent.is_none() || !self.gives_up_lent(slot) {
            return;
        }
        self.advance(now);
        self.limit.grant(now, slot.grant.slots);
        self.progressed(now);
        self.classes.load_mut(slot.class).running += u32::from(slot.grant.slots);
        self.overtaken.goes_on(now, slot.place);
        // What the client took is neither a wait for a slot nor time at the origin.
        slot.arrived = slot.arrived + now.since(slot.admitted);
        (slot.admitted, slot.found) = (now, self.limit.running());
    }

    /// Since when the slot is lent, if it is.
    pub(super) fn lent_since(&self, slot: &Slot) -> Option<Moment> {
        slot.lent.map(|(_, since)| since).or_else(|| self.overtaken.lent(slot.place))
    }

    /// The slot is not lent any more. Whether it was.
    pub(super) fn gives_up_lent(&mut self, slot: &mut Slot) -> bool {
        let overtaken = self.overtaken.lent(slot.place).map(|_| Lends::Waits);
        let lends = slot.lent.take().map(|(lends, _)| lends).or(overtaken);
        let Some(lends) = lends.filter(|_| !self.is_written_off(slot)) else { return false };
        *self.lent.of(lends).0 -= 1;
        true
    }

    /// A request gets its slot. `None` where the limit is given, and nothing is lent.
    pub(super) fn begins(&mut self, now: Moment, class: ClassId, slots: u16) -> Option<Key> {
        self.is_adaptive().then(|| self.overtaken.begins(now, class, slots))
    }

    /// What a completion says of what is usual; slots of requests that it shows to be overtaken are lent. O(1), and O(1) for
    /// each that is lent.
    pub(super) fn overtakes(&mut self, completion: &Completion<'_>) {
        if !self.is_adaptive() || !completion.outcome.is_answer() {
            return;
        }
        let now = completion.now;
        self.overtaken.answered(completion, self.lent.of_waits() > 0);
        while let Some(oldest) = self.overtaken.overtaken(now) {
            if !self.lend_overtaken(now, oldest) {
                return;
            }
        }
    }

    /// When a slot is to be lent to see what happens, if nothing else does and others wait.
    pub(super) fn probe_due(&self) -> Moment {
        if !self.is_adaptive() || self.backlog.len() == 0 || self.limit.has_free() {
            return Moment::NEVER;
        }
        self.overtaken.probe_due(self.away_until, self.limit.slots())
    }

    /// Lends a slot if it is time.
    pub(super) fn probe(&mut self, now: Moment) {
        if now < self.probe_due() {
            return;
        }
        self.overtaken.probes(now);
        // The limit may have come down below what is in progress.
        while !self.limit.has_free()
            && let Some(oldest) = self.overtaken.oldest()
            && self.lend_overtaken(now, oldest)
        {}
    }

    fn lend_overtaken(&mut self, now: Moment, index: u32) -> bool {
        if !self.lent.one_more(Lends::Waits) {
            return false;
        }
        let (class, slots) = self.overtaken.lend(now, index);
        self.limit.lend(now, slots);
        self.classes.load_mut(class).running -= u32::from(slots);
        true
    }
}
