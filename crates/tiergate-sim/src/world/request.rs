//! A request under way.

use super::World;
use tiergate_core::gate::{Slot, Ticket};
use tiergate_core::reason::Reason;

/// Somebody sends a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking {
    pub(super) population: u16,
    /// Which of the population's clients.
    pub(super) client: u32,
    /// What it asks for.
    pub(super) demand: u32,
    pub(super) tries: u32,
    /// The session that it belongs to.
    pub(super) session: Option<u32>,
}

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
    pub(super) client: u32,
    pub(super) demand: u32,
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
    Refused(Reason),
    LeftWaiting,
    LeftRunning,
    Failed,
}

impl World<'_> {
    /// A new request; a former one's number is used again.
    pub(super) fn new_request(&mut self, asking: Asking, class: u16) -> u32 {
        let Asking { population, client, demand, tries, session } = asking;
        let id = self.free.pop().unwrap_or_else(|| {
            self.requests.push(Request {
                population: 0,
                class: 0,
                client: 0,
                demand: 0,
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
            client,
            demand,
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
