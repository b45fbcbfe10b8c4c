//! Room: who leaves when no more of a class may wait, by count or by bytes.
//!
//! | when full | one flow | flows told apart |
//! |---|---|---|
//! | `RefuseNew` | the newcomer | the last come of the flow with the most waiting, or the newcomer if its own would then have as many |
//! | `DropOldest` | the longest waiter | of the flow with the most waiting, the newcomer counted |
//! | `DropLeast` | the lowest score, then the last to come | likewise; of the class, if no flow has more than one |
//!
//! So a flow that sends much pushes out its own. A newcomer of a running session that cannot stay takes
//! the place of one that is late, or of one without a session, whatever it would have been
//! of its own kind; one without never takes that of one with.
//!
//! Whoever leaves by bytes may be smaller than the newcomer: then up to [`VICTIMS_MAX`] of its
//! neighbours go with it, and if they would not do, the newcomer goes.

use super::Backlog;
use super::lane::{Lane, lane_of};
use super::slab::{NONE, Ticket};
use crate::class::WhenFull;
use crate::gate::Arrival;
use crate::names::ClassId;

/// Most waiters that make room for one.
pub(super) const VICTIMS_MAX: usize = 16;

/// Whether one more may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// It may.
    Free,
    /// It may when this one has left; ask again then.
    After(Ticket),
    /// It may not.
    None,
}

/// Who would leave: the newcomer, or one that waits.
enum Victim {
    Newcomer,
    Waiter(u32),
}

impl<T> Backlog<T> {
    /// Whether an arrival may wait in the class, for which so many have `left` already. By count, one
    /// is enough: after a reload more may wait than the bound, and they stay. O(1).
    pub(crate) fn room(&self, class: ClassId, arrival: &Arrival, left: usize) -> Room {
        let discipline = &self.disciplines[class.index()];
        let bytes: u64 = self.lanes_of(class).iter().map(|lane| lane.bytes).sum();
        let excess = (bytes + u64::from(arrival.bytes)).saturating_sub(discipline.bytes_max);
        if (left > 0 || self.len_of(class) < discipline.len_max) && excess == 0 {
            return Room::Free;
        }
        if left == VICTIMS_MAX || u64::from(arrival.bytes) > discipline.bytes_max {
            return Room::None;
        }
        match self.victim(class, arrival) {
            Victim::Waiter(index) if self.frees(class, index, excess) => {
                Room::After(self.slab.ticket(index))
            }
            _ => Room::None,
        }
    }

    /// Who leaves the class if one must; `None` if nobody of it waits. O(1).
    pub(crate) fn worst(&self, class: ClassId) -> Option<Ticket> {
        let lanes = [(false, true), (false, false), (true, false)];
        let lanes = lanes.map(|(running, late)| lane_of(class, running, late));
        let lane = lanes.into_iter().find(|&lane| self.lane(lane).len > 0)?;
        Some(self.slab.ticket(self.worst_of_lane(class, lane)))
    }

    fn victim(&self, class: ClassId, arrival: &Arrival) -> Victim {
        let when_full = self.disciplines[class.index()].when_full;
        let own = lane_of(class, arrival.running, false);
        let displaces = arrival.running || when_full != WhenFull::RefuseNew;
        let late = lane_of(class, false, true);
        let others = lane_of(class, false, false);
        let waits = |lane: &u32| self.lanes[*lane as usize].len > 0;
        let lanes = if displaces { [late, others, own] } else { [own; 3] };
        match lanes.into_iter().find(waits) {
            Some(lane) if lane == own => self.victim_beside(class, own, arrival),
            Some(lane) => Victim::Waiter(self.worst_of_lane(class, lane)),
            None => Victim::Newcomer,
        }
    }

    /// Who leaves a lane that the newcomer would wait in too.
    fn victim_beside(&self, class: ClassId, lane: u32, arrival: &Arrival) -> Victim {
        let discipline = &self.disciplines[class.index()];
        let own = self.flows.find(lane, if discipline.fair { arrival.flow } else { 0 });
        let own = own.filter(|&number| self.flows.at(number).len > 0);
        let with_newcomer = own.map_or(0, |number| self.flows.at(number).len) + 1;
        if let Some(biggest) = self.lane(lane).biggest.top()
            && self.flows.at(biggest).len > with_newcomer
        {
            return Victim::Waiter(self.worst_of_flow(class, lane, biggest));
        }
        let worst = match own {
            Some(number) => self.worst_of_flow(class, lane, number),
            None => self.worst_of_lane(class, lane),
        };
        let stays = match discipline.when_full {
            WhenFull::RefuseNew => false,
            WhenFull::DropOldest => true,
            // The newcomer came last.
            WhenFull::DropLeast => arrival.score > self.slab.at(worst).score,
        };
        if stays { Victim::Waiter(worst) } else { Victim::Newcomer }
    }

    fn worst_of_lane(&self, class: ClassId, lane: u32) -> u32 {
        let biggest = self.lane(lane).biggest.top();
        let alone = biggest.is_none_or(|number| self.flows.at(number).len == 1);
        match self.lane(lane).least.top() {
            Some(least) if alone => least,
            _ => {
                let number = biggest.or_else(|| self.flows.find(lane, 0));
                self.worst_of_flow(class, lane, number.expect("somebody waits"))
            }
        }
    }

    fn worst_of_flow(&self, class: ClassId, lane: u32, number: u32) -> u32 {
        let discipline = &self.disciplines[class.index()];
        let flow = self.flows.at(number);
        match discipline.when_full {
            WhenFull::RefuseNew => flow.tail,
            WhenFull::DropOldest => flow.head,
            WhenFull::DropLeast if discipline.fair => {
                self.standing.flows[number as usize].top().expect("the flow waits")
            }
            WhenFull::DropLeast => self.lane(lane).least.top().expect("the lane waits"),
        }
    }

    /// Whether a waiter, with the next of its flow that would leave, holds so many bytes.
    fn frees(&self, class: ClassId, mut index: u32, excess: u64) -> bool {
        let when_full = self.disciplines[class.index()].when_full;
        let mut bytes = 0;
        for _ in 0..VICTIMS_MAX {
            bytes += u64::from(self.slab.at(index).bytes);
            if bytes >= excess {
                return true;
            }
            let link = self.slab.link(index);
            index = match when_full {
                WhenFull::RefuseNew => link.previous,
                WhenFull::DropOldest => link.next,
                WhenFull::DropLeast => NONE,
            };
            if index == NONE {
                return false;
            }
        }
        false
    }

    fn lane(&self, lane: u32) -> &Lane {
        &self.lanes[lane as usize]
    }
}
