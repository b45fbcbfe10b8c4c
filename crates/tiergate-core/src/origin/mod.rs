//! The origin's servers: which of them gets a request, and which of them are well.
//!
//! What is known of a server is kept by its id while the process lives ([`Servers`]); a policy says which
//! servers there are, and how they are judged ([`Lineup`]). So nothing that was learnt is lost, or counted
//! twice, by a reload, and requests that are under way at servers of the former policy end where they began.
//!
//! A server is *left out* after `failures_max` connects in a row that failed, or requests in a row that failed
//! otherwise, or were answered with an error, while its peers did better ([`health`]: passive checks), or when active checks say so. One that
//! was left out by passive checks is tried by a single request every `retry_after`; success brings it back. If
//! active checks are on, they come as often while it is left out; no request is spent while they fail, and none at all on a
//! server that could not be connected to: there the checks bring it back. For failures that a request may have caused, at most half of
//! the servers are left out, unless a server does nothing but fail for `retry_after`, never the last that is well, and they are
//! used all the same when there is no other. So is, for a while, one that
//! refuses connections: requests wait there for it to be restarted, each for up to `restart_max`; and for as long one
//! that checks can connect to but get no answer from: it may have stopped for a moment.
//!
//! A request that failed at one server may be tried at another, as far as the retry budget goes
//! ([`retries`]).

mod assigned;
mod cancel;
mod health;
pub mod retries;
pub mod unprocessed;

pub use crate::names::ServerId;
pub use cancel::{Bounds, Leftover, OnCancel, Way};
pub use health::{Cause, Change, Check, Finding, HealthRules};

use crate::fault::Fault;
use crate::names::Interned;
use crate::time::Moment;
use cancel::Cancels;
use health::{Health, Record};
use retries::{Allowance, RetryBudget};
use std::time::Duration;

/// Most servers that an origin may have; a request remembers the ones it tried in one word.
pub const SERVERS_MAX: usize = 64;

/// The servers of a policy. A server's *place* is its place in this list.
#[derive(Clone, Debug)]
pub struct Lineup {
    ids: Box<[ServerId]>,
    rules: HealthRules,
    retries: Allowance,
}

impl Lineup {
    /// The server at a place.
    pub fn id(&self, place: usize) -> ServerId {
        self.ids[place]
    }

    /// All servers, in order.
    pub fn ids(&self) -> &[ServerId] {
        &self.ids
    }

    /// The place of a server; `None`: it is not one of these. O(servers).
    pub fn place(&self, server: ServerId) -> Option<usize> {
        self.ids.iter().position(|id| *id == server)
    }
}

/// A server's state, to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerState {
    /// Requests in progress there.
    pub outstanding: u32,
    /// Why it is left out; `None`: it is well.
    pub left_out: Option<Cause>,
    /// Whether a request may be sent there now: if it is well, to try it again, or because no other is well.
    pub usable: bool,
}

/// What is known of a server.
#[derive(Clone, Debug, Default)]
struct Known {
    health: Health,
    cancels: Cancels,
}

/// All servers that a policy ever named. Picks the one with the fewest outstanding requests; equals take
/// turns.
#[derive(Debug, Default)]
pub struct Servers {
    names: Interned<ServerId>,
    known: Vec<Known>,
    turn: usize,
    budget: RetryBudget,
}

/// Where a request goes that is to be tried once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// To the server at this place, where it counts as outstanding.
    To(usize),
    /// Nowhere: no server that it has not tried is usable.
    Nowhere,
    /// Nowhere, because there were too many retries lately.
    Denied,
}

/// Whether a request may go to another server than those that it has tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elsewhere {
    /// To any that has a slot for it.
    Usable,
    /// No server that it has not tried is usable.
    Nowhere,
    /// There were too many retries lately.
    Denied,
}

