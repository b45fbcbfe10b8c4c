//! What a run is made of, and who looks on.

use crate::state::{Req, State};
use std::time::Duration;
use tiergate_core::plan::Spec;
use tiergate_core::time::Moment;

/// Clients that send requests of one flow.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The class, by name: it may be gone after a reload.
    pub(crate) class: String,
    pub(crate) flow: u64,
    /// Requests kept under way (closed loop), or 0: open loop.
    pub(crate) users: u32,
    /// Mean time between two (open loop), or between an end and the next (closed loop).
    pub(crate) pause: Duration,
    /// Shortest and longest time of service.
    pub(crate) service: (Duration, Duration),
    /// Most bytes of an answer.
    pub(crate) answer: u64,
    /// Lowest and highest score, in whole points.
    pub(crate) score: (u32, u32),
    /// How long its requests may wait, where not its class says.
    pub(crate) deadline: Option<(Duration, Duration)>,
    /// How many of 100 belong to running sessions.
    pub(crate) sessions: u8,
    /// Most slots of a request.
    pub(crate) slots: u16,
    /// Most bytes of a request.
    pub(crate) bytes: u32,
    pub(crate) rule: Option<u32>,
    /// When the first of them comes.
    pub(crate) from: Moment,
}

impl Source {
    /// Requests of 1 to 10 ms, one after the other.
    pub(crate) fn of(class: &str, flow: u64) -> Self {
        Source {
            class: class.to_owned(),
            flow,
            users: 1,
            pause: Duration::ZERO,
            service: (Duration::from_millis(1), Duration::from_millis(10)),
            answer: 0,
            score: (0, 0),
            deadline: None,
            sessions: 0,
            slots: 1,
            bytes: 0,
            rule: None,
            from: Moment::ZERO,
        }
    }
}

/// What a run is made of.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) plan: Spec,
    /// Plans that come into force, and when.
    pub(crate) reloads: Vec<(Moment, Spec)>,
    pub(crate) sources: Vec<Source>,
    /// How many requests come in all, at most.
    pub(crate) arrivals: u32,
    /// When clients stop.
    pub(crate) until: Moment,
    /// How many of 100 are cancelled at some moment, if they are still there.
    pub(crate) cancelled: u8,
}

/// Who looks on.
pub(crate) trait Watch {
    /// The request, now among those in service, was started; `state.waiting` is without it.
    fn started(&mut self, _state: &State, _req: &Req) {}
    /// The request ended or left, or was refused; it was in service or it was not.
    fn ended(&mut self, _state: &State, _req: &Req, _in_service: bool) {}
    /// The victims, still in `state.waiting`, were refused so that `new` could wait, or `new` itself was.
    fn displaced(&mut self, _state: &State, _victims: &[Req], _new: &Req) {}
    /// The request, still in `state.waiting`, was dropped because a delay stood.
    fn delayed(&mut self, state: &State, req: &Req) {
        panic!("nothing says that {req:?} may be dropped: {state:?}");
    }
    /// Another plan is in force.
    fn reloaded(&mut self, _state: &State) {}
    /// Everything that an event brought about has been taken in.
    fn settled(&mut self, _state: &State) {}
}

/// Nobody does.
impl Watch for () {}
