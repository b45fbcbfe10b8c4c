//! Tiergate in virtual time: the same gate as in the gateway, between simulated clients and servers.
//!
//! No clock is read: a run is a function of its scenario and its seed.

pub mod client;
pub mod compare;
pub mod distribution;
pub mod laws;
pub mod oracle;
pub mod overload;
pub mod report;
pub mod scenario;
pub mod server;
pub mod spread;
mod world;

use report::Report;
use scenario::Scenario;

/// Runs a scenario. The same scenario and seed give the same report.
///
/// # Panics
/// If an invariant of the gate breaks; the message says the virtual time.
pub fn run(scenario: &Scenario, seed: u64) -> Report {
    let mut report = world::World::new(scenario, seed).run();
    report.seed = seed;
    report
}
