//! A network interface: what share of its capacity it sends.

use super::growth::Growth;
use super::probe::{Probe, Roots, number, utilization};
use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use std::time::Instant;
use tiergate_core::sense::Quantity;

/// Bits sent, of those that it can send.
pub(super) struct Network {
    folder: PathBuf,
    interface: String,
    /// Bits a second.
    capacity: Option<u64>,
    growth: Growth,
}

impl Network {
    pub(super) fn new(interface: &str, capacity: Option<u64>, roots: &Roots) -> Self {
        let folder = roots.sys.join("class/net").join(interface);
        Network { folder, interface: interface.to_owned(), capacity, growth: Growth::default() }
    }

    /// Bits a second. A link may change its speed.
    fn capacity(&self) -> Result<f64> {
        if let Some(bits) = self.capacity {
            return Ok(bits as f64);
        }
        let unknown = || {
            format!("the link of {} tells no speed; write capacity = BITS_A_SECOND", self.interface)
        };
        // In Mbit/s; a virtual link has -1 or an error.
        let megabits = number(&self.folder.join("speed")).with_context(unknown)?;
        ensure!(megabits > 0, unknown());
        Ok(megabits as f64 * 1e6)
    }
}

impl Probe for Network {
    fn take(&mut self, at: Instant) -> Result<Option<Quantity>> {
        ensure!(self.folder.exists(), "there is no interface {}", self.interface);
        let sent = number(&self.folder.join("statistics/tx_bytes"))?;
        let capacity = self.capacity()?;
        let growth = self.growth.per_second(at, sent);
        Ok(growth.map(|bytes| utilization(bytes * 8.0 / capacity)))
    }
}
