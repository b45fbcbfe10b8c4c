//! A network interface: what share of its capacity it sends, or of the fuller direction.

use super::growth::Growth;
use super::probe::{Probe, Roots, utilization};
use crate::interface::capacity;
use anyhow::{Context, Result};
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
    sent: Growth,
    /// `None`: only what is sent is asked for.
    received: Option<Growth>,
}

impl Network {
    pub(super) fn new(interface: &str, capacity: Option<u64>, roots: &Roots) -> Self {
        let folder = capacity::folder(&roots.sys, interface);
        let devices = roots.proc.join("net/dev");
        Network {
            devices,
            folder,
            interface: interface.to_owned(),
            capacity,
            sent: Growth::default(),
            received: None,
        }
    }

    /// What is sent or what is received, whichever is more: for a link whose answers come this way.
    pub(super) fn both_ways(interface: &str, capacity: Option<u64>, roots: &Roots) -> Self {
        let received = Some(Growth::default());
        Network { received, ..Network::new(interface, capacity, roots) }
    }

    /// Bits a second. A link may change its speed.
    fn capacity(&self) -> Result<f64> {
        if let Some(bits) = self.capacity {
            return Ok(bits as f64);
        }
        let unknown = || {
            format!("the link of {} tells no speed; write capacity = BITS_A_SECOND", self.interface)
        };
        Ok(capacity::speed(&self.folder).with_context(unknown)? as f64)
    }
}

impl Probe for Network {
    fn take(&mut self, at: Instant) -> Result<Option<Quantity>> {
        let text = read_to_string(&self.devices)
            .with_context(|| format!("{} cannot be read", self.devices.display()))?;
        let (received, sent) = bytes(&text, &self.interface)
            .with_context(|| format!("there is no interface {}", self.interface))?;
        let capacity = self.capacity()?;
        let sent = self.sent.per_second(at, sent);
        let received = self.received.as_mut().and_then(|growth| growth.per_second(at, received));
        let fuller = sent.map(|sent| received.map_or(sent, |received| sent.max(received)));
        Ok(fuller.map(|bytes| utilization(bytes * 8.0 / capacity)))
    }
}

/// Bytes that an interface has received and sent, by `/proc/net/dev`.
fn bytes(devices: &str, interface: &str) -> Option<(u64, u64)> {
    let numbers = devices
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'))?;
    let mut numbers = numbers.split_ascii_whitespace().map(|it| it.parse().ok());
    // Eight numbers of what was received come first, its bytes before all.
    Some((numbers.next()??, numbers.nth(7)??))
}
