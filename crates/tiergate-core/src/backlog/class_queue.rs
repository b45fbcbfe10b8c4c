//! A class's queue: its requests that are served after the same others. A class has three: requests of
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

use super::codel::Shared;
use super::flows::Flow;
use crate::names::ClassId;

/// Queues of a class.
pub(super) const QUEUES: usize = 3;

/// The queue of a class's waiter: of running sessions, of all others, of the late.
pub(super) const fn queue_of(class: ClassId, running: bool, late: bool) -> u32 {
    let queue = match (late, running) {
        (true, _) => 2,
        (false, true) => 0,
        (false, false) => 1,
    };
    class.0 as u32 * QUEUES as u32 + queue
}

/// The class of a queue.
pub(super) const fn class_of(queue: u32) -> ClassId {
    ClassId((queue as usize / QUEUES) as u16)
}

/// One queue of a class.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClassQueue {
    pub(super) len: u32,
    pub(super) bytes: u64,
    /// Its flows that have requests waiting.
    pub(super) flows: u32,
    /// Those of them that have one.
    pub(super) singles: u32,
    /// Its virtual time: where its flows' starts have got to. Never goes back.
    pub(super) now: f64,
    /// CoDel's, of its flows that have one request waiting.
    pub(super) law: Shared,
}

impl ClassQueue {
    /// Charges a service to a flow with requests waiting in the queue, one of which is the one to be served.
    pub(super) fn charge(&mut self, flow: &mut Flow, cost: f64, sequence: u64) {
        // One more than wait: a flow that comes while the only one is served goes before its next.
        let shared = self.now + cost / f64::from(self.flows + 1);
        self.now = shared.max(flow.start);
        flow.tie = sequence;
        flow.start += cost;
        flow.is_alone = flow.running == 0 && flow.waiters.len() == 1;
        flow.running += 1;
    }
}
