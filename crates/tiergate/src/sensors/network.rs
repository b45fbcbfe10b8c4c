//! A network interface: what share of its capacity it sends.

use super::growth::Growth;
use super::probe::{Probe, Roots, number, utilization};
use anyhow::{Context, Result, ensure};
use std::fs::read_to_string;
use std::path::PathBuf;
use std::time::Instant;
use tiergate_core::sense::Quantity;

/// Bits sent, of those that it can send.
pub(super) struct Network {
    /// What interfaces have sent, in the network namespace that the gateway is in: `/sys` may be of another one.
    devices: PathBuf,
    folder: PathBuf,
    interface: String,
    /// Bits a second.
    capacity: Option<u64>,
    growth: Growth,
}

impl Network {
    pub(super) fn new(interface: &str, capacity: Option<u64>, roots: &Roots) -> Self {
        let folder = roots.sys.join("class/net").join(interface);
        let devices = roots.proc.join("net/dev");
        Network {
            devices,
            folder,
            interface: interface.to_owned(),
            capacity,
            growth: Growth::default(),
        }
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
        let text = read_to_string(&self.devices)
            .with_context(|| format!("{} cannot be read", self.devices.display()))?;
        let sent = sent(&text, &self.interface)
            .with_context(|| format!("there is no interface {}", self.interface))?;
        let capacity = self.capacity()?;
        let growth = self.growth.per_second(at, sent);
        Ok(growth.map(|bytes| utilization(bytes * 8.0 / capacity)))
    }
}

/// Bytes that an interface has sent, by `/proc/net/dev`.
fn sent(devices: &str, interface: &str) -> Option<u64> {
    let numbers = devices
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'))?;
    // Eight numbers of what was received come first.
    numbers.split_ascii_whitespace().nth(8)?.parse().ok()
}
