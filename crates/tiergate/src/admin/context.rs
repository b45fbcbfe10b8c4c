//! What the admin listener shows, as closures over the parts that know it.

use super::token::AdminTokens;
use crate::config::Sources;
use crate::observe::counters::Counters;
use crate::observe::refusals::Refusals;
use crate::observe::server::ServerStatus;
use crate::observe::snapshot::Snapshot;
use crate::sensors::Sensors;
use crate::session;
use crate::workers::status::WorkersStatus;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use tiergate_core::classify::pattern::HostPattern;
use tiergate_core::headroom::Demand;

/// A reload under way: the result is a sentence for people, either way.
pub type Reload = Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;

/// Changes settings, and says how many or what is wrong.
pub(super) type Change = Box<dyn Fn(&serde_json::Value) -> Result<usize, String> + Send + Sync>;

/// What the gateway as a whole is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It is not listening yet.
    Starting,
    /// It takes requests.
    Serving,
    /// It takes requests, and will soon take no new ones.
    Leaving,
    /// It takes no new ones and finishes those it has.
    Draining,
}

/// The configuration in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigInForce {
    /// Its file; `None`: the gateway runs without one.
    pub path: Option<PathBuf>,
    /// The texts of its files as they were loaded. Secrets are masked here, before they are shown.
    pub sources: Arc<Sources>,
    /// The plan's generation.
    pub generation: u32,
}

/// A certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateStatus {
    /// Its file.
    pub file: String,
    /// The first name in it.
    pub name: String,
    /// When it expires. Seconds of UNIX time.
    pub expires_at_seconds: i64,
}

/// What of the policy in force the page and the metrics need.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InForce {
    /// Whether it is carried out; `false`: all of it is only observed.
    pub is_enforced: bool,
    /// The certificates of its listeners.
    pub certificates: Vec<CertificateStatus>,
    /// Its bounds on memory and files.
    pub bounds: MemoryBounds,
}

/// Bounds on memory and files, in bytes: keys of `[limits]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryBounds {
    /// `buffers_max`.
    pub buffers_max: u64,
    /// `spool_max`.
    pub spool_max: u64,
    /// `stored_max`.
    pub stored_max: u64,
}

/// What a class asks of a pool, by its name.
pub(super) type DemandOf<'a> = &'a dyn Fn(&str) -> Demand;
/// Of so many slots, the success buffer of each class of the policy that has one.
pub(super) type SuccessBuffers =
    Box<dyn Fn(f64, DemandOf<'_>) -> Vec<(String, Option<f64>)> + Send + Sync>;

/// What the admin listener shows, and what it can ask for. The closures are called on the
/// admin's own thread and must not block for long.
pub struct Context {
    /// The program's version.
    pub version: &'static str,
    /// Copies the gate's numbers: [`Snapshot::take`] under its lock.
    pub snapshot: Box<dyn Fn() -> Snapshot + Send + Sync>,
    /// Copies the counts of sessions.
    pub sessions: Box<dyn Fn() -> session::Readings + Send + Sync>,
    /// The gateway's counters.
    pub counters: Arc<Counters>,
    /// The latest refusals.
    pub refusals: Arc<Refusals>,
    /// The sensors of this machine.
    pub sensors: Box<dyn Fn() -> Arc<Sensors> + Send + Sync>,
    /// What the gateway is doing.
    pub phase: Box<dyn Fn() -> Phase + Send + Sync>,
    /// The origin servers, in the policy's order.
    pub origin: Box<dyn Fn() -> Vec<ServerStatus> + Send + Sync>,
    /// The workers of pools, in the policy's order.
    pub workers: Box<dyn Fn() -> Vec<WorkersStatus> + Send + Sync>,
    /// Where clients connect, in words: `https 0.0.0.0:443`.
    pub listeners: Box<dyn Fn() -> Vec<String> + Send + Sync>,
    /// The configuration in force.
    pub config: Box<dyn Fn() -> ConfigInForce + Send + Sync>,
    /// More of it.
    pub in_force: Box<dyn Fn() -> InForce + Send + Sync>,
    /// The classes' success buffers, by the plan in force.
    pub success_buffers: SuccessBuffers,
    /// The names that the admin listener answers to, beside addresses and `localhost`; none: any, where other machines can connect.
    pub names: Box<dyn Fn() -> Vec<HostPattern> + Send + Sync>,
    /// The tokens that allow changes of settings.
    pub tokens: Box<dyn Fn() -> AdminTokens + Send + Sync>,
    /// Changes settings as [`super::settings::change`] says, all or nothing.
    pub change: Change,
    /// Undoes every change of settings that was made here; returns how many there were.
    pub undo: Box<dyn Fn() -> usize + Send + Sync>,
    /// Reloads the configuration, all or nothing. It continues if the client leaves.
    pub reload: Box<dyn Fn() -> Reload + Send + Sync>,
}

/// Why the gateway is not ready; `None`: it is.
pub fn unready(phase: Phase, origin: &[ServerStatus]) -> Option<&'static str> {
    match phase {
        Phase::Starting => Some("starting: not listening yet"),
        Phase::Draining => Some("draining: takes no new requests"),
        Phase::Leaving => Some("leaving: will soon take no new requests"),
        Phase::Serving if origin.iter().any(|server| server.health.usable()) => None,
        Phase::Serving => Some("no origin server is usable"),
    }
}
