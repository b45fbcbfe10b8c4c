//! Sessions that run: who was admitted once is served before who begins.
//!
//! A session is known again by a key, a keyed hash of what names it. The table holds those that were
//! admitted and answered well, at most so many and each for a bounded time; a name that a client makes
//! up is not in it. The list of use is in the order of the last request, so that who is idle too long
//! is found at its head, and who must make room is the one idle longest: evicted, and counted so. If a
//! client has more than its part of the table, its own session that is idle longest is evicted instead, so that
//! a client which invents names by the thousand, and is answered well, evicts only its own.
//!
//! | a session | becomes | by |
//! |---|---|---|
//! | unknown | running | [`Sessions::answered`] well, [`Sessions::resume`] with a signature |
//! | running | ended | [`Sessions::end`] (the application said so), idle or old for too long, evicted |
//! | running | running by another name | [`Sessions::rename`] (a log-in changes the name) |
//!
//! Memory: [`ENTRY_BYTES`] a session. Each call is O(1), but for the hash table's growth.
//!
//! Source: Cherkasova & Phaal, session-based admission control; WebQoS §4.2 (sessions). That requests
//! of running sessions go first, instead of a threshold, is ours.

use crate::collections::{Links, List, Slab, grown};
use crate::named::named;
use crate::names::ClassId;
use crate::time::Moment;
use std::collections::HashMap;
use std::time::Duration;

/// Memory that one session takes at most, with its share of the hash tables, if each is another client's: all
/// are up to twice as large as what is in them.
pub const ENTRY_BYTES: usize = 2 * (Slab::<Entry>::ITEM_BYTES + Links::ENTRY_BYTES)
    + 2 * Slab::<Client>::ITEM_BYTES
    + 6 * size_of::<(u64, u32)>();

/// The part of the table (1/16) beyond which a client's sessions make room before others'.
const PART: usize = 16;

/// How long a session lasts and how many there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Without a request for so long, it is over.
    pub idle: Duration,
    /// After so long it is over in any case.
    pub lifetime: Duration,
    /// Sessions in the table.
    pub sessions_max: usize,
    /// Requests of one session at once that go before others. What is more is treated as if it began
    /// a session: one cookie in a thousand hands is no thousand sessions.
    pub at_once_max: u16,
}

named! {
    /// How a session ended.
    pub enum SessionEnd {
        /// The application took its cookie away.
        Ended = "ended",
        /// No request came for too long.
        Idle = "idle",
        /// It was as old as a session may be.
        Old = "old",
        /// It was the one idle longest when the table was full; if it comes again, it begins anew.
        Evicted = "evicted",
    }
}

/// Counts lengths in requests: one bucket for each doubling, from 1 to 1,024, and one above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    buckets: [u64; Self::BUCKETS],
    /// Requests of all counted sessions.
    pub sum: u64,
}

impl Lengths {
    const BUCKETS: usize = 12;

    fn record(&mut self, requests: u32) {
        let bucket = u32::BITS - requests.saturating_sub(1).leading_zeros();
        self.buckets[(bucket as usize).min(Self::BUCKETS - 1)] += 1;
        self.sum += u64::from(requests);
    }

    /// Upper bound in requests and how many were no longer, but longer than the bound before; the last
    /// has none.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<u32>, u64)> + '_ {
        let bound = |place: usize| (place + 1 < Self::BUCKETS).then(|| 1 << place);
        self.buckets.iter().enumerate().map(move |(place, &count)| (bound(place), count))
    }

    /// How many sessions were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// What became of the sessions whose last request was of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionAccount {
    /// Sessions that began to run: a first request was answered well.
    pub started: u64,
    /// Running sessions that came with a signature and were not in the table: they were begun at
    /// another gateway or before a restart, or had been evicted.
    pub resumed: u64,
    /// Sessions over, by [`SessionEnd::index`].
    pub ended: [u64; SessionEnd::COUNT],
    /// Those of them whose last request was refused: broken off in the middle, as far as can be told.
    pub broken: u64,
    /// Requests refused that belonged to no running session.
    pub refused_new: u64,
    /// Requests refused that belonged to one.
    pub refused_running: u64,
    /// Answered requests of the sessions that are over.
    pub lengths: Lengths,
}

