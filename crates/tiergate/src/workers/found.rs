//! Workers that others start: the processes of a control group or a systemd unit. What the policy says is given to those
//! that there are, and again and again, to those that come.

use super::apply::{Before, Effect, to_group, to_processes};
use super::board::PoolBoard;
use super::group::{Group, Roots};
use super::threads;
use crate::config::meant::Processes;
use anyhow::{Context, Result, ensure};
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tiergate_core::workers::{Mechanism, Shares};
use tokio::process::Command;
use tokio::sync::watch;

/// How often it is looked for processes that are new.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How long `systemctl` may take.
const SYSTEMCTL_MAX: Duration = Duration::from_secs(5);

/// Which processes, and what they are to have.
pub(super) type Wanted = (Processes, Shares);

/// Gives processes their shares until the sender is dropped; they keep what they have then. Each gets them once: what it, or others, change
/// afterwards is theirs. What is not said any more is not taken back from processes, of which it is not known what they had before.
pub(super) async fn follow(mut wanted: watch::Receiver<Wanted>, board: Arc<PoolBoard>) {
    let mut given = Given::default();
    loop {
        let wish = wanted.borrow_and_update().clone();
        match given.give(wish).await {
            Ok(count) => {
                board.found(Ok(count));
                board.group_has(given.effects());
            }
            Err(fault) => board.found(Err(format!("{fault:#}"))),
        }
        if let Ok(Err(_)) = tokio::time::timeout(LOOK_EVERY, wanted.changed()).await {
            return;
        }
    }
}

/// What was given, and to whom.
#[derive(Debug, Default)]
struct Given {
    /// What it was, and to which group: one of the same name may come after it.
    last: Option<(Wanted, u64)>,
    /// Each process by its number and its start, with what came of it.
    processes: HashMap<(u32, u64), Vec<Effect>>,
    /// What came of weight and quota.
    of_group: Vec<Effect>,
    before: Before,
    /// What a unit had before systemd was told otherwise.
    unit_before: [Option<String>; 2],
}

impl Given {
    /// Gives it to those that have not got it; how many processes there are.
    async fn give(&mut self, wanted: Wanted) -> Result<u32> {
        let (processes, shares) = wanted.clone();
        let (below, unit) = match &processes {
            Processes::Group(path) => (path.clone(), None),
            Processes::Unit(unit) => (group_of(unit).await?, Some(unit)),
            Processes::Started(_) => return Ok(0),
        };
        // Not on this thread, which serves: it reads some files for each process.
        let found = tokio::task::spawn_blocking(move || {
            let group = Group::at(&below, &Roots::default())?;
            let processes = group.processes().into_iter();
            let started: Vec<(u32, u64)> =
                processes.filter_map(|pid| Some((pid, threads::started(pid)?))).collect();
            let id = group.id()?;
            anyhow::Ok((group, id, started))
        });
        let (group, id, started) = found.await??;
        let former = self.last.take();
        let is_same_group =
            former.as_ref().is_some_and(|(former, group)| former.0 == processes && *group == id);
        if !is_same_group {
            // What one had that is gone says nothing of this; what systemd was told of a unit holds over its restarts.
            let is_same_unit = former.as_ref().is_some_and(|(former, _)| former.0 == processes);
            let unit_before = std::mem::take(&mut self.unit_before);
            *self = Given::default();
            self.unit_before = if is_same_unit { unit_before } else { Default::default() };
        }
        let former = former.filter(|_| is_same_group).map(|((_, shares), _)| shares);
        self.last = Some((wanted.clone(), id));
        let of_threads = |it: &Shares| (it.nice, it.scheduling, it.io);
        if former.is_none_or(|former| of_threads(&former) != of_threads(&shares)) {
            self.processes.clear();
        }
        let is_due = former != Some(shares) || self.of_group.iter().any(|it| it.fault.is_some());
        if let Some(unit) = unit.filter(|_| is_due) {
            self.of_group = properties(unit, &shares, &mut self.unit_before).await;
        }
        let is_group = unit.is_none() && is_due;
        let (mut known, mut before) = (self.processes.clone(), self.before.clone());
        let give = move || {
            let of = |it: (u32, u64)| {
                let known = known.remove(&it);
                let give = || to_processes(&[it.0], &shares, &Shares::default());
                (it, known.unwrap_or_else(give))
            };
            let known: HashMap<_, _> = started.into_iter().map(of).collect();
            let of_group = is_group.then(|| to_group(Some(&Ok(group)), &shares, &mut before));
            (known, before, of_group)
        };
        let (known, before, of_group) = tokio::task::spawn_blocking(give).await?;
        (self.processes, self.before) = (known, before);
        self.of_group = of_group.unwrap_or(std::mem::take(&mut self.of_group));
        Ok(u32::try_from(self.processes.len()).unwrap_or(u32::MAX))
    }

