//! Which slots are lent, of how many requests, and whose time it is that a request waits.

use crate::time::Moment;
use std::time::Duration;

/// What the request in a slot that is lent waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lends {
    /// Its client sends the body: the origin's work is still to come.
    Sends,
    /// Its client takes the answer: the origin is done but for the rest of that.
    Takes,
    /// The origin has not answered, while it has answered many that came later (`overtaken`).
    Waits,
}

/// Time that a request waits for its client, in all, until its slot is lent: of one that will wait for a slot again, and of one that will
/// not; and the least part of its time that this is. Slots that wait for clients look to the limit as if the origin needed them.
const LENDS_AFTER: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));
const LENDS_PART: f64 = 0.5;

impl Lends {
    /// How long the request waits for its client, in all, until its slot is lent.
    pub const fn after(self) -> Duration {
        match self {
            Lends::Sends => LENDS_AFTER.0,
            Lends::Takes | Lends::Waits => LENDS_AFTER.1,
        }
    }
}

/// How much of a request's time passes in waits for its client.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientTime {
    waited: Duration,
    /// Since the first wait, and since the one that goes on.
    first: Option<Moment>,
    since: Option<Moment>,
}

impl ClientTime {
    /// The request waits for nothing but its client, from now on.
    pub fn begins(&mut self, now: Moment) {
        self.first.get_or_insert(now);
        self.since.get_or_insert(now);
    }

    /// It does not wait any more.
    pub fn ends(&mut self, now: Moment) {
        self.waited += self.since.take().map_or(Duration::ZERO, |since| now.since(since));
    }

    /// Whether so much of its time is the client's that its slot had better be lent, in a wait.
    pub fn is_most(&mut self, now: Moment, lends: Lends) -> bool {
        self.ends(now);
        self.begins(now);
        let all = self.first.map_or(Duration::ZERO, |first| now.since(first));
        self.waited >= lends.after() && self.waited >= all.mul_f64(LENDS_PART)
    }

    /// Whether so little of its time since it was lent, or since it was last asked, is the client's that it works as others do; it does not wait now. Asked after as long as the slot
    /// was lent after; before that, `false`.
    pub fn is_little(&mut self, now: Moment, lends: Lends) -> bool {
        let all = self.first.map_or(Duration::ZERO, |first| now.since(first));
        if all < lends.after() {
            return false;
        }
        let is_little = self.waited < all.mul_f64(LENDS_PART);
        *self = ClientTime { first: Some(now), ..ClientTime::default() };
        is_little
    }
}

/// Most requests of a pool whose slots are lent, for each reason.
const LENT_MAX: u32 = 10_000;
/// Of the background, whose requests nobody counts while they are lent, though each may have a worker of the origin's: as many as one slot in so many, and at least one.
const LENT_OF_BACKGROUND: u32 = 8;

/// How many slots of a pool are lent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lent {
    sends: u32,
    takes: u32,
    waits: u32,
    /// Of the background, for whatever reason; and slots of uploads that keep their places.
    background: u32,
    places: u32,
}

impl Lent {
    pub(super) fn of(&mut self, lends: Lends) -> &mut u32 {
        match lends {
            Lends::Sends => &mut self.sends,
            Lends::Takes => &mut self.takes,
            Lends::Waits => &mut self.waits,
        }
    }

    /// All of them.
    pub(super) fn all(self) -> u32 {
        self.sends + self.takes + self.waits + self.background
    }

    /// Those of the background.
    pub(super) fn of_background(self) -> u32 {
        self.background
    }

    /// Slots of uploads of the background that keep their places.
    pub(super) fn places(self) -> u32 {
        self.places
    }

    /// Those of requests that were overtaken.
    pub(super) fn of_waits(self) -> u32 {
        self.waits
    }

    /// Counts one more, if there may be.
    pub(super) fn one_more(&mut self, lends: Lends) -> bool {
        let lent = self.of(lends);
        let may = *lent < LENT_MAX;
        *lent += u32::from(may);
        may
    }

    /// Counts one more of the background, of a limit of so many slots, if there may be; so many of its own keep their places.
    pub(super) fn one_more_of_background(&mut self, places: u32, slots: u32) -> bool {
        let may = self.background < (slots / LENT_OF_BACKGROUND).max(1);
        if may {
            self.background += 1;
            self.places += places;
        }
        may
    }

    /// One is over; of the background, as it was counted when it began.
    pub(super) fn one_less(&mut self, lends: Lends, of_background: bool, places: u32) {
        match of_background {
            true => self.background -= 1,
            false => *self.of(lends) -= 1,
        }
        self.places -= places;
    }
}