impl SessionAccount {
    /// Nothing counted.
    pub const NONE: SessionAccount = SessionAccount {
        started: 0,
        resumed: 0,
        ended: [0; 4],
        broken: 0,
        refused_new: 0,
        refused_running: 0,
        lengths: Lengths { buckets: [0; Lengths::BUCKETS], sum: 0 },
    };
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u64,
    begun: Moment,
    last: Moment,
    requests: u32,
    /// Whose it is, by its place among the clients.
    client: u32,
    class: ClassId,
    at_once: u16,
    /// Its last request was refused.
    broken: bool,
}

/// A client that has sessions.
#[derive(Clone, Copy, Debug)]
struct Client {
    key: u64,
    /// Its sessions, by their last request.
    by_use: List,
}

/// The sessions that run.
#[derive(Debug)]
pub struct Sessions {
    bounds: Bounds,
    entries: Slab<Entry>,
    places: HashMap<u64, u32, foldhash::fast::FixedState>,
    /// By their last request: the one idle longest is first.
    by_use: List,
    clients: Slab<Client>,
    numbers: HashMap<u64, u32, foldhash::fast::FixedState>,
    /// Links of the clients' lists.
    of_clients: Links,
    /// The client with the most sessions, of those that had one answered since it had.
    biggest: Option<u32>,
    account: Vec<SessionAccount>,
}

impl Sessions {
    /// No session yet.
    pub fn new(bounds: Bounds) -> Self {
        Sessions {
            bounds,
            entries: Slab::default(),
            places: HashMap::default(),
            by_use: List::default(),
            clients: Slab::default(),
            numbers: HashMap::default(),
            of_clients: Links::default(),
            biggest: None,
            account: vec![SessionAccount::default()],
        }
    }

    /// A request that names a session has come: whether it belongs to a running one, and is not one
    /// too many of it at once. If so, [`Sessions::leave`] must follow.
    pub fn arrive(&mut self, now: Moment, key: u64) -> bool {
        self.sweep(now);
        let Some(place) = self.find(now, key) else {
            return false;
        };
        let at_once_max = self.bounds.at_once_max;
        let entry = &mut self.entries[place];
        if entry.at_once >= at_once_max {
            return false;
        }
        entry.at_once += 1;
        true
    }

    /// A request that [`Sessions::arrive`] took for a running session's, or that [`Sessions::answered`]
    /// made one of, is over.
    pub fn leave(&mut self, key: u64) {
        // It may have been evicted meanwhile, and begun anew.
        if let Some(&place) = self.places.get(&key) {
            let entry = &mut self.entries[place];
            entry.at_once = entry.at_once.saturating_sub(1);
        }
    }

    /// The same for a session that shows by a signature that it began `age` ago: it need not be known
    /// here. `client`: a keyed hash of whose address it comes from.
    pub fn resume(
        &mut self,
        now: Moment,
        key: u64,
        client: u64,
        age: Duration,
        class: ClassId,
    ) -> bool {
        if self.arrive(now, key) {
            return true;
        }
        if self.knows(key) || age >= self.bounds.lifetime || self.bounds.sessions_max == 0 {
            return false;
        }
        self.insert(now, key, client, now - age, class, 0);
        self.account_of(class).resumed += 1;
        true
    }

    /// Whether the session is in the table.
    pub fn knows(&self, key: u64) -> bool {
        self.places.contains_key(&key)
    }

    /// The origin has answered a request of the session. If it did so `well`, a session that was not
    /// known begins to run, as the client's ([`Sessions::resume`]); true then, and [`Sessions::leave`] must follow.
    pub fn answered(
        &mut self,
        now: Moment,
        key: u64,
        client: u64,
        class: ClassId,
        well: bool,
    ) -> bool {
        match self.find(now, key) {
            Some(place) => {
                let entry = &mut self.entries[place];
                entry.requests = entry.requests.saturating_add(1);
                entry.last = now;
                entry.class = class;
                entry.broken = false;
                let number = entry.client;
                self.entries.unlink(&mut self.by_use, place);
                self.entries.append(&mut self.by_use, place);
                let own = &mut self.clients[number].by_use;
                self.of_clients.unlink(own, place);
                self.of_clients.append(own, place);
                self.note_size(number);
                false
            }
            None if well && self.bounds.sessions_max > 0 => {
                self.insert(now, key, client, now, class, 1);
                self.account_of(class).started += 1;
                true
            }
            None => false,
        }
    }

