//! Processor time: of a server with all its threads and children, and of a processor as a whole.

use anyhow::{Context, Result};
use procfs::process::{Process, all_processes};
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::time::Duration;

/// Processor time that this thread has used.
pub(crate) fn thread_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.try_into().unwrap_or(0), now.tv_nsec.try_into().unwrap_or(0))
}

/// A server's processes: what was started, and all that descends from it (nginx's and Apache's
/// workers).
pub(crate) struct Processes {
    pids: Vec<u32>,
}

impl Processes {
    /// The process and its descendants, as they are now.
    pub(crate) fn of(pid: u32) -> Self {
        let stats = all_processes().into_iter().flatten().filter_map(|one| one.ok()?.stat().ok());
        let families: Vec<(u32, u32)> =
            stats.map(|stat| (stat.pid as u32, stat.ppid as u32)).collect();
        let mut pids = vec![pid];
        // Each process has one parent and so is found once.
        for generation in 0.. {
            let Some(&parent) = pids.get(generation) else { break };
            pids.extend(families.iter().filter(|(_, of)| *of == parent).map(|(child, _)| child));
        }
        Self { pids }
    }

    /// Processor time that they have used since they began.
    ///
    /// Source: the first number of `/proc/PID/task/TID/schedstat`, nanoseconds on a processor.
    /// Threads that have ended are not in it; the servers measured here keep theirs.
    pub(crate) fn used(&self) -> Result<Duration> {
        let mut sum = 0;
        for pid in &self.pids {
            let process = Process::new(*pid as i32).and_then(|process| process.tasks());
            let threads = process.with_context(|| format!("process {pid} is gone"))?;
            // A thread may end between the listing and the reading.
            let stats = threads.filter_map(|thread| thread.ok()?.schedstat().ok());
            sum += stats.map(|stat| stat.sum_exec_runtime).sum::<u64>();
        }
        Ok(Duration::from_nanos(sum))
    }
}

impl Processes {
    /// Processor time that they have used since they began, and those that ended before and for which they have waited: in clock ticks,
    /// and without the processes that are gone.
    pub(crate) fn used_by_all(&self) -> Duration {
        let ticks = |pid: &u32| {
            let stat = Process::new(*pid as i32).ok()?.stat().ok()?;
            let of_ended = (stat.cutime.max(0) + stat.cstime.max(0)) as u64;
            Some(stat.utime + stat.stime + of_ended)
        };
        let ticks: u64 = self.pids.iter().filter_map(ticks).sum();
        Duration::from_secs_f64(ticks as f64 / procfs::ticks_per_second() as f64)
    }
}

/// Time that processors were busy, and time that passed on them, in clock ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ticks {
    busy: u64,
    all: u64,
}

impl Ticks {
    /// Of the processors in `list` ("0", "1-3"), since the machine started.
    pub(crate) fn now(list: &str) -> Self {
        Self::read(&fs::read_to_string("/proc/stat").unwrap_or_default(), list)
    }

    fn read(stat: &str, list: &str) -> Self {
        let mut ticks = Self::default();
        for processor in processors(list) {
            let name = format!("cpu{processor} ");
            let Some(line) = stat.lines().find_map(|line| line.strip_prefix(&name)) else {
                continue;
            };
            let fields: Vec<u64> =
                line.split_ascii_whitespace().filter_map(|f| f.parse().ok()).collect();
            // user nice system idle iowait irq softirq steal (guest times are within user).
            let all: u64 = fields.iter().take(8).sum();
            let idle: u64 = fields.iter().skip(3).take(2).sum();
            ticks.all += all;
            ticks.busy += all - idle;
        }
        ticks
    }

    /// The busy part of the time since `before`, 0.0 to 1.0.
    pub(crate) fn busy_since(self, before: Self) -> f64 {
        let all = self.all.saturating_sub(before.all);
        self.busy.saturating_sub(before.busy) as f64 / all.max(1) as f64
    }
}

/// The numbers in "0,2-3".
pub(crate) fn processors(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_a_process_is_seen() {
        let mut command = std::process::Command::new("sh");
        let mut child = command.args(["-c", "while :; do :; done"]).spawn().unwrap();
        let processes = Processes::of(child.id());
        let begun = std::time::Instant::now();
        let before = processes.used().unwrap();
        let mut used = Duration::ZERO;
        while used < Duration::from_millis(100) && begun.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(10));
            used = processes.used().unwrap() - before;
        }
        // The kernel brings a running thread's time up to date at its ticks (at most 10 ms apart),
        // so the first reading may be late by one. To count a thread twice would show as 2x.
        let most = begun.elapsed() + Duration::from_millis(20);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(used >= Duration::from_millis(100) && used <= most, "{used:?} of {most:?}");
        assert!(processes.used().is_err(), "a process that is gone must not count as idle");
    }

    #[test]
    fn work_of_children_that_ended_is_seen() {
        // The shell waits for another that computes for a while.
        let script = "sh -c 'i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done'; read line";
        let mut shell = std::process::Command::new("sh")
            .args(["-c", script])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let begun = std::time::Instant::now();
        let used = || Processes::of(shell.id()).used_by_all();
        while (used() < Duration::from_millis(50) || Processes::of(shell.id()).pids.len() > 1)
            && begun.elapsed() < Duration::from_secs(20)
        {
            std::thread::sleep(Duration::from_millis(10));
        }
        let used = used();
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert!(used >= Duration::from_millis(50) && used <= begun.elapsed(), "{used:?}");
    }

    #[test]
    fn children_are_found_whatever_their_name() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["sleep", "a) b (c) S 1 2"] {
            let program = dir.path().join(name);
            std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
            let mut child = std::process::Command::new(program).arg("30").spawn().unwrap();
            assert!(Processes::of(std::process::id()).pids.contains(&child.id()), "{name}");
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn descendants_are_found_at_any_depth() {
        // A shell of a shell of a shell, each of which waits for the next.
        let nested = "sh -c 'sh -c \"read line\"; true'; true";
        let mut shell = std::process::Command::new("sh")
            .args(["-c", nested])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let begun = std::time::Instant::now();
        let mut found = 0;
        while found < 3 && begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(10));
            found = Processes::of(shell.id()).pids.len();
        }
        // Its end of input ends them all.
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert_eq!(found, 3);
    }

    #[test]
    fn ticks_are_of_the_processors_asked_for() {
        let before = "cpu  9 9 9 9\ncpu0 10 0 10 80 0 0 0 0 0 0\ncpu1 0 0 0 50 50 0 0 0 0 0\n";
        let after = "cpu  9 9 9 9\ncpu0 20 0 20 160 0 0 0 0 0 0\ncpu1 70 10 10 60 50 5 5 0 9 9\n";
        let busy = |list| Ticks::read(after, list).busy_since(Ticks::read(before, list));
        assert!((busy("0") - 0.2).abs() < 1e-9);
        assert!((busy("1") - 100.0 / 110.0).abs() < 1e-9);
        assert!((busy("0-1") - 120.0 / 210.0).abs() < 1e-9);
        assert_eq!(busy("9"), 0.0);
    }
}
