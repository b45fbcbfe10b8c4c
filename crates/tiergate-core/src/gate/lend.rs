//! Slots that are lent: while a request waits for nothing but its client, or once others have overtaken it (`overtaken`), its
//! slot goes to the next.
//!
//! A client that sends an upload, or takes a long answer, at the pace of its link makes the origin wait, and no limit that is
//! found by how much the origin gets done is right for such requests: a few would hold all slots of an origin that is idle, and
//! where none of them ends, nothing shows that there may be more. Clients that are slower than is worth a connection are
//! another matter (`slow`).
//!
//! Not while the origin refuses requests beyond a number: those whose slots are lent are in progress there, too.
//!
//! Only where the limit is found while serving, that of a resource that the request needs, too. A number that a policy gives is the most that may be in progress at the origin.
//!
//! Of the background, too, if they wait for their clients or for the link: a download that takes hours would keep all others of it from
//! the origin, which has nothing to do for it. Few, as they hold connections that the others could need, and nobody sees what they do there.
//! An upload of it keeps its place within what the background may have beside the limit, as many origins give it a worker from its first byte on; that it
//! waits for its client is only not paid for.
//!
//! Any other upload whose slot is lent waits for one again before its end is sent, in its class's order ([`Gate::comes_back`]). Else
//! a client that ends many uploads at the same moment would have the origin work on all of them, whatever the limit and its
//! class.

use super::lent::Lends;
use super::pool::{Common, Pool};
use super::{Arrival, Gate, Holds, Slot, Ticket, Verdict};
use crate::collections::Key;
use crate::control::{Completion, OriginLoad, Seat};
use crate::names::LaneId;
use crate::outcome::Outcome;
use crate::time::Moment;

impl<T> Gate<T> {
    /// The request in the slot waits for nothing but its client: the slot goes to the next, until [`Gate::comes_back`] or
    /// the end. `outcome`: how it will have ended as far as is known. `false`, and nothing done, where the limit is given, as
    /// many are lent as may be, or this one is. O(classes + log waiting).
    pub fn lend(&mut self, now: Moment, slot: &mut Slot, lends: Lends, outcome: &Outcome) -> bool {
        let (now, pool, common) = self.at(now, slot.pool);
        if slot.lent().is_some() || pool.overtaken.lent(slot.place).is_some() {
            return false;
        }
        // It takes one of any server's when it comes back, and has been at one.
        if lends == Lends::Sends && pool.limit.is_per_server() {
            return false;
        }
        if !pool.may_lend(slot.lane, slot.seat()) || pool.is_written_off(slot) {
            return false;
        }
        let keeps_places = lends == Lends::Sends && slot.is_beside();
        let may_be = match pool.lanes.at(slot.lane).is_background {
            true if slot.is_beside() && pool.is_ending(slot) => false,
            // One that counts as slow is not paid for either, and could not be ended any more.
            true if keeps_places && slot.slow.is_some() => false,
            true => {
                let places = if keeps_places { u32::from(slot.grant.slots) } else { 0 };
                pool.lent.one_more_of_background(places, pool.limit.slots())
            }
            false => pool.lent.one_more(lends),
        };
        if !may_be {
            return false;
        }
        if slot.is_beside()
            && let Some(key) = slot.slow.take()
        {
            // To end it would make no room any more.
            pool.slow_of(slot).remove(key);
        }
        pool.lend(now, slot, lends, outcome);
        pool.dispatch(common, now);
        true
    }

    /// A background request does not wait for its client or the link any more, so that the origin works for it again: it is in progress,
    /// also beyond what may be. `false`, and nothing done, if it is none, or its slot is not lent. O(classes).
    pub fn resume(&mut self, now: Moment, slot: &mut Slot) -> bool {
        let (now, pool, common) = self.at(now, slot.pool);
        let resumes = pool.resume(now, slot);
        if resumes {
            pool.dispatch(common, now);
        }
        resumes
    }

    /// All but the end of the request has been sent, and the slot is lent: the request is to have one again, in its class's order, before the
    /// origin works on it. `None` if it is not lent, or kept its place in the background, and the end may be sent. With [`Verdict::Admit`], or the claim of the
    /// ticket, the slot is given up ([`Gate::give_up`]). It was counted when it arrived, and is counted no more; it is
    /// bounded by what is lent, and takes no token. It is never refused at once. As [`Gate::arrive`] costs.
    pub fn comes_back(
        &mut self,
        now: Moment,
        slot: &mut Slot,
        arrival: &Arrival,
        wake: impl FnOnce() -> T,
    ) -> Option<Verdict> {
        if self.resume(now, slot) {
            return None;
        }
        let (now, pool, common) = self.at(now, slot.pool);
        let is_lent = slot.lent().is_some() && !pool.is_written_off(slot);
        let arrival = Arrival { class: slot.class, ..*arrival };
        is_lent.then(|| pool.comes_back(common, now, &arrival, wake))
    }

    /// The request has another slot in place of this one, which was lent. O(classes).
    pub fn give_up(&mut self, now: Moment, mut slot: Slot) {
        let (now, pool, _) = self.at(now, slot.pool);
        pool.give_up(now, &mut slot);
    }

    /// How many slots are lent in the default pool.
    pub fn lent(&self) -> u32 {
        self.default_pool().lent()
    }
}

impl<T> Pool<T> {
    /// Requests in progress without a slot: theirs are lent, or they wait for one of another server.
    pub fn lent(&self) -> u32 {
        self.lent.all() + self.transfers.without_slot()
    }

