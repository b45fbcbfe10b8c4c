//! Gateways that share a server.

use serde::{Deserialize, Serialize};

/// One of several gateways before the server, each with its own gate and policy.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Gateway {
    /// Its part of the requests, relative to the others.
    pub weight: f64,
    /// From when requests come to it, in seconds.
    pub from_s: f64,
    /// Until when.
    pub to_s: f64,
    /// By how much its clock is ahead, in seconds; 0 or more.
    pub clock_s: f64,
}

impl Default for Gateway {
    fn default() -> Self {
        Gateway { weight: 1.0, from_s: 0.0, to_s: f64::INFINITY, clock_s: 0.0 }
    }
}
