//! Turns with the background and without it, and how background requests ended in one.

use super::effect::{CONTRAST_MIN, Taken};
use crate::time::Moment;

/// Where the origin refuses one background request in so many, fewer may be in progress.
const REFUSED: u32 = 10;

/// Turns that are remembered, two pairs: requests that take longer do not count.
pub(super) const TURNS: usize = 4;

/// Fewer requests in a turn say nothing.
pub(super) const REQUESTS_MIN: u32 = 6;

/// One turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) is_with: bool,
    /// With half of what the background may have.
    pub(super) is_half: bool,
    /// Without it for longer than that takes ([`super::rests`]).
    pub(super) is_rest: bool,
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
        is_rest: false,
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

/// The last turns, the oldest first; the last is the present one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turns([Turn; TURNS]);

impl Turns {
    pub(super) const NONE: Turns = Turns([Turn::NONE; TURNS]);

    /// The one that a moment is in, if that is remembered.
    pub(super) fn of(&self, at: Moment) -> Option<usize> {
        self.0.iter().rposition(|turn| turn.began <= at)
    }

    pub(super) fn at(&self, place: usize) -> &Turn {
        &self.0[place]
    }

    pub(super) fn at_mut(&mut self, place: usize) -> &mut Turn {
        &mut self.0[place]
    }

    pub(super) fn present(&self) -> &Turn {
        &self.0[TURNS - 1]
    }

    pub(super) fn present_mut(&mut self) -> &mut Turn {
        &mut self.0[TURNS - 1]
    }

    /// The oldest two.
    pub(super) fn oldest(&self) -> [Turn; 2] {
        [self.0[0], self.0[1]]
    }

    pub(super) fn begin(&mut self, turn: Turn) {
        self.0.rotate_left(1);
        self.0[TURNS - 1] = turn;
    }

    fn before(&self, place: usize) -> Option<&Turn> {
        place.checked_sub(1).map(|place| &self.0[place])
    }

    /// By how much longer requests of a turn take, in ln, than those of the turn before, if hardly anything of the background was there, or else than is usual; and how many standard deviations
    /// that is.
    pub(super) fn longer(&self, place: usize) -> (f64, f64) {
        let turn = self.at(place);
        let is_known =
            |it: &&Turn| it.requests() >= REQUESTS_MIN && it.found() < 0.5 * turn.found();
        let before = self.before(place).filter(is_known);
        let longer = turn.raw() - before.map_or(0.0, Turn::raw);
        let of = |requests: u32| f64::from(requests.max(1)).recip();
        let means = of(turn.requests()) + before.map_or(0.0, |it| of(it.requests()));
        (longer, longer / (turn.variance * means).sqrt())
    }

    /// Whether a turn says how often alarms are raised: not right after one in which one was, nor without the background if most of that is still there, nor a rest, in which more than
    /// one would be.
    pub(super) fn counts(&self, place: usize) -> bool {
        let turn = self.at(place);
        let Some(before) = self.before(place) else { return false };
        let is_gone = turn.found() < CONTRAST_MIN.max(0.5 * before.found());
        before.alarm.is_none() && !turn.is_rest && (turn.is_beside() || is_gone)
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
