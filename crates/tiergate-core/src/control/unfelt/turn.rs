//! A turn with the background or without it, and how background requests ended in one.

use super::effect::{CONTRAST_MIN, Taken};
use crate::time::Moment;

/// Where the origin refuses one background request in so many, fewer may be in progress.
const REFUSED: u32 = 10;

/// Turns that are remembered, two pairs: requests that take longer do not count.
pub(super) const TURNS: usize = 4;

/// One turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) is_with: bool,
    /// With half of what the background may have.
    pub(super) is_half: bool,
    /// [`Moment::NEVER`]: there was none.
    pub(super) began: Moment,
    /// Whether requests of the foreground suddenly took far longer in it; beside the background, or not.
    pub(super) alarm: Option<bool>,
    /// Requests of the foreground that came in it and were answered.
    pub(super) taken: Taken,
    /// The same, of how many took far longer than is usual.
    pub(super) tails: Taken,
    /// Those of the background that began in it and were answered, and the seconds that they took, as by [`super::worth::Worth::time`].
    pub(super) own: Taken,
    /// The sum of what those of the foreground took in ln, beside what is usual, without [`super::WAY`]; and the variance of one of them, as of when the turn began.
    pub(super) raw: f64,
    pub(super) variance: f64,
    /// Background requests in progress, times seconds.
    pub(super) work: f64,
    /// Requests of the foreground that came, and background requests that they found in progress, in all.
    pub(super) came: u32,
    pub(super) found: f64,
    /// How long it lasted, once it is over.
    pub(super) lasted: f64,
    /// How many of them might be, on average.
    pub(super) bound: f64,
    /// As many as that, or as were usually there where that was fewer.
    pub(super) number: f64,
}

impl Turn {
    pub(super) const NONE: Turn = Turn {
        is_with: false,
        is_half: false,
        alarm: None,
        began: Moment::NEVER,
        taken: Taken::NOTHING,
        tails: Taken::NOTHING,
        own: Taken::NOTHING,
        raw: 0.0,
        variance: 1.0,
        work: 0.0,
        came: 0,
        found: 0.0,
        lasted: 0.0,
        bound: 0.0,
        number: 0.0,
    };

    pub(super) fn requests(&self) -> u32 {
        self.taken.requests
    }

    /// Whether the background had its turn, and was there.
    pub(super) fn is_beside(&self) -> bool {
        self.is_with && self.found() >= CONTRAST_MIN
    }

    /// What they took beside what is usual, in ln, on average.
    pub(super) fn raw(&self) -> f64 {
        self.raw / f64::from(self.requests().max(1))
    }

    /// Background requests that one of the foreground found in progress, on average: where many come at once, the time in between says nothing.
    pub(super) fn found(&self) -> f64 {
        self.found / f64::from(self.came.max(1))
    }

    /// Background requests in progress, on average over time.
    pub(super) fn present(&self) -> f64 {
        self.work / self.lasted.max(1e-9)
    }
}

/// How background requests ended in a turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ends {
    pub(super) count: u32,
    pub(super) refused: u32,
    /// The flow of the first that ended, and of the first that was refused; whether there were others.
    pub(super) first: Option<u64>,
    pub(super) are_several: bool,
    pub(super) first_refused: Option<u64>,
    pub(super) are_several_refused: bool,
    /// Whether something has come of it.
    pub(super) is_settled: bool,
}

impl Ends {
    pub(super) fn note(&mut self, flow: u64, refused: bool) {
        self.count += 1;
        self.are_several |= *self.first.get_or_insert(flow) != flow;
        if refused {
            self.refused += 1;
            self.are_several_refused |= *self.first_refused.get_or_insert(flow) != flow;
        }
    }

    /// A tenth was refused or more, and not of one flow beside others that were not.
    pub(super) fn says_too_many(&self) -> bool {
        let is_general = self.are_several_refused || !self.are_several;
        !self.is_settled && self.refused > 0 && self.refused * REFUSED >= self.count && is_general
    }
}
