//! A simulation under way.

use super::door::Door;
use super::request::Request;
use super::sessions::Sessions;
use crate::client::{Population, Profile};
use crate::report::{ClassReport, GatewayReport, Phase};
use crate::series::Series;
use crate::server::{Ended, Server};
use crate::trial::{BUCKETS, Front, Trial};
use fastrand::Rng;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What happens at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A population's next request (open loop).
    Arrive(u16),
    /// A user's next request (closed loop): population and client.
    Ask(u16, u32),
    /// A retry: population, demand and tries so far.
    Retry(u16, u32, u32),
    /// The log's next request.
    Replay,
    /// A session's next request, or a retry: session and tries so far.
    Continue(u32, u32),
    /// The client of request `.0` leaves, if it is still the same request (`.1`).
    Leave(u32, u32),
    /// The gateway gives up on the origin.
    GiveUp(u32, u32),
    /// A gateway's own time.
    Tick(u8),
}

/// A simulation under way.
pub(crate) struct World<'a> {
    pub(super) trial: &'a Trial,
    /// Whether every request is of one class for the gate.
    pub(super) one_class: bool,
    pub(super) rng: Rng,
    pub(super) now: u64,
    pub(super) sequence: u64,
    pub(super) events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    pub(super) requests: Vec<Request>,
    pub(super) free: Vec<u32>,
    /// The gateways; none: requests go straight to the server.
    pub(super) doors: Vec<Door>,
    pub(super) server: Server,
    pub(super) ended: Vec<(u32, Ended)>,
    pub(super) sessions: Sessions,
    pub(super) closed: Vec<u32>,
    pub(super) phases: Vec<Phase>,
    pub(super) phase: usize,
    pub(super) slots: Vec<(f64, u32)>,
    pub(super) slots_since: u64,
    pub(super) count: u64,
    /// The highest rate of each population.
    pub(super) highest: Vec<f64>,
    /// The log's next line.
    pub(super) replayed: usize,
    /// Whether a free slot may go to any request that waits.
    pub(super) lends_all: bool,
    /// Whether every request takes one slot.
    pub(super) narrow: bool,
    pub(super) series: Series,
}

impl<'a> World<'a> {
    pub(crate) fn new(trial: &'a Trial, front: Front, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let classes = trial.plan.classes.len();
        let mut bounds: Vec<f64> = trial.cuts_s.clone();
        bounds.insert(0, 0.0);
        bounds.push(trial.seconds);
        let phases = bounds
            .windows(2)
            .map(|pair| Phase {
                from_s: pair[0],
                to_s: pair[1],
                classes: vec![ClassReport::default(); classes],
                populations: vec![ClassReport::default(); trial.populations.len()],
                slot_seconds: 0.0,
                gateways: vec![GatewayReport::default(); trial.gateways.len().max(1)],
            })
            .collect();
        let plan = trial.plan_behind(front);
        let lends_all = plan.as_ref().is_some_and(|plan| trial.lends_all(plan));
        let doors = plan.map_or_else(Vec::new, |plan| Door::all(trial, front, &plan));
        let server = Server::new(trial.server.clone(), rng.u64(..));
        let highest =
            |population: &Population| population.arrivals.rate().map_or(0.0, Profile::highest);
        World {
            trial,
            one_class: front == Front::Fifo,
            rng,
            now: 0,
            sequence: 0,
            events: BinaryHeap::new(),
            requests: Vec::new(),
            free: Vec::new(),
            doors,
            server,
            ended: Vec::new(),
            sessions: Sessions::default(),
            closed: vec![0; trial.seconds.ceil() as usize],
            phases,
            phase: 0,
            slots: Vec::new(),
            slots_since: 0,
            count: 0,
            highest: trial.populations.iter().map(highest).collect(),
            replayed: 0,
            lends_all,
            narrow: trial.is_narrow(),
            series: Series::new(trial.seconds, BUCKETS, classes),
        }
    }
}
