//! The world: one event loop in which clients, the gate and the server meet.

mod ends;
mod request;
mod sessions;

use crate::client::Arrivals;
use crate::laws::Law;
use crate::report::{ClassReport, Phase, Report};
use crate::scenario::{LimitKind, Scenario};
use crate::server::{Ended, Server};
use fastrand::Rng;
use request::{Fate, Request, Where};
use sessions::Sessions;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use tiergate_core::class::ClassId;
use tiergate_core::control::{Slots, adaptive};
use tiergate_core::gate::{Arrival, Claim, Gate, Slot, Verdict};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::reason::Reason;
use tiergate_core::time::Moment;

/// What happens at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A population's next request (open loop).
    Arrive(u16),
    /// A user's next request (closed loop), or a retry: population and tries so far.
    Send(u16, u32),
    /// A session's next request, or a retry: session and tries so far.
    Continue(u32, u32),
    /// The client of request `.0` leaves, if it is still the same request (`.1`).
    Leave(u32, u32),
    /// The gateway gives up on the origin.
    GiveUp(u32, u32),
    /// The gate's own time.
    Tick,
}

/// A simulation under way.
pub(crate) struct World<'a> {
    scenario: &'a Scenario,
    rng: Rng,
    now: u64,
    sequence: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    requests: Vec<Request>,
    free: Vec<u32>,
    gate: Option<Gate<u32>>,
    law: Option<Box<dyn Law>>,
    server: Server,
    ended: Vec<(u32, Ended)>,
    sessions: Sessions,
    closed: Vec<u32>,
    tick_at: u64,
    phases: Vec<Phase>,
    phase: usize,
    slots: Vec<(f64, u32)>,
    slots_since: u64,
    /// Running may exceed the limit only by what ran when the limit fell.
    running_allowed: u32,
    count: u64,
    /// Requests without an outcome, by class.
    unsettled: Vec<u64>,
}

impl<'a> World<'a> {
    pub(crate) fn new(scenario: &'a Scenario, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut bounds: Vec<f64> = scenario.cuts_s.clone();
        bounds.insert(0, 0.0);
        bounds.push(scenario.seconds);
        let phases = bounds
            .windows(2)
            .map(|pair| Phase {
                from_s: pair[0],
                to_s: pair[1],
                classes: vec![ClassReport::default(); scenario.class.len()],
                populations: vec![ClassReport::default(); scenario.population.len()],
                slot_seconds: 0.0,
            })
            .collect();
        let gate = match scenario.limit {
            LimitKind::None => None,
            _ => Some(Gate::new(scenario.plan())),
        };
        let law = match scenario.limit {
            LimitKind::Law(kind) => Some(kind.build(&adaptive::Settings::default())),
            _ => None,
        };
        let server = Server::new(scenario.server.clone(), rng.u64(..));
        let mut world = World {
            scenario,
            rng,
            now: 0,
            sequence: 0,
            events: BinaryHeap::new(),
            requests: Vec::new(),
            free: Vec::new(),
            gate,
            law,
            server,
            ended: Vec::new(),
            sessions: Sessions::default(),
            closed: vec![0; scenario.seconds.ceil() as usize],
            tick_at: u64::MAX,
            phases,
            phase: 0,
            slots: Vec::new(),
            slots_since: 0,
            running_allowed: 0,
            count: 0,
            unsettled: vec![0; scenario.class.len()],
        };
        world.begin();
        world
    }

    /// Runs to the end.
    pub(crate) fn run(mut self) -> Report {
        let end = (self.scenario.seconds * 1e9) as u64;
        loop {
            let event = self.events.peek().map_or(u64::MAX, |Reverse((at, ..))| *at);
            let server = self.server.next_event().max(self.now);
            let next = event.min(server);
            if next >= end {
                break;
            }
            self.move_to(next);
            if server <= event {
                self.serve();
            } else {
                let Reverse((_, _, event)) = self.events.pop().expect("just seen");
                self.happen(event);
            }
            self.settle();
            self.check();
        }
        self.move_to(end);
        self.check_all();
        Report {
            seed: 0,
            requests: self.count,
            phases: self.phases,
            slots: self.slots,
            closed: self.closed,
        }
    }

    fn begin(&mut self) {
        let scenario = self.scenario;
        for (place, population) in scenario.population.iter().enumerate() {
            let place = place as u16;
            match &population.arrivals {
                Arrivals::Poisson { .. }
                | Arrivals::Constant { .. }
                | Arrivals::Sessions { .. } => {
                    self.next_arrival(place, population.from_s);
                }
                Arrivals::Closed { users, think } => {
                    for _ in 0..*users {
                        let think = think.draw(&mut self.rng);
                        // A first request within the think time, so that users are not in step.
                        let at = population.from_s * 1e9 + think * self.rng.f64();
                        self.at(at as u64, Event::Send(place, 0));
                    }
                }
            }
        }
        if scenario.shed_aim_ms.is_some() {
            // The gate looks around all the time, as it does in the gateway.
            self.tick_by(0);
        }
        self.settle();
    }

