//! Gives processes what the policy says, and says what could not be given and why.

use super::group::Group;
use super::{kernel, threads};
use std::io;
use tiergate_core::workers::{Change, Class, Mechanism, Scheduling, Shares};

/// What came of a mechanism.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Effect {
    pub(crate) mechanism: Mechanism,
    /// As it is written in a policy.
    pub(crate) asked: String,
    /// Why it is not in force; `None`: it is.
    pub(crate) fault: Option<String>,
}

/// Gives threads what `shares` say, and what threads have by default where `former` said something and they do not; what a control group has is
/// not of threads. A reservation is of the first thread of the first process alone: the kernel counts it for each.
pub(super) fn to_processes(processes: &[u32], shares: &Shares, former: &Shares) -> Vec<Effect> {
    let Change { scheduling, io } = shares.change_from(former);
    let (mut of_scheduling, mut of_io) = (Ok(()), Ok(()));
    for &process in processes {
        for thread in threads::of_process(process) {
            if let Some(class) = scheduling {
                let is_reserved = matches!(class, Class::Other(Scheduling::Deadline(_)));
                let class = match is_reserved && processes.first() != Some(&thread) {
                    false => Some(class),
                    // What it had before was meant for it, the reservation is not.
                    true if of_scheduling.is_ok()
                        && (former.nice.is_some() || former.scheduling.is_some()) =>
                    {
                        Some(Class::Ordinary { nice: 0 })
                    }
                    true => None,
                };
                if let Some(class) = class {
                    keep_first(&mut of_scheduling, kernel::schedule(thread, class));
                }
            }
            if let Some(io) = io {
                keep_first(&mut of_io, kernel::place_at_disk(thread, io));
            }
        }
    }
    let asked = shares.asked().into_iter();
    let of_threads = asked.filter_map(|(mechanism, asked)| {
        let done = match mechanism {
            Mechanism::CpuWeight | Mechanism::CpuQuota => return None,
            Mechanism::Io => &of_io,
            _ => &of_scheduling,
        };
        let fault = done.as_ref().err().map(|error| why(mechanism, error));
        Some(Effect { mechanism, asked, fault })
    });
    let mut effects: Vec<Effect> = of_threads.collect();
    // What is not asked for any more, and could not be taken back.
    for (mechanism, _) in former.asked() {
        let done = match mechanism {
            Mechanism::CpuWeight | Mechanism::CpuQuota => continue,
            Mechanism::Io => &of_io,
            _ => &of_scheduling,
        };
        if let Err(error) = done
            && !effects.iter().any(|it| it.mechanism == mechanism)
        {
            let fault = format!("{}; a worker that is started anew has it", why(mechanism, error));
            let asked = "default".to_owned();
            effects.push(Effect { mechanism, asked, fault: Some(fault) });
        }
    }
    effects
}

/// Keeps the first error. That a thread has just ended is none.
fn keep_first(kept: &mut io::Result<()>, done: io::Result<()>) {
    let has_ended = |error: &io::Error| error.raw_os_error() == Some(libc::ESRCH);
    if kept.is_ok() && !done.as_ref().is_err_and(has_ended) {
        *kept = done;
    }
}

/// Takes processes into a control group; what comes of that for them.
pub(super) fn into_group(processes: &[u32], group: &Group, shares: &Shares) -> Vec<Effect> {
    // One that has just ended needs no group.
    let lives = |process: u32| std::path::Path::new(&format!("/proc/{process}")).exists();
    let add = |process: &u32| group.add(*process).err().filter(|_| lives(*process));
    let faults: Vec<anyhow::Error> = processes.iter().filter_map(add).collect();
    let fault = faults.into_iter().next();
    let Some(fault) = fault.map(|fault| format!("{fault:#}")) else { return Vec::new() };
    let asked = shares.asked().into_iter().filter(|(mechanism, _)| is_of_group(*mechanism));
    let effect = |(mechanism, asked)| Effect { mechanism, asked, fault: Some(fault.clone()) };
    asked.map(effect).collect()
}

/// Whether a mechanism is of a control group, and not of threads.
pub(super) fn is_of_group(mechanism: Mechanism) -> bool {
    matches!(mechanism, Mechanism::CpuWeight | Mechanism::CpuQuota)
}

/// What a control group had before the gateway gave it something: weight and quota, as its files had them.
pub(super) type Before = [Option<Vec<(&'static str, String)>>; 2];

/// Gives a control group what `shares` say, and what it had before where they say nothing any more; `group`: it, or why there is none; `before` is kept
/// with it.
pub(super) fn to_group(
    group: Option<&Result<Group, String>>,
    shares: &Shares,
    before: &mut Before,
) -> Vec<Effect> {
    let Some(group) = group else { return Vec::new() };
    let asked = shares.asked();
    let mut effects = Vec::new();
    for (place, mechanism) in [Mechanism::CpuWeight, Mechanism::CpuQuota].into_iter().enumerate() {
        let asked = asked.iter().find(|(it, _)| *it == mechanism).map(|(_, asked)| asked.clone());
        if asked.is_none() && before[place].is_none() {
            continue;
        }
        let done = group.as_ref().map_err(Clone::clone).and_then(|group| {
            let had = &mut before[place];
            if asked.is_some() && had.is_none() {
                let [weight, quota] = group.settings();
                *had = if mechanism == Mechanism::CpuWeight { weight } else { quota };
            }
            let done = match (mechanism, shares.cpu_weight, shares.cpu_quota) {
                (Mechanism::CpuWeight, Some(weight), _) => group.set_weight(weight),
                (Mechanism::CpuQuota, _, Some(quota)) => group.set_quota(quota),
                _ => {
                    let restored = had.as_ref().map_or(Ok(()), |files| group.restore(files));
                    restored.inspect(|()| *had = None)
                }
            };
            done.map_err(|fault| format!("{fault:#}"))
        });
        match (asked, done.err()) {
            (Some(asked), fault) => effects.push(Effect { mechanism, asked, fault }),
            (None, None) => {}
            (None, fault) => {
                effects.push(Effect { mechanism, asked: "as before".to_owned(), fault });
            }
        }
    }
    effects
}

/// Why a mechanism is not in force, and what to do.
pub(super) fn why(mechanism: Mechanism, error: &io::Error) -> String {
    let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
    let code = error.raw_os_error();
    let nice = "needs CAP_SYS_NICE, or LimitNICE= in its systemd unit, to raise a priority";
    match mechanism {
        Mechanism::Nice | Mechanism::Idle if is_denied => nice.to_owned(),
        Mechanism::Io if is_denied => "realtime needs CAP_SYS_NICE".to_owned(),
        Mechanism::Fifo if is_denied => {
            "needs CAP_SYS_NICE, or LimitRTPRIO= in its systemd unit; in a control group of version 1, cpu.rt_runtime_us too"
                .to_owned()
        }
        Mechanism::Deadline if code == Some(libc::EBUSY) => {
            "the kernel has no room left for this reservation: see sysctl kernel.sched_rt_runtime_us, and `tiergate check`"
                .to_owned()
        }
        Mechanism::Deadline if is_denied => {
            "needs CAP_SYS_NICE, and a process that may run on every processor".to_owned()
        }
        _ => error.to_string(),
    }
}