    /// Whether a request of the lane may lend its slots. Not where the origin refuses requests beyond a number that is in progress
    /// already: it counts those whose slots are lent.
    fn may_lend(&self, lane: LaneId, seat: Option<Seat>) -> bool {
        let lent = self.lent.all();
        self.is_lendable(lane, seat)
            && !self.limit.is_refused_beyond(seat, lent)
            && !self.is_refused_there(lane, lent)
    }

    fn lend(&mut self, now: Moment, slot: &mut Slot, lends: Lends, outcome: &Outcome) {
        self.advance(now);
        let running = self.limit.running_at(slot.seat());
        let load = OriginLoad { running, waiting: self.ready() };
        self.progressed(now);
        self.overtaken.pauses(slot.place);
        let (background, beside) = (self.lanes.at(slot.lane).is_background, slot.is_beside());
        if !beside {
            self.limit.lend(now, slot.seat(), slot.grant.slots);
        }
        self.lends_resource(now, slot.lane);
        *self.classes.load_mut(slot.class).held(beside) -= u32::from(slot.grant.slots);
        if lends == Lends::Takes {
            // The origin has done its work but for the rest of the answer.
            let Slot { class, lane, admitted, flow, found, found_there, .. } = *slot;
            let waited = slot.waited();
            let completion =
                Completion { now, class, lane, flow, admitted, waited, found, outcome, load };
            self.completed(&completion, slot, found_there);
        }
        slot.holds = Holds::Lent { lends, since: now, background, beside };
    }

    /// [`Gate::resume`].
    pub(super) fn resume(&mut self, now: Moment, slot: &mut Slot) -> bool {
        let Holds::Lent { lends, background, beside: true, .. } = slot.holds else { return false };
        if self.is_written_off(slot) {
            return false;
        }
        self.advance(now);
        // A reload may have taken its class out of the background before it was lent.
        self.lent.one_less(lends, background, slot.places());
        slot.holds = Holds::Beside;
        *self.classes.load_mut(slot.class).held(true) += u32::from(slot.grant.slots);
        if lends == Lends::Sends && slot.admitted >= self.classes.at(slot.class).charged_since {
            // What its client took is none of its time at the origin, and no wait.
            (slot.arrived, slot.admitted) = (now - slot.waited(), now);
        }
        true
    }

    fn comes_back(
        &mut self,
        common: &mut Common<T>,
        now: Moment,
        arrival: &Arrival,
        wake: impl FnOnce() -> T,
    ) -> Verdict {
        self.catch_up(common, now);
        if self.is_admitted(now, arrival) {
            return Verdict::Admit(self.grant_at_once(now, arrival));
        }
        let ticket = self.wait(common, now, arrival, true, wake);
        Verdict::Queue(Ticket { pool: self.id, waiter: ticket })
    }

    /// One of two slots that a request has: it is charged with the other.
    pub(super) fn give_up(&mut self, now: Moment, slot: &mut Slot) {
        self.advance(now);
        self.settle_charge(now, slot, 0.0);
        self.take_back(now, slot);
    }

    /// Since when the slot is lent, if it is.
    pub(super) fn lent_since(&self, slot: &Slot) -> Option<Moment> {
        slot.lent().map(|(_, since)| since).or_else(|| self.overtaken.lent(slot.place))
    }

    /// The slot is not lent any more. Whether it was.
    pub(super) fn gives_up_lent(&mut self, slot: &mut Slot) -> bool {
        let overtaken = self.overtaken.lent(slot.place).map(|_| Lends::Waits);
        let lends = slot.lent().map(|(lends, _)| lends);
        let of_background = matches!(slot.holds, Holds::Lent { background: true, .. });
        let places = slot.places();
        if lends.is_some() {
            slot.holds = Holds::Slots(None);
        }
        let lends = lends.or(overtaken);
        let Some(lends) = lends.filter(|_| !self.is_written_off(slot)) else { return false };
        self.lent.one_less(lends, of_background, places);
        true
    }

    /// A request gets its slot. `None` where the limit is given, and nothing is lent.
    pub(super) fn begins(
        &mut self,
        now: Moment,
        lane: LaneId,
        slots: u16,
        seat: Option<Seat>,
    ) -> Option<Key> {
        self.is_lendable(lane, seat).then(|| self.overtaken.begins(now, lane, slots, seat))
    }

    /// What a completion says of what is usual; slots of requests that it shows to be overtaken are lent. O(1), and O(1) for
    /// each that is lent.
    pub(super) fn overtakes(&mut self, completion: &Completion<'_>, seat: Option<Seat>) {
        if !self.is_adaptive() || !completion.outcome.is_answer() {
            return;
        }
        let now = completion.now;
        self.overtaken.answered(completion, seat, self.lent.of_waits() > 0);
        while let Some(oldest) = self.overtaken.overtaken(now) {
            let (admitted, (lane, _)) =
                (self.overtaken.admitted(oldest), self.overtaken.of(oldest));
            if !self.lend_overtaken(now, oldest) {
                return;
            }
            self.tell_background_of_overtaken(admitted, lane);
        }
    }

    /// When a slot is to be lent to see what happens, if nothing else does and others wait.
    pub(super) fn probe_due(&self) -> Moment {
        if !self.is_adaptive() || self.ready() == 0 || self.limit.has_free() {
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
        let (lane, seat) = self.overtaken.of(index);
        if !self.is_lendable(lane, seat) {
            // It has moved to a server with a number of its own, or a reload gave it one. It shall not stand before others.
            self.overtaken.keeps(index);
            return true;
        }
        if !self.may_lend(lane, seat) || !self.lent.one_more(Lends::Waits) {
            return false;
        }
        let slots = self.overtaken.lend(now, index);
        self.limit.lend(now, seat, slots);
        self.lends_resource(now, lane);
        let class = self.lanes.at(lane).class;
        self.classes.load_mut(class).running -= u32::from(slots);
        true
    }
}