    fn at(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, event)));
    }

    fn move_to(&mut self, now: u64) {
        debug_assert!(now >= self.now);
        let slots = self.gate.as_ref().map_or(0, |gate| gate.slots());
        while self.phase + 1 < self.phases.len()
            && (self.phases[self.phase].to_s * 1e9) as u64 <= now
        {
            let cut = (self.phases[self.phase].to_s * 1e9) as u64;
            self.phases[self.phase].slot_seconds +=
                f64::from(slots) * (cut - self.slots_since) as f64 / 1e9;
            self.slots_since = cut;
            self.phase += 1;
        }
        self.phases[self.phase].slot_seconds +=
            f64::from(slots) * (now - self.slots_since) as f64 / 1e9;
        self.slots_since = now;
        self.now = now;
    }

    fn moment(&self) -> Moment {
        Moment::from_nanos(self.now)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive(population) => {
                self.next_arrival(population, self.now as f64 / 1e9);
                let session = self.begin_session(population);
                self.send(population, 0, session);
            }
            Event::Send(population, tries) => {
                if (self.now as f64) < self.scenario.population[population as usize].to_s * 1e9 {
                    self.send(population, tries, None);
                }
            }
            Event::Continue(session, tries) => {
                self.send(self.sessions.population(session), tries, Some(session));
            }
            Event::Leave(request, incarnation) => self.leave(request, incarnation),
            Event::GiveUp(request, incarnation) => self.give_up(request, incarnation),
            Event::Tick => self.tick(),
        }
    }

    fn next_arrival(&mut self, place: u16, from_s: f64) {
        let population = &self.scenario.population[place as usize];
        let (rate, random) = match &population.arrivals {
            Arrivals::Poisson { rate } => (rate, true),
            Arrivals::Constant { rate } => (rate, false),
            Arrivals::Sessions { rate, .. } => (rate, true),
            Arrivals::Closed { .. } => return,
        };
        match rate.next(from_s, random, &mut self.rng) {
            Some(at) if at < population.to_s => self.at((at * 1e9) as u64, Event::Arrive(place)),
            _ => {}
        }
    }

    fn send(&mut self, place: u16, tries: u32, session: Option<u32>) {
        let scenario = self.scenario;
        let population = &scenario.population[place as usize];
        let class = scenario.class_index(&population.class).expect("checked by `parse`") as u16;
        let id = self.new_request(place, class, tries, session);
        let incarnation = self.requests[id as usize].incarnation;
        self.count += 1;
        self.unsettled[class as usize] += 1;
        self.phases[self.phase].classes[class as usize].arrived += 1;
        let leaves = self.now + (population.patience_ms * 1e6) as u64;
        self.at(leaves, Event::Leave(id, incarnation));
        let now = self.moment();
        if self.gate.is_none() {
            self.forward(id, Where::AtServer { counted: true });
            return;
        }
        let connection = self.connection(session);
        let Some(gate) = &mut self.gate else { unreachable!("seen above") };
        let arrival = Arrival {
            generation: gate.plan().generation,
            running: scenario.sessions && session.is_some_and(|id| self.sessions.runs(id)),
            class: ClassId(class),
            ..connection
        };
        match gate.arrive(now, arrival, || id) {
            Verdict::Admit(slot) => {
                self.law_admitted();
                self.forward(id, Where::Running(slot));
            }
            Verdict::Queue(ticket) => {
                let deadline = gate.plan().classes[class as usize].deadline;
                self.requests[id as usize].place = Where::Waiting(ticket);
                self.tick_by((now + deadline).nanos());
            }
            Verdict::Reject(reason) => {
                if reason == Reason::Unimportant {
                    self.closed[(self.now / 1_000_000_000) as usize] += 1;
                }
                self.end(id, Fate::Refused);
            }
        }
    }

    fn forward(&mut self, id: u32, place: Where) {
        let request = &mut self.requests[id as usize];
        request.submitted = self.now;
        request.place = place;
        let incarnation = request.incarnation;
        let class = &self.scenario.class[usize::from(request.class)].name;
        let times = request.session.map_or(1.0, |session| self.sessions.work(session));
        if self.server.submit(self.now, id, class, times) {
            if self.gate.is_some() && self.scenario.origin_timeout_ms < 60_000.0 {
                let at = self.now + (self.scenario.origin_timeout_ms * 1e6) as u64;
                self.at(at, Event::GiveUp(id, incarnation));
            }
            return;
        }
        let place = std::mem::replace(&mut self.requests[id as usize].place, Where::Nowhere);
        self.end(id, Fate::Failed);
        if let Where::Running(slot) = place {
            self.finish(slot, Outcome::without_answer(End::Failed));
        }
    }

    /// The server has something to say.
    fn serve(&mut self) {
        let mut ended = std::mem::take(&mut self.ended);
        self.server.advance(self.now, &mut ended);
        for (id, how) in ended.drain(..) {
            self.answered(id, how);
        }
        self.ended = ended;
    }

    fn answered(&mut self, id: u32, how: Ended) {
        let place = std::mem::replace(&mut self.requests[id as usize].place, Where::Nowhere);
        let fate = if how == Ended::Served { Fate::Good } else { Fate::Failed };
        match place {
            Where::Running(slot) => {
                let end = match how {
                    Ended::Served => End::Served,
                    Ended::Error => End::Error,
                    Ended::Refused => End::Failed,
                };
                let first_byte = Some(self.moment().since(slot.admitted()));
                self.end(id, fate);
                self.finish(slot, Outcome { end, first_byte, bytes: 0 });
            }
            Where::AtServer { counted: true } => self.end(id, fate),
            Where::AtServer { counted: false } => self.forget(id),
            Where::Nowhere | Where::Waiting(_) => unreachable!("the server answers what it got"),
        }
    }

    fn leave(&mut self, id: u32, incarnation: u32) {
        let now = self.moment();
        let request = &mut self.requests[id as usize];
        if request.incarnation != incarnation {
            return;
        }
        match std::mem::replace(&mut request.place, Where::Nowhere) {
            Where::Nowhere => {}
            Where::Waiting(ticket) => {
                self.gate.as_mut().expect("only a gate makes wait").cancel(now, ticket);
                self.law_released();
                self.end(id, Fate::LeftWaiting);
            }
            Where::Running(slot) => {
                self.abandon(id, Fate::LeftRunning);
                self.finish(slot, Outcome::without_answer(End::Cancelled));
            }
            Where::AtServer { counted: true } => self.abandon(id, Fate::LeftRunning),
            place @ Where::AtServer { counted: false } => request.place = place,
        }
    }

    fn give_up(&mut self, id: u32, incarnation: u32) {
        let request = &mut self.requests[id as usize];
        if request.incarnation != incarnation || !matches!(request.place, Where::Running(_)) {
            return;
        }
        if let Where::Running(slot) = std::mem::replace(&mut request.place, Where::Nowhere) {
            self.abandon(id, Fate::Failed);
            self.finish(slot, Outcome::without_answer(End::Failed));
        }
    }

    /// The client has what it gets; the server goes on.
    fn abandon(&mut self, id: u32, fate: Fate) {
        self.server.abandon(id);
        self.count_end(id, fate);
        self.requests[id as usize].place = Where::AtServer { counted: false };
    }

    fn finish(&mut self, slot: Slot, outcome: Outcome) {
        let now = self.moment();
        let gate = self.gate.as_mut().expect("a slot comes from a gate");
        if let Some(law) = &mut self.law {
            let load = adaptive::Load { running: gate.running(), waiting: gate.waiting() as u32 };
            law.finished(now, slot.admitted(), &outcome, load);
        }
        gate.finish(now, slot, outcome);
        self.law_released();
    }

    /// Lets a law under comparison set the gate's slots: a reload, as an operator would.
    fn law_released(&mut self) {
        let (Some(law), Some(gate)) = (&mut self.law, &mut self.gate) else {
            return;
        };
        let slots = law.slots().max(1);
        if slots != gate.slots() {
            let mut plan = gate.plan().clone();
            plan.generation += 1;
            plan.slots = Slots::Fixed(slots);
            gate.reconfigure(Moment::from_nanos(self.now), plan);
        }
    }

    fn law_admitted(&mut self) {
        if let (Some(law), Some(gate)) = (&mut self.law, &self.gate) {
            let load = adaptive::Load { running: gate.running(), waiting: gate.waiting() as u32 };
            law.admitted(Moment::from_nanos(self.now), load);
        }
    }

    fn tick_by(&mut self, at: u64) {
        if at < self.tick_at {
            self.tick_at = at;
            self.at(at, Event::Tick);
        }
    }

    fn tick(&mut self) {
        if self.now < self.tick_at {
            return;
        }
        let now = self.moment();
        if let Some(gate) = &mut self.gate {
            let next = gate.tick(now).nanos();
            self.tick_at = u64::MAX;
            if next != u64::MAX {
                self.tick_by(next.max(self.now + 1));
            }
        }
    }

    /// Tells the owners of settled tickets.
    fn settle(&mut self) {
        while let Some(id) = self.gate.as_mut().and_then(Gate::next_wake) {
            let place = std::mem::replace(&mut self.requests[id as usize].place, Where::Nowhere);
            let Where::Waiting(ticket) = place else {
                unreachable!("only a waiting request is woken")
            };
            let gate = self.gate.as_mut().expect("it woke someone");
            match gate.claim(ticket) {
                Claim::Admitted(slot) => {
                    self.law_admitted();
                    self.forward(id, Where::Running(slot));
                }
                Claim::Rejected(_) => self.end(id, Fate::Refused),
                Claim::Waiting => unreachable!("a woken request has an answer"),
            }
        }
        if let Some(gate) = &self.gate
            && self.slots.last().is_none_or(|&(_, last)| last != gate.slots())
        {
            self.slots.push((self.now as f64 / 1e9, gate.slots()));
        }
    }
}
