//! Memory and descriptors of the gateway over time.

use procfs::process::Process;

/// One reading. Times are those of the timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sample {
    pub(super) at: f64,
    /// Resident memory in bytes.
    pub(super) memory: u64,
    pub(super) descriptors: u64,
    pub(super) connections: u64,
    pub(super) slots: u64,
    pub(super) waiting: u64,
    /// Memory for slow clients, in bytes.
    pub(super) buffered: u64,
}

/// Resident memory (bytes) and open descriptors of a process; `None` once it has ended.
pub(super) fn of(pid: u32) -> Option<(u64, u64)> {
    let process = Process::new(pid as i32).ok()?;
    let memory = process.status().ok()?.vmrss? * 1024;
    Some((memory, process.fd_count().ok()? as u64))
}

/// The largest value of each of so many parts of the time.
pub(super) fn course(samples: &[Sample], parts: usize, of: impl Fn(&Sample) -> u64) -> Vec<f64> {
    let parts = parts.min(samples.len()).max(1);
    let bounds = |part: usize| part * samples.len() / parts;
    let part = |n: usize| samples[bounds(n)..bounds(n + 1)].iter().map(&of).max();
    (0..parts).map(|n| part(n).unwrap_or(0) as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_process_has_memory_and_descriptors() {
        let (memory, descriptors) = of(std::process::id()).unwrap();
        assert!(memory > 1 << 20 && descriptors >= 3);
    }

    #[test]
    fn a_course_keeps_the_peaks() {
        let samples: Vec<Sample> =
            [1, 9, 2, 3].map(|memory| Sample { memory, ..Sample::default() }).into();
        assert_eq!(course(&samples, 2, |it| it.memory), [9.0, 3.0]);
        assert_eq!(course(&samples, 60, |it| it.memory), [1.0, 9.0, 2.0, 3.0]);
        assert_eq!(course(&[], 60, |it| it.memory), [0.0]);
    }
}
