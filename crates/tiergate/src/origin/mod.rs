//! The origin: its servers, the connections to them, and how well they are.

pub mod access;
pub mod connect_fault;
mod dial;
pub mod health;
pub mod http2;
pub mod idle;
mod names;
pub mod pools;
pub mod servers;
pub mod stream;
pub mod transport;

use crate::clock;
use crate::config::meant::{self, Server};
use crate::observe::counters::Counters;
use crate::tally::Tally;
use servers::{Known, OriginServer};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
pub use stream::Lease;
use tiergate_core::control::Access;
use tiergate_core::fault::Fault;
use tiergate_core::origin::{
    Again, Change, Check, Elsewhere, Finding, HealthRules, Leftover, Lineup, ServerId, ServerState,
    Servers, Way,
};
use tiergate_core::time::Moment;
use transport::Transport;

/// What the servers of a pool have to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Requests are in progress; or there could be none, because no server is usable.
    Busy,
    /// No request is in progress, tunnels and streams apart: they may last for days, and do little.
    Idle {
        /// So many times a request was sent to one of them, or could not be, so far.
        sent: u64,
    },
}

/// The servers of one pool.
#[derive(Debug)]
pub struct Origin {
    /// The pool's name; empty: it is the default pool.
    pub pool: String,
    /// The servers, in the policy's order; where a name stands for several, each of them.
    pub servers: Vec<Arc<OriginServer>>,
    /// The place in the policy of each one's name.
    places: Vec<usize>,
    /// What the policy says.
    pub settings: meant::Origin,
    /// What the servers speak; `None`: HTTP/1.1 over plain TCP.
    transport: Option<Arc<Transport>>,
    lineup: Lineup,
    known: Arc<Known>,
    /// When all names are looked up again.
    look_up_at: Mutex<Moment>,
    /// Retries that there was no budget for.
    retries_denied: Arc<Tally>,
}

impl Origin {
    /// The policy's origin, spoken to over plain TCP; what earlier policies learnt about servers, `former` knows.
    ///
    /// # Errors
    /// If more servers were named since the start than ids there are.
    pub fn new(
        settings: meant::Origin,
        former: Option<&Origin>,
        counters: &Counters,
    ) -> Result<Self, Fault> {
        let rules = HealthRules {
            failures_max: settings.failures_max,
            retry_after: settings.retry_after,
            restart_max: settings.restart_max,
            fall: settings.health.as_ref().map(|check| check.fall),
            rise: settings.health.as_ref().map_or(1, |check| check.rise),
        };
        let known = former.map(|former| former.known.clone()).unwrap_or_default();
        let (addresses, places): (Vec<Server>, _) =
            known.names().servers(&settings.servers).into_iter().unzip();
        let names: Vec<String> = addresses.iter().map(Server::to_string).collect();
        let lineup =
            known.state().lineup(names.iter().map(String::as_str), rules, settings.retries)?;
        let place = |(place, address)| known.server(lineup.id(place), address);
        let servers = addresses.iter().enumerate().map(place).collect();
        let look_up_at = Mutex::new(Moment::ZERO);
        let retries_denied = counters.retries_denied.clone();
        let (pool, transport) = (String::new(), None);
        Ok(Origin {
            pool,
            servers,
            places,
            settings,
            transport,
            lineup,
            known,
            look_up_at,
            retries_denied,
        })
    }

