//! The server is away for a moment, and requests wait for it in their slots: what does not count meanwhile.
//!
//! Nothing is served, so that a queue seems to be served slowly and the origin to do little at a time. Neither is so when it
//! is back ([`crate::origin::Servers::may_restart`]).

use super::pool::Pool;
use super::{Gate, Slot};
use crate::names::LaneId;
use crate::time::Moment;

impl<T> Gate<T> {
    /// The server refuses connections, and the request in the slot tries again at `until`. Its time at the origin begins
    /// then. Until then no time passes for how fast queues are served, and what the limit has seen lately is
    /// no evidence. O(1).
    pub fn is_away(&mut self, now: Moment, slot: &mut Slot, until: Moment) {
        let (now, pool, _) = self.at(now, slot.pool);
        slot.admitted = until;
        pool.overtaken.is_away(slot.place, until);
        pool.away_until = pool.away_until.max(until);
        pool.limit.is_away(now, slot.seat());
        pool.resources.iter_mut().for_each(|resource| resource.limit.is_away(now));
    }
}

impl<T> Pool<T> {
    /// Lets time pass for what is known of how fast a list is served; before the list changes.
    pub(super) fn count_drain(&mut self, now: Moment, lane: LaneId, running: bool) {
        let waiting = self.backlog.len_of_list(lane, running) > 0;
        let drain = self.lanes.at_mut(lane).drain_mut(running);
        drain.skip(now.min(self.away_until));
        drain.pass(now, waiting, self.stalls.progress());
    }

    /// A request begins or ends at the origin. If that ends a stall, no time has passed in it for how fast queues are
    /// served. O(1), at the end of a stall O(lanes).
    pub(super) fn progressed(&mut self, now: Moment) {
        let before = self.stalls.progress();
        let stalled = self.stalls.progressed(now, self.ready() > 0);
        if stalled.is_zero() {
            return;
        }
        for lane in self.lanes.ids() {
            for running in [true, false] {
                let waiting = self.backlog.len_of_list(lane, running) > 0;
                let drain = self.lanes.at_mut(lane).drain_mut(running);
                drain.pass(now, waiting, before);
                drain.excuse(stalled);
            }
        }
    }
}
