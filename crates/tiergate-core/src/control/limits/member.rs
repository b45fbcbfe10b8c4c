//! A server with a limit of its own.

use super::recovery::Recovery;
use crate::control::limit::Limit;
use crate::time::Moment;

/// Whether a server may get requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// It may.
    #[default]
    Open,
    /// One, to find out whether it is well again.
    Once,
    /// It may not.
    Closed,
}

/// A server, its limit, and whether it may get requests.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) limit: Limit,
    /// The number of slots of its own, if it has one.
    pub(super) number: Option<u32>,
    /// As was told last.
    pub(super) told: Access,
    /// A request has failed to reach it since another was answered.
    pub(super) is_doubted: bool,
    /// Since it was told, the one request has gone there that may.
    pub(super) is_tried: bool,
    /// One that is gone gets no more requests.
    pub(super) is_planned: bool,
    /// It has come back a short while ago.
    recovery: Option<Recovery>,
}

impl Member {
    pub(super) fn new(limit: Limit, number: Option<u32>) -> Self {
        let (told, is_doubted, is_tried, is_planned) = (Access::Open, false, false, false);
        Member { limit, number, told, is_doubted, is_tried, is_planned, recovery: None }
    }

    /// It may get requests again, as far as was told.
    pub(super) fn comes_back(&mut self, now: Moment) {
        if self.recovery.is_none() {
            self.recovery = Recovery::begins(now, self.limit.running(), self.limit.slots());
        }
    }

    /// A request was answered there, were it with an error.
    pub(super) fn answered(&mut self, now: Moment, is_good: bool) {
        if std::mem::take(&mut self.is_doubted) {
            // With the one that was answered.
            self.recovery = Recovery::begins(now, self.limit.running() + 1, self.limit.slots());
        } else if let (Some(recovery), true) = (&mut self.recovery, is_good) {
            recovery.answered();
        }
        self.pass(now);
    }

    /// Whether what is answered, or time that passes, changes how many it may have.
    pub(super) fn is_recovering(&self) -> bool {
        self.is_doubted || self.recovery.is_some()
    }

    /// Whether it may have all its slots from now on, and could not before.
    pub(super) fn has_recovered(&self, now: Moment) -> bool {
        self.recovery.as_ref().is_some_and(|it| it.is_over(now, self.limit.slots()))
    }

    /// Lets the time pass in which it may have fewer.
    pub(super) fn pass(&mut self, now: Moment) {
        if self.has_recovered(now) {
            self.recovery = None;
        }
    }

    /// How many it may have where it may get requests.
    fn most(&self) -> u32 {
        let slots = self.limit.slots();
        self.recovery.as_ref().map_or(slots, |it| it.most().min(slots))
    }

    /// Whether free slots there may be had by requests that wait.
    pub(super) fn is_shut(&self) -> bool {
        !self.is_planned || self.access() != Access::Open || self.recovery.is_some()
    }

    /// Whether it may get requests now. One that is doubted gets a single one each time that it is told to be well: else a server
    /// that is gone would draw one request after the other until that is known.
    pub(super) fn access(&self) -> Access {
        match self.told {
            Access::Open if !self.is_doubted => Access::Open,
            Access::Closed => Access::Closed,
            Access::Open | Access::Once if self.is_tried => Access::Closed,
            Access::Open | Access::Once => Access::Once,
        }
    }

    /// Slots that count, and those of them that are in use.
    pub(super) fn counts(&self) -> (u32, u32) {
        let (slots, running) = (self.limit.slots(), self.limit.running());
        let open = match self.access() {
            _ if !self.is_planned => running,
            Access::Open => self.most().max(running),
            Access::Once => running + u32::from(running < slots),
            Access::Closed => running,
        };
        (open, running)
    }

    pub(super) fn has_room(&self, slots: u16) -> bool {
        let running = self.limit.running();
        self.is_planned
            && self.access() != Access::Closed
            && self.limit.has_free()
            && (running == 0 || running + u32::from(slots) <= self.most())
            && self.limit.fits(slots)
    }

    /// Which part of its slots would be in use with one more: smaller than that of the other.
    pub(super) fn is_emptier(&self, other: &Member) -> bool {
        let part =
            |one: &Member, of: &Member| u64::from(one.limit.running() + 1) * u64::from(of.most());
        part(self, other) < part(other, self)
    }
}
