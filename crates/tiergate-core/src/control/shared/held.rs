//! How long requests are in service: means over the latest answers, of all classes and of each.

use super::times::{CLASSES, VARIES_MIN};

/// Means are of so many of the latest answers: of all, and of each class.
const HELD_OF: f64 = 256.0;
const HELD_OF_CLASS: f64 = 64.0;

/// Means over the latest answers of all classes.
#[derive(Clone, Debug)]
pub(super) struct Held {
    count: f64,
    /// Seconds in service, and their squares.
    mean: f64,
    square: f64,
    /// By class: mean time in service, and of how many answers.
    of_class: [(f64, f64); CLASSES],
    /// These means, weighted by slots and seconds; and the weights.
    turnover: (f64, f64),
}

impl Default for Held {
    fn default() -> Self {
        Held {
            count: 0.0,
            mean: 0.0,
            square: 0.0,
            of_class: [(0.0, 0.0); CLASSES],
            turnover: (0.0, 0.0),
        }
    }
}

impl Held {
    /// A request of the class was in service for so many seconds. O(1).
    pub(super) fn add(&mut self, class: usize, held_s: f64) {
        self.count = (self.count + 1.0).min(HELD_OF);
        self.mean += (held_s - self.mean) / self.count;
        self.square += (held_s * held_s - self.square) / self.count;
        let (mean, count) = &mut self.of_class[class % CLASSES];
        *count = (*count + 1.0).min(HELD_OF_CLASS);
        *mean += (held_s - *mean) / *count;
        let kept = 1.0 - 1.0 / self.count;
        self.turnover = (self.turnover.0 * kept + held_s * *mean, self.turnover.1 * kept + held_s);
    }

    /// Mean time in service, seconds; 0 if there was no answer yet.
    pub(super) fn mean(&self) -> f64 {
        self.mean
    }

    /// Squared coefficient of variation.
    pub(super) fn varies(&self) -> f64 {
        (self.square / (self.mean * self.mean) - 1.0).max(VARIES_MIN)
    }

    /// How fast slots come free: the mean time, in seconds, of the requests that hold them.
    pub(super) fn turnover(&self) -> f64 {
        self.turnover.0 / self.turnover.1.max(1e-9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_come_free_as_fast_as_those_requests_end_that_hold_most_of_them() {
        let mut held = Held::default();
        // Nine of ten take 10 ms; the others hold 92 % of the slots.
        for _ in 0..2000 {
            (0..9).for_each(|_| held.add(0, 0.01));
            held.add(1, 1.0);
        }
        assert!((held.mean() - 0.109).abs() < 0.01, "{}", held.mean());
        assert!((held.turnover() - 0.918).abs() < 0.05, "{}", held.turnover());
    }
}
