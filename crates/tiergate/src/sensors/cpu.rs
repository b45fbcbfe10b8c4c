//! Processors: what share of them is in use.

use super::cgroup::Group;
use super::growth::Growth;
use super::probe::{Probe, Roots, processors, text, utilization};
use super::process_tree::Tree;
use crate::config::meant::Of;
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::time::Instant;
use tiergate_core::sense::Quantity;

/// What takes the readings.
pub(super) fn probe(of: &Of, roots: &Roots) -> Box<dyn Probe> {
    let growth = Growth::default();
    match of {
        Of::Machine => Box::new(Machine { stat: roots.proc.join("stat"), last: None }),
        Of::Cgroup(group) => {
            Box::new(OfGroup { group: Group::at(group, roots), roots: roots.clone(), growth })
        }
        Of::PidFile(file) => {
            Box::new(OfProcess { tree: Tree::of(file, roots), roots: roots.clone(), last: None })
        }
    }
}

/// All processors of the machine together.
struct Machine {
    stat: PathBuf,
    /// Ticks in use and in all.
    last: Option<(u64, u64)>,
}

impl Probe for Machine {
    fn take(&mut self, _: Instant) -> Result<Option<Quantity>> {
        let now = ticks(&text(&self.stat)?)
            .with_context(|| format!("{} has no times of all processors", self.stat.display()))?;
        let Some(before) = self.last.replace(now) else { return Ok(None) };
        let in_all = now.1.checked_sub(before.1).filter(|ticks| *ticks > 0);
        let used = now.0.checked_sub(before.0);
        Ok(in_all.zip(used).map(|(in_all, used)| utilization(used as f64 / in_all as f64)))
    }
}

/// Ticks in use and in all, of all processors.
///
/// Time that the hypervisor gave to others counts as in use: this machine wanted it.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // user nice system idle iowait irq softirq steal; guest times are within user.
    let times: Vec<u64> = line.split_ascii_whitespace().map_while(|it| it.parse().ok()).collect();
    let [user, nice, system, idle, iowait, irq, softirq, ..] = times[..] else { return None };
    let used = user + nice + system + irq + softirq + times.get(7).unwrap_or(&0);
    Some((used, used + idle + iowait))
}

/// What a control group uses, of its quota, or of the processors that it may run on.
struct OfGroup {
    group: Group,
    roots: Roots,
    growth: Growth,
}

impl Probe for OfGroup {
    fn take(&mut self, at: Instant) -> Result<Option<Quantity>> {
        let used = self.group.cpu_used_ns()?;
        let Some(growth) = self.growth.per_second(at, used) else { return Ok(None) };
        let machine = processors(&self.roots)?;
        let allowed = f64::from(self.group.processors_allowed().unwrap_or(machine).min(machine));
        let most = self.group.cpu_quota()?.map_or(allowed, |quota| quota.min(allowed));
        Ok(Some(utilization(growth / 1e9 / most)))
    }
}

/// What a process and its descendants use, of the processors that it may run on.
struct OfProcess {
    tree: Tree,
    roots: Roots,
    last: Option<Instant>,
}

impl Probe for OfProcess {
    fn take(&mut self, at: Instant) -> Result<Option<Quantity>> {
        let used = self.tree.cpu_used()?;
        let before = self.last.replace(at);
        let Some((used_s, before)) = used.zip(before) else { return Ok(None) };
        let seconds = at.saturating_duration_since(before).as_secs_f64().max(1e-3);
        let machine = processors(&self.roots)?;
        let most = f64::from(self.tree.processors_allowed().unwrap_or(machine).min(machine));
        Ok(Some(utilization(used_s / seconds / most)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_in_use_unless_idle_or_waiting_for_a_disk() {
        let stat = "cpu  10 2 8 70 6 1 1 2 5 0\ncpu0 10 2 8 70 6 1 1 2 5 0\nintr 1 2\n";
        assert_eq!(ticks(stat), Some((24, 100)));
        assert_eq!(ticks("cpu  10 2 8\n"), None, "an ancient kernel's");
        assert_eq!(ticks("nothing"), None);
    }
}
