//! Requests of the background whose time was over before the origin answered: it may work on them, for nobody.
//!
//! Nothing tells when it stops. Each is taken to be in progress for as long again as it was: of what has lasted for a while, about half has
//! passed, if nothing else is known (the Lindy effect).

use crate::time::Moment;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// Most that are remembered: as many as may be in progress.
const MOST: usize = 1_000;

/// Those that the origin may still work on.
#[derive(Debug, Default)]
pub(super) struct Outlived {
    /// Until when, and with how many slots; the soonest first.
    until: BinaryHeap<Reverse<(Moment, u16)>>,
    slots: u32,
}

impl Outlived {
    /// One with so many slots was given up after so long. Of too many, one more is not remembered. O(log of them).
    pub(super) fn add(&mut self, now: Moment, lasted: Duration, slots: u16) {
        if self.until.len() < MOST {
            self.until.push(Reverse((now + lasted, slots)));
            self.slots += u32::from(slots);
        }
    }

    /// Their slots. O(log of them) for each that is over.
    pub(super) fn slots(&mut self, now: Moment) -> u32 {
        while let Some(Reverse((until, slots))) = self.until.peek().copied()
            && until <= now
        {
            self.until.pop();
            self.slots -= u32::from(slots);
        }
        self.slots
    }

    /// When the next is over. O(1).
    pub(super) fn due(&self) -> Moment {
        self.until.peek().map_or(Moment::NEVER, |it| it.0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lasts_for_as_long_again() {
        let at = |ms| Moment::ZERO + Duration::from_millis(ms);
        let mut outlived = Outlived::default();
        outlived.add(at(1_000), Duration::from_millis(500), 1);
        outlived.add(at(1_000), Duration::from_millis(200), 3);
        assert_eq!((outlived.slots(at(1_100)), outlived.due()), (4, at(1_200)));
        assert_eq!((outlived.slots(at(1_200)), outlived.due()), (1, at(1_500)));
        assert_eq!((outlived.slots(at(1_500)), outlived.due()), (0, Moment::NEVER));
    }

    #[test]
    fn no_more_are_remembered_than_may_be_in_progress() {
        let mut outlived = Outlived::default();
        (0..2 * MOST).for_each(|_| outlived.add(Moment::ZERO, Duration::from_secs(1), 1));
        assert_eq!(outlived.slots(Moment::ZERO), MOST as u32);
    }
}
