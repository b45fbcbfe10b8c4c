//! Sessions: requests of one client that follow each other, and what becomes of the whole.

use super::{Event, Fate, World};
use crate::asked::Mix;
use crate::client::Arrivals;
use crate::distribution::exponential;
use tiergate_core::admit::feasible;
use tiergate_core::gate::Arrival;

/// A session that has begun.
#[derive(Debug)]
struct Session {
    population: u16,
    /// Requests answered well so far.
    answered: u32,
    begun: u64,
    /// How much work each request is.
    work: Vec<f64>,
    important_from: Option<u32>,
    /// The phase that it began in, and is counted in.
    phase: usize,
}

/// Every session of a run, by number.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    all: Vec<Session>,
}

impl Sessions {
    pub(super) fn population(&self, id: u32) -> u16 {
        self.all[id as usize].population
    }

    /// How much more work than one is drawn its next request is.
    pub(super) fn work(&self, id: u32) -> f64 {
        let session = &self.all[id as usize];
        session.work.get(session.answered as usize).copied().unwrap_or(1.0)
    }

    /// Its client, and the demand that its next request is.
    pub(super) fn asks(&self, id: u32, mix: &Mix) -> (u32, u32) {
        (id, mix.step(self.all[id as usize].answered, id))
    }

    /// Whether the gateway would know the session again: it was admitted and answered well.
    pub(super) fn runs(&self, id: u32) -> bool {
        self.all[id as usize].answered > 0
    }
}

impl World<'_> {
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

    /// A request of the session has ended: the next, another try, or the end.
    pub(super) fn go_on(&mut self, id: u32, fate: Fate, tries: u32, class: u16) {
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
}
