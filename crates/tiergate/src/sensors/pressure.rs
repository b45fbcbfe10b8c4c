//! Pressure: the share of time in which some task waited for a processor, a disk or memory.
//!
//! Source: the kernel's "PSI - Pressure Stall Information" (Documentation/accounting/psi.rst).

use super::cgroup::Group;
use super::growth::Growth;
use super::probe::{Probe, Roots, text, utilization};
use crate::config::meant::{Of, Stalled};
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::time::Instant;
use tiergate_core::sense::Quantity;

/// The share of time since the last reading; the kernel's own averages go back ten seconds and more.
pub(super) struct Pressure {
    stalled: Stalled,
    machine: PathBuf,
    group: Option<Group>,
    growth: Growth,
}

impl Pressure {
    pub(super) fn new(stalled: Stalled, of: &Of, roots: &Roots) -> Self {
        let group = match of {
            Of::Cgroup(group) => Some(Group::at(group, roots)),
            Of::Machine | Of::PidFile(_) => None,
        };
        let machine = roots.proc.join("pressure").join(stalled.name());
        Pressure { stalled, machine, group, growth: Growth::default() }
    }
}

impl Probe for Pressure {
    fn take(&mut self, at: Instant) -> Result<Option<Quantity>> {
        let file = match &self.group {
            Some(group) => group.pressure(self.stalled.name())?,
            None => self.machine.clone(),
        };
        let waited_us = some_total(&text(&file)?)
            .with_context(|| format!("{} has no total", file.display()))?;
        Ok(self.growth.per_second(at, waited_us).map(|us| utilization(us / 1e6)))
    }
}

/// Since the start, in µs.
fn some_total(pressure: &str) -> Option<u64> {
    let line = pressure.lines().find_map(|line| line.strip_prefix("some "))?;
    line.split_ascii_whitespace().find_map(|it| it.strip_prefix("total="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_is_not_full() {
        let text = "full avg10=0.00 avg60=0.00 avg300=0.00 total=5\n\
                    some avg10=0.00 avg60=0.00 avg300=0.00 total=12345\n";
        assert_eq!(some_total(text), Some(12345));
        assert_eq!(some_total("full avg10=0.00 total=5\n"), None);
    }
}
