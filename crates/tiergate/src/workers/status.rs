//! What `/status` says of workers.

use serde::{Deserialize, Serialize};

/// The workers of a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkersStatus {
    /// The pool; empty: the default one.
    #[serde(default)]
    pub pool: String,
    /// Where they come from: `command`, `cgroup` or `unit`.
    pub from: String,
    /// How many the policy asks for; 0: those that there are.
    pub wanted: u32,
    /// How many live.
    pub alive: u32,
    /// How many of those that the gateway started are ready.
    pub ready: u32,
    /// How often one that had ended was started again.
    pub restarts: u64,
    /// Those that the gateway started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<WorkerStatus>,
    /// What they have of processors and disk.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<ShareStatus>,
    /// Why they are not found; absent: they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// A worker that the gateway started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerStatus {
    /// Its number, from 1.
    pub number: u32,
    /// Its process; absent: it is not running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// What it is doing: `starting`, `ready`, `ending`, or `waiting` to be started again.
    pub state: String,
    /// How often it was started again.
    pub restarts: u64,
    /// How it ended last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_end: Option<String>,
}

/// A mechanism that gives workers processors or disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShareStatus {
    /// `nice`, `idle`, `fifo`, `deadline`, `io`, `cpu_weight` or `cpu_quota`.
    pub name: String,
    /// What the policy says.
    pub asked: String,
    /// Whether all workers that live have it.
    pub in_force: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}
