//! The last minute, sampled every second: windows for quantiles, the course of the limit.

use super::snapshot::{PoolSnapshot, Snapshot};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::Duration;
use tiergate_core::account::ClassAccount;
use tiergate_core::histogram::Histogram;
use tiergate_core::time::Moment;

/// Length of the window that quantiles are given for.
pub const WINDOW: Duration = Duration::from_secs(10);
/// Time between two samples.
pub const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
/// Points of the limit's course that are kept.
pub const COURSE_LEN: usize = 60;
/// Samples needed to reach back one whole window.
const SAMPLES_MAX: usize = 11;

/// The limit and its use at one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// Slots there were.
    pub slots: u32,
    /// Slots held.
    pub running: u32,
    /// Requests that waited.
    pub waiting: u64,
}

#[derive(Clone, Debug)]
struct Sample {
    at: Moment,
    /// By the names of pool and class.
    classes: Vec<(String, String, ClassAccount)>,
    /// Processor time of the process. Seconds.
    cpu_seconds: Option<f64>,
    sent_bytes: u64,
}

/// Durations of a class's requests within the window.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// Time in the backlog.
    pub wait: Histogram,
    /// From the grant to the first byte.
    pub first_byte: Histogram,
}

impl Window {
    fn of(account: &ClassAccount) -> Self {
        Window { wait: account.wait.clone(), first_byte: account.first_byte.clone() }
    }
}

/// What began the window.
#[derive(Clone, Debug)]
pub struct Base<'h> {
    /// How long it is.
    pub elapsed: Duration,
    /// The accounts of the classes that were there.
    classes: &'h [(String, String, ClassAccount)],
    /// Processor time of the process at its begin. Seconds.
    pub cpu_seconds: Option<f64>,
    /// Bytes that had been written to clients at its begin.
    pub sent_bytes: u64,
}

impl Base<'_> {
    /// The account of a class of a pool when the window began; `None`: it was not there yet.
    pub fn account(&self, pool: &str, class: &str) -> Option<&ClassAccount> {
        let same = |it: &&(String, String, ClassAccount)| it.0 == pool && it.1 == class;
        self.classes.iter().find(same).map(|it| &it.2)
    }
}

/// Samples of the last [`WINDOW`], and the course of the default pool's limit over a minute. At most about 3.5 KiB per
/// class and sample.
#[derive(Clone, Debug, Default)]
pub struct History {
    samples: VecDeque<Sample>,
    course: VecDeque<Point>,
}

impl History {
    /// Takes in a snapshot, with the processor time of the process and what was written to clients by then; call every
    /// [`SAMPLE_INTERVAL`].
    pub fn sample(&mut self, snapshot: &Snapshot, cpu_seconds: Option<f64>, sent_bytes: u64) {
        let classes = snapshot.pools().flat_map(|pool| {
            let accounts = pool.classes.iter().map(|it| (&it.class.name, it.account.clone()));
            accounts.map(|(class, account)| (pool.name.clone(), class.clone(), account))
        });
        let classes = classes.collect();
        self.samples.push_back(Sample { at: snapshot.at, classes, cpu_seconds, sent_bytes });
        if self.samples.len() > SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.course.push_back(Point {
            slots: snapshot.default.slots,
            running: snapshot.default.running,
            waiting: snapshot.default.waiting as u64,
        });
        if self.course.len() > COURSE_LEN {
            self.course.pop_front();
        }
    }

    /// Durations of the class called `name` in a pool between the sample nearest to [`WINDOW`] ago and `now`; the
    /// second value is how long that really is. A class that was not there yet counts from zero.
    pub fn window(&self, now: &Snapshot, pool: &PoolSnapshot, name: &str) -> (Window, Duration) {
        let Some(class) = pool.class(name) else {
            return (Window::default(), Duration::ZERO);
        };
        let Some(base) = self.base(now.at) else {
            return (Window::default(), Duration::ZERO);
        };
        let mut window = Window::of(&class.account);
        if let Some(before) = base.account(&pool.name, name) {
            window.wait = window.wait.since(&before.wait);
            window.first_byte = window.first_byte.since(&before.first_byte);
        }
        (window, base.elapsed)
    }

    /// What began the window that ends now; `None`: nothing was sampled in it.
    pub fn base(&self, now: Moment) -> Option<Base<'_>> {
        // The oldest one that is not much older than the window: half a sample's slack.
        let slack = now - WINDOW - SAMPLE_INTERVAL / 2;
        let base = self.samples.iter().find(|sample| sample.at >= slack)?;
        Some(Base {
            elapsed: now.since(base.at),
            classes: &base.classes,
            cpu_seconds: base.cpu_seconds,
            sent_bytes: base.sent_bytes,
        })
    }

    /// The limit's course, oldest first.
    pub fn course(&self) -> impl Iterator<Item = Point> + '_ {
        self.course.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiergate_core::gate::Gate;
    use tiergate_core::plan::Spec;

    fn at(second: u64) -> Snapshot {
        let gate: Gate<()> = Gate::new(Spec::protective().build().expect("a valid plan"));
        Snapshot::take(&gate, Moment::from_millis(second * 1_000))
    }

    #[test]
    fn the_window_forgets_what_is_older() {
        let mut history = History::default();
        let mut wait = Histogram::default();
        let mut now = at(0);
        for second in 0..30 {
            now = at(second);
            // Slow in the beginning, fast for the last ten seconds.
            wait.record(Duration::from_millis(if second < 20 { 500 } else { 1 }));
            now.default.classes[0].account.wait = wait.clone();
            history.sample(&now, None, 0);
        }
        let (window, length) = history.window(&now, &now.default, "default");
        assert_eq!(length, WINDOW);
        assert_eq!(window.wait.count(), 10);
        assert!(window.wait.quantile(1.0).expect("ten values") < Duration::from_millis(2));
        assert!(wait.quantile(0.5).expect("thirty values") > Duration::from_millis(400));
        assert_eq!(history.course().count(), 30);
        assert_eq!(history.samples.len(), SAMPLES_MAX);
    }

    #[test]
    fn a_new_class_counts_from_its_beginning() {
        let mut history = History::default();
        let mut early = at(1);
        early.default.classes[0].class.name = "other".to_owned();
        history.sample(&early, None, 0);
        let mut now = at(3);
        now.default.classes[0].account.wait.record(Duration::from_secs(1));
        let (window, length) = history.window(&now, &now.default, "default");
        assert_eq!((window.wait.count(), length), (1, Duration::from_secs(2)));
        assert_eq!(history.window(&now, &now.default, "gone").0.wait.count(), 0);
    }

    #[test]
    fn the_course_is_bounded() {
        let mut history = History::default();
        for second in 0..200 {
            history.sample(&at(second), None, 0);
        }
        assert_eq!(history.course().count(), COURSE_LEN);
    }
}