    /// What came of it, each fault once.
    fn effects(&self) -> Vec<Effect> {
        let mut effects = self.of_group.clone();
        for effect in self.processes.values().flatten() {
            if !effects.contains(effect) {
                effects.push(effect.clone());
            }
        }
        effects
    }
}

/// Weight and quota of a unit: by systemd, which owns its group and would write over what others do. Only until the machine restarts. `before`: what it had
/// before it was told otherwise, and is given back what is not asked for any more.
async fn properties(unit: &str, shares: &Shares, before: &mut [Option<String>; 2]) -> Vec<Effect> {
    let percent = |quota: f64| format!("{}%", hundredths(quota));
    let weight = shares.cpu_weight.map(|it| it.to_string());
    let quota = shares.cpu_quota.map(percent);
    let wanted = [
        (Mechanism::CpuWeight, "CPUWeight", "CPUWeight", weight),
        (Mechanism::CpuQuota, "CPUQuota", "CPUQuotaPerSecUSec", quota),
    ];
    let mut effects = Vec::new();
    for ((mechanism, name, shown, value), before) in wanted.into_iter().zip(before) {
        if value.is_none() && before.is_none() {
            continue;
        }
        let asked = shares.asked().into_iter().find(|(it, _)| *it == mechanism);
        let set = async {
            // Nothing is set of which it is not known what it was.
            let had = match &*before {
                Some(had) => had.clone(),
                None => had(unit, shown).await?,
            };
            let property = format!("{name}={}", value.as_deref().unwrap_or(&had));
            systemctl(&["set-property", "--runtime", "--", unit, &property]).await?;
            anyhow::Ok(value.is_some().then_some(had))
        };
        let fault = match set.await {
            Ok(had) => {
                *before = had;
                None
            }
            Err(fault) => Some(format!("{fault:#}")),
        };
        match asked {
            Some((_, asked)) => effects.push(Effect { mechanism, asked, fault }),
            None if fault.is_none() => {}
            None => effects.push(Effect { mechanism, asked: "as before".to_owned(), fault }),
        }
    }
    effects
}

/// What a property of a unit is, as it is to be set again; empty: it is not set.
async fn had(unit: &str, property: &str) -> Result<String> {
    let asked = format!("--property={property}");
    let text = systemctl(&["show", &asked, "--value", "--", unit]).await?;
    Ok(as_set(text.trim()))
}

/// What systemd shows as a time of processors in a second, as a part of them; what it shows as not set, as nothing.
fn as_set(shown: &str) -> String {
    let part = |text: &str| -> Option<f64> {
        let units = [("min", 60.0), ("ms", 1e-3), ("us", 1e-6), ("s", 1.0)];
        let of = |(unit, seconds): (&str, f64)| {
            Some(text.strip_suffix(unit)?.parse::<f64>().ok()? * seconds)
        };
        units.into_iter().find_map(of)
    };
    match shown {
        // Older ones show the largest number for a weight that is not set.
        "" | "[not set]" | "infinity" | "18446744073709551615" => String::new(),
        "idle" => shown.to_owned(),
        number if number.bytes().all(|byte| byte.is_ascii_digit()) => number.to_owned(),
        // "1min 2s 500ms": one part after the other.
        times => {
            let sum: Option<f64> = times.split_ascii_whitespace().map(part).sum();
            sum.map_or(String::new(), |sum| format!("{}%", hundredths(sum)))
        }
    }
}

/// A part of a processor in percent, with two decimals at most, which is what systemd takes, and at least one of these.
fn hundredths(part: f64) -> f64 {
    (part * 10_000.0).round().max(1.0) / 100.0
}

/// The control group of a systemd unit, as a path below the root.
async fn group_of(unit: &str) -> Result<PathBuf> {
    let text = systemctl(&["show", "--property=ControlGroup", "--value", "--", unit]).await?;
    let path = text.trim().trim_start_matches('/');
    ensure!(!path.is_empty(), "the unit {unit} is not running");
    Ok(PathBuf::from(path))
}

async fn systemctl(arguments: &[&str]) -> Result<String> {
    let mut command = Command::new("systemctl");
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(SYSTEMCTL_MAX, command.output()).await;
    let output = output.context("systemctl does not answer")?.context("cannot run systemctl")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "systemctl: {}", said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_unit_had_is_written_as_it_is_set() {
        for (shown, set) in [
            ("[not set]", ""),
            ("infinity", ""),
            ("500", "500"),
            ("500ms", "50%"),
            ("125ms", "12.5%"),
            ("1s", "100%"),
            ("1s 500ms", "150%"),
            ("1min 4s", "6400%"),
            ("idle", "idle"),
            ("18446744073709551615", ""),
        ] {
            assert_eq!(as_set(shown), set, "{shown}");
        }
    }
}
