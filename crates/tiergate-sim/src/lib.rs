//! Tiergate in virtual time: the same gate as in the gateway, between simulated clients and servers.
//!
//! No clock is read: a run is a function of its scenario and its seed.

pub mod asked;
pub mod client;
pub mod compare;
pub mod demand;
pub mod distribution;
pub mod drawn;
pub mod fault;
pub mod files;
pub mod hard;
pub mod laws;
pub mod log;
pub mod oracle;
pub mod overload;
pub mod report;
pub mod scenario;
pub mod series;
pub mod server;
pub mod show;
pub mod spread;
pub mod trial;
mod world;

use report::Report;
use scenario::Scenario;
use trial::{Front, Trial};

/// Runs a scenario. The same scenario and seed give the same report.
///
/// # Panics
/// If an invariant of the gate breaks; the message says the virtual time.
pub fn run(scenario: &Scenario, seed: u64) -> Report {
    run_trial(&scenario.trial(), scenario.front(), seed, &mut |_| {})
}

/// Runs a trial behind a front. The same trial, front and seed give the same report. `progress` is told
/// now and then how much is done, 0.0 to 1.0.
///
/// # Panics
/// If an invariant of the gate breaks; the message says the virtual time.
pub fn run_trial(trial: &Trial, front: Front, seed: u64, progress: &mut dyn FnMut(f64)) -> Report {
    let mut report = world::World::new(trial, front, seed).run(progress);
    report.seed = seed;
    report
}
