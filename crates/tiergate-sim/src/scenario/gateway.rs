//! Gateways that share a server.

use serde::{Deserialize, Serialize};
use tiergate_core::control::{Bounds, Slots};
use tiergate_core::plan::{Plan, Spec};

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
    /// The slots that it begins with, where its limit is the product's shared one; absent: as many as the product does.
    pub slots_start: Option<u32>,
}

impl Default for Gateway {
    fn default() -> Self {
        Gateway { weight: 1.0, from_s: 0.0, to_s: f64::INFINITY, clock_s: 0.0, slots_start: None }
    }
}

impl Gateway {
    /// Its plan: this one, but for the slots that it begins with.
    pub(crate) fn begins(&self, plan: &Plan) -> Plan {
        let (Some(slots_start), Slots::Shared(bounds)) = (self.slots_start, &plan.slots) else {
            return plan.clone();
        };
        let slots = Slots::Shared(Bounds { slots_start, ..bounds.clone() });
        Spec { slots, ..Spec::clone(plan) }.build().expect("it was a plan before")
    }
}