impl Servers {
    /// The servers of a policy, by their addresses. One that was never named is taken to be well.
    ///
    /// # Errors
    /// If there are none or more than [`SERVERS_MAX`], or if too many were named since the start.
    pub fn lineup<'a>(
        &mut self,
        addresses: impl IntoIterator<Item = &'a str>,
        rules: HealthRules,
        retries: Allowance,
    ) -> Result<Lineup, Fault> {
        let ids = addresses.into_iter().map(|address| self.names.intern(address));
        let ids = ids.collect::<Result<Box<[ServerId]>, Fault>>()?;
        if !(1..=SERVERS_MAX).contains(&ids.len()) {
            return Err(Fault::new(format!("an origin has 1 to {SERVERS_MAX} servers")));
        }
        let most = ids.iter().map(|id| id.index() + 1).max().unwrap_or(0);
        self.known.resize_with(most.max(self.known.len()), Known::default);
        Ok(Lineup { ids, rules, retries })
    }

    /// The place of the server for a request that has been tried nowhere; `None` if none is usable. The
    /// request counts as outstanding there until [`Servers::done`]. O(servers).
    pub fn pick(&mut self, now: Moment, lineup: &Lineup) -> Option<usize> {
        self.budget.request(now);
        self.send(now, lineup, 0)
    }

    /// The place of the server for a request that is tried once more, and has failed at those in `tried`
    /// (one bit for each place). O(servers).
    pub fn pick_again(&mut self, now: Moment, lineup: &Lineup, tried: u64) -> Again {
        if !self.budget.allows(now, lineup.retries) {
            let other = self.best(now, lineup, tried).is_some();
            return if other { Again::Denied } else { Again::Nowhere };
        }
        let Some(place) = self.send(now, lineup, tried) else {
            return Again::Nowhere;
        };
        self.budget.retry(now);
        Again::To(place)
    }

    /// Whether a request that has been refused by all servers since a moment had better wait and try again: it has not
    /// waited for long, one of them may be restarting, and no other is well. O(servers).
    pub fn may_wait(&self, now: Moment, lineup: &Lineup, refused: Moment) -> bool {
        now.since(refused) < lineup.rules.restart_max && self.may_restart(now, lineup)
    }

    /// Whether one of the servers may be restarting, and no other is well. O(servers).
    pub fn may_restart(&self, now: Moment, lineup: &Lineup) -> bool {
        let rules = &lineup.rules;
        let of_all = || (0..lineup.ids.len()).map(|place| self.health(lineup, place));
        let is_well = |health: &Health| health.is_usable(now, rules) && !health.refuses();
        of_all().any(|health| health.may_restart(now, rules)) && !of_all().any(is_well)
    }

    /// The place of the server for a request that cost no server anything so far, as far as is known: it has waited for one
    /// that may be restarting, which is bounded by time, or its connection had been closed while idle, which happens to
    /// a request once. It is no retry. `tried`: as for [`Servers::pick_again`]. O(servers).
    pub fn pick_anew(&mut self, now: Moment, lineup: &Lineup, tried: u64) -> Option<usize> {
        self.send(now, lineup, tried)
    }

    /// The usable server with the fewest requests; of several, the one whose turn it is.
    fn best(&self, now: Moment, lineup: &Lineup, tried: u64) -> Option<usize> {
        let count = lineup.ids.len();
        let least = |usable: &dyn Fn(&Health) -> bool| {
            (0..count)
                .map(|step| (self.turn + step) % count)
                .filter(|&place| tried & (1 << place) == 0 && usable(self.health(lineup, place)))
                .min_by_key(|&place| self.health(lineup, place).outstanding)
        };
        let rules = &lineup.rules;
        least(&|health| health.is_usable(now, rules))
            .or_else(|| least(&|health| health.is_last_resort(now, rules)))
    }

    fn send(&mut self, now: Moment, lineup: &Lineup, tried: u64) -> Option<usize> {
        let best = self.best(now, lineup, tried)?;
        self.turn = (best + 1) % lineup.ids.len();
        self.send_to(now, lineup, best);
        Some(best)
    }

    fn send_to(&mut self, now: Moment, lineup: &Lineup, place: usize) {
        self.known[lineup.id(place).index()].health.send(now, &lineup.rules);
    }

    /// Whether any server would get a request now. O(servers).
    pub fn any_usable(&self, now: Moment, lineup: &Lineup) -> bool {
        self.best(now, lineup, 0).is_some()
    }

    /// A request that was sent to the server at that place at `sent` is done with it. Says what has changed for the server.
    /// O(1), or O(servers) after a failure.
    pub fn done(
        &mut self,
        now: Moment,
        lineup: &Lineup,
        place: usize,
        sent: Moment,
        finding: Finding,
    ) -> Option<Change> {
        let id = lineup.id(place).index();
        let mut health = std::mem::take(&mut self.known[id].health);
        let change = health.done(now, &lineup.rules, sent, finding, |lasting| {
            self.peers(now, lineup, place, lasting)
        });
        self.known[id].health = health;
        change
    }

    /// A request that was sent to the server at that place at `sent` was answered after `took`, and its client
    /// was there to see it. O(1).
    pub fn answered(
        &mut self,
        now: Moment,
        lineup: &Lineup,
        place: usize,
        sent: Moment,
        took: Duration,
    ) {
        let known = &mut self.known[lineup.id(place).index()];
        known.cancels.answered(now, known.health.outstanding, sent, took);
    }

    /// A client has left whose request was sent to the server at that place at `sent`. Says what to do with it. O(1).
    pub fn left(
        &mut self,
        now: Moment,
        lineup: &Lineup,
        place: usize,
        sent: Moment,
        on_cancel: OnCancel,
    ) -> Way {
        let known = &mut self.known[lineup.id(place).index()];
        known.cancels.left(now, known.health.outstanding, sent, on_cancel)
    }

    /// Whether such a request, which has overstayed ([`Bounds::overstays`]), is taken never to end. To be asked again
    /// now and then if not. O(1).
    pub fn never_ends(&mut self, now: Moment, lineup: &Lineup, place: usize, sent: Moment) -> bool {
        let known = &mut self.known[lineup.id(place).index()];
        known.cancels.never_ends(now, known.health.outstanding, sent)
    }

    /// What came of a request at the server at that place whose client had left; `closed`: our half of its
    /// connection was closed. O(1).
    pub fn left_over(
        &mut self,
        now: Moment,
        lineup: &Lineup,
        place: usize,
        closed: bool,
        leftover: Leftover,
    ) {
        let known = &mut self.known[lineup.id(place).index()];
        known.cancels.left_over(now, known.health.outstanding, closed, leftover);
    }

    /// How the other servers did; `None` if too many would be left out, were this one left out: more than half of all, or all
    /// where a server has done nothing but fail for a while (`lasting`): few requests cause that at a server that others are
    /// served by.
    fn peers(&self, now: Moment, lineup: &Lineup, place: usize, lasting: bool) -> Option<Record> {
        let others = || (0..lineup.ids.len()).filter(|&other| other != place);
        let well = |&other: &usize| self.health(lineup, other).cause(&lineup.rules).is_none();
        let left = others().filter(well).count();
        let enough = if lasting { left > 0 } else { left * 2 >= lineup.ids.len() };
        let records = others().map(|other| self.health(lineup, other).record);
        enough.then(|| records.fold(Record::default(), |sum, record| sum.and(record, now)))
    }

    /// An active check of the server at that place has ended. Says what has changed.
    pub fn checked(
        &mut self,
        now: Moment,
        lineup: &Lineup,
        place: usize,
        check: Check,
    ) -> Option<Change> {
        self.known[lineup.id(place).index()].health.checked(now, &lineup.rules, check)
    }

    /// How long to wait after an active check of the server at that place until the next, if that is `interval` for one that is
    /// well. O(1).
    pub fn check_pause(&self, lineup: &Lineup, place: usize, interval: Duration) -> Duration {
        self.health(lineup, place).check_pause(&lineup.rules, interval)
    }

    /// Whether the server at that place is about to end, and had better get no more requests while there is another. O(1).
    pub fn ends(&mut self, lineup: &Lineup, place: usize, is_ending: bool) {
        self.known[lineup.id(place).index()].health.is_ending = is_ending;
    }

    /// Every server's state, in the policy's order.
    pub fn states<'a>(
        &'a self,
        now: Moment,
        lineup: &'a Lineup,
    ) -> impl Iterator<Item = ServerState> + 'a {
        let well = (0..lineup.ids.len())
            .any(|place| self.health(lineup, place).is_usable(now, &lineup.rules));
        (0..lineup.ids.len()).map(move |place| {
            let health = self.health(lineup, place);
            ServerState {
                outstanding: health.outstanding,
                left_out: health.cause(&lineup.rules),
                usable: health.is_usable(now, &lineup.rules)
                    || !well && health.is_last_resort(now, &lineup.rules),
            }
        })
    }

    fn health(&self, lineup: &Lineup, place: usize) -> &Health {
        &self.known[lineup.id(place).index()].health
    }
}

#[cfg(test)]
mod tests;
