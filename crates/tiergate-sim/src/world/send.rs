//! Requests come: by rates, by a log; and what the gate says to them.

use super::request::{Asking, DIRECT, Fate, Request, Where};
use super::sessions::Session;
use super::state::{Event, World};
use crate::client::Arrivals;
use tiergate_core::admit::feasible;
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
        let direct = self.doors.is_empty() || population.direct;
        let door = if population.direct { DIRECT } else { self.choose_door() };
        let id = self.new_request(asking, class, door);
        let incarnation = self.requests[id as usize].incarnation;
        self.count += 1;
        self.phases[self.phase].classes[class as usize].arrived += 1;
        let leaves = self.now + (population.patience_ms * 1e6) as u64;
        if direct {
            self.at(leaves, Event::Leave(id, incarnation));
            self.forward(id, Where::AtServer { counted: true });
            return;
        }
        let arrival = self.arrival(&asking);
        let place = self.gate_class(class);
        let door = usize::from(door);
        self.doors[door].unsettled[place] += 1;
        if demand.refused && !self.one_class {
            self.doors[door].gate.refuse(arrival, Reason::Rule);
            self.end(id, Fate::Refused(Reason::Rule));
            return;
        }
        self.at(leaves, Event::Leave(id, incarnation));
        let door = &mut self.doors[door];
        match door.gate.arrive(door.moment(self.now), arrival, || id) {
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

    /// The gateway of a new request: at random, by weight, of those that are there.
    fn choose_door(&mut self) -> u8 {
        if self.doors.len() < 2 {
            return 0;
        }
        let weights: f64 = self.doors.iter().map(|door| door.weight(self.now)).sum();
        let mut left = self.rng.f64() * weights;
        let chosen = self.doors.iter().position(|door| {
            left -= door.weight(self.now);
            left < 0.0
        });
        chosen.unwrap_or(0) as u8
    }

    /// A new request; a former one's number is used again.
    fn new_request(&mut self, asking: Asking, class: u16, door: u8) -> u32 {
        let (now, place) = (self.now, Where::Nowhere);
        let request =
            Request { asking, class, door, incarnation: 0, arrived: now, submitted: now, place };
        let Some(id) = self.free.pop() else {
            self.requests.push(request);
            return self.requests.len() as u32 - 1;
        };
        let former = &mut self.requests[id as usize];
        assert!(matches!(former.place, Where::Nowhere));
        let incarnation = former.incarnation.wrapping_add(1);
        *former = Request { incarnation, ..request };
        id
    }

    /// A new session if the population has any.
    pub(super) fn begin_session(&mut self, place: u16) -> Option<u32> {
        let population = &self.trial.populations[place as usize];
        let Arrivals::Sessions { work, important_from, .. } = &population.arrivals else {
            return None;
        };
        // A session counts for the class of its first request.
        let first = self.trial.mixes[place as usize].step(0, 0);
        let class = self.trial.demands[first as usize].arrival.class.index();
        self.phases[self.phase].classes[class].sessions += 1;
        self.phases[self.phase].populations[place as usize].sessions += 1;
        self.sessions.all.push(Session {
            population: place,
            answered: 0,
            work: work.clone(),
            important_from: *important_from,
            begun: self.now,
            phase: self.phase,
        });
        Some(self.sessions.all.len() as u32 - 1)
    }

    /// What the gate is told of the connection of a request. Without a session it has one of its own, of
    /// whose past nothing is known.
    pub(super) fn connection(&self, session: Option<u32>) -> Arrival {
        let hashed = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let Some(id) = session else {
            let connection = hashed(self.count);
            return Arrival { goes_on: true, connection, ..Arrival::default() };
        };
        let session = &self.sessions.all[id as usize];
        let important = session.important_from.is_some_and(|from| session.answered >= from);
        Arrival {
            importance: important.then_some(1),
            goes_on: feasible::goes_on(session.answered),
            requests: session.answered,
            connection: hashed(u64::from(id)),
            ..Arrival::default()
        }
    }

    /// The gate's number of a class.
    pub(super) fn gate_class(&self, class: u16) -> usize {
        if self.one_class { 0 } else { usize::from(class) }
    }

    /// A request as the gate sees it.
    fn arrival(&self, asking: &Asking) -> Arrival {
        let of = self.trial.demands[asking.demand as usize].arrival;
        if self.one_class {
            let (flow, slots, bytes) = (of.flow, of.slots, of.bytes);
            let class = ClassId(0);
            // A plain queue knows no newcomers.
            return Arrival { flow, slots, bytes, goes_on: true, ..Arrival::of(class) };
        }
        let running = asking.session.is_some_and(|id| self.sessions.runs(id));
        let believed = running || !self.trial.sessions;
        let connection = self.connection(asking.session);
        Arrival {
            running: self.trial.sessions && running,
            importance: connection.importance.or(of.importance.filter(|_| believed)),
            goes_on: connection.goes_on,
            requests: connection.requests,
            connection: connection.connection,
            ..of
        }
    }
}
