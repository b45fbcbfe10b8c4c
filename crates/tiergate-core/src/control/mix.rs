//! The mix of requests in a window: answers are counted in work, so that a window with more slow requests is
//! not taken for a slower origin.
//!
//! The weight of an answer is the mean time of its class over the mean time of the usual mix. With one
//! class, or a constant mix, the sum of the weights is the number of answers.

use crate::collections::grown;
use crate::names::LaneId;

/// Weight of the latest answer in a mean.
const LATEST_WEIGHT: f64 = 1.0 / 128.0;
/// Answers that still count in the means after the origin has changed.
const CHANGED_COUNT: u32 = 8;
/// Answers that the usual mix is estimated from; a window of that many replaces half of it.
const USUAL_COUNT: f64 = 128.0;

/// Lanes that there is room for from the start.
const ROOM: usize = 64;

/// What is known of one class.
#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    /// Mean time that an answered request holds its slot, seconds, and answers in it.
    held_s: f64,
    count: u32,
    /// Its share of the answers, usually.
    share: f64,
    /// Answers counted in this window.
    answers: u32,
}

/// The mix of the answers in this window, and the usual one.
#[derive(Clone, Debug)]
pub(super) struct Mix {
    /// By lane.
    kinds: Vec<Kind>,
    /// Mean square of how far the times of requests are off their class's mean, seconds squared.
    off_square: f64,
    count: u32,
}

impl Mix {
    pub(super) fn new() -> Self {
        Mix { kinds: vec![Kind::default(); ROOM], off_square: 0.0, count: 0 }
    }

    /// Takes in how long an answered request held its slot; `counts`: in this window. O(1).
    pub(super) fn answered(&mut self, lane: LaneId, held_s: f64, counts: bool) {
        let kind = grown(&mut self.kinds, lane.index());
        kind.answers += u32::from(counts);
        kind.count = kind.count.saturating_add(1);
        let off = held_s - kind.held_s;
        kind.held_s += off * weight(kind.count);
        if kind.count > 1 {
            self.count = self.count.saturating_add(1);
            let square = off * (held_s - kind.held_s);
            self.off_square += (square - self.off_square) * weight(self.count);
        }
    }

    /// Mean time that an answered request of the class holds its slot, seconds; 0 if none was seen.
    pub(super) fn held_s(&self, lane: LaneId) -> f64 {
        self.kinds.get(lane.index()).map_or(0.0, |kind| kind.held_s)
    }

    /// A window begins.
    pub(super) fn open(&mut self) {
        for kind in &mut self.kinds {
            kind.answers = 0;
        }
    }

    /// The answers of this window in work: the number of answers of the usual mix that is as much work.
    /// O(classes).
    pub(super) fn answers(&self) -> f64 {
        let answers: u32 = self.kinds.iter().map(|kind| kind.answers).sum();
        let usual = self.usual_s();
        if usual <= 0.0 {
            return f64::from(answers);
        }
        let excess = |kind: &Kind| f64::from(kind.answers) * self.excess_s(kind, usual);
        f64::from(answers) + self.kinds.iter().map(excess).sum::<f64>() / usual
    }

    /// Updates the usual mix with this window's. Returns the factor by which the counts of all windows so far
    /// are to be multiplied to be in terms of the new mix. O(classes).
    pub(super) fn accept(&mut self) -> f64 {
        let answers: u32 = self.kinds.iter().map(|kind| kind.answers).sum();
        let known: f64 = self.kinds.iter().map(|kind| kind.share).sum();
        let before = self.usual_s();
        let answers = f64::from(answers);
        let latest = if known > 0.0 { answers / (answers + USUAL_COUNT) } else { 1.0 };
        for kind in &mut self.kinds {
            let share = f64::from(kind.answers) / answers.max(1.0);
            kind.share += (share - kind.share) * latest;
        }
        let after = self.usual_s();
        if before > 0.0 && after > 0.0 { before / after } else { 1.0 }
    }

    /// The origin has changed: service times are learned anew.
    pub(super) fn changed(&mut self) {
        for kind in &mut self.kinds {
            kind.count = kind.count.min(CHANGED_COUNT);
        }
        self.count = self.count.min(CHANGED_COUNT);
    }

    /// Variance over mean of the count of answers in work: the squared coefficient of variation of service
    /// times within classes, as in a renewal process.
    pub(super) fn dispersion(&self, held_s: f64) -> f64 {
        if held_s > 0.0 { self.off_square / (held_s * held_s) } else { 0.0 }
    }

    /// How much longer than usual the class's requests take, shrunk by how much of that may be chance.
    fn excess_s(&self, kind: &Kind, usual_s: f64) -> f64 {
        let excess = kind.held_s - usual_s;
        let chance = self.off_square * weight(kind.count.max(1)) / 2.0;
        excess * (1.0 - chance / (excess * excess)).max(0.0)
    }

    fn usual_s(&self) -> f64 {
        self.kinds.iter().map(|kind| kind.share * kind.held_s).sum()
    }
}

/// The weight of the latest of `count` values: a plain mean at first, then exponential.
fn weight(count: u32) -> f64 {
    (1.0 / f64::from(count)).max(LATEST_WEIGHT)
}
