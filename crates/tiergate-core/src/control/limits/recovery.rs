//! A server that has come back gets its slots back gradually: twice as many with each full round of good answers.
//!
//! A process that has just started answers its first request and is slow for the next hundred: nothing is compiled, no cache is filled, no
//! connection to its database is open. Whatever had waited would go there at one moment. Not so a server that was busy all the
//! time, of which one connection has failed: what it has in progress counts as a round.

use crate::time::Moment;
use std::time::Duration;

/// After so long it has all its slots, whatever it has answered: where each request takes seconds, so do the rounds.
pub(super) const LASTS: Duration = Duration::from_secs(10);

/// How many requests a server may have in progress that has come back.
#[derive(Debug)]
pub(super) struct Recovery {
    most: u32,
    /// Good answers since it may have so many.
    answers: u32,
    ends: Moment,
}

impl Recovery {
    /// A server comes back that has `busy` requests in progress, or had when it answered. `None`: it may have all its slots.
    pub(super) fn begins(now: Moment, busy: u32, slots: u32) -> Option<Self> {
        let most = busy.max(1).saturating_mul(2);
        (most < slots).then(|| Recovery { most, answers: 0, ends: now + LASTS })
    }

    /// So many it may have at most.
    pub(super) fn most(&self) -> u32 {
        self.most
    }

    /// It has answered a request well.
    pub(super) fn answered(&mut self) {
        self.answers += 1;
        if self.answers >= self.most {
            (self.most, self.answers) = (self.most.saturating_mul(2), 0);
        }
    }

    /// Whether it may have all its slots, which are so many.
    pub(super) fn is_over(&self, now: Moment, slots: u32) -> bool {
        self.most >= slots || now >= self.ends
    }
}
