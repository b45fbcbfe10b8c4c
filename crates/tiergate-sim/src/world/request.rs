//! A request under way.

use std::time::Duration;
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
    /// Its client left after that time of its service; the slot is in use until the server is done.
    Deserted(Slot, Duration),
    /// Without a gate, or its client left and the server does not know.
    AtServer {
        counted: bool,
    },
}

/// Instead of a gateway's number: the request does not come through any.
pub(super) const DIRECT: u8 = u8::MAX;

/// A request under way, or room for one.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) asking: Asking,
    pub(super) class: u16,
    /// The gateway that it came to, or [`DIRECT`].
    pub(super) door: u8,
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
