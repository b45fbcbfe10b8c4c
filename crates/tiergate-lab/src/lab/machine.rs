//! What the lab runs on, and which processor does what.

use super::network::CONGESTION;
use super::result::Machine;
use std::fs::read_to_string;

/// The machine, as it says of itself.
pub(super) fn machine(runs_at_a_time: usize) -> Machine {
    let cpuinfo = read_to_string("/proc/cpuinfo").unwrap_or_default();
    let meminfo = read_to_string("/proc/meminfo").unwrap_or_default();
    let kernel = read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let memory_kib = field(&meminfo, "MemTotal").and_then(|v| v.split(' ').next()?.parse().ok());
    Machine {
        processor: field(&cpuinfo, "model name").unwrap_or("unknown").into(),
        processors: processors(),
        memory_mib: memory_kib.unwrap_or(0_u64) / 1024,
        kernel: kernel.trim().into(),
        congestion: CONGESTION.into(),
        runs_at_a_time,
        day: day(std::time::SystemTime::now()),
    }
}

impl Machine {
    /// What two runs have in common that were on the same machine; the day is not part of it.
    pub(super) fn identity(&self) -> String {
        let Machine { processor, processors, memory_mib, kernel, congestion, .. } = self;
        let jobs = self.runs_at_a_time;
        format!(
            "{processor}, {processors}, {memory_mib} MiB, {kernel}, {congestion}, {jobs} at a time"
        )
    }
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim())
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The time in UTC, as `2026-11-21 09:05`.
pub(super) fn minute() -> String {
    let now = time::OffsetDateTime::now_utc();
    format!("{} {:02}:{:02}", now.date(), now.hour(), now.minute())
}

/// The date in UTC, as 2026-11-21.
fn day(at: std::time::SystemTime) -> String {
    time::OffsetDateTime::from(at).date().to_string()
}

/// Which processors belong to whom, in the words of `taskset`; `None`: all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Split {
    /// The load generator's.
    pub(super) load: Option<String>,
    /// The gateway's.
    pub(super) front: Option<String>,
    /// The origin's.
    pub(super) origin: Option<String>,
}

impl Split {
    /// On this machine, for run number `job` of `jobs` at the same time.
    ///
    /// With two processors, the gateway shares one: with an origin that mostly waits, or else with
    /// the load generator, whose own processor time the report tells. Two runs at a time on two
    /// processors have their shares crosswise.
    pub(super) fn new(origin_computes: bool, job: usize, jobs: usize) -> Self {
        Self::of(processors(), origin_computes, job, jobs)
    }

    fn of(processors: usize, origin_computes: bool, job: usize, jobs: usize) -> Self {
        let group = processors / jobs;
        let (first, last) = (group * job, group * (job + 1) - group.min(1));
        let split = |load: String, front: usize, origin: usize| Self {
            load: Some(load),
            front: Some(front.to_string()),
            origin: Some(origin.to_string()),
        };
        match group {
            0 => Self { load: None, front: None, origin: None },
            1 if jobs > 1 => split(((job + 1) % processors).to_string(), job, job),
            1 => Self { load: None, front: None, origin: None },
            2 if origin_computes => split(last.to_string(), last, first),
            2 => split(last.to_string(), first, first),
            _ => split(format!("{}-{last}", first + 2), first + 1, first),
        }
    }

    /// How many runs there may be at a time: each with processors of its own.
    pub(super) fn jobs() -> usize {
        (processors() / 2).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn days_are_counted_as_calendars_do() {
        let day_at = |seconds| day(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(day_at(0), "1970-01-01");
        assert_eq!(day_at(951_782_400), "2000-02-29");
        assert_eq!(day_at(1_795_219_200), "2026-11-21");
        assert_eq!(day_at(1_798_761_599), "2026-12-31");
    }

    #[test]
    fn the_generator_never_shares_with_a_computing_origin() {
        for (processors, jobs) in [(2, 1), (2, 2), (4, 1), (4, 2), (16, 1), (16, 8)] {
            for (computes, job) in [(false, 0), (true, 0), (false, jobs - 1), (true, jobs - 1)] {
                let split = Split::of(processors, computes, job, jobs);
                assert_ne!(split.load, split.origin, "{processors} {jobs} {job}");
            }
        }
        assert_eq!(Split::of(8, true, 0, 1).load.as_deref(), Some("2-7"));
        let second = Split::of(8, true, 1, 2);
        assert_eq!((second.origin.as_deref(), second.load.as_deref()), (Some("4"), Some("6-7")));
        assert_eq!(Split::of(1, true, 0, 1), Split { load: None, front: None, origin: None });
    }
}
