//! Sessions: requests of one client that follow each other, and what becomes of the whole.

use super::{Event, Fate, World};
use crate::client::Arrivals;
use crate::distribution::exponential;

/// A session that has begun.
#[derive(Debug)]
struct Session {
    population: u16,
    /// Requests answered well so far.
    answered: u32,
    begun: u64,
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

    /// Whether the gateway would know the session again: it was admitted and answered well.
    pub(super) fn runs(&self, id: u32) -> bool {
        self.all[id as usize].answered > 0
    }
}

impl World<'_> {
    /// A new session if the population has any.
    pub(super) fn begin_session(&mut self, place: u16) -> Option<u32> {
        let population = &self.scenario.population[place as usize];
        if !matches!(population.arrivals, Arrivals::Sessions { .. }) {
            return None;
        }
        let class = self.scenario.class_index(&population.class).expect("checked by `parse`");
        self.phases[self.phase].classes[class].sessions += 1;
        self.sessions.all.push(Session {
            population: place,
            answered: 0,
            begun: self.now,
            phase: self.phase,
        });
        Some(self.sessions.all.len() as u32 - 1)
    }

    /// A request of the session has ended: the next, another try, or the end.
    pub(super) fn go_on(&mut self, id: u32, fate: Fate, tries: u32, class: u16) {
        let scenario = self.scenario;
        let session = &mut self.sessions.all[id as usize];
        let population = &scenario.population[session.population as usize];
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
        let report = &mut self.phases[session.phase].classes[class as usize];
        report.started += u64::from(session.answered > 0);
        if session.answered == *requests {
            report.completed += 1;
            report.session.record(self.now - session.begun);
        }
    }
}
