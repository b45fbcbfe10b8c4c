//! Metrics in the formats that Prometheus scrapes: two of text, and protobuf for native histograms.
//!
//! Locks are held to copy numbers ([`Readings`]), never while text is written. Every label has few values:
//! classes (64 at most, and as many that are gone), reasons, ends, servers of the policy, the first rules.

mod adaptation;
mod bounds;
mod gate;
mod gateway;
mod kernel;
mod lanes;
mod link;
mod observed;
mod page;
pub(crate) mod process;
mod protobuf;
#[cfg(test)]
mod protobuf_tests;
mod sensors;
#[cfg(test)]
mod tests;
mod workers;

pub use page::Format;

use super::counters::Counters;
use super::refusals::Refusals;
use super::server::ServerStatus;
use super::snapshot::Snapshot;
use crate::admin::InForce;
use crate::admin::incident::Buffers;
use crate::sensors::Sensors;
use crate::session;
use crate::workers::status::WorkersStatus;
use page::Page;
use std::sync::Arc;

/// What one scrape shows.
#[derive(Clone, Debug)]
pub struct Readings<'c> {
    /// The gate.
    pub snapshot: Snapshot,
    /// Sessions, by the classes of the snapshot.
    pub sessions: session::Readings,
    /// The sensors of this machine.
    pub sensors: Arc<Sensors>,
    /// The origin's servers.
    pub servers: Vec<ServerStatus>,
    /// The workers of pools.
    pub workers: Vec<WorkersStatus>,
    /// The gateway's counters.
    pub counters: &'c Counters,
    /// The ring of refusals.
    pub refusals: &'c Refusals,
    /// How much more load there may be.
    pub buffers: Buffers,
    /// Bounds and certificates of the policy in force.
    pub in_force: InForce,
    /// The program's version.
    pub version: &'static str,
}

impl Readings<'_> {
    /// The readings in that format.
    pub fn encode(&self, format: Format) -> Vec<u8> {
        let mut page = Page::new(format);
        self.process(&mut page);
        self.classes(&mut page);
        self.answers(&mut page);
        self.bounds(&mut page);
        self.limit(&mut page);
        self.sessions(&mut page);
        self.rules(&mut page);
        self.policers(&mut page);
        self.clients(&mut page);
        self.origin(&mut page);
        self.workers(&mut page);
        self.sensors(&mut page);
        self.adaptations(&mut page);
        self.link(&mut page);
        self.lanes(&mut page);
        self.kernel(&mut page);
        self.observed(&mut page);
        self.identity(&mut page);
        self.internals(&mut page);
        page.finish()
    }
}
