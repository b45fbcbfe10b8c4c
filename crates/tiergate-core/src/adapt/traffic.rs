//! What was served and refused since the last step.

use super::level::LevelNumber;
use super::settings::Adaptation;
use crate::collections::grown;
use crate::names::ClassId;

/// Refusals and levels.
const LEVELS: usize = Adaptation::LEVELS_MAX + 1;
/// What is kept of the mean length of a level's answers after a period with others.
const LENGTH_KEPT: f64 = 0.8;

/// Counts since the last step, and what is known of the lengths of answers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traffic {
    /// Requests of each class, by its id, that were let in or had to wait, were refused for their level, or because the server has too much to
    /// do. Those that were refused for other reasons, such as a policer's, say nothing of the server.
    came: Vec<u64>,
    /// Those that were refused because it has too much to do.
    lacking: u64,
    /// Requests that were served, by level; at level 0 those that were refused for it.
    answered: [u64; LEVELS],
    bytes: [u64; LEVELS],
    /// Bytes of an answer of each level on average; `None`: there was none.
    lengths: [Option<f64>; LEVELS],
    /// All that were answered, or refused, since the adaptation exists.
    pub(crate) totals: [u64; LEVELS],
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
        *grown(&mut self.came, class.index()) += 1;
    }

    /// A request was served, whether it was answered or not; at level 0 it was refused.
    pub(crate) fn served(&mut self, level: LevelNumber, bytes: u64) {
        let place = usize::from(level).min(Adaptation::LEVELS_MAX);
        self.answered[place] += 1;
        self.totals[place] += 1;
        self.bytes[place] += bytes;
    }

    /// A request was refused because the server has too much to do.
    pub(crate) fn lacked(&mut self) {
        self.lacking += 1;
    }

    /// Requests of a class that came since the last step.
    pub(crate) fn of_class(&self, class: ClassId) -> u64 {
        self.came.get(class.index()).copied().unwrap_or_default()
    }

    /// Requests that there were to serve for each that was served: above 1, the server has more to do than it does.
    pub(crate) fn demand(&self) -> f64 {
        let served: u64 = self.answered[1..].iter().sum();
        1.0 + self.lacking as f64 / served.max(1) as f64
    }

    pub(crate) fn rates(&self, seconds: f64) -> Rates {
        let seconds = seconds.max(1e-3);
        Rates {
            by_level: self.answered.map(|count| count as f64 / seconds),
            bytes: self.bytes.iter().sum::<u64>() as f64 / seconds,
        }
    }

    /// What changes if so many requests a second get the next higher level instead of this one.
    pub(crate) fn raised(&self, rate: f64, level: LevelNumber) -> Rates {
        let (from, to) = (usize::from(level), usize::from(level) + 1);
        let mut rates = Rates::default();
        rates.by_level[from] -= rate;
        rates.by_level[to] += rate;
        let length = |level: usize| if level == 0 { Some(0.0) } else { self.lengths[level] };
        // Where one of them is not known, the estimate of what it costs is not, either.
        if let (Some(less), Some(more)) = (length(from), length(to)) {
            rates.bytes = rate * (more - less);
        }
        rates
    }

    /// The next period begins.
    pub(crate) fn begin(&mut self) {
        for level in 1..LEVELS {
            let count = self.answered[level];
            if count > 0 {
                let mean = self.bytes[level] as f64 / count as f64;
                let known = self.lengths[level].unwrap_or(mean);
                self.lengths[level] = Some(known * LENGTH_KEPT + mean * (1.0 - LENGTH_KEPT));
            }
        }
        self.came.fill(0);
        self.lacking = 0;
        (self.answered, self.bytes) = ([0; LEVELS], [0; LEVELS]);
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
        (0..10).for_each(|_| traffic.served(0, 0));
        (0..10).for_each(|_| traffic.served(2, 1000));
        (0..5).for_each(|_| traffic.lacked());
        assert_eq!((traffic.demand(), traffic.of_class(class)), (1.5, 25));
        let rates = traffic.rates(2.0);
        assert_eq!((rates.by_level[0], rates.by_level[2], rates.bytes), (5.0, 5.0, 5000.0));
        traffic.begin();
        assert_eq!((traffic.demand(), traffic.of_class(class)), (1.0, 0));
        assert_eq!((traffic.totals[0], traffic.totals[2]), (10, 10));
        traffic.served(1, 200);
        traffic.begin();
        let raised = traffic.raised(4.0, 1);
        assert_eq!((raised.by_level[1], raised.by_level[2], raised.bytes), (-4.0, 4.0, 3200.0));
    }
}
