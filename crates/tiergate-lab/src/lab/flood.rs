//! A flood beside the clients' requests, as an experiment's file says it.

use super::result::Phase;
use crate::flood::RATE_MAX;
use anyhow::{Result, ensure};
use ipnet::Ipv4Net;
use serde::Deserialize;

/// SYNs from forged addresses, beside the clients' requests.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Flood {
    /// Of which network the addresses are; that of the clients cannot be told from them.
    pub(super) from: Ipv4Net,
    /// How many a second, in each phase.
    pub(super) rate: Vec<f64>,
}

impl Flood {
    /// Whether there can be such a flood.
    pub(super) fn check(&self, phases: &[Phase]) -> Result<()> {
        let Self { from, rate } = self;
        ensure!(
            rate.len() == phases.len(),
            "flood from {from}: {} rates for {} phases",
            rate.len(),
            phases.len()
        );
        ensure!(
            rate.iter().all(|rate| (0.0..=RATE_MAX).contains(rate)),
            "flood from {from}: at most {RATE_MAX} SYNs a second"
        );
        Ok(())
    }
}
