//! What a policy gives to the workers of a pool of processors and disk.

use std::fmt;
use std::time::Duration;

/// What the workers of a pool have of processors and disk. What is `None` is left as it is.
///
/// Source: WebQoS §4.5 (priority of workers), Voigt A (reservations); the rest is what Linux has.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shares {
    /// -20 to 19; lower values have a larger part of a busy processor.
    pub nice: Option<i8>,
    /// How they are scheduled, other than as all processes.
    pub scheduling: Option<Scheduling>,
    /// Their place at the disk.
    pub io: Option<Io>,
    /// Weight of their control group, 1 to 10000; 100 is that of a group of which nothing is said.
    pub cpu_weight: Option<u32>,
    /// How many processors their control group may use at most.
    pub cpu_quota: Option<f64>,
}

/// How threads are scheduled, other than as all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduling {
    /// Only where no other wants the processor (SCHED_IDLE).
    Idle,
    /// Before all ordinary processes, by a priority of 1 to 99 (SCHED_FIFO).
    Fifo(u8),
    /// A part of a processor that it is guaranteed (SCHED_DEADLINE).
    Deadline(Reservation),
}

/// A part of a processor: a slice of each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// For how long of each period.
    pub slice: Duration,
    /// How long a period is.
    pub period: Duration,
    /// Whether it may also use what nobody else reserved or uses.
    pub extra: bool,
}

impl Reservation {
    /// Shortest and longest period. The kernel allows 100 µs to 4.19 s.
    pub const PERIODS: [Duration; 2] = [Duration::from_millis(1), Duration::from_secs(4)];
    /// Shortest slice: below it, switching costs more than the slice is worth.
    pub const SLICE_MIN: Duration = Duration::from_micros(100);

    /// Its part of a processor, 0 to 1.
    pub fn part(&self) -> f64 {
        self.slice.as_secs_f64() / self.period.as_secs_f64()
    }
}

/// The place of processes at the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Io {
    /// Only while the disk is idle.
    Idle,
    /// As all processes; 0 is first, 7 last.
    BestEffort(u8),
    /// Before all others; 0 is first, 7 last.
    Realtime(u8),
}

/// One of the mechanisms that carry out [`Shares`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// [`Shares::nice`].
    Nice,
    /// [`Scheduling::Idle`].
    Idle,
    /// [`Scheduling::Fifo`].
    Fifo,
    /// [`Scheduling::Deadline`].
    Deadline,
    /// [`Shares::io`].
    Io,
    /// [`Shares::cpu_weight`].
    CpuWeight,
    /// [`Shares::cpu_quota`].
    CpuQuota,
}

impl Mechanism {
    /// Its name in status, metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Nice => "nice",
            Mechanism::Idle => "idle",
            Mechanism::Fifo => "fifo",
            Mechanism::Deadline => "deadline",
            Mechanism::Io => "io",
            Mechanism::CpuWeight => "cpu_weight",
            Mechanism::CpuQuota => "cpu_quota",
        }
    }
}

impl Scheduling {
    /// The mechanism that carries it out.
    pub fn mechanism(self) -> Mechanism {
        match self {
            Scheduling::Idle => Mechanism::Idle,
            Scheduling::Fifo(_) => Mechanism::Fifo,
            Scheduling::Deadline(_) => Mechanism::Deadline,
        }
    }
}

impl Shares {
    /// The mechanisms that it takes, with what is asked of each.
    pub fn asked(&self) -> Vec<(Mechanism, String)> {
        let mut asked = Vec::new();
        asked.extend(self.nice.map(|nice| (Mechanism::Nice, nice.to_string())));
        asked.extend(self.scheduling.map(|it| (it.mechanism(), it.to_string())));
        asked.extend(self.io.map(|io| (Mechanism::Io, io.to_string())));
        asked.extend(self.cpu_weight.map(|it| (Mechanism::CpuWeight, it.to_string())));
        let percent = |quota: f64| format!("{}%", (quota * 1000.0).round() / 10.0);
        asked.extend(self.cpu_quota.map(|it| (Mechanism::CpuQuota, percent(it))));
        asked
    }

    /// Whether a part of a processor is reserved.
    pub fn is_reserved(&self) -> bool {
        matches!(self.scheduling, Some(Scheduling::Deadline(_)))
    }

    /// Whether it takes a control group.
    pub fn needs_group(&self) -> bool {
        self.cpu_weight.is_some() || self.cpu_quota.is_some()
    }

    /// What a thread is to be given that had `former`: what was taken back is what a process has by default.
    pub fn change_from(&self, former: &Shares) -> Change {
        let is_of_thread = |it: &Shares| it.nice.is_some() || it.scheduling.is_some();
        let scheduling = match (self.scheduling, is_of_thread(self) || is_of_thread(former)) {
            (_, false) => None,
            (Some(scheduling), true) => Some(Class::Other(scheduling)),
            (None, true) => Some(Class::Ordinary { nice: self.nice.unwrap_or(0) }),
        };
        let io = match (self.io, former.io) {
            (Some(io), _) => Some(Some(io)),
            (None, Some(_)) => Some(None),
            (None, None) => None,
        };
        Change { scheduling, io }
    }
}

/// What is to be done to a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// How it is to be scheduled; `None`: as it is.
    pub scheduling: Option<Class>,
    /// Its place at the disk, or the default one; `None`: as it is.
    pub io: Option<Option<Io>>,
}

/// How a thread is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// As all processes (SCHED_OTHER).
    Ordinary {
        /// Its nice value.
        nice: i8,
    },
    /// Otherwise.
    Other(Scheduling),
}

impl fmt::Display for Scheduling {
    /// As it is written in a policy.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scheduling::Idle => f.write_str("idle"),
            Scheduling::Fifo(priority) => write!(f, "fifo:{priority}"),
            Scheduling::Deadline(Reservation { slice, period, extra }) => {
                let extra = if *extra { ", and of what is left" } else { "" };
                write!(f, "{slice:?} in {period:?}{extra}")
            }
        }
    }
}

impl fmt::Display for Io {
    /// As it is written in a policy.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Io::Idle => f.write_str("idle"),
            Io::BestEffort(level) => write!(f, "best-effort:{level}"),
            Io::Realtime(level) => write!(f, "realtime:{level}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_back_is_as_by_default_and_the_rest_is_left_alone() {
        let nothing = Shares::default();
        assert_eq!(nothing.change_from(&nothing), Change { scheduling: None, io: None });
        let nice = Shares { nice: Some(10), ..nothing };
        let io = Shares { io: Some(Io::Idle), ..nothing };
        let idle = Shares { scheduling: Some(Scheduling::Idle), ..nothing };
        let ordinary = |nice| Some(Class::Ordinary { nice });
        let cases = [
            (nice, nothing, Change { scheduling: ordinary(10), io: None }),
            (nothing, nice, Change { scheduling: ordinary(0), io: None }),
            (nice, idle, Change { scheduling: ordinary(10), io: None }),
            (idle, nice, Change { scheduling: Some(Class::Other(Scheduling::Idle)), io: None }),
            (io, nothing, Change { scheduling: None, io: Some(Some(Io::Idle)) }),
            (nothing, io, Change { scheduling: None, io: Some(None) }),
        ];
        for (new, former, change) in cases {
            assert_eq!(new.change_from(&former), change, "{former:?} → {new:?}");
        }
    }
}
