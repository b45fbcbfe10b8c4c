//! A reload: everybody keeps a place under another plan.

use super::flows::Flow;
use super::lane::{LANES, Lane, lane_of};
use super::slab::State;
use super::{Backlog, Discipline};
use crate::names::ClassId;

impl<T> Backlog<T> {
    /// Puts a class's discipline in force. Who began to wait first still did so; flows keep what they are
    /// ahead or behind, and start anew where they are told apart from now on, or no more. O(1), and
    /// O(n log n) where waiters have another place by it.
    pub(crate) fn reconfigure(&mut self, class: ClassId, discipline: Discipline) {
        if self.disciplines.len() <= class.index() {
            let lanes = (class.index() + 1) * LANES;
            self.lanes.resize_with(lanes, Lane::default);
            self.disciplines.resize(class.index() + 1, discipline.clone());
        }
        let former = &self.disciplines[class.index()];
        if !former.places_otherwise(&discipline) {
            self.disciplines[class.index()] = discipline;
            return;
        }
        let former_fair = former.fair;
        let flows = if former_fair == discipline.fair { self.waiting_flows(class) } else { vec![] };
        let used = self.slab.used().filter(|(_, it)| it.class == class);
        let waiting = used.filter(|(_, it)| it.state == State::Waiting);
        let mut waiting: Vec<_> = waiting.map(|(index, it)| (it.sequence, index)).collect();
        waiting.sort_unstable();
        waiting.iter().for_each(|(_, index)| self.leave(*index));
        if former_fair != discipline.fair {
            let own: Vec<u32> = self.flows.all().filter(|&it| self.is_of(it, class)).collect();
            own.into_iter().for_each(|number| self.flows.forget(number));
        }
        self.disciplines[class.index()] = discipline;
        waiting.iter().for_each(|(_, index)| self.join(*index));
        for former in flows {
            let number = self.flows.find(former.lane, former.key).expect("it waits as before");
            let flow = self.flows.at_mut(number);
            (flow.start, flow.tie) = (former.start, former.tie);
            (flow.is_lifo, flow.law) = (former.is_lifo, former.law);
            self.lanes[former.lane as usize].seat_turn(&mut self.standing, number, flow);
        }
    }

    /// The flows of a class that wait.
    fn waiting_flows(&self, class: ClassId) -> Vec<Flow> {
        let own = self.flows.all().filter(|&number| self.is_of(number, class));
        own.map(|number| self.flows.at(number)).filter(|flow| flow.len > 0).cloned().collect()
    }

    fn is_of(&self, number: u32, class: ClassId) -> bool {
        let first = lane_of(class, true, false);
        (first..first + LANES as u32).contains(&self.flows.at(number).lane)
    }
}
