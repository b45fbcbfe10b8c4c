//! The process's usage, under the names that every exporter uses.

use std::fs;
use std::path::Path;

/// The kernel's unit of CPU time in `/proc/PID/stat`. `USER_HZ` is 100 on every architecture that
/// Linux supports today.
const TICKS_PER_SECOND: f64 = 100.0;

/// Readings of `/proc/self`; `None` where the kernel has none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    pub(crate) cpu_seconds: Option<f64>,
    pub(crate) resident_bytes: Option<u64>,
    pub(crate) open_fds: Option<u64>,
    pub(crate) fds_max: Option<u64>,
    /// Most memory that the control group may have.
    pub(crate) memory_max: Option<u64>,
}

pub(crate) fn usage() -> Usage {
    let read = |name: &str| fs::read_to_string(format!("/proc/self/{name}")).ok();
    Usage {
        cpu_seconds: read("stat").and_then(|stat| cpu_seconds(&stat)),
        resident_bytes: read("status").and_then(|status| resident_bytes(&status)),
        open_fds: open_fds(),
        fds_max: read("limits").and_then(|limits| fds_max(&limits)),
        memory_max: read("cgroup").and_then(|groups| memory_max(&groups)),
    }
}

/// Since Linux 6.2 the directory's size is the number of descriptors. Before, its entries are counted, which takes milliseconds with
/// ten thousand connections.
fn open_fds() -> Option<u64> {
    match fs::metadata("/proc/self/fd").ok()?.len() {
        0 => Some(fs::read_dir("/proc/self/fd").ok()?.count() as u64),
        len => Some(len),
    }
}

/// Only the processor time: one file.
pub(crate) fn cpu() -> Option<f64> {
    cpu_seconds(&fs::read_to_string("/proc/self/stat").ok()?)
}

/// The least `memory.max` of the process's control group (version 2) and those above it; `None`: nothing bounds it.
fn memory_max(groups: &str) -> Option<u64> {
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let folders = Path::new("/sys/fs/cgroup").join(own);
    let above = folders.ancestors().take_while(|it| it.starts_with("/sys/fs/cgroup"));
    let max = |folder: &Path| {
        fs::read_to_string(folder.join("memory.max")).ok()?.trim().parse::<u64>().ok()
    };
    above.filter_map(max).min()
}

/// User and system time of all threads: fields 14 and 15 of `proc_pid_stat(5)`.
fn cpu_seconds(stat: &str) -> Option<f64> {
    // The second field, the name, may hold spaces and parentheses; it ends at the last one.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user + system) as f64 / TICKS_PER_SECOND)
}

fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

fn fds_max(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_kernel_writes() {
        let stat = "42 (a) b) S 1 1 1 0 -1 4194560 9 0 0 0 150 50 0 0 20 0 4 0 7 1 2";
        assert_eq!(cpu_seconds(stat), Some(2.0));
        assert_eq!(resident_bytes("VmPeak:\t 9 kB\nVmRSS:\t    12 kB\n"), Some(12 * 1024));
        let limits = "Limit  Soft  Hard  Units\nMax open files   1024   4096   files\n";
        assert_eq!(fds_max(limits), Some(1024));
        assert_eq!(cpu_seconds("garbage"), None);
    }

    #[test]
    fn this_process_has_some() {
        let usage = usage();
        assert!(usage.resident_bytes > Some(100_000));
        assert!(usage.cpu_seconds.is_some() && usage.fds_max.is_some());
    }
}
