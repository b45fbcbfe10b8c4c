//! What the kernel does, for `/status` and metrics.

use serde::{Deserialize, Serialize};

/// What is in force, and what was counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KernelStatus {
    /// The interfaces of the policy.
    pub interfaces: Vec<KernelInterface>,
    /// What polices SYNs: `ebpf`, `nftables`, or `none`: the gateway alone.
    #[serde(default)]
    pub mechanism: String,
    /// Why nftables stands in for the program (eBPF); absent: it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_ebpf: Option<String>,
    /// What is missing, and what to do; absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// Whether SYNs are policed now.
    pub policing: bool,
    /// How many networks have a rule.
    pub networks: usize,
    /// SYNs to our listeners while the kernel policed or kept blocked clients out.
    pub seen: u64,
    /// Of them, those of clients that were let in.
    pub let_in: u64,
    /// Those of blocked clients, which were dropped.
    pub blocked: u64,
    /// How many paths have a rule.
    #[serde(default)]
    pub paths: usize,
    /// What was counted by policer and class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policers: Vec<KernelPolicer>,
    /// First requests by policer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<KernelRequests>,
}

/// An interface of the policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelInterface {
    /// Its name.
    pub name: String,
    /// `native`, `generic` or `nftables`; absent: SYNs are not policed there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way: Option<String>,
    /// Whether the program that judges requests is there.
    #[serde(default)]
    pub ingress: bool,
}

/// What was counted for a policer, and a class that has a share of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelPolicer {
    /// Its name.
    pub policer: String,
    /// The class; empty: all that have no share.
    pub class: String,
    /// SYNs that passed.
    pub passed: u64,
    /// Of them, those that took a token of the overflow.
    pub overflow: u64,
    /// SYNs that were dropped.
    pub dropped: u64,
}

/// What was counted of the first requests of connections that a policer is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelRequests {
    /// Its name.
    pub policer: String,
    /// Requests that passed.
    pub passed: u64,
    /// Requests that the kernel answered, or whose connections it reset.
    pub refused: u64,
}
