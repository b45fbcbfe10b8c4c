//! Requests come: by rates, by a log; and what the gate says to them.

use super::request::{Asking, Fate, Where};
use super::{Event, World};
use crate::client::Arrivals;
use tiergate_core::class::ClassId;
use tiergate_core::gate::{Arrival, Verdict};
use tiergate_core::reason::Reason;

impl World<'_> {
    pub(super) fn next_arrival(&mut self, place: u16, from_s: f64) {
        let population = &self.trial.populations[place as usize];
        let random = !matches!(population.arrivals, Arrivals::Constant { .. });
        let Some(rate) = population.arrivals.rate() else {
            return;
        };
        match rate.next(from_s, random, self.highest[place as usize], &mut self.rng) {
            Some(at) if at < population.to_s => self.at((at * 1e9) as u64, Event::Arrive(place)),
            _ => {}
        }
    }

    pub(super) fn next_replayed(&mut self) {
        if let Some(&(at, _)) = self.trial.replay.get(self.replayed) {
            self.at(at, Event::Replay);
        }
    }

    pub(super) fn replay(&mut self) {
        let (_, demand) = self.trial.replay[self.replayed];
        self.replayed += 1;
        self.next_replayed();
        let population = self.trial.replaying().expect("somebody replays what is replayed");
        self.send(Asking { population, client: 0, demand, tries: 0, session: None });
    }

    pub(super) fn send(&mut self, asking: Asking) {
        let trial = self.trial;
        let population = &trial.populations[asking.population as usize];
        let demand = &trial.demands[asking.demand as usize];
        let class = demand.arrival.class.0;
        let id = self.new_request(asking, class);
        let incarnation = self.requests[id as usize].incarnation;
        self.count += 1;
        self.phases[self.phase].classes[class as usize].arrived += 1;
        self.series.at(self.now, class as usize).arrived += 1;
        let leaves = self.now + (population.patience_ms * 1e6) as u64;
        let now = self.moment();
        if self.gate.is_none() {
            self.at(leaves, Event::Leave(id, incarnation));
            self.forward(id, Where::AtServer { counted: true });
            return;
        }
        let arrival = self.arrival(&asking);
        let place = self.gate_class(class);
        self.unsettled[place] += 1;
        let Some(gate) = &mut self.gate else { unreachable!("seen above") };
        if demand.refused && !self.one_class {
            gate.refuse(arrival, Reason::Rule);
            self.end(id, Fate::Refused(Reason::Rule));
            return;
        }
        self.at(leaves, Event::Leave(id, incarnation));
        let Some(gate) = &mut self.gate else { unreachable!("seen above") };
        match gate.arrive(now, arrival, || id) {
            Verdict::Admit(slot) => self.forward(id, Where::Running(slot)),
            Verdict::Queue(ticket) => self.requests[id as usize].place = Where::Waiting(ticket),
            Verdict::Reject(reason) => {
                if reason == Reason::Shed {
                    self.closed[(self.now / 1_000_000_000) as usize] += 1;
                }
                self.end(id, Fate::Refused(reason));
            }
        }
    }

    /// The gate's number of a class.
    pub(super) fn gate_class(&self, class: u16) -> usize {
        if self.one_class { 0 } else { usize::from(class) }
    }

    /// A request as the gate sees it.
    fn arrival(&self, asking: &Asking) -> Arrival {
        let of = self.trial.demands[asking.demand as usize].arrival;
        let generation = self.gate.as_ref().map_or(0, |gate| gate.plan().generation);
        if self.one_class {
            let (flow, slots, bytes) = (of.flow, of.slots, of.bytes);
            let class = ClassId(0);
            // A plain queue knows no newcomers.
            return Arrival { flow, slots, bytes, generation, goes_on: true, ..Arrival::of(class) };
        }
        let running = asking.session.is_some_and(|id| self.sessions.runs(id));
        let believed = running || !self.trial.sessions;
        let connection = self.connection(asking.session);
        Arrival {
            generation,
            running: self.trial.sessions && running,
            importance: connection.importance.or(of.importance.filter(|_| believed)),
            goes_on: connection.goes_on,
            requests: connection.requests,
            connection: connection.connection,
            ..of
        }
    }
}
