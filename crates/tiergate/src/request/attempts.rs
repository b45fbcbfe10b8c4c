//! Where a request is tried, one server after the other, as far as the origin's retry budget goes.

use super::fault::Fault;
use crate::clock;
use crate::origin::connect_fault::{ConnectFault, is_anothers, is_refused};
use crate::origin::{Lease, Origin, Place};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tiergate_core::names::ServerId;
use tiergate_core::time::Moment;

/// How long a request waits before it connects again to a server that may be restarting: first, and at most. The many that
/// wait shall not keep the machine busy.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(160);

/// What the client is told where all connections over HTTP/2 that there may be are full.
const NO_PLACE: &str = "all connections to the origin are full";

/// Where a request has been tried.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    /// Servers that could not be reached, one bit each.
    tried: u64,
    /// Servers that it passed by, which were not usable; and those tried that it has been counted as a retry for.
    passed: u64,
    counted: u64,
    timed_out: bool,
    /// The last of them had no room in its listen queue.
    full: bool,
    /// The last of them had no place on the connections that it may have.
    no_place: bool,
    /// Why the last of them could not be reached.
    why: &'static str,
    stale: Stale,
    /// Since when all servers have refused it; the last pause before they are tried anew.
    refused: Option<Moment>,
    pause: Option<Duration>,
}

/// What has become of the request's connection that had been closed while it was idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stale {
    /// There was none.
    #[default]
    None,
    /// It was given up just now.
    Found,
    /// It was in use by others, too, and was lost just now.
    Lost,
    /// The request was sent again because of it.
    SentAgain,
}

/// Where a request goes next that has a slot of one server.
#[derive(Debug)]
pub(super) enum Next {
    /// To that server, on an idle connection if there is one to be used.
    To(Place, Option<Lease>),
    /// To another than these, once it has a slot there.
    Elsewhere(Vec<ServerId>),
    /// Nowhere.
    Nowhere,
}

impl Attempts {
    /// The next place, with an idle connection if there is one to be used; `None` if no other server
    /// is usable, or there were too many retries lately.
    pub(super) fn next(&mut self, origin: &Arc<Origin>) -> Option<(Place, Option<Lease>)> {
        let place = match (self.tried, self.pause) {
            (0, None) if self.stale == Stale::None => Place::pick(origin)?,
            // Not a retry: servers close connections that are idle, some of them each after its first request.
            (tried, _) if self.stale == Stale::Found => Place::pick_anew(origin, tried)?,
            (0, Some(_)) if self.stale != Stale::Lost => Place::pick_anew(origin, 0)?,
            _ => Place::pick_again(origin, self.tried)?,
        };
        let idle = self.goes_to(&place);
        Some((place, idle))
    }

    /// The same where each server has a limit of its own, for a request with a slot of this one; `None` as the server: of none of these.
    pub(super) fn next_at(&mut self, origin: &Arc<Origin>, server: Option<ServerId>) -> Next {
        if self.stale == Stale::Lost {
            if !origin.elsewhere(self.tried, true) {
                return Next::Nowhere;
            }
            // The budget has been asked.
            self.stale = Stale::Found;
        }
        let place = server.and_then(|id| origin.ids().iter().position(|it| *it == id));
        let is_first = self.tried == 0 && self.pause.is_none() && self.stale == Stale::None;
        if let Some(place) = place.filter(|place| (self.tried | self.passed) & (1 << place) == 0) {
            if let Some(place) = Place::pick_at(origin, place, is_first && self.passed == 0) {
                let idle = self.goes_to(&place);
                return Next::To(place, idle);
            }
            self.passed |= 1 << place;
        }
        // Nothing was tried at a server that the gate did not know yet not to be usable.
        let is_retry = self.tried != 0 && self.stale != Stale::Found && self.pause.is_none();
        let is_counted = std::mem::replace(&mut self.counted, self.tried) == self.tried;
        match origin.elsewhere(self.tried | self.passed, is_retry && !is_counted) {
            true => {
                let not_at = origin.ids().iter().enumerate();
                let not_at =
                    not_at.filter(|(place, _)| (self.tried | self.passed) & (1 << place) != 0);
                Next::Elsewhere(not_at.map(|(_, id)| *id).collect())
            }
            false => Next::Nowhere,
        }
    }

    /// It goes to the place: on an idle connection, if there is one to be used.
    fn goes_to(&mut self, place: &Place) -> Option<Lease> {
        if matches!(self.stale, Stale::Found | Stale::Lost) {
            self.stale = Stale::SentAgain;
            place.server().counters.retries.one();
        }
        if self.may_reuse() { place.idle() } else { None }
    }

    /// Whether an idle connection may be used: none was found closed so far.
    pub(super) fn may_reuse(&self) -> bool {
        self.stale == Stale::None
    }

    /// The server could not be reached: another one is next.
    ///
    /// # Errors
    /// If that is the gateway's own fault.
    pub(super) fn unreachable(
        &mut self,
        place: &mut Place,
        error: &io::Error,
    ) -> Result<(), Fault> {
        let why = match ConnectFault::of(error) {
            ConnectFault::Ours(why) => return Err(Fault::Answer(503, why)),
            ConnectFault::Servers(why) => why,
            ConnectFault::NoPlace => {
                (self.full, self.no_place) = (false, true);
                self.why = NO_PLACE;
                self.tried |= place.bit();
                return Ok(());
            }
            ConnectFault::Full => {
                (self.full, self.no_place) = (true, false);
                self.why = "the server's listen queue stayed full";
                self.tried |= place.bit();
                return Ok(());
            }
        };
        self.timed_out = error.kind() == io::ErrorKind::TimedOut;
        (self.full, self.no_place) = (false, false);
        self.tried |= place.bit();
        self.why = why;
        // One failed connection is one failure, however many requests waited for it.
        if !is_anothers(error) {
            place.unreachable(why, is_refused(error));
        }
        Ok(())
    }

    /// There is no next place: how long to wait until all servers are tried anew; `None`: it would be no use.
    pub(super) fn wait(&mut self, origin: &Origin) -> Option<Duration> {
        if self.tried == 0 && self.passed == 0
            || self.full
            || self.no_place
            || !origin.may_wait(*self.refused.get_or_insert_with(clock::now))
        {
            return None;
        }
        (self.tried, self.passed, self.counted) = (0, 0, 0);
        self.pause = Some(self.pause.map_or(PAUSE, |pause| PAUSE_MAX.min(2 * pause)));
        self.pause
    }

    /// Why the last server could not be reached; empty if none was tried in vain.
    pub(super) fn why(&self) -> &'static str {
        self.why
    }

    /// The connection had been closed while it was idle. Once more on a fresh one, and then no more.
    pub(super) fn stale(&mut self) {
        self.stale = Stale::Found;
    }

    /// The connection was lost, and other requests with it. Once more, as far as the retry budget goes.
    pub(super) fn lost(&mut self) {
        self.stale = Stale::Lost;
        self.why = Fault::Origin.answer().1;
    }

    /// What the client is told when there is no next place: what it would be told if the last attempt
    /// had been the only one.
    pub(super) fn fault(&self) -> Fault {
        if self.full {
            return Fault::Full;
        }
        if self.no_place {
            return Fault::Answer(503, NO_PLACE);
        }
        match (self.stale, self.timed_out) {
            // Nothing was tried since.
            (Stale::Found | Stale::Lost, _) => Fault::Origin,
            (_, true) => Fault::Answer(504, "connecting to the origin timed out"),
            (_, false) => Fault::Answer(502, "no origin server could be reached"),
        }
    }
}
