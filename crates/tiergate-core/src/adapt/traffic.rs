//! What was served and refused since the last step.

use super::level::LevelNumber;
use super::settings::Adaptation;
use crate::collections::grown;
use crate::names::ClassId;
use std::time::Duration;

/// Refusals and levels.
const LEVELS: usize = Adaptation::LEVELS_MAX + 1;
/// An answer that took longer, in seconds, took more than a period or two; and the longest that is told apart, as the logarithm of its seconds.
const LATE_MIN: f64 = 2.0;
const LATE_LOG2_MAX: i32 = 12;
/// What is kept of the mean length of a level's answers after a period with others.
const LENGTH_KEPT: f64 = 0.8;

/// Counts since the last step, and what is known of the lengths of answers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traffic {
    all: Answers,
    /// Of each class, by its id.
    classes: Vec<OfClass>,
    /// Requests that were refused because the server has too much to do.
    lacking: u64,
    /// All that were answered, or refused, since the adaptation exists.
    pub(crate) totals: [u64; LEVELS],
}

/// What came of a class, and was answered.
#[derive(Clone, Debug, Default)]
struct OfClass {
    /// Requests that were let in or had to wait, were refused for their level, or because the server has too much to
    /// do. Those that were refused for other reasons, such as a policer's, say nothing of the server.
    came: u64,
    answers: Answers,
}

/// Requests that were served, by level; at level 0 those that were refused for it.
#[derive(Clone, Debug, Default)]
struct Answers {
    count: [u64; LEVELS],
    bytes: [u64; LEVELS],
    /// Bytes of an answer of each level on average; `None`: there was none.
    lengths: [Option<f64>; LEVELS],
    late: Vec<Late>,
}

/// Bytes of answers that took long: known only when such an answer ends, and counted over as long a time as it took, since they were not sent
/// in one period either.
#[derive(Clone, Copy, Debug)]
struct Late {
    level: usize,
    /// They took 2^so many seconds, or up to twice as long.
    log2_seconds: i32,
    /// Those that are not counted yet.
    bytes: f64,
}

impl Answers {
    fn served(&mut self, level: usize, bytes: u64, lasted: Duration) {
        self.count[level] += 1;
        let seconds = lasted.as_secs_f64();
        if seconds < LATE_MIN {
            self.bytes[level] += bytes;
            return;
        }
        let log2_seconds = (seconds.log2() as i32).min(LATE_LOG2_MAX);
        let bytes = bytes as f64;
        let mut alike =
            self.late.iter_mut().filter(|it| (it.level, it.log2_seconds) == (level, log2_seconds));
        match alike.next() {
            Some(it) => it.bytes += bytes,
            None => self.late.push(Late { level, log2_seconds, bytes }),
        }
    }

    /// So many seconds have passed: counts what was sent late in them.
    fn count_late(&mut self, seconds: f64) {
        for it in &mut self.late {
            let part = 1.0 - (-seconds / 2f64.powi(it.log2_seconds)).exp();
            let due = (it.bytes * part).min(it.bytes);
            it.bytes -= due;
            self.bytes[it.level] += due as u64;
        }
        self.late.retain(|it| it.bytes >= 1.0);
    }

    fn rates(&self, seconds: f64) -> Rates {
        let seconds = seconds.max(1e-3);
        Rates {
            by_level: self.count.map(|count| count as f64 / seconds),
            bytes: self.bytes.iter().sum::<u64>() as f64 / seconds,
        }
    }

    /// The next period begins.
    fn begin(&mut self) {
        for level in 1..LEVELS {
            let count = self.count[level];
            if count > 0 {
                let mean = self.bytes[level] as f64 / count as f64;
                let known = self.lengths[level].unwrap_or(mean);
                self.lengths[level] = Some(known * LENGTH_KEPT + mean * (1.0 - LENGTH_KEPT));
            }
        }
        (self.count, self.bytes) = ([0; LEVELS], [0; LEVELS]);
    }
}

/// What was done in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    /// Answers of each level; at level 0 refusals.
    pub(crate) by_level: [f64; LEVELS],
    /// Bytes of all answers.
    pub(crate) bytes: f64,
}

impl Traffic {
    /// A request came.
    pub(crate) fn came(&mut self, class: ClassId) {
        grown(&mut self.classes, class.index()).came += 1;
    }

    /// A request was served, whether it was answered or not; at level 0 it was refused.
    /// `lasted`: from its slot to the end of the answer.
    pub(crate) fn served(
        &mut self,
        class: ClassId,
        level: LevelNumber,
        bytes: u64,
        lasted: Duration,
    ) {
        let level = usize::from(level).min(Adaptation::LEVELS_MAX);
        self.totals[level] += 1;
        self.all.served(level, bytes, lasted);
        grown(&mut self.classes, class.index()).answers.served(level, bytes, lasted);
    }

