//! A request under way.

use super::World;
use tiergate_core::gate::{Slot, Ticket};

/// Where a request is.
#[derive(Debug)]
pub(super) enum Where {
    Nowhere,
    Waiting(Ticket),
    Running(Slot),
    /// Without a gate, or its client left and the server does not know.
    AtServer {
        counted: bool,
    },
}

/// A request under way, or room for one.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) population: u16,
    pub(super) class: u16,
    pub(super) tries: u32,
    /// The session that it belongs to.
    pub(super) session: Option<u32>,
    /// Tells this request from former ones with the same number.
    pub(super) incarnation: u32,
    pub(super) arrived: u64,
    pub(super) submitted: u64,
    pub(super) place: Where,
}

/// How a request ended for its client.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Good,
    Refused,
    LeftWaiting,
    LeftRunning,
    Failed,
}

impl World<'_> {
    /// A new request; a former one's number is used again.
    pub(super) fn new_request(
        &mut self,
        population: u16,
        class: u16,
        tries: u32,
        session: Option<u32>,
    ) -> u32 {
        let id = self.free.pop().unwrap_or_else(|| {
            self.requests.push(Request {
                population: 0,
                class: 0,
                tries: 0,
                session: None,
                incarnation: 0,
                arrived: 0,
                submitted: 0,
                place: Where::Nowhere,
            });
            self.requests.len() as u32 - 1
        });
        let request = &mut self.requests[id as usize];
        assert!(matches!(request.place, Where::Nowhere));
        *request = Request {
            population,
            class,
            tries,
            session,
            incarnation: request.incarnation.wrapping_add(1),
            arrived: self.now,
            submitted: self.now,
            place: Where::Nowhere,
        };
        id
    }
}
