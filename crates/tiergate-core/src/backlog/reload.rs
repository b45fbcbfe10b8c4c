//! A reload: every waiter keeps its place under another plan.

use super::class_queue::{ClassQueue, QUEUES, class_of};
use super::discipline::Discipline;
use super::flows::Flow;
use super::queues::{Backlog, Rankings};
use super::waiter::State;
use crate::class::ClassId;
use crate::time::Moment;
use std::collections::HashMap;

impl<T> Backlog<T> {
    /// Puts other classes in force and gives every entry the class that `translate` says. Requests that
    /// began to wait first still did so; flows keep what they are ahead or behind, counted from their
    /// queue's virtual time, and start anew where that has changed its meaning: in classes whose flows are
    /// not told apart. Services in progress are not put right any more. O(n log n), and it allocates.
    ///
    /// Returns how many entries hold a slot that their owners have not claimed.
    pub(crate) fn reclass(
        &mut self,
        disciplines: Vec<Discipline>,
        translate: impl Fn(ClassId) -> ClassId,
    ) -> u32 {
        let mut granted = 0;
        let mut waiting = Vec::with_capacity(self.len);
        for (index, waiter) in self.waiters.iter_mut() {
            waiter.class = translate(waiter.class);
            match waiter.state {
                State::Waiting => waiting.push((waiter.sequence, index)),
                State::Granted(_) => granted += 1,
                State::Refused(_) => {}
            }
        }
        waiting.sort_unstable();

        // Late enough that nothing which lags behind its queue's time falls below zero.
        let now = self.queues.iter().map(|queue| queue.now).fold(0.0, f64::max);
        let anew = vec![ClassQueue { now, ..ClassQueue::default() }; disciplines.len() * QUEUES];
        let queues = std::mem::replace(&mut self.queues, anew);
        let former = std::mem::replace(&mut self.disciplines, disciplines);
        let mut flows = self.flows.take();
        self.heaps = Rankings::default();
        self.len = 0;

        let mut kept: HashMap<(u32, u64), Flow> = HashMap::new();
        for flow in &mut flows {
            let class = class_of(flow.queue);
            let ahead = flow.start - queues[flow.queue as usize].now;
            let new = translate(class);
            flow.queue = (new.index() * QUEUES) as u32 + flow.queue % QUEUES as u32;
            flow.start = now + ahead;
            let is_known = former[class.index()].fair == self.disciplines[new.index()].fair;
            let is_idle = flow.waiters.len() == 0;
            if !is_known || is_idle && (ahead <= 0.0 || flow.is_over(self.now)) {
                continue;
            }
            let more = kept.entry((flow.queue, flow.key)).or_insert_with(|| flow.clone());
            // Two accounts become one: the one that was served more.
            if (more.start, more.tie) < (flow.start, flow.tie) {
                *more = flow.clone();
            }
        }
        for (_, index) in waiting {
            self.join(index);
        }
        for flow in kept.values() {
            let number = self.flows.open(flow.queue, flow.key);
            let new = self.flows.at_mut(number);
            (new.start, new.is_lifo, new.law) = (flow.start, flow.is_lifo, flow.law);
            if new.waiters.len() > 0 {
                new.tie = flow.tie;
                self.heaps.turns.put(flow.queue, number, new.rank());
            }
        }
        // In the order in which they became idle.
        for flow in flows.iter().filter(|flow| flow.idle_since != Moment::NEVER) {
            if let Some(number) = self.flows.find(flow.queue, flow.key)
                && self.flows.at(number).is_resting()
            {
                let queues = &self.queues;
                self.flows.rests(flow.idle_since, number, |queue| queues[queue as usize].now);
            }
        }
        granted
    }
}
