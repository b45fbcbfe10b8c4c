//! `/status`: the whole state as one JSON object, and the type that `tiergate top` reads it by.

mod read;

use super::adaptation::AdaptationStatus;
use super::context::Phase;
use super::control::{AdjustmentStatus, SourceStatus};
use super::last_change::LastChange;
use super::observed::ObservedStatus;
pub use super::quantiles::Quantiles;
use crate::kernel::KernelStatus;
use crate::lanes::LaneStatus;
use crate::link::{LinkCapacity, LinkPart};
use crate::observe::history::Point;
use crate::observe::server::ServerStatus;
use crate::observe::snapshot::SheddingSnapshot;
use crate::workers::status::WorkersStatus;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The gateway at one moment. Counters count from the start; two readings give a rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The program's version.
    pub version: String,
    /// When this was read, in seconds of a monotonic clock.
    pub at_seconds: f64,
    /// Time since the process started. Seconds.
    pub uptime_seconds: f64,
    /// What the gateway is doing.
    pub phase: Phase,
    /// Why it is not ready; absent if it is.
    pub unready: Option<String>,
    /// The configuration in force.
    pub config: ConfigStatus,
    /// The number of slots of the default pool.
    pub limit: LimitStatus,
    /// Shedding in the default pool; absent if the policy sheds nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shedding: Option<SheddingSnapshot>,
    /// The classes in the default pool, most important first.
    pub classes: Vec<ClassStatus>,
    /// The other pools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<PoolStatus>,
    /// What some requests need beside a slot, in all pools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ResourceStatus>,
    /// What uses only what is idle, in all pools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub background: Vec<BackgroundStatus>,
    /// What classes have of the link that answers leave by, where any has a part of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub link: Vec<LinkPart>,
    /// What an interface says that the link carries, where the policy names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_capacity: Option<LinkCapacity>,
    /// Threads of their own for the connections of some classes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lanes: Vec<LaneStatus>,
    /// What the kernel refuses, where the policy asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelStatus>,
    /// The first policers of the policy.
    #[serde(default)]
    pub policers: Vec<PolicerStatus>,
    /// What decides the quality of answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adaptations: Vec<AdaptationStatus>,
    /// A policy that is observed beside the one in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<ObservedStatus>,
    /// Settings of the policy that controllers override.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adjustments: Vec<AdjustmentStatus>,
    /// The sensors, and what they said last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceStatus>,
    /// Requests that no rule matched.
    pub unmatched: u64,
    /// The origin servers.
    pub origin: Vec<ServerStatus>,
    /// The processes that serve pools, where the policy names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<WorkersStatus>,
    /// Where clients connect.
    pub listeners: Vec<String>,
    /// Connections, requests, responses.
    pub clients: Clients,
    /// The access log.
    pub access_log: LogStatus,
}

/// The configuration in force and its reloads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConfigStatus {
    /// Its file.
    pub path: Option<String>,
    /// Its number.
    pub generation: u32,
    /// Reloads that worked.
    pub reloads_ok: u64,
    /// Reloads that were refused.
    pub reloads_failed: u64,
    /// When the latest one was, RFC 3339 in UTC.
    pub last_reload: Option<String>,
    /// Why the latest one was refused.
    pub last_fault: Option<String>,
}

/// A pool beside the default one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PoolStatus {
    /// Its name.
    pub name: String,
    /// The number of slots; without its course.
    pub limit: LimitStatus,
    /// Shedding; absent if the policy sheds nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shedding: Option<SheddingSnapshot>,
    /// The classes of the policy, as far as requests of them have come to this pool, most important first.
    pub classes: Vec<ClassStatus>,
}

/// What background classes do in a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BackgroundStatus {
    /// The pool; empty: the default one.
    #[serde(default)]
    pub pool: String,
    /// How many of their requests may be in progress while others come, on average.
    pub most: f64,
    /// How many are.
    pub running: u32,
    /// Whether no other requests came for a while, so that only free slots bound them.
    pub quiet: bool,
    /// By how much each in progress makes other requests longer, a fraction, and its standard error.
    pub felt: f64,
    /// See `felt`.
    pub felt_error: f64,
    /// What keeps them from having more in progress; absent: nothing that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounded_by: Option<BackgroundLimit>,
    /// The class whose response times bound them now; absent: it is those of all classes together, or something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub felt_most_by: Option<String>,
    /// For how many seconds more they have nothing while others come; absent: they do not rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rests_seconds: Option<f64>,
}

/// What keeps background requests from having more in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackgroundLimit {
    /// What other requests take, while some of them are in progress.
    ResponseTimes,
    /// More would only wait for each other.
    Throughput,
    /// With more, others suddenly took far longer.
    Slowdown,
    /// With more, others took longer for as long as there was a background at all.
    LastingEffect,
}

/// A resource that only some requests need.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResourceStatus {
    /// Its name.
    pub name: String,
    /// Its pool; empty: the default one.
    #[serde(default)]
    pub pool: String,
    /// Whether its number of slots is adaptive.
    pub adaptive: bool,
    /// Slots in force.
    pub slots: u32,
    /// Slots in use.
    pub running: u32,
    /// Requests in the queues that need one.
    pub waiting: u32,
    /// The last change of the number of slots.
    pub last_change: Option<LastChange>,
}

/// The number of slots, now and over the last minute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitStatus {
    /// Whether it is adaptive.
    pub adaptive: bool,
    /// Whether it is found together with other gateways.
    #[serde(default)]
    pub shared: bool,
    /// Slots in force.
    pub slots: u32,
    /// Slots in use.
    pub running: u32,
    /// Requests in progress without a slot: theirs are lent, or they wait for one of another server.
    pub lent: u32,
    /// Requests in the queues.
    pub waiting: u64,
    /// The last change.
    pub last_change: Option<LastChange>,
    /// A point a second, the oldest first, at most a minute.
    pub course: Vec<Point>,
}

