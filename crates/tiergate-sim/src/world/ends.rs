//! The end of a request for its client, and what must hold after every event.

use super::request::{Fate, Where};
use super::state::{Event, World};
use crate::client::Arrivals;
use crate::distribution::exponential;

impl World<'_> {
    pub(super) fn end(&mut self, id: u32, fate: Fate) {
        self.count_end(id, fate);
        self.settled(id);
        self.forget(id);
    }

    /// The gate has nothing to do with the request any more.
    pub(super) fn settled(&mut self, id: u32) {
        let request = &self.requests[id as usize];
        let class = self.gate_class(request.class);
        if let Some(door) = self.doors.get_mut(usize::from(request.door)) {
            door.unsettled[class] -= 1;
        }
    }

    pub(super) fn forget(&mut self, id: u32) {
        let request = &mut self.requests[id as usize];
        request.incarnation = request.incarnation.wrapping_add(1);
        request.place = Where::Nowhere;
        self.free.push(id);
    }

    pub(super) fn count_end(&mut self, id: u32, fate: Fate) {
        let request = &self.requests[id as usize];
        let (asking, class_index) = (request.asking, request.class);
        let class = &mut self.phases[self.phase].classes[usize::from(class_index)];
        match fate {
            Fate::Good => {
                self.series.at(self.now, usize::from(class_index)).good += 1;
                class.good += 1;
                let gateways = &mut self.phases[self.phase].gateways;
                if let Some(gateway) = gateways.get_mut(usize::from(request.door)) {
                    gateway.good += 1;
                }
                let class = &mut self.phases[self.phase].classes[usize::from(class_index)];
                class.total.record(self.now - request.arrived);
                class.service.record(self.now - request.submitted);
            }
            Fate::Refused(reason) => {
                class.refused += 1;
                class.refused_by[reason.index()] += 1;
            }
            Fate::LeftWaiting => class.left_waiting += 1,
            Fate::LeftRunning => class.left_running += 1,
            Fate::Failed => class.failed += 1,
        }
        if let Some(session) = asking.session {
            self.continue_session(session, fate, asking.tries, class_index);
            return;
        }
        let trial = self.trial;
        let population = &trial.populations[asking.population as usize];
        if fate != Fate::Good && asking.tries < population.retries {
            let wait = population.retry_after_ms * 1e6 * exponential(&mut self.rng);
            self.at(
                self.now + wait as u64,
                Event::Retry(asking.population, asking.demand, asking.tries + 1),
            );
        } else if let Arrivals::Closed { think, .. } = &population.arrivals {
            let mut think = think.draw(&mut self.rng);
            if fate != Fate::Good {
                // Nobody hammers without end: a user who got nothing pauses first.
                think += population.retry_after_ms * 1e6;
            }
            self.at(self.now + think as u64, Event::Ask(asking.population, asking.client));
        }
    }

    /// A request of the session has ended: the next, another try, or the end.
    fn continue_session(&mut self, id: u32, fate: Fate, tries: u32, class: u16) {
        let trial = self.trial;
        let session = &mut self.sessions.all[id as usize];
        let population = &trial.populations[session.population as usize];
        let Arrivals::Sessions { requests, think, .. } = &population.arrivals else {
            unreachable!("only such a population begins sessions")
        };
        if fate != Fate::Good && tries < population.retries {
            let wait = population.retry_after_ms * 1e6 * exponential(&mut self.rng);
            self.at(self.now + wait as u64, Event::Continue(id, tries + 1));
            return;
        }
        session.answered += u32::from(fate == Fate::Good);
        if fate == Fate::Good && session.answered < *requests {
            let think = think.draw(&mut self.rng);
            self.at(self.now + think as u64, Event::Continue(id, 0));
            return;
        }
        let phase = &mut self.phases[session.phase];
        let of_population = &mut phase.populations[session.population as usize];
        for report in [&mut phase.classes[class as usize], of_population] {
            report.started += u64::from(session.answered > 0);
            if session.answered == *requests {
                report.completed += 1;
                report.session.record(self.now - session.begun);
            }
        }
    }

    /// The server has ended with a request; `wasted`: its client had left.
    pub(super) fn count_work(&mut self, id: u32, wasted: bool) {
        let request = &self.requests[id as usize];
        let class = usize::from(request.class);
        let began = self.server.began(id).expect("it has ended, so it began");
        let waited = began - request.arrived;
        let seconds = (self.now - began) as f64 / 1e9;
        self.series.at(self.now, class).wait.record(waited);
        let class = &mut self.phases[self.phase].classes[class];
        class.wait.record(waited);
        class.work_s += seconds;
        class.wasted_s += if wasted { seconds } else { 0.0 };
    }

    /// What must hold after every event; O(gateways × classes).
    pub(super) fn check(&mut self) {
        for door in &mut self.doors {
            let gate = &door.gate;
            let held_up: u32 = gate.states().map(|class| class.held_up).sum();
            assert!(
                !self.lends_all
                    || gate.waiting() == held_up as usize
                    || gate.running() >= gate.slots(),
                "at {} ns a slot is idle while {} wait",
                self.now,
                gate.waiting()
            );
            door.check_running(self.now, self.narrow);
        }
        if self.count.is_multiple_of(1024) {
            self.check_all();
        }
    }

    /// Conservation, class by class: arrived = finished + refused + cancelled + waiting + running.
    pub(super) fn check_all(&self) {
        for door in &self.doors {
            let accounts = door.gate.account().classes.iter();
            for (class, (account, state)) in accounts.zip(door.gate.states()).enumerate() {
                let held = u64::from(state.waiting) + u64::from(state.requests);
                let gone =
                    account.finished_total() + account.refused_total() + account.cancelled_waiting;
                assert_eq!(account.arrived, gone + held, "class {class} at {}", self.now);
                assert_eq!(door.unsettled[class], held, "class {class} at {}", self.now);
            }
        }
    }
}
