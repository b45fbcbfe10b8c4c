//! A class's queue: its requests that are served after the same others. A class has three: requests of
//! sessions that run, all others, and those that are late. Each has the class's order and its turns
//! of flows for itself.
//!
//! Those of running sessions go first, for each answer leads to at most one more request of theirs. A flow
//! that has more than a quarter of their requests, waiting and in service, or more than six, or that got more than a
//! sixteenth of what was served lately, by what it cost, shows that it does not go by that: after each of its turns it leaves
//! as many to other flows as cost as much, so that a few clients do not keep all new ones out.
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
use crate::admit::sketch::Sketch;
use crate::names::LaneId;

/// Queues of a class.
pub(super) const QUEUES: usize = 3;

/// The queue of a class's waiter: of running sessions, of all others, of the late.
pub(super) const fn queue_of(lane: LaneId, running: bool, late: bool) -> u32 {
    let queue = match (late, running) {
        (true, _) => 2,
        (false, true) => 0,
        (false, false) => 1,
    };
    lane.0 * QUEUES as u32 + queue
}

/// The class of a queue.
pub(super) const fn lane_of(queue: u32) -> LaneId {
    LaneId(queue / QUEUES as u32)
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
    /// How many services that its flows were charged have not ended.
    pub(super) running: u32,
    /// Its virtual time: where its flows' starts have got to. Never goes back.
    pub(super) now: f64,
    /// CoDel's, of its flows that have one request waiting.
    pub(super) law: Shared,
}

/// A service that costs nothing would leave its flow's turn where it is.
pub(super) const COST_MIN: f64 = 1e-6;

/// A flow has much of a queue from more than this part (1/4) of it on, or from more requests than a browser has
/// connections.
const MUCH: u64 = 4;
const CONNECTIONS: u32 = 6;
/// A flow is served much from more than this part (1/16) on of about 256 services of usual cost, the latest counting most,
/// and from more than so many services (8) on: a page that leads to a dozen requests is not much of what a busy class is served.
const MUCH_SERVED: f32 = 16.0;
const SERVED_MIN: f32 = 8.0;
/// Counts fade by a sixteenth after so many services: they are of about 256.
const FADES_AFTER: u32 = 16;

/// Less is forgotten.
const FORGOTTEN: f32 = 0.25;

/// Most turns that a flow leaves after one of its own.
const TURNS_MAX: u32 = 32;
/// A usual cost moves by this part of how far off it is.
const LEARNED: f64 = 0.2;

/// What flows of a class's running sessions were served lately, by cost, of all that was served while some of theirs
/// waited. 16 KiB.
#[derive(Clone, Debug)]
pub(super) struct Served {
    flows: Sketch,
    /// How many services count.
    all: f32,
    until_fade: u32,
    /// The usual cost of a service, as far as it was known when that began; 0 before the first.
    usual: f64,
    /// The usual cost of services to others than running sessions; 0 before the first.
    others: f64,
}

impl Served {
    /// Nothing yet.
    pub(super) fn new() -> Self {
        Served { flows: Sketch::new(), all: 0.0, until_fade: FADES_AFTER, usual: 0.0, others: 0.0 }
    }

    /// One of the class was served at a cost: of a running session's flow, or (`None`) in its stead. O(1), and every 16th
    /// time O(counters).
    pub(super) fn note(&mut self, flow: Option<u64>, cost: f64) {
        if self.usual == 0.0 {
            if flow.is_none() {
                return;
            }
            self.usual = cost;
        }
        self.usual += (cost - self.usual) / f64::from(FADES_AFTER * FADES_AFTER);
        flow.into_iter().for_each(|flow| self.flows.add(flow, (cost / self.usual) as f32));
        self.all += 1.0;
        self.until_fade -= 1;
        if self.until_fade == 0 {
            self.until_fade = FADES_AFTER;
            let kept = 1.0 - 1.0 / FADES_AFTER as f32;
            self.flows.fade(kept, FORGOTTEN);
            self.all *= kept;
        }
    }

    /// A service of a flow of the class has ended, and has cost `actual`. O(1).
    pub(super) fn ended(&mut self, flow: &mut Flow, charged: f64, actual: f64) {
        let lane = lane_of(flow.queue);
        if self.usual == 0.0 {
            // None of a running session was served yet.
        } else if flow.queue == queue_of(lane, true, false) {
            let more = actual - charged;
            self.usual = (self.usual + more / f64::from(FADES_AFTER * FADES_AFTER)).max(COST_MIN);
            self.flows.add(flow.key, (more / self.usual) as f32);
            flow.cost = smoothed(flow.cost, actual);
        } else if flow.queue == queue_of(lane, false, false) {
            self.others = smoothed(self.others, actual);
        }
    }

    /// How many turns a flow whose services cost so much leaves to others, so that these get as much: one if it is not known
    /// what either costs.
    pub(super) fn turns_to_leave(&self, cost: f64) -> u32 {
        if self.others > 0.0 {
            ((cost / self.others).round() as u32).clamp(1, TURNS_MAX)
        } else {
            1
        }
    }

    /// Whether the flow was served much.
    pub(super) fn is_much(&self, flow: u64) -> bool {
        self.flows.count(flow) > (self.all / MUCH_SERVED).max(SERVED_MIN)
    }
}

impl ClassQueue {
    /// Whether so many, two or more, are much of so many.
    pub(super) fn is_much(own: u32, all: u32) -> bool {
        own > CONNECTIONS || own > 1 && u64::from(own) * MUCH > u64::from(all)
    }

    /// Whether a flow of the queue has much of its requests, waiting and in service.
    pub(super) fn is_crowded_by(&self, flow: &Flow) -> bool {
        ClassQueue::is_much(flow.waiters.len() + flow.running, self.len + self.running)
    }

    /// Charges a service to a flow with requests waiting in the queue, one of which is the one to be served.
    pub(super) fn charge(&mut self, flow: &mut Flow, cost: f64, sequence: u64) {
        flow.is_alone = flow.running == 0 && flow.waiters.len() == 1;
        flow.running += 1;
        self.running += 1;
        self.passes(flow, cost, sequence);
    }

    /// Moves a flow with requests waiting on by a turn, its own or one that it left to others.
    pub(super) fn passes(&mut self, flow: &mut Flow, cost: f64, sequence: u64) {
        // One more than wait: a flow that comes while the only one is served goes before its next.
        let shared = self.now + cost / f64::from(self.flows + 1);
        self.now = shared.max(flow.start);
        flow.tie = sequence;
        flow.start += cost;
    }
}

/// What is usual after another that has cost `actual`.
fn smoothed(usual: f64, actual: f64) -> f64 {
    let actual = actual.max(COST_MIN);
    if usual > 0.0 { usual + LEARNED * (actual - usual) } else { actual }
}
