//! What a class has left of its part of the link.

use super::share::Share;
use crate::time::Moment;
use std::time::Duration;

/// So much time without a processor is made good.
const LATE: Duration = Duration::from_millis(100);

/// The account of a class.
#[derive(Clone, Debug)]
pub struct Account {
    pub(super) share: Share,
    /// Whether it has only what nobody else wants.
    pub(super) is_background: bool,
    /// On how many threads answers of it wait.
    pub(super) waiting: u32,
    /// Bytes on the wire that are left of its slice; less than 0: it had more, as packets are not divided.
    left: f64,
    /// When its period ends.
    pub(super) ends: Moment,
    /// What it has had beyond slices, in bytes by weight.
    had: f64,
    /// Bytes on the wire that it has had in all.
    sent: f64,
    /// When it last sent.
    sent_at: Moment,
}

/// Whose turn comes first: the lowest.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(super) enum Claim {
    /// A slice, by the end of its period.
    Slice(Moment),
    /// A part of what is left, by what it has had of that.
    Rest(f64),
    /// What nobody wants.
    Background(f64),
}

impl Account {
    pub(super) fn new(now: Moment) -> Self {
        Account {
            share: Share::REST,
            is_background: false,
            waiting: 0,
            left: 0.0,
            ends: now,
            had: 0.0,
            sent: 0.0,
            sent_at: now,
        }
    }

    /// The policy says this of the class; `rate`: bytes a second that the link carries.
    pub(super) fn set(&mut self, share: Share, rate: f64) {
        if self.share.period != share.period {
            // A period that began under another length ends no later than one of the new.
            let began = self.ends - self.share.period;
            self.ends = self.ends.min(began + share.period);
        }
        self.share = share;
        self.left = self.left.min(self.slice(rate));
    }

    fn slice(&self, rate: f64) -> f64 {
        rate * self.share.slice.as_secs_f64()
    }

    /// Time passes: in each period it has its slice. What it did not want of the one before is gone; what it wanted and did not get, as where the
    /// gateway had no processor, it has now, up to one slice or what is its in [`LATE`].
    pub(super) fn pass(&mut self, now: Moment, rate: f64) {
        if now < self.ends {
            return;
        }
        let period = self.share.period.as_nanos() as u64;
        let periods = now.since(self.ends).as_nanos() as u64 / period + 1;
        let slice = self.slice(rate);
        // Who waits did not use it because nobody was there to send it.
        let late = rate * self.share.part() * LATE.as_secs_f64();
        let (kept, most) = match self.waiting {
            0 => (self.left.min(0.0), slice),
            _ => (self.left, slice + late.max(slice)),
        };
        self.left = (kept + slice * periods as f64).min(most);
        self.ends = Moment::from_nanos(self.ends.nanos() + periods * period);
    }

    /// What it may claim; `None`: nothing in this period.
    pub(super) fn claim(&self) -> Option<Claim> {
        if self.is_background {
            Some(Claim::Background(self.had))
        } else if self.left > 0.0 {
            Some(Claim::Slice(self.ends))
        } else if self.share.extra {
            Some(Claim::Rest(self.had))
        } else {
            None
        }
    }

    /// It begins to wait. Of its slice as much is left as there is time for: the rest was not wanted.
    pub(super) fn begins(&mut self, now: Moment, rate: f64) {
        self.pass(now, rate);
        if now.since(self.sent_at) > self.share.period / 4 {
            self.left = self.left.min(rate * self.ends.since(now).as_secs_f64());
        }
    }

    /// It is in the background from now on, or is not; who is served there has had so much.
    pub(super) fn moves(&mut self, is_background: bool, had: f64) {
        if self.is_background != is_background {
            (self.is_background, self.had) = (is_background, had);
        }
    }

    /// It begins to want the rest, of which those that want it have had so much: what it did not want meanwhile is not owed to it.
    pub(super) fn joins(&mut self, had: f64) {
        self.had = self.had.max(had);
    }

    /// It sends so many bytes on the wire.
    pub(super) fn spend(&mut self, now: Moment, bytes: f64) {
        self.sent_at = now;
        match self.claim() {
            Some(Claim::Slice(_)) => self.left -= bytes,
            _ => self.had += bytes / self.share.weight,
        }
        self.sent += bytes;
    }

    /// What the policy says of it.
    pub fn share(&self) -> Share {
        self.share
    }

    /// Bytes on the wire that it has had in its turns.
    pub fn sent(&self) -> u64 {
        self.sent as u64
    }
}
