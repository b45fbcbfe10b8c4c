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
    classes: Vec<(String, String, Window)>,
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

/// Samples of the last [`WINDOW`], and the course of the default pool's limit over a minute. At most about 2 KiB per
/// class and sample.
#[derive(Clone, Debug, Default)]
pub struct History {
    samples: VecDeque<Sample>,
    course: VecDeque<Point>,
}

impl History {
    /// Takes in a snapshot; call every [`SAMPLE_INTERVAL`].
    pub fn sample(&mut self, snapshot: &Snapshot) {
        let classes = snapshot.pools().flat_map(|pool| {
            let windows = pool.classes.iter().map(|it| (&it.class.name, Window::of(&it.account)));
            windows.map(|(class, window)| (pool.name.clone(), class.clone(), window))
        });
        self.samples.push_back(Sample { at: snapshot.at, classes: classes.collect() });
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
        let begin = now.at - WINDOW;
        // The oldest one that is not much older than the window: half a sample's slack.
        let slack = begin - SAMPLE_INTERVAL / 2;
        let Some(base) = self.samples.iter().find(|sample| sample.at >= slack) else {
            return (Window::default(), Duration::ZERO);
        };
        let mut window = Window::of(&class.account);
        let same = |it: &&(String, String, Window)| it.0 == pool.name && it.1 == name;
        if let Some((_, _, before)) = base.classes.iter().find(same) {
            window.wait = window.wait.since(&before.wait);
            window.first_byte = window.first_byte.since(&before.first_byte);
        }
        (window, now.at.since(base.at))
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
            history.sample(&now);
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
        history.sample(&early);
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
            history.sample(&at(second));
        }
        assert_eq!(history.course().count(), COURSE_LEN);
    }
}
