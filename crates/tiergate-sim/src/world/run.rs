//! The event loop.

use super::request::{Asking, Fate, Where};
use super::state::{Event, World};
use crate::client::Arrivals;
use crate::report::Report;
use crate::server::Ended;
use std::cmp::Reverse;
use std::time::Duration;
use tiergate_core::gate::{Claim, Effect, Gate, Slot};
use tiergate_core::origin::OnCancel;
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::time::Moment;

/// Events after which progress is told.
const PROGRESS_EVENTS: u64 = 65_536;
/// The gateway looks around no more often than this.
const TICK_MIN_NS: u64 = 1_000_000;

impl World<'_> {
    /// Runs to the end. `progress` is told now and then how much is done, 0.0 to 1.0.
    pub(crate) fn run(mut self, progress: &mut dyn FnMut(f64)) -> Report {
        self.begin();
        let end = (self.trial.seconds * 1e9) as u64;
        for step in 0_u64.. {
            if step.is_multiple_of(PROGRESS_EVENTS) {
                progress(self.now as f64 / end as f64);
            }
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
            series: self.series,
        }
    }

    fn begin(&mut self) {
        let trial = self.trial;
        for (place, population) in trial.populations.iter().enumerate() {
            let place = place as u16;
            match &population.arrivals {
                Arrivals::Poisson { .. }
                | Arrivals::Constant { .. }
                | Arrivals::Sessions { .. } => {
                    self.next_arrival(place, population.from_s);
                }
                Arrivals::Closed { users, think } => {
                    for user in 0..*users {
                        let think = think.draw(&mut self.rng);
                        // A first request within the think time, so that users are not in step.
                        let at = population.from_s * 1e9 + think * self.rng.f64();
                        self.at(at as u64, Event::Ask(place, user));
                    }
                }
                Arrivals::Replay => self.next_replayed(),
            }
        }
        if trial.plan.shedding.is_some() && !self.one_class {
            // The gate looks around all the time, as it does in the gateway.
            (0..self.doors.len() as u8).for_each(|door| self.tick_by(door, 0));
        }
        self.settle();
    }

    pub(super) fn at(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, event)));
    }

    fn move_to(&mut self, now: u64) {
        debug_assert!(now >= self.now);
        while self.phase + 1 < self.phases.len()
            && (self.phases[self.phase].to_s * 1e9) as u64 <= now
        {
            self.count_slots((self.phases[self.phase].to_s * 1e9) as u64);
            self.phase += 1;
        }
        self.count_slots(now);
        self.now = now;
    }

    /// Counts the slots until then.
    fn count_slots(&mut self, until: u64) {
        let seconds = (until - self.slots_since) as f64 / 1e9;
        self.slots_since = until;
        let phase = &mut self.phases[self.phase];
        for (door, report) in self.doors.iter().zip(&mut phase.gateways) {
            let slot_seconds = f64::from(door.gate.slots()) * seconds;
            report.slot_seconds += slot_seconds;
            report.busy_seconds += f64::from(door.gate.running()) * seconds;
            phase.slot_seconds += slot_seconds;
        }
    }

    /// The time at the gateway of a request.
    fn moment_of(&self, id: u32) -> Moment {
        self.doors[usize::from(self.requests[id as usize].door)].moment(self.now)
    }

    /// The time at the gateway of a request whose answer is whole, when its first byte came.
    fn first_byte(&self, id: u32) -> Moment {
        let at = self.server.answered(id).unwrap_or(self.now);
        self.doors[usize::from(self.requests[id as usize].door)].moment(at)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive(population) => {
                self.next_arrival(population, self.now as f64 / 1e9);
                let mix = &self.trial.mixes[population as usize];
                let session = self.begin_session(population);
                let (client, demand) = match session {
                    Some(id) => self.sessions.asks(id, mix),
                    None => {
                        let client = mix.client(&mut self.rng);
                        (client, mix.draw(client, &mut self.rng))
                    }
                };
                self.send(Asking { population, client, demand, tries: 0, session });
            }
            // The population has ended.
            Event::Ask(population, ..) | Event::Retry(population, ..)
                if self.now as f64 >= self.trial.populations[population as usize].to_s * 1e9 => {}
            Event::Ask(population, client) => {
                let mix = &self.trial.mixes[population as usize];
                let demand = mix.draw(client, &mut self.rng);
                self.send(Asking { population, client, demand, tries: 0, session: None });
            }
            Event::Retry(population, demand, tries) => {
                let client = self.trial.mixes[population as usize].client_of(demand);
                self.send(Asking { population, client, demand, tries, session: None });
            }
            Event::Replay => self.replay(),
            Event::Continue(session, tries) => {
                let population = self.sessions.population(session);
                let mix = &self.trial.mixes[population as usize];
                let (client, demand) = self.sessions.asks(session, mix);
                let session = Some(session);
                self.send(Asking { population, client, demand, tries, session });
            }
            Event::Leave(request, incarnation) => self.leave(request, incarnation),
            Event::GiveUp(request, incarnation) => self.give_up(request, incarnation),
            Event::Tick(door) => self.tick(door),
        }
    }

    pub(super) fn forward(&mut self, id: u32, place: Where) {
        let request = &mut self.requests[id as usize];
        request.submitted = self.now;
        request.place = place;
        let incarnation = request.incarnation;
        let class = &self.trial.plan.classes[usize::from(request.class)].name;
        let mut work = self.trial.demands[request.asking.demand as usize].work;
        work.times *= request.asking.session.map_or(1.0, |session| self.sessions.work(session));
        if self.server.submit(self.now, id, class, work) {
            if let Some(longest) = self.trial.origin_timeout.filter(|_| !self.doors.is_empty()) {
                let at = self.now + longest.as_nanos() as u64;
                self.at(at, Event::GiveUp(id, incarnation));
            }
            self.permit_preemption(id);
            return;
        }
        let place = std::mem::replace(&mut self.requests[id as usize].place, Where::Nowhere);
        self.end(id, Fate::Failed);
        if let Where::Running(slot) = place {
            self.finish(id, slot, Outcome::without_answer(End::Failed));
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
        let wasted = matches!(place, Where::Deserted(..) | Where::AtServer { counted: false });
        self.count_work(id, wasted);
        let demand = self.requests[id as usize].asking.demand;
        let bytes = self.trial.demands[demand as usize].bytes;
        match place {
            Where::Running(slot) => {
                let end = match how {
                    Ended::Served => End::Served,
                    Ended::Error => End::Error,
                    Ended::Pushback => End::Pushback,
                };
                let first_byte = Some(self.first_byte(id).since(slot.admitted()));
                self.end(id, fate);
                self.finish(id, slot, Outcome { end, first_byte, bytes, left: None });
            }
            Where::Deserted(slot, left) => {
                let first_byte = Some(self.first_byte(id).since(slot.admitted()));
                self.settled(id);
                self.forget(id);
                self.finish(
                    id,
                    slot,
                    Outcome { end: End::Cancelled, first_byte, bytes, left: Some(left) },
                );
            }
            Where::AtServer { counted: true } => self.end(id, fate),
            Where::AtServer { counted: false } => self.forget(id),
            Where::Nowhere | Where::Waiting(_) => unreachable!("the server answers what it got"),
        }
    }

    fn leave(&mut self, id: u32, incarnation: u32) {
        if self.requests[id as usize].incarnation != incarnation {
            return;
        }
        match std::mem::replace(&mut self.requests[id as usize].place, Where::Nowhere) {
            Where::Nowhere => {}
            Where::Waiting(ticket) => {
                let now = self.moment_of(id);
                self.gate_of(id).cancel(now, ticket);
                self.end(id, Fate::LeftWaiting);
            }
            Where::Running(slot) => {
                let left = self.moment_of(id).since(slot.admitted());
                if self.trial.on_cancel == OnCancel::Abort {
                    self.abandon(id, Fate::LeftRunning);
                    let outcome = Outcome::without_answer(End::Cancelled);
                    return self.finish(id, slot, Outcome { left: Some(left), ..outcome });
                }
                self.server.abandon(id);
                self.count_end(id, Fate::LeftRunning);
                self.requests[id as usize].place = Where::Deserted(slot, left);
            }
            Where::AtServer { counted: true } => self.abandon(id, Fate::LeftRunning),
            place @ (Where::Deserted(..) | Where::AtServer { counted: false }) => {
                self.requests[id as usize].place = place;
            }
        }
    }

    fn give_up(&mut self, id: u32, incarnation: u32) {
        let request = &mut self.requests[id as usize];
        if request.incarnation != incarnation {
            return;
        }
        match std::mem::replace(&mut request.place, Where::Nowhere) {
            Where::Running(slot) => {
                self.abandon(id, Fate::Failed);
                self.finish(id, slot, Outcome::without_answer(End::TimedOut));
            }
            Where::Deserted(slot, left) => self.let_go(id, slot, End::Cancelled, left),
            place => request.place = place,
        }
    }

    /// A slot whose client left is not kept any longer; the server goes on.
    fn let_go(&mut self, id: u32, slot: Slot, end: End, left: Duration) {
        self.settled(id);
        self.requests[id as usize].place = Where::AtServer { counted: false };
        self.finish(id, slot, Outcome { left: Some(left), ..Outcome::without_answer(end) });
    }

    /// The client has what it gets; the server goes on.
    fn abandon(&mut self, id: u32, fate: Fate) {
        self.server.abandon(id);
        self.count_end(id, fate);
        self.settled(id);
        self.requests[id as usize].place = Where::AtServer { counted: false };
    }

    fn finish(&mut self, id: u32, slot: Slot, outcome: Outcome) {
        let now = self.moment_of(id);
        self.gate_of(id).finish(now, slot, outcome);
        // Each end changes the limit: a rise admits requests, and those that the server refuses at once end in the same moment.
        let door = usize::from(self.requests[id as usize].door);
        self.doors[door].check_running(self.now, self.narrow);
    }

    /// The gate that a request came to.
    fn gate_of(&mut self, id: u32) -> &mut Gate<u32> {
        &mut self.doors[usize::from(self.requests[id as usize].door)].gate
    }

    fn tick_by(&mut self, door: u8, at: u64) {
        let of = &mut self.doors[usize::from(door)];
        if at < of.tick_at {
            of.tick_at = at;
            self.at(at, Event::Tick(door));
        }
    }

    fn tick(&mut self, number: u8) {
        let door = &mut self.doors[usize::from(number)];
        if self.now < door.tick_at {
            return;
        }
        let next = door.gate.tick(door.moment(self.now));
        let next = door.when(next);
        door.tick_at = u64::MAX;
        if next != u64::MAX {
            self.tick_by(number, next.max(self.now + 1));
        }
    }

    /// Tells the owners of settled tickets and of slots that are wanted back.
    fn settle(&mut self) {
        for number in 0..self.doors.len() as u8 {
            self.settle_at(number);
        }
        let slots = self.doors.iter().map(|door| door.gate.slots()).fold(0, u32::saturating_add);
        if !self.doors.is_empty() && self.slots.last().is_none_or(|&(_, last)| last != slots) {
            self.slots.push((self.now as f64 / 1e9, slots));
        }
    }

    fn settle_at(&mut self, number: u8) {
        loop {
            let gate = &mut self.doors[usize::from(number)].gate;
            let Some(id) = gate.next_effect().and_then(Effect::into_wake) else { break };
            match std::mem::replace(&mut self.requests[id as usize].place, Where::Nowhere) {
                Where::Waiting(ticket) => match gate.claim(ticket) {
                    Claim::Admitted(slot) => self.forward(id, Where::Running(slot)),
                    Claim::Rejected(reason) => self.end(id, Fate::Refused(reason)),
                    Claim::Waiting => self.requests[id as usize].place = Where::Waiting(ticket),
                },
                Where::Running(slot) if gate.is_preempted(&slot) => {
                    self.abandon(id, Fate::Failed);
                    self.finish(id, slot, Outcome::without_answer(End::Preempted));
                }
                Where::Deserted(slot, left) if gate.is_preempted(&slot) => {
                    self.let_go(id, slot, End::Preempted, left);
                }
                place => self.requests[id as usize].place = place,
            }
        }
        let door = &mut self.doors[usize::from(number)];
        let now = door.moment(self.now);
        let at = match door.gate.next_due(now) {
            Moment::NEVER => return,
            // What is due already was looked at just now: again as soon as the gateway would.
            due if due <= now => self.now + TICK_MIN_NS,
            due => door.when(due),
        };
        self.tick_by(number, at);
    }

    /// Lets the gate preempt a request that has its slot, where the policy allows it.
    fn permit_preemption(&mut self, id: u32) {
        if usize::from(self.requests[id as usize].door) >= self.doors.len() {
            return;
        }
        let now = self.moment_of(id);
        let request = &mut self.requests[id as usize];
        let repeatable = self.trial.demands[request.asking.demand as usize].repeatable;
        if let (Where::Running(slot), true) = (&mut request.place, repeatable) {
            self.doors[usize::from(request.door)].gate.permit_preemption(now, slot, id);
        }
    }
}
