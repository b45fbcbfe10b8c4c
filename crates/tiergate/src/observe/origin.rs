//! What the pool of origin servers tells observers.

use serde::{Deserialize, Serialize};

/// Whether a server gets requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// It answers, or has not been tried yet.
    Up,
    /// It was left out and one request is trying it again.
    Probing,
    /// It is left out: it failed too often in a row, or its health check says so.
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

/// One origin server at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// Address as configured: `host:port` or a socket's path.
    pub address: String,
    /// Whether it gets requests.
    pub health: Health,
    /// Requests in progress there.
    pub outstanding: u32,
    /// Why it is not up, in words.
    pub detail: Option<String>,
}

/// The servers behind, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OriginStatus {
    /// In the order of the policy.
    pub servers: Vec<ServerStatus>,
}

impl OriginStatus {
    /// Whether at least one server gets requests.
    pub fn usable(&self) -> bool {
        self.servers.iter().any(|server| server.health.usable())
    }
}
