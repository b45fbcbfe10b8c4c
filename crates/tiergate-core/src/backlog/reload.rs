//! A reload: every waiter keeps its place under another plan.

use super::class_queue::{ClassQueue, QUEUES, lane_of};
use super::discipline::Discipline;
use super::flows::Flow;
use super::queues::Backlog;
use super::waiter::State;
use crate::names::LaneId;

impl<T> Backlog<T> {
    /// Puts a class's discipline in force. Requests that began to wait first still did so; flows keep what
    /// they are ahead or behind, and start anew where they are told apart from now on, or no longer. O(1),
    /// and O(n log n) where waiters have another place by it.
    pub(crate) fn reconfigure(&mut self, lane: LaneId, discipline: Discipline) {
        if self.disciplines.len() <= lane.index() {
            self.queues.resize((lane.index() + 1) * QUEUES, ClassQueue::default());
            self.served.resize(lane.index() + 1, None);
            self.disciplines.resize(lane.index() + 1, discipline.clone());
        }
        let former = &self.disciplines[lane.index()];
        if !former.places_otherwise(&discipline) {
            self.disciplines[lane.index()] = discipline;
            return;
        }
        let keeps_flows = former.fair == discipline.fair;
        let own = self.flows.all().filter(|flow| keeps_flows && lane_of(flow.queue) == lane);
        let flows: Vec<Flow> = own.filter(|flow| flow.waiters.len() > 0).cloned().collect();
        let queues = lane.index() * QUEUES..(lane.index() + 1) * QUEUES;
        let laws: Vec<_> = self.queues[queues.clone()].iter().map(|queue| queue.law).collect();
        let used = self.waiters.iter_mut().filter(|(_, it)| it.lane == lane);
        let waiting = used.filter(|(_, it)| it.state == State::Waiting);
        let mut waiting: Vec<_> = waiting.map(|(index, it)| (it.sequence, index)).collect();
        waiting.sort_unstable();
        waiting.iter().for_each(|(_, index)| self.leave(*index));
        if !keeps_flows {
            self.flows.forget_where(|flow| lane_of(flow.queue) == lane);
            self.queues[queues.clone()].iter_mut().for_each(|queue| queue.running = 0);
        }
        self.disciplines[lane.index()] = discipline;
        waiting.iter().for_each(|(_, index)| self.join(*index));
        for (queue, law) in self.queues[queues].iter_mut().zip(laws) {
            queue.law = law;
        }
        for former in flows {
            let number = self.flows.find(former.queue, former.key).expect("it waits as before");
            let flow = self.flows.at_mut(number);
            (flow.start, flow.tie) = (former.start, former.tie);
            (flow.is_lifo, flow.law, flow.lasting) = (former.is_lifo, former.law, former.lasting);
            (flow.gave_way, flow.cost) = (former.gave_way, former.cost);
            self.heaps.turns.put(former.queue, number, flow.rank());
        }
    }
}
