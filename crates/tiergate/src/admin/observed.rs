//! The part of `/status` about a policy that is observed.

use super::quantiles::{Quantiles, quantiles};
use crate::observe::snapshot::{ObservedClass, ObservedSnapshot};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tiergate_core::admit::policer::PolicerState;
use tiergate_core::reason::Reason;

/// A policy that is observed beside the one in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObservedStatus {
    /// Its file.
    pub policy: String,
    /// Requests that were not observed because too many were at the time.
    pub untracked: u64,
    /// Its classes, most important first.
    pub classes: Vec<ObservedClassStatus>,
    /// Its policers; absent: it has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policers: Vec<ObservedPolicerStatus>,
    /// Its adaptations; absent: it has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adaptations: Vec<ObservedAdaptationStatus>,
}

/// A policer of the policy that is observed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObservedPolicerStatus {
    /// Its name.
    pub name: String,
    /// The rate that would be in force.
    pub tokens_per_second: f64,
    /// Requests that would have taken a token.
    pub passed: u64,
    /// Requests that would have been refused for want of one.
    pub refused: u64,
}

/// An adaptation of the policy that is observed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObservedAdaptationStatus {
    /// Its name.
    pub name: String,
    /// Requests by the level that they would have been answered at; index 0: refused for it.
    pub answered: Vec<u64>,
}

/// A class of the policy that is observed. Counters count from the start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObservedClassStatus {
    /// Its name.
    pub name: String,
    /// Requests that would wait now.
    pub waiting: u32,
    /// Requests that came.
    pub arrived: u64,
    /// Requests that would have been refused, by reason, whatever the policy in force did.
    pub refused: BTreeMap<String, u64>,
    /// Time in the queue of those that would have got a slot.
    pub wait: Quantiles,
    /// Requests that both policies let through.
    pub both_admit: u64,
    /// Requests that both refused.
    pub both_refuse: u64,
    /// Requests that were let through and would have been refused.
    pub would_refuse: u64,
    /// Requests that were refused and would have been let through.
    pub would_admit: u64,
    /// Requests whose clients left first.
    pub left: u64,
}

pub(super) fn status(observed: &ObservedSnapshot) -> ObservedStatus {
    let class = |it: &ObservedClass| {
        let refused = Reason::ALL.map(|reason| (reason.name().to_owned(), it.refused(reason)));
        ObservedClassStatus {
            name: it.name.clone(),
            waiting: it.waiting,
            arrived: it.arrived(),
            refused: refused.into_iter().filter(|(_, count)| *count > 0).collect(),
            wait: quantiles(&it.wait()),
            both_admit: it.tally.both_admit,
            both_refuse: it.tally.both_refuse,
            would_refuse: it.tally.would_refuse_total(),
            would_admit: it.tally.would_admit,
            left: it.tally.left,
        }
    };
    let policer = |(name, it): &(String, PolicerState)| ObservedPolicerStatus {
        name: name.clone(),
        tokens_per_second: it.rate.tokens_per_second(),
        passed: it.counts.passed,
        refused: it.counts.refused,
    };
    let adaptation = |(name, answered): &(String, Vec<u64>)| ObservedAdaptationStatus {
        name: name.clone(),
        answered: answered.clone(),
    };
    ObservedStatus {
        policy: observed.path.clone(),
        untracked: observed.untracked,
        classes: observed.classes.iter().map(class).collect(),
        policers: observed.policers.iter().map(policer).collect(),
        adaptations: observed.adaptations.iter().map(adaptation).collect(),
    }
}
