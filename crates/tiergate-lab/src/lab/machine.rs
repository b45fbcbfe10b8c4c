//! What the lab runs on, and which processor does what.

use super::result::Machine;
use std::fs::read_to_string;

/// The machine, as it says of itself.
pub(super) fn machine() -> Machine {
    let cpuinfo = read_to_string("/proc/cpuinfo").unwrap_or_default();
    let meminfo = read_to_string("/proc/meminfo").unwrap_or_default();
    let kernel = read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let memory_kib = field(&meminfo, "MemTotal").and_then(|v| v.split(' ').next()?.parse().ok());
    Machine {
        processor: field(&cpuinfo, "model name").unwrap_or("unknown").into(),
        processors: processors(),
        memory_mib: memory_kib.unwrap_or(0_u64) / 1024,
        kernel: kernel.trim().into(),
        day: day(std::time::SystemTime::now()),
    }
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim())
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The date in UTC, as 2026-11-21.
fn day(at: std::time::SystemTime) -> String {
    let days = at.duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs() / 86_400;
    // Source: H. Hinnant, "chrono-compatible low-level date algorithms", civil_from_days.
    let z = days as i64 + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let (d, m) = (doy - (153 * mp + 2) / 5 + 1, if mp < 10 { mp + 3 } else { mp - 9 });
    let y = yoe + era * 400 + i64::from(m <= 2);
    format!("{y:04}-{m:02}-{d:02}")
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
    /// On this machine. With two processors, the gateway shares one: with an origin that mostly
    /// waits, or else with the load generator, whose own processor time the report tells.
    pub(super) fn new(origin_computes: bool) -> Self {
        Self::of(processors(), origin_computes)
    }

    fn of(processors: usize, origin_computes: bool) -> Self {
        let split = |load: &str, front: &str, origin: &str| Self {
            load: Some(load.into()),
            front: Some(front.into()),
            origin: Some(origin.into()),
        };
        match processors {
            0 | 1 => Self { load: None, front: None, origin: None },
            2 if origin_computes => split("1", "1", "0"),
            2 => split("1", "0", "0"),
            n => split(&format!("2-{}", n - 1), "1", "0"),
        }
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
        for processors in [2, 4, 16] {
            for computes in [false, true] {
                let split = Split::of(processors, computes);
                assert_ne!(split.load, split.origin);
            }
        }
        assert_eq!(Split::of(8, true).load.as_deref(), Some("2-7"));
    }
}
