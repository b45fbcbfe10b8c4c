//! Memory: what share of it is in use, and how much is swapped.

use super::cgroup::Group;
use super::growth::Growth;
use super::probe::{Probe, Roots, text, utilization};
use crate::config::meant::Of;
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::time::Instant;
use tiergate_core::sense::Quantity;

/// The share of the memory in use. What the kernel keeps of files and would give back counts as free.
pub(super) struct Memory {
    meminfo: PathBuf,
    group: Option<Group>,
}

impl Memory {
    pub(super) fn new(of: &Of, roots: &Roots) -> Self {
        let group = match of {
            Of::Cgroup(group) => Some(Group::at(group, roots)),
            Of::Machine | Of::PidFile(_) => None,
        };
        Memory { meminfo: roots.proc.join("meminfo"), group }
    }

    /// Bytes of the machine by their name.
    fn machine(&self, meminfo: &str, name: &str) -> Result<u64> {
        kib(meminfo, name)
            .map(|kib| kib * 1024)
            .with_context(|| format!("{} has no {name}", self.meminfo.display()))
    }
}

impl Probe for Memory {
    fn take(&mut self, _: Instant) -> Result<Option<Quantity>> {
        let meminfo = text(&self.meminfo)?;
        let machine = self.machine(&meminfo, "MemTotal")?.max(1);
        let (used, most) = match &self.group {
            None => (machine.saturating_sub(self.machine(&meminfo, "MemAvailable")?), machine),
            Some(group) => {
                (group.memory_used()?, group.memory_max()?.unwrap_or(machine).clamp(1, machine))
            }
        };
        Ok(Some(utilization(used as f64 / most as f64)))
    }
}

/// A number of KiB in the kernel's account of the memory.
fn kib(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// Pages a second that are swapped in or out: more than a few say that there is too little memory.
pub(super) struct Paging {
    vmstat: PathBuf,
    growth: Growth,
}

impl Paging {
    pub(super) fn new(roots: &Roots) -> Self {
        Paging { vmstat: roots.proc.join("vmstat"), growth: Growth::default() }
    }
}

impl Probe for Paging {
    fn take(&mut self, at: Instant) -> Result<Option<Quantity>> {
        let vmstat = text(&self.vmstat)?;
        let field = |name| {
            super::cgroup::field(&vmstat, name)
                .with_context(|| format!("{} has no {name}", self.vmstat.display()))
        };
        let pages = field("pswpin")? + field("pswpout")?;
        Ok(self.growth.per_second(at, pages).map(Quantity::Rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_not_the_beginning_of_another() {
        let meminfo = "MemTotal:       16384 kB\nMemTotalX:  1 kB\nHugePages:  3\n";
        assert_eq!(kib(meminfo, "MemTotal"), Some(16384));
        assert_eq!(kib(meminfo, "Mem"), None);
        assert_eq!(kib(meminfo, "HugePages"), None, "not in KiB");
    }
}