    /// A period of so many seconds is over.
    pub(crate) fn end(&mut self, seconds: f64) {
        self.all.count_late(seconds);
        self.classes.iter_mut().for_each(|it| it.answers.count_late(seconds));
    }

    /// A request was refused because the server has too much to do.
    pub(crate) fn lacked(&mut self) {
        self.lacking += 1;
    }

    /// Requests of a class that came since the last step.
    pub(crate) fn of_class(&self, class: ClassId) -> u64 {
        self.classes.get(class.index()).map_or(0, |it| it.came)
    }

    /// What was answered of a class since the last step.
    pub(crate) fn rates_of(&self, class: ClassId, seconds: f64) -> Rates {
        self.classes.get(class.index()).map_or_else(Rates::default, |it| it.answers.rates(seconds))
    }

    /// Bytes of a class's answer of a level, on average: as of the nearest level that there was one of, the better one first, and else of all
    /// classes'. 0: nothing is known.
    pub(crate) fn length_of(&self, class: ClassId, level: LevelNumber) -> f64 {
        let nearest = |lengths: &[Option<f64>; LEVELS]| {
            let level = usize::from(level).min(LEVELS - 1);
            let above = lengths[level..].iter().flatten().next();
            above.or_else(|| lengths[..level].iter().rev().flatten().next()).copied()
        };
        let own = self.classes.get(class.index()).and_then(|it| nearest(&it.answers.lengths));
        own.or_else(|| nearest(&self.all.lengths)).unwrap_or_default()
    }

    /// Requests that there were to serve for each that was served: above 1, the server has more to do than it does.
    pub(crate) fn demand(&self) -> f64 {
        let served: u64 = self.all.count[1..].iter().sum();
        1.0 + self.lacking as f64 / served.max(1) as f64
    }

    pub(crate) fn rates(&self, seconds: f64) -> Rates {
        self.all.rates(seconds)
    }

    /// What changes if so many requests a second get the next higher level instead of this one.
    pub(crate) fn raised(&self, rate: f64, level: LevelNumber) -> Rates {
        let (from, to) = (usize::from(level), usize::from(level) + 1);
        let mut rates = Rates::default();
        rates.by_level[from] -= rate;
        rates.by_level[to] += rate;
        let length = |level: usize| if level == 0 { Some(0.0) } else { self.all.lengths[level] };
        // Where one of them is not known, the estimate of what it costs is not, either.
        if let (Some(less), Some(more)) = (length(from), length(to)) {
            rates.bytes = rate * (more - less);
        }
        rates
    }

    /// The next period begins.
    pub(crate) fn begin(&mut self) {
        self.all.begin();
        for it in &mut self.classes {
            it.came = 0;
            it.answers.begin();
        }
        self.lacking = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demand_is_what_there_was_to_serve_for_each_that_was_served() {
        let (mut traffic, class) = (Traffic::default(), ClassId(2));
        assert_eq!(traffic.demand(), 1.0);
        (0..25).for_each(|_| traffic.came(class));
        (0..10).for_each(|_| traffic.served(class, 0, 0, Duration::ZERO));
        (0..10).for_each(|_| traffic.served(class, 2, 1000, Duration::ZERO));
        (0..5).for_each(|_| traffic.lacked());
        assert_eq!((traffic.demand(), traffic.of_class(class)), (1.5, 25));
        let rates = traffic.rates(2.0);
        assert_eq!((rates.by_level[0], rates.by_level[2], rates.bytes), (5.0, 5.0, 5000.0));
        traffic.begin();
        assert_eq!((traffic.demand(), traffic.of_class(class)), (1.0, 0));
        assert_eq!((traffic.totals[0], traffic.totals[2]), (10, 10));
        traffic.served(class, 1, 200, Duration::ZERO);
        traffic.begin();
        let raised = traffic.raised(4.0, 1);
        assert_eq!((raised.by_level[1], raised.by_level[2], raised.bytes), (-4.0, 4.0, 3200.0));
    }

    #[test]
    fn the_bytes_of_a_long_answer_are_counted_over_as_long_a_time() {
        let (mut traffic, class) = (Traffic::default(), ClassId(0));
        traffic.served(class, 1, 1 << 30, Duration::from_secs(600));
        let mut counted = Vec::new();
        for _ in 0..5000 {
            traffic.end(1.0);
            counted.push(traffic.rates_of(class, 1.0).bytes);
            traffic.begin();
        }
        let (all, largest) = (counted.iter().sum::<f64>(), counted[0]);
        assert!((all / 2f64.powi(30) - 1.0).abs() < 0.01, "{all}");
        assert!(largest < 2f64.powi(30) / 500.0, "{largest}");
        assert!(traffic.all.late.is_empty() || traffic.all.late.len() == 1);
        // However many there are, no more is remembered than for each level and order of magnitude.
        for seconds in 2..10_000 {
            traffic.served(class, 2, 1000, Duration::from_secs(seconds));
        }
        assert!(traffic.all.late.len() <= 13, "{}", traffic.all.late.len());
    }
}