    /// A request was refused; `key` if it belonged to a running session.
    pub fn refused(&mut self, key: Option<u64>, class: ClassId) {
        match key {
            Some(key) => {
                self.account_of(class).refused_running += 1;
                if let Some(&place) = self.places.get(&key) {
                    self.entries[place].broken = true;
                }
            }
            None => self.account_of(class).refused_new += 1,
        }
    }

    /// The application gave a running session another name. The old one is not known any more. False
    /// if there is no such session, or the name is another's.
    pub fn rename(&mut self, old: u64, new: u64) -> bool {
        if self.places.contains_key(&new) {
            return false;
        }
        let Some(place) = self.places.remove(&old) else {
            return false;
        };
        self.entries[place].key = new;
        self.places.insert(new, place);
        true
    }

    /// The application has ended the session.
    pub fn end(&mut self, key: u64) {
        if let Some(&place) = self.places.get(&key) {
            self.remove(place, SessionEnd::Ended);
        }
    }

    /// Puts other bounds in force; sessions beyond them are evicted. O(sessions).
    pub fn reconfigure(&mut self, bounds: Bounds) {
        self.bounds = bounds;
        while self.len() > bounds.sessions_max {
            self.evict();
        }
    }

    /// How many sessions are in the table.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// What was counted, by class id; nothing of those beyond the end.
    pub fn account(&self) -> &[SessionAccount] {
        &self.account
    }

    /// Forgets up to two sessions that are idle for too long: more than can be added by a request.
    pub fn sweep(&mut self, now: Moment) {
        for _ in 0..2 {
            let idle = self.bounds.idle;
            match self.by_use.first() {
                Some(first) if now.since(self.entries[first].last) >= idle => {
                    self.remove(first, SessionEnd::Idle);
                }
                _ => return,
            }
        }
    }

    /// The session's place, unless it is over.
    fn find(&mut self, now: Moment, key: u64) -> Option<u32> {
        let place = *self.places.get(&key)?;
        let entry = &self.entries[place];
        let end = if now.since(entry.begun) >= self.bounds.lifetime {
            SessionEnd::Old
        } else if now.since(entry.last) >= self.bounds.idle {
            SessionEnd::Idle
        } else {
            return Some(place);
        };
        self.remove(place, end);
        None
    }

    fn insert(
        &mut self,
        now: Moment,
        key: u64,
        client: u64,
        begun: Moment,
        class: ClassId,
        requests: u32,
    ) {
        if self.len() >= self.bounds.sessions_max {
            self.evict();
        }
        let clients = &mut self.clients;
        let number = *self.numbers.entry(client).or_insert_with(|| {
            clients.insert(Client { key: client, by_use: List::default() }).index()
        });
        let entry = Entry {
            key,
            begun,
            last: now,
            requests,
            client: number,
            class,
            at_once: 1,
            broken: false,
        };
        let place = self.entries.insert(entry).index();
        self.entries.append(&mut self.by_use, place);
        self.of_clients.append(&mut self.clients[number].by_use, place);
        self.places.insert(key, place);
        self.note_size(number);
    }

    /// The client may be the one with the most sessions.
    fn note_size(&mut self, number: u32) {
        let len = |number: u32| self.clients[number].by_use.len();
        if self.biggest.is_none_or(|biggest| len(number) > len(biggest)) {
            self.biggest = Some(number);
        }
    }

    /// Makes room for another: the session idle longest goes, of the client with the most if that has more than its
    /// part.
    fn evict(&mut self) {
        let biggest = self.biggest.map(|number| &self.clients[number].by_use);
        let above = biggest.filter(|own| own.len() as usize > self.bounds.sessions_max / PART);
        if let Some(first) = above.unwrap_or(&self.by_use).first() {
            self.remove(first, SessionEnd::Evicted);
        }
    }

    fn remove(&mut self, place: u32, end: SessionEnd) {
        self.entries.unlink(&mut self.by_use, place);
        let entry = self.entries.remove(place);
        self.places.remove(&entry.key);
        let own = &mut self.clients[entry.client].by_use;
        self.of_clients.unlink(own, place);
        if own.len() == 0 {
            let client = self.clients.remove(entry.client);
            self.numbers.remove(&client.key);
            self.biggest = self.biggest.filter(|biggest| *biggest != entry.client);
        }
        let account = self.account_of(entry.class);
        account.ended[end.index()] += 1;
        account.broken += u64::from(entry.broken);
        account.lengths.record(entry.requests);
    }

    fn account_of(&mut self, class: ClassId) -> &mut SessionAccount {
        grown(&mut self.account, class.index())
    }
}
