//! What a run is.

use super::population::Population;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::Path;

/// A run: who asks whom. In a file, JSON, times as text (`"40ms"`) or in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    /// The server's address.
    pub(crate) target: SocketAddr,
    /// Who asks.
    pub(crate) populations: Vec<Population>,
    /// Seed of the sending times and of everything else that is drawn.
    pub(crate) seed: u64,
}

/// Populations that a plan may have.
const POPULATIONS_MAX: usize = 1000;

impl Plan {
    /// Whether it can be run; an error says what cannot.
    pub(crate) fn check(&self) -> Result<(), String> {
        if !(1..=POPULATIONS_MAX).contains(&self.populations.len()) {
            return Err("populations: 1 to 1000 are needed".into());
        }
        for population in &self.populations {
            population.check()?;
            if population.addresses.iter().any(|ip| ip.is_ipv4() != self.target.is_ipv4()) {
                return Err(format!(
                    "population {:?}: addresses: of the target's family",
                    population.name
                ));
            }
        }
        Ok(())
    }

    /// Reads a plan file.
    pub(super) fn read(file: &Path) -> Result<Self> {
        let name = file.display();
        let text = std::fs::read(file).with_context(|| format!("cannot read {name}"))?;
        serde_json::from_slice(&text).with_context(|| format!("{name} is no plan"))
    }
}
