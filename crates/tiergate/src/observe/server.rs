//! Origin servers as observers see them.

use crate::tally::Tally;
use serde::{Deserialize, Serialize};
use tiergate_core::names::ServerId;

/// What all threads count for one origin server; kept while the server stays in the policy.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct ServerCounters {
    /// Connections opened.
    pub connects: Tally,
    /// Requests sent on a kept connection.
    pub reuses: Tally,
    /// Attempts that failed: refused, reset, timed out, malformed answer.
    pub failures: Tally,
    /// Requests retried because a kept connection turned out to be closed.
    pub retries: Tally,
}

impl ServerCounters {
    /// How often the server took a request's connection, new or kept.
    pub fn served(&self) -> u64 {
        self.connects.total() + self.reuses.total()
    }

    /// A number that grows with each request that was sent to the server, or could not be.
    pub fn tried(&self) -> u64 {
        self.served() + self.failures.total()
    }
}

/// Whether a server gets requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// It answers, or has not been tried yet.
    #[default]
    Up,
    /// It was out of rotation, and one request probes it.
    Probing,
    /// It is out of rotation: it failed too often in a row, or its health check fails.
    Down,
}

impl Health {
    /// The state's name in metrics and status.
    pub const fn name(self) -> &'static str {
        match self {
            Health::Up => "up",
            Health::Probing => "probing",
            Health::Down => "down",
        }
    }

    /// Whether requests are sent to the server.
    pub const fn usable(self) -> bool {
        matches!(self, Health::Up | Health::Probing)
    }
}

/// Where a server's number of slots comes from, where each has a limit of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlotsSource {
    /// The policy gives this server a number.
    Server,
    /// The policy gives each server of the pool this number.
    Pool,
    /// It is found while serving.
    Adaptive,
    /// It is found together with other gateways.
    Shared,
}

impl SlotsSource {
    /// Its name in metrics and status.
    pub const fn name(self) -> &'static str {
        match self {
            SlotsSource::Server => "server",
            SlotsSource::Pool => "pool",
            SlotsSource::Adaptive => "adaptive",
            SlotsSource::Shared => "shared",
        }
    }

    /// The same for people.
    pub const fn words(self) -> &'static str {
        match self {
            SlotsSource::Server => "own number",
            SlotsSource::Pool => "pool's number",
            SlotsSource::Adaptive => "adaptive",
            SlotsSource::Shared => "shared",
        }
    }
}

/// One origin server at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// Address as configured: `host:port` or a socket's path.
    pub address: String,
    /// The name of its pool; empty: the default pool.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pool: String,
    /// Whether it gets requests.
    pub health: Health,
    /// Requests in progress there.
    pub outstanding: u32,
    /// How many there may be; `None`: the servers share a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<u32>,
    /// How many of them it may have in use now; `None`: all. It gets fewer requests while it comes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots_usable: Option<u32>,
    /// Where that number comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots_from: Option<SlotsSource>,
    /// Its id at the gate.
    #[serde(skip)]
    pub id: Option<ServerId>,
    /// Why it is not up, in words.
    pub detail: Option<String>,
    /// [`ServerCounters::connects`].
    pub connects: u64,
    /// [`ServerCounters::reuses`].
    pub reuses: u64,
    /// [`ServerCounters::failures`].
    pub failures: u64,
    /// [`ServerCounters::retries`].
    pub retries: u64,
}

impl ServerStatus {
    /// Requests in progress, and of how many where the server has a limit of its own.
    pub fn in_progress(&self) -> String {
        match self.slots {
            Some(slots) => format!("{} of {slots}", self.outstanding),
            None => self.outstanding.to_string(),
        }
    }

    /// Where its number of slots comes from, for people, and how many it may have in use now if these are fewer.
    pub fn limit_words(&self) -> Option<String> {
        let words = self.slots_from?.words();
        Some(match self.slots_usable {
            Some(usable) => format!("{words}, now {usable}"),
            None => words.to_owned(),
        })
    }

    /// The same with the counts so far.
    pub fn counted(self, counters: &ServerCounters) -> Self {
        ServerStatus {
            connects: counters.connects.total(),
            reuses: counters.reuses.total(),
            failures: counters.failures.total(),
            retries: counters.retries.total(),
            ..self
        }
    }
}