    fn state(&self) -> MutexGuard<'_, Servers> {
        self.known.state()
    }

    /// Whether any server would get a request about now: as of when this thread last asked for the time.
    pub fn is_usable(&self) -> bool {
        self.state().any_usable(clock::recent(), &self.lineup)
    }

    /// Whether a request that has been refused by all servers since a moment had better wait and try again.
    pub fn may_wait(&self, refused: Moment) -> bool {
        self.state().may_wait(clock::now(), &self.lineup, refused)
    }

    /// The servers' ids, in the same order.
    pub fn ids(&self) -> &[ServerId] {
        self.lineup.ids()
    }

    /// Those that have a number of slots of their own: of a name that stands for several, each.
    pub fn numbers(&self) -> Vec<(ServerId, u32)> {
        let named = self.ids().iter().zip(0..).map(|(id, place)| (*id, self.named(place)));
        named.filter_map(|(id, named)| Some((id, self.settings.slots_of(named)?))).collect()
    }

    /// Which servers may get requests.
    pub fn access(&self) -> Vec<(ServerId, Access)> {
        self.state().access(clock::now(), &self.lineup)
    }

    /// Whether a request that failed at the servers in `tried`, one bit for each place, may go to another that has a slot for it.
    pub fn elsewhere(&self, tried: u64, is_retry: bool) -> bool {
        let elsewhere = self.state().elsewhere(clock::now(), &self.lineup, tried, is_retry);
        if elsewhere == Elsewhere::Denied {
            self.retries_denied.one();
        }
        elsewhere == Elsewhere::Usable
    }

    /// Every server's state, in the policy's order.
    pub fn states(&self) -> Vec<ServerState> {
        self.state().states(clock::now(), &self.lineup).collect()
    }

    /// What they have to do now. O(servers).
    pub(crate) fn work(&self) -> Work {
        let states = self.states();
        let is_usable = states.iter().any(|it| it.usable);
        let lasting = self.servers.iter().map(|it| it.lasting.load(Ordering::Relaxed));
        match is_usable && states.iter().zip(lasting).all(|(it, lasting)| it.outstanding <= lasting)
        {
            // Whether it came to be sent, or could not be.
            true => Work::Idle { sent: self.servers.iter().map(|it| it.counters.tried()).sum() },
            false => Work::Busy,
        }
    }

    /// How many requests are in progress at the server of that name; tunnels and streams apart. O(servers).
    pub(crate) fn outstanding(&self, of: &Server) -> u32 {
        let states = self.states();
        let each = states.iter().zip(&self.servers).enumerate();
        let each = each.filter(|(place, _)| self.named(*place) == of);
        let outstanding = each.map(|(_, (state, server))| {
            state.outstanding.saturating_sub(server.lasting.load(Ordering::Relaxed))
        });
        outstanding.sum()
    }

    /// Whether the server of that name is about to end: it gets no more requests while there is another. O(servers).
    pub(crate) fn ends(&self, name: &Server, is_ending: bool) {
        for place in (0..self.servers.len()).filter(|place| self.named(*place) == name) {
            self.state().ends(&self.lineup, place, is_ending);
        }
    }

    /// Notes the result of an active check of the server at that place, with the reason if it failed.
    pub(self) fn checked(&self, place: usize, check: Check, why: Option<&str>) {
        let change = self.state().checked(clock::now(), &self.lineup, place, check);
        self.report(place, change, why);
    }

    /// How long until the next active check of the server at that place, if that is `interval` for one that is well.
    pub(self) fn check_pause(&self, place: usize, interval: Duration) -> Duration {
        self.state().check_pause(&self.lineup, place, interval)
    }

    /// Logs what has become of a server.
    fn report(&self, place: usize, change: Option<Change>, why: Option<&str>) {
        let Some(change) = change else { return };
        let server = &self.servers[place].name;
        let pool = Some(&*self.pool).filter(|pool| !pool.is_empty());
        match change {
            Change::Back => tracing::info!(%server, pool, "origin server gets requests again"),
            Change::LeftOut(cause) => {
                let why = why.unwrap_or("-");
                let restarts = match self.may_wait(clock::now()) {
                    true => format!(
                        "; no other is usable, so requests wait for it, each up to {:?}",
                        self.settings.restart_max
                    ),
                    false => String::new(),
                };
                tracing::warn!(%server, pool, "origin server left out: {cause}; the last: {why}{restarts}");
            }
        }
    }

    /// The server's name, or address, as the policy has it.
    pub(self) fn named(&self, place: usize) -> &Server {
        &self.settings.servers[self.places[place]]
    }

    /// Looks up the names whose addresses are unknown or have failed, and all now and then. A name that cannot be resolved
    /// keeps the addresses it had. Returns whether the names stand for other servers now than these.
    pub async fn resolve(&self) -> bool {
        let now = clock::now();
        let is_due = {
            let mut at = self.look_up_at.lock().expect("no code panics while it holds it");
            let is_due = now >= *at;
            if is_due {
                *at = now + LOOK_UP_EVERY;
            }
            is_due
        };
        for (place, name) in self.settings.servers.iter().enumerate() {
            let Server::Tcp(host, port) = name else { continue };
            if !servers::literal(name).is_empty() {
                continue;
            }
            let of_name = || self.servers.iter().zip(&self.places).filter(|(_, of)| **of == place);
            if !is_due && !of_name().any(|(server, _)| server.stale.load(Ordering::Relaxed)) {
                continue;
            }
            let Some(found) = names::look_up(host, *port).await else { continue };
            let mut names = self.known.names();
            let before = names.addresses(name).to_vec();
            names.found(name, found);
            let found = names.addresses(name);
            for (server, _) in of_name() {
                server.stale.store(false, Ordering::Relaxed);
                if server.address == *name && !same(&before, found) {
                    server.resolved.store(Arc::new(found.to_vec()));
                }
            }
        }
        let servers = self.known.names().servers(&self.settings.servers);
        !servers.iter().map(|(server, _)| server).eq(self.servers.iter().map(|it| &it.address))
    }

    /// The same pool with the servers that its names stand for now.
    ///
    /// # Errors
    /// As [`Origin::new`].
    pub(self) fn renewed(&self, counters: &Counters) -> Result<Self, Fault> {
        let pool = self.pool.clone();
        let transport = self.transport.clone();
        Ok(Origin { pool, transport, ..Origin::new(self.settings.clone(), Some(self), counters)? })
    }
}

