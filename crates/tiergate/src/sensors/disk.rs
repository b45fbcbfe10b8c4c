//! A disk: the share of time in which it is busy.

use super::growth::Growth;
use super::probe::{Probe, Roots, text, utilization};
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::time::Instant;
use tiergate_core::sense::Quantity;

/// The share of time in which requests are in progress. A disk that works on several at once may be busy and have room.
pub(super) struct Disk {
    device: String,
    diskstats: PathBuf,
    growth: Growth,
}

impl Disk {
    pub(super) fn new(device: &str, roots: &Roots) -> Self {
        let diskstats = roots.proc.join("diskstats");
        Disk { device: device.to_owned(), diskstats, growth: Growth::default() }
    }
}

impl Probe for Disk {
    fn take(&mut self, at: Instant) -> Result<Option<Quantity>> {
        let busy_ms = busy_ms(&text(&self.diskstats)?, &self.device).with_context(|| {
            format!("{} names no disk {}", self.diskstats.display(), self.device)
        })?;
        Ok(self.growth.per_second(at, busy_ms).map(|ms| utilization(ms / 1e3)))
    }
}

/// Since the start, in ms.
fn busy_ms(diskstats: &str, device: &str) -> Option<u64> {
    let fields = |line: &str| line.split_ascii_whitespace().map(str::to_owned).collect();
    let is_it = |fields: &Vec<String>| fields.get(2).is_some_and(|name| name == device);
    // Major, minor, name; then reads, merged, sectors, ms; the same of writes; in progress; busy for.
    diskstats.lines().map(fields).find(is_it)?.get(12)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_not_its_partition() {
        let text =
            "   8  0 sda 1 2 3 4 5 6 7 8 0 777 999 0 0 0 0\n   8 1 sda1 1 2 3 4 5 6 7 8 0 1 1\n";
        assert_eq!(busy_ms(text, "sda"), Some(777));
        assert_eq!(busy_ms(text, "sda1"), Some(1));
        assert_eq!(busy_ms(text, "sd"), None);
    }
}
