//! Sessions: requests of one client that follow each other, and what becomes of the whole.

use crate::asked::Mix;

/// A session that has begun.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) population: u16,
    /// Requests answered well so far.
    pub(super) answered: u32,
    pub(super) begun: u64,
    /// How much work each request is.
    pub(super) work: Vec<f64>,
    pub(super) important_from: Option<u32>,
    /// The phase that it began in, and is counted in.
    pub(super) phase: usize,
}

/// Every session of a run, by number.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    pub(super) all: Vec<Session>,
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