/// Whether they are the same addresses, in whatever order.
fn same(one: &[SocketAddr], other: &[SocketAddr]) -> bool {
    one.len() == other.len() && one.iter().all(|address| other.contains(address))
}

/// How often all names are looked up.
const LOOK_UP_EVERY: Duration = Duration::from_secs(10);

/// A request's place at a server: counted as outstanding there until it is dropped.
#[derive(Debug)]
pub struct Place {
    origin: Arc<Origin>,
    index: usize,
    /// When it was picked, and how long the answer took from then, if the client was there to see it.
    picked: Moment,
    took: Option<Duration>,
    finding: Finding,
    /// What went wrong, for the log.
    why: &'static str,
    /// Whether its request has become a tunnel or a stream.
    is_lasting: bool,
}

impl Place {
    /// A place at the best server, for a request's first attempt; `None` if none is usable.
    pub fn pick(origin: &Arc<Origin>) -> Option<Self> {
        let now = clock::recent();
        let index = origin.state().pick(now, &origin.lineup)?;
        Some(Place::at(origin, index, now))
    }

    /// A place for another attempt, at the best server that is not in `tried` (one bit each); `None` if
    /// no other is usable, or the retry budget is used up.
    pub fn pick_again(origin: &Arc<Origin>, tried: u64) -> Option<Self> {
        let now = clock::recent();
        let again = origin.state().pick_again(now, &origin.lineup, tried);
        match again {
            Again::To(index) => Some(Place::at(origin, index, now)),
            Again::Nowhere => None,
            Again::Denied => {
                origin.retries_denied.one();
                None
            }
        }
    }

    /// A place for a request that cost no server anything so far, as far as is known; `None` if none is usable that is not
    /// in `tried`.
    pub fn pick_anew(origin: &Arc<Origin>, tried: u64) -> Option<Self> {
        let now = clock::now();
        let index = origin.state().pick_anew(now, &origin.lineup, tried)?;
        Some(Place::at(origin, index, now))
    }

    /// A place at the server whose slot the request has; `is_first`: it has been tried nowhere. `None`: the server, which is at
    /// this place of the pool's, is not usable.
    pub fn pick_at(origin: &Arc<Origin>, index: usize, is_first: bool) -> Option<Self> {
        let now = if is_first { clock::recent() } else { clock::now() };
        let mut state = origin.state();
        let is_usable = match is_first {
            true => state.pick_at(now, &origin.lineup, index),
            false => state.pick_anew_at(now, &origin.lineup, index),
        };
        drop(state);
        is_usable.then(|| Place::at(origin, index, now))
    }

    fn at(origin: &Arc<Origin>, index: usize, picked: Moment) -> Self {
        let origin = origin.clone();
        let (took, finding, why, is_lasting) = (None, Finding::Nothing, "", false);
        Place { origin, index, picked, took, finding, why, is_lasting }
    }

    /// The server's bit among those tried.
    pub fn bit(&self) -> u64 {
        1 << self.index
    }

    /// The server's place in its pool.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The server.
    pub fn server(&self) -> &Arc<OriginServer> {
        &self.origin.servers[self.index]
    }

    /// It answered with that status.
    pub fn found(&mut self, status: u16) {
        self.finding = Finding::of_status(status);
    }

