//! Tries on a scratch process what workers may be given, and asks the kernel how much it gives.

use super::apply::{Before, Effect, to_group, to_processes};
use super::group::{Group, Roots};
use super::start::OURSELVES;
use super::threads;
use anyhow::{Context, Result, ensure};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;
use tiergate_core::workers::{Capacity, Io, Mechanism, Reservation, Scheduling, Shares};

/// A process that does nothing until it is dropped.
struct Scratch(Child);

impl Scratch {
    fn start() -> Result<Self> {
        let mut command = std::process::Command::new(OURSELVES);
        command.arg("start-worker").stdin(Stdio::piped());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map(Scratch).context("cannot start a process")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What comes of shares on this machine; `name`: of the group that is made for it, and removed.
pub(crate) fn try_shares(shares: &Shares, name: &str) -> Result<Vec<Effect>> {
    let group = shares.needs_group().then(|| {
        Group::make(&format!("{name}.doctor"), &Roots::default())
            .map_err(|fault| format!("{fault:#}"))
    });
    let scratch = Scratch::start()?;
    let pid = scratch.0.id();
    let mut effects = to_processes(&[pid], shares, &Shares::default());
    effects.extend(to_group(group.as_ref(), shares, &mut Before::default()));
    for effect in &mut effects {
        let is_in_force = match effect.mechanism {
            Mechanism::CpuWeight | Mechanism::CpuQuota => match &group {
                Some(Ok(group)) => {
                    let added = group.add(pid).map_err(|fault| format!("{fault:#}"));
                    effect.fault = effect.fault.take().or(added.err());
                    group.processes().contains(&pid)
                }
                _ => true,
            },
            _ => is_shown(effect.mechanism, pid, shares),
        };
        if effect.fault.is_none() && !is_in_force {
            effect.fault = Some("the kernel took it, and does not show it".to_owned());
        }
    }
    // The group can be removed only when nothing is in it.
    drop(scratch);
    Ok(effects)
}

/// Whether the kernel shows that the process has it, where it shows that.
fn is_shown(mechanism: Mechanism, pid: u32, shares: &Shares) -> bool {
    let Some((nice, policy)) = threads::scheduling(pid) else { return false };
    match mechanism {
        Mechanism::Nice => shares.nice.is_none_or(|wanted| i32::from(wanted) == nice),
        Mechanism::Idle => policy == libc::SCHED_IDLE as u32,
        Mechanism::Fifo => policy == libc::SCHED_FIFO as u32,
        Mechanism::Deadline => policy == libc::SCHED_DEADLINE as u32,
        Mechanism::Io | Mechanism::CpuWeight | Mechanism::CpuQuota => true,
    }
}

/// Whether the control group at a path is there, and can be given what shares say: weight and quota, and priorities to its processes, which may be of other users.
///
/// # Errors
/// What of it cannot.
pub(crate) fn try_group(below: &Path, shares: &Shares) -> Result<()> {
    let group = Group::at(below, &Roots::default())?;
    if shares.needs_group() {
        group.is_writable()?;
    }
    let is_of_processes =
        shares.nice.is_some() || shares.scheduling.is_some() || shares.io.is_some();
    if !is_of_processes || may_prioritize() {
        return Ok(());
    }
    let user = rustix::process::geteuid().as_raw();
    let of = |pid: u32| std::fs::metadata(format!("/proc/{pid}")).ok().map(|it| it.uid());
    let count = group.processes().into_iter().filter_map(of).filter(|it| *it != user).count();
    ensure!(
        count == 0,
        "{count} of its processes are of another user, whose priorities need CAP_SYS_NICE"
    );
    Ok(())
}

/// Whether this process has CAP_SYS_NICE, which is bit 23.
fn may_prioritize() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let held = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = held.and_then(|it| u64::from_str_radix(it.trim(), 16).ok());
    held.is_some_and(|held| held >> 23 & 1 == 1)
}

/// Everything that workers can be given, with a name and what it is.
pub(crate) fn examples() -> Vec<(&'static str, &'static str, Shares)> {
    let nothing = Shares::default();
    let scheduled = |scheduling| Shares { scheduling: Some(scheduling), ..nothing };
    let reserved = |extra| {
        let [slice, period] = [1, 100].map(Duration::from_millis);
        scheduled(Scheduling::Deadline(Reservation { slice, period, extra }))
    };
    vec![
        ("nice", "workers: nice, lower priority", Shares { nice: Some(10), ..nothing }),
        ("nice-raise", "workers: nice, higher priority", Shares { nice: Some(-5), ..nothing }),
        ("idle", "workers: scheduling = \"idle\"", scheduled(Scheduling::Idle)),
        ("fifo", "workers: scheduling = \"fifo:…\"", scheduled(Scheduling::Fifo(1))),
        ("deadline", "workers: scheduling = { slice, period }", reserved(false)),
        ("deadline-extra", "workers: scheduling with extra = true", reserved(true)),
        ("io", "workers: io = \"idle\"", Shares { io: Some(Io::Idle), ..nothing }),
        (
            "io-realtime",
            "workers: io = \"realtime:…\"",
            Shares { io: Some(Io::Realtime(7)), ..nothing },
        ),
        ("cpu-weight", "workers: cpu_weight", Shares { cpu_weight: Some(50), ..nothing }),
        ("cpu-quota", "workers: cpu_quota", Shares { cpu_quota: Some(0.5), ..nothing }),
    ]
}

/// What the kernel gives to reservations on this machine. `None`: it does not say, or grants all that is asked for.
pub(crate) fn capacity() -> Option<Capacity> {
    let number = |name: &str| -> Option<f64> {
        let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?;
        text.trim().parse().ok()
    };
    let (runtime, period) = (number("sched_rt_runtime_us")?, number("sched_rt_period_us")?);
    let realtime = realtime(runtime, period)?;
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    Some(Capacity { processors: processors()?, realtime, ordinary: ordinary(&release) })
}

/// The part of a processor that real-time scheduling may take, by the kernel's settings; `None`, by -1: it is not bounded, and nothing is refused.
fn realtime(runtime: f64, period: f64) -> Option<f64> {
    (runtime >= 0.0).then(|| runtime / period.max(1.0))
}

/// The part of each processor that the kernel keeps for ordinary processes among the reservations, since Linux 6.12: 50 ms of each second.
fn ordinary(release: &str) -> f64 {
    let mut numbers = release.split(|it: char| !it.is_ascii_digit());
    let mut next = || numbers.next().and_then(|number| number.parse::<u32>().ok()).unwrap_or(0);
    let version = (next(), next());
    if version >= (6, 12) { 0.05 } else { 0.0 }
}

/// The processors of the machine: reservations are not of those that the gateway may run on, but of all.
fn processors() -> Option<u32> {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
    // "0-3,8": single ones, and first and last of several.
    let count = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let [first, last] = [first, last].map(|it| it.trim().parse::<u32>().ok());
        last?.checked_sub(first?).map(|more| more + 1)
    };
    online.split(',').map(count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_real_time_is_not_bounded_nothing_is_known_of_what_is_granted() {
        assert_eq!(
            [950_000.0, 0.0, -1.0].map(|it| realtime(it, 1e6)),
            [Some(0.95), Some(0.0), None]
        );
    }

    #[test]
    fn ordinary_processes_have_a_reservation_since_linux_6_12() {
        let parts = ["6.18.44-fc", "6.12.0", "7.0", "6.11.9", "5.15.0-91-generic", "?"];
        assert_eq!(parts.map(ordinary), [0.05, 0.05, 0.05, 0.0, 0.0, 0.0]);
    }
}
