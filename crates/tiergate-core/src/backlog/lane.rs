//! A lane: those of one class that are served after the same others. A class has three: requests of
//! sessions that run, all others, and those that are late. Each has the class's order and its turns
//! of flows for itself.
//!
//! Turns: flows are served by start tags, and each service moves its flow's tag on by what it cost.
//!
//! Source: Goyal, Vin, Cheng, "Start-time Fair Queueing" (1996). There a flow back from idle starts at
//! the tag of the request in service, so that flows which are ever new, such as a crowd's or a forger's,
//! would hold up for ever one that was served before. So virtual time also moves on as each service
//! would move it if all flows that wait were served at once, as in Bennett and Zhang, "Hierarchical
//! packet fair queueing" (1997), and as round numbers do in Kubernetes API Priority and Fairness; the
//! latter also has the charge put right at the end.

use super::discipline::Discipline;
use super::flows::{Flow, Flows};
use super::heap::{Heap, Places};
use crate::class::WhenFull;
use crate::names::ClassId;

/// Lanes of a class.
pub(super) const LANES: usize = 3;

/// The lane of a class's waiter: of running sessions, of all others, of the late.
pub(super) const fn lane_of(class: ClassId, running: bool, late: bool) -> u32 {
    let lane = match (late, running) {
        (true, _) => 2,
        (false, true) => 0,
        (false, false) => 1,
    };
    class.0 as u32 * LANES as u32 + lane
}

/// One lane.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) len: u32,
    pub(super) bytes: u64,
    /// Its flows that wait.
    pub(super) flows: u32,
    /// Where its flows' starts have got to. Never goes back.
    pub(super) now: f64,
    /// Its flows by start, where they take turns or there is one.
    pub(super) turns: Heap,
    /// Its flows by how many of each wait, most first, where they are fair.
    pub(super) biggest: Heap,
    /// Its waiters by rank, where the class has a rank.
    pub(super) order: Heap,
    /// Its waiters by worth, least first, where such leave when it is full.
    pub(super) least: Heap,
}

/// Where flows stand in the heaps of lanes, and waiters; and each flow's waiters by worth.
#[derive(Debug, Default)]
pub(super) struct Standing {
    pub(super) turns: Places,
    pub(super) biggest: Places,
    pub(super) order: Places,
    pub(super) least: Places,
    pub(super) least_of_flow: Places,
    pub(super) flows: Vec<Heap>,
}

impl Standing {
    /// A flow's waiters by worth.
    pub(super) fn flow(&mut self, number: u32) -> (&mut Heap, &mut Places) {
        let number = number as usize;
        if self.flows.len() <= number {
            self.flows.resize(number + 1, Heap::default());
        }
        (&mut self.flows[number], &mut self.least_of_flow)
    }
}

impl Lane {
    /// Puts a flow where its start says. The bits of floats that are not negative are in their order.
    pub(super) fn seat_turn(&mut self, standing: &mut Standing, number: u32, flow: &Flow) {
        self.turns.put(&mut standing.turns, number, (flow.start.to_bits(), flow.tie));
    }

    /// Puts a flow where its length says. Of several as long as each other the one goes first whose
    /// requests the class lets go first: that began to wait last, where newcomers are refused, and
    /// else that began first.
    pub(super) fn seat_size(
        &mut self,
        standing: &mut Standing,
        discipline: &Discipline,
        number: u32,
        flow: &Flow,
    ) {
        let tie = match discipline.when_full {
            WhenFull::RefuseNew => u64::MAX - flow.since,
            WhenFull::DropOldest | WhenFull::DropLeast => flow.since,
        };
        self.biggest.put(&mut standing.biggest, number, (u64::from(u32::MAX - flow.len), tie));
    }

    /// Charges a service to a flow that waits in the lane, unless it is the only one of its flow that
    /// waits: who asks for one thing after another is ahead of nobody, and would otherwise, as soon as
    /// it has been served once, stand behind each newcomer until all have had as much, so that under
    /// overload no session came to its end. Returns whether it was charged. O(log flows).
    pub(super) fn charge(
        &mut self,
        standing: &mut Standing,
        flows: &mut Flows,
        number: u32,
        cost: f64,
        sequence: u64,
    ) -> bool {
        let flow = flows.at_mut(number);
        // One more than wait: who comes while the only flow is served goes before its next.
        let shared = self.now + cost / f64::from(self.flows + 1);
        self.now = shared.max(flow.start);
        flow.tie = sequence;
        if flow.len == 1 {
            return false;
        }
        flow.start += cost;
        self.seat_turn(standing, number, flow);
        true
    }
}
