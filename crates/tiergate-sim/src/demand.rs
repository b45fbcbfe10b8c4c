//! A request that may be sent, classified already.

use tiergate_core::class::ClassId;
use tiergate_core::gate::Arrival;

/// Most different requests of a trial: a population's are its requests times its clients, a log's its
/// lines. Each takes about a hundred bytes.
pub const DEMANDS_MAX: usize = 20_000_000;

/// How much of the server's work a request is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// Times what the server draws.
    pub times: f64,
    /// More, in nanoseconds.
    pub more_ns: u64,
}

/// A request that somebody may send.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// The request as the gate sees it.
    pub arrival: Arrival,
    /// Its rule refuses it, whatever the load.
    pub refused: bool,
    /// Whether it is safe to repeat.
    pub repeatable: bool,
    /// What the server has to do.
    pub work: Work,
    /// Bytes of its answer; 0: not known.
    pub bytes: u64,
}

impl Demand {
    /// Of a class of which nothing else is known.
    pub fn of(class: ClassId) -> Self {
        Demand {
            arrival: Arrival::of(class),
            refused: false,
            repeatable: false,
            work: Work { times: 1.0, more_ns: 0 },
            bytes: 0,
        }
    }
}