    /// It answered with that status, now, a client that waits for it.
    pub fn answered(&mut self, now: Moment, status: u16) {
        self.found(status);
        self.took = Some(now.since(self.picked));
    }

    /// The request has become a tunnel or a stream: it stays outstanding, and is no work any more. Once is enough.
    pub fn lasts(&mut self) {
        if !std::mem::replace(&mut self.is_lasting, true) {
            self.server().lasting.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How long the request has been with the server.
    pub fn lasted(&self, now: Moment) -> Duration {
        now.since(self.picked)
    }

    /// The client has left: what to do with its request; `is_multiplexed`: it is a stream of a connection over HTTP/2.
    pub fn client_left(&mut self, is_multiplexed: bool) -> Way {
        self.took = None;
        let on_cancel = match is_multiplexed {
            true => self.origin.settings.on_cancel.of_streams(),
            false => self.origin.settings.on_cancel,
        };
        let (now, origin) = (clock::recent(), &self.origin);
        origin.state().left(now, &origin.lineup, self.index, self.picked, on_cancel)
    }

    /// Whether its request, which has overstayed, is taken never to end.
    pub fn never_ends(&self, now: Moment) -> bool {
        let origin = &self.origin;
        origin.state().never_ends(now, &origin.lineup, self.index, self.picked)
    }

    /// What came of the request after its client had left; `closed`: our half of the connection was closed.
    pub fn left_over(&mut self, closed: bool, leftover: Leftover) {
        let (now, origin) = (clock::recent(), &self.origin);
        origin.state().left_over(now, &origin.lineup, self.index, closed, leftover);
    }

    /// No connection could be opened, for the reason given; `refused`: that was known at once.
    pub fn unreachable(&mut self, why: &'static str, refused: bool) {
        self.failed(if refused { Finding::Refused } else { Finding::Unreachable }, why);
        self.server().stale.store(true, Ordering::Relaxed);
    }

    /// It did not answer, or broke off.
    pub fn broken(&mut self, why: &'static str) {
        self.failed(Finding::Broken, why);
    }

    fn failed(&mut self, finding: Finding, why: &'static str) {
        (self.finding, self.why) = (finding, why);
        self.server().counters.failures.one();
    }

    /// An idle connection to the server, if there is one.
    pub fn idle(&self) -> Option<Lease> {
        let transport = self.origin.transport.as_ref();
        let lease = match transport.filter(|it| it.is_multiplexed()) {
            Some(it) => http2::take(self.server(), it),
            None => None,
        };
        let lease = match lease {
            Some(lease) => lease,
            None => Lease { stream: idle::take(self.server(), transport)?, reused: true },
        };
        if lease.reused {
            self.server().counters.reuses.one();
        }
        Some(lease)
    }

    /// A new connection to the server; if it has no room for one in its listen queue, and the request `may_reuse` one, one that
    /// becomes idle meanwhile.
    ///
    /// # Errors
    /// What the system says; `TimedOut` after `within`, or `WouldBlock` if only its listen queue was full; `NotFound` while its
    /// name is not resolved.
    pub async fn connect(&self, within: Duration, may_reuse: bool) -> io::Result<Lease> {
        let idle = || may_reuse.then(|| self.idle()).flatten();
        let lease = self.origin.connect(self.index, within, idle).await?;
        match lease.reused {
            false => self.server().counters.connects.one(),
            // A connection that became idle is counted where it is taken.
            true if lease.stream.is_multiplexed() => self.server().counters.reuses.one(),
            true => {}
        }
        Ok(lease)
    }

    /// Keeps the connection for the next request. Only where the whole answer was read.
    pub fn give_back(&self, lease: Lease) {
        let kept_max = self.origin.settings.idle_connections_max;
        let transport = self.origin.transport.as_ref();
        idle::give(self.server(), transport, lease.stream, clock::recent(), kept_max);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_lasting {
            // Before it is no longer outstanding: else others would not count for a moment.
            self.server().lasting.fetch_sub(1, Ordering::Relaxed);
        }
        let (origin, now) = (&self.origin, clock::recent());
        let mut state = origin.state();
        let change = state.done(now, &origin.lineup, self.index, self.picked, self.finding);
        if let Some(took) = self.took {
            state.answered(now, &origin.lineup, self.index, self.picked, took);
        }
        drop(state);
        origin.report(self.index, change, Some(self.why));
    }
}

#[cfg(test)]
mod tests;
