//! Which of a class's lanes goes first: one whose next is of a running session, one whose next is late last; then by the
//! class's order. Where its flows take turns, so do its lanes, by what they cost and how many flows wait in each (start-time fair
//! queueing, as between flows).

use super::pool::Pool;
use crate::names::{ClassId, LaneId};
use crate::time::Moment;

/// A service that costs nothing would leave its lane's turn where it is.
const COST_MIN: f64 = 1e-6;

impl<T> Pool<T> {
    /// The lane of which a class serves the next that may have a slot; any, if none has one. O(lanes of the class).
    pub(super) fn lane_in_turn(&mut self, now: Moment, class: ClassId) -> LaneId {
        if let Some(only) = self.lanes.only(class) {
            return only;
        }
        let Pool { lanes, backlog, classes, .. } = self;
        let reached = classes.at(class).turn;
        let ready = lanes.of_class(class).filter(|id| !lanes.at(*id).is_held_up);
        let first = ready
            .filter_map(|id| {
                let turn = lanes.at(id).turn.max(reached);
                Some((backlog.standing(now, id, turn)?, id))
            })
            .min();
        first.map_or_else(|| lanes.of(class, None), |(_, id)| id)
    }

    /// The next of the lane is about to be served, at such a cost; of a class that has several lanes.
    pub(super) fn note_lane_turn(&mut self, class: ClassId, id: LaneId, cost: f64) {
        let flows = self.backlog.flows_of(id).max(1);
        let (reached, lane) = (&mut self.classes.at_mut(class).turn, self.lanes.at_mut(id));
        *reached = reached.max(lane.turn);
        lane.turn = *reached + cost.max(COST_MIN) / f64::from(flows);
    }
}
