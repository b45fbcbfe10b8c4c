//! How late httperf sends: it never sleeps, so it is late exactly when it is kept from its processor.
//!
//! Its own report has only the longest burst. The kernel tells how long a process has run (`/proc/PID/schedstat`, in
//! nanoseconds); asked every few milliseconds, that gives each stretch of time in which it did not. What was due at the
//! beginning of a stretch is sent at its end.

use std::time::{Duration, Instant};
use tokio::time::sleep;

/// How often the kernel is asked.
const EVERY: Duration = Duration::from_millis(5);
/// A process that ran for less than this in between did not run.
const RAN_NS: u64 = 100_000;
/// As our own generator's rule has it: one request in a hundred may be later.
const SHARE: f64 = 0.01;

/// The stretches in which a process was kept from its processor.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Lateness {
    /// Their lengths, in milliseconds. An upper bound: what a process waited between two looks counts as one stretch.
    kept_ms: Vec<f64>,
    /// How long it was watched, in milliseconds.
    watched_ms: f64,
    /// The stretch that may still go on.
    open_ms: f64,
}

impl Lateness {
    /// Between two looks, this far apart, it ran for so long.
    fn saw(&mut self, apart: Duration, ran_ns: u64) {
        let apart_ms = apart.as_secs_f64() * 1e3;
        self.watched_ms += apart_ms;
        self.open_ms += (apart_ms - ran_ns as f64 / 1e6).max(0.0);
        if ran_ns >= RAN_NS {
            self.kept_ms.push(std::mem::take(&mut self.open_ms));
        }
    }

    /// 99 % of the requests, which are due evenly, are sent no later than this after they are due, in milliseconds.
    pub(super) fn p99_ms(&self) -> f64 {
        // In a stretch of 80 ms, those due in its first 30 ms are over 50 ms late.
        let later = |limit: f64| -> f64 {
            self.kept_ms.iter().map(|kept| (kept - limit).max(0.0)).sum::<f64>()
        };
        let longest = self.kept_ms.iter().copied().fold(0.0, f64::max);
        let (mut low, mut high) = (0.0, longest);
        for _ in 0..30 {
            let middle = f64::midpoint(low, high);
            match later(middle) > SHARE * self.watched_ms {
                true => low = middle,
                false => high = middle,
            }
        }
        high
    }
}

/// Watches a process from when it is `program` until it has ended.
pub(super) async fn watch(pid: u32, program: &str) -> Lateness {
    let comm = format!("/proc/{pid}/comm");
    // Before that it is the programs that start it.
    while std::fs::read_to_string(&comm).is_ok_and(|name| name.trim_end() != program) {
        sleep(EVERY).await;
    }
    let mut lateness = Lateness::default();
    let mut former: Option<(Instant, u64)> = None;
    while let Some(ran) = ran_ns(pid) {
        let now = Instant::now();
        if let Some((then, ran_then)) = former {
            lateness.saw(now - then, ran.saturating_sub(ran_then));
        }
        former = Some((now, ran));
        sleep(EVERY).await;
    }
    lateness
}

/// How long it has run so far; `None`: it has ended.
fn ran_ns(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    // A process that has ended and was not waited for still tells.
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let is_over = state.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']));
    (!is_over).then(|| text.split(' ').next()?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Program;

    const MS: u64 = 1_000_000;

    fn lateness(looks: &[(u64, u64)]) -> Lateness {
        let mut lateness = Lateness::default();
        for (apart_ms, ran_ns) in looks {
            lateness.saw(Duration::from_millis(*apart_ms), *ran_ns);
        }
        lateness
    }

    #[test]
    fn a_stretch_is_as_long_as_all_looks_at_it_together() {
        let kept = lateness(&[(5, 5 * MS), (5, 2 * MS), (5, 0), (5, 0), (5, 4 * MS), (5, 5 * MS)]);
        assert_eq!(kept.kept_ms, [0.0, 3.0, 11.0, 0.0]);
        assert_eq!(kept.watched_ms, 30.0);
    }

    #[test]
    fn one_request_in_a_hundred_may_be_later() {
        let mut looks = vec![(5, 5 * MS); 2000];
        looks.extend([(150, MS)]);
        // 149 ms in 10,150: in the first 101.5 of them, one in a hundred is due.
        let p99 = lateness(&looks).p99_ms();
        assert!((p99 - 47.5).abs() < 0.1, "{p99}");
        assert_eq!(lateness(&[(5, 5 * MS); 100]).p99_ms(), 0.0);
        assert_eq!(Lateness::default().p99_ms(), 0.0);
    }

    #[tokio::test]
    async fn a_process_that_sleeps_is_as_late_as_it_sleeps() {
        let words = [
            "-c",
            "for n in 1 2 3; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.2; done",
        ];
        let program = Program::new("a shell", "sh").args(words);
        let directory = tempfile::tempdir().unwrap();
        let mut running = program.start(&directory.path().join("log")).unwrap();
        let lateness = watch(running.pid(), "sh").await;
        assert!(lateness.p99_ms() > 150.0, "{lateness:?}");
        running.stop();
    }
}