/// One class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassStatus {
    /// Its name.
    pub name: String,
    /// Its guaranteed share of the slots, 0.0 to 1.0.
    pub guaranteed_share: f64,
    /// The site that it belongs to.
    #[serde(default)]
    pub site: String,
    /// In which order its requests get slots.
    #[serde(default)]
    pub order: String,
    /// Its share of its site's slots, 0.0 to 1.0, where they are shared or fixed.
    #[serde(default)]
    pub share: f64,
    /// Bound on its queue.
    pub queue_len_max: u32,
    /// Longest time in its queue. Seconds.
    pub deadline_seconds: f64,
    /// Requests in the queue.
    pub waiting: u32,
    /// Those of them that wait for a resource of which no slot is free.
    #[serde(default)]
    pub held_up: u32,
    /// Slots in use.
    pub running: u32,
    /// Requests that hold them; fewer than slots if some take several.
    #[serde(default)]
    pub in_service: u32,
    /// Streams that are open without a slot.
    #[serde(default)]
    pub streams: u32,
    /// After how long its clients leave while they are served, learned from those that did; absent: not known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub patience_seconds: Option<f64>,
    /// Its service target, where the number of slots is adaptive; absent: none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub service_target: Option<TargetStatus>,
    /// Requests that arrived.
    pub arrived: u64,
    /// Of them, those that got a slot at once.
    pub admitted_at_once: u64,
    /// Of them, those that had to wait.
    pub queued: u64,
    /// Requests whose client left while they waited.
    pub cancelled_waiting: u64,
    /// Requests that got a slot, at once or later.
    pub admitted: u64,
    /// Refusals by reason.
    pub refused: BTreeMap<String, u64>,
    /// Requests that got a stored copy, by what it was served instead of: `wait`, `refusal`, or `failure`, whose requests are in
    /// `finished`, too.
    #[serde(default)]
    pub stored: BTreeMap<String, u64>,
    /// Slots given back, by how the request ended; `served` is goodput.
    pub finished: BTreeMap<String, u64>,
    /// Time in the queue.
    pub wait: Spread,
    /// From the slot to the origin's first byte.
    pub first_byte: Spread,
}

/// How a class's service target fares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TargetStatus {
    /// `p50`, `p90`, `p95` or `p99`.
    pub quantile: String,
    /// How long the origin may take, to the first byte. Seconds.
    pub seconds: f64,
    /// The most slots by it; `null`: it does not bound them.
    pub slots: Option<u32>,
    /// Whether it is missed and fewer slots do not help.
    pub missed: bool,
    /// Answers that were compared with it.
    pub answers: u64,
    /// Those that took longer.
    pub late: u64,
}

/// One policer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicerStatus {
    /// Its name.
    pub name: String,
    /// The rate in force.
    pub tokens_per_second: f64,
    /// Requests that took a token.
    pub passed: u64,
    /// Of them, those whose token was of the overflow bucket.
    pub overflow: u64,
    /// Requests refused.
    pub refused: u64,
    /// Requests passed because the table of flows was full.
    pub untracked: u64,
    /// Requests that the kernel refused by their head, and that a control of the rate knows of.
    #[serde(default)]
    pub early: u64,
    /// Flows whose bucket is not full, approximately.
    pub flows: u64,
    /// What its rate follows; absent: it stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<ControlStatus>,
}

/// What a policer's rate follows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ControlStatus {
    /// The sensor, or `backlog`.
    pub sensor: String,
    /// Its latest reading; `null`: there is none that holds.
    pub reading: Option<f64>,
    /// Where that is to stay.
    pub reference: f64,
    /// What the control is doing: `follows`, `lowest`, `blind`, `taken`.
    pub state: String,
}

/// Quantiles of a duration, recent and since the start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Over the last ten seconds.
    pub window: Quantiles,
    /// Since the class exists.
    pub total: Quantiles,
}

/// The clients' side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clients {
    /// Connections open now.
    pub connections_active: u64,
    /// Most connections at once.
    pub connections_max: u64,
    /// Connections accepted.
    pub connections_accepted: u64,
    /// Connections closed to make room for others.
    pub connections_evicted: u64,
    /// Connections closed as they came, because none made room.
    pub connections_turned_away: u64,
    /// Tunnels open now.
    pub tunnels_active: u64,
    /// Memory that buffers bodies for slow clients, in bytes.
    pub buffered_bytes: u64,
    /// Request bodies in files, in bytes.
    pub spooled_bytes: u64,
    /// Memory of stored copies.
    #[serde(default)]
    pub stored_bytes: u64,
    /// TLS handshakes that failed.
    pub tls_failed: u64,
    /// Requests by protocol.
    pub requests: BTreeMap<String, u64>,
    /// Responses by class of status.
    pub responses: BTreeMap<String, u64>,
    /// Requests that were malformed, too large or too slow.
    pub bad_requests: u64,
    /// Bytes read.
    pub received_bytes: u64,
    /// Bytes written.
    pub sent_bytes: u64,
}

/// The access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogStatus {
    /// Lines written.
    pub written: u64,
    /// Lines dropped.
    pub dropped: u64,
    /// Writes or reopens that failed.
    pub errors: u64,
}

impl LimitStatus {
    /// How the number of slots is set, in a word.
    pub fn kind(&self) -> &'static str {
        match (self.adaptive, self.shared) {
            (_, true) => "shared",
            (true, false) => "adaptive",
            (false, false) => "fixed",
        }
    }
}
