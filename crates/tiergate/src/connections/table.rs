//! The table of open connections, and the look for one that makes room.

use super::place::{Place, Totals};
use crate::budget::Budget;
use crate::clock;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tiergate_core::admit::connections::{
    Bounds, Idle, Level, Newcomer, Room, choose, rank_by_client,
};
use tiergate_core::time::Moment;
use tokio::sync::Notify;

/// How long a thread waits for room before it looks again: connections become idle unheard.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// A look for room finds it for so many parts of all connections at once, so that many newcomers are not
/// as many looks.
pub(super) const PARTS: usize = 256;

/// The open client connections.
#[derive(Debug, Default)]
pub struct Connections {
    pub(super) open: Arc<Budget>,
    pub(super) totals: Totals,
    /// Until then no room was found for a request's connection, in nanoseconds: nor would one that is as little or less
    /// important find any.
    fruitless_until: AtomicU64,
    /// How important that was: the smaller the more.
    fruitless: AtomicU32,
    by_client: Mutex<HashMap<IpAddr, Vec<Arc<Place>>>>,
    /// One has left.
    pub(super) left: Notify,
}

/// What a look for room found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Looked {
    /// So many make room.
    pub(super) told: usize,
    /// Some would, for others.
    pub(super) for_others: bool,
}

impl Connections {
    /// None yet; `open` counts them.
    pub fn new(open: Arc<Budget>) -> Self {
        Connections { open, ..Connections::default() }
    }

    /// How many are open.
    pub fn open(&self) -> usize {
        self.open.used()
    }

    /// How many of them have brought a request, and are not about to make room.
    pub fn known(&self) -> usize {
        self.totals.known.load(Ordering::Relaxed)
    }

    /// Tells up to `count` idle connections to make room, for whatever it may be. Says how many.
    pub fn evict(&self, count: usize, last: Level) -> usize {
        self.look(count, Newcomer::Any, last).told
    }

    /// Whether a connection of `client` that has brought its first request of this level may stay, and how many were
    /// told to make room. `own`: 1 if it is one of those that are counted already.
    pub(super) fn has_room(
        &self,
        client: IpAddr,
        level: Level,
        own: usize,
        bounds: Bounds,
    ) -> (bool, usize) {
        let known = self.known().saturating_sub(own);
        let has_room = match bounds.room(known, level) {
            Room::Free => return (true, 0),
            Room::Kept => true,
            Room::None => false,
        };
        let (now, rank) = (clock::recent(), 2 * u32::from(level) + u32::from(has_room));
        if now < Moment::from_nanos(self.fruitless_until.load(Ordering::Relaxed))
            && rank >= self.fruitless.load(Ordering::Relaxed)
        {
            return (has_room, 0);
        }
        let held = self.held(client).saturating_sub(1);
        let newcomer = Newcomer::Request { client, held, level, has_room };
        let told = self.look(bounds.max / PARTS + 1, newcomer, bounds.last()).told;
        if told == 0 {
            self.fruitless.store(rank, Ordering::Relaxed);
            self.fruitless_until.store((now + LOOK).nanos(), Ordering::Relaxed);
        }
        (has_room || told > 0, told)
    }

    /// Tells up to `count` idle connections to make room.
    pub(super) fn look(&self, count: usize, newcomer: Newcomer<IpAddr>, last: Level) -> Looked {
        let now = clock::recent();
        let by_client = self.table();
        let mut found = Vec::new();
        for (&client, places) in by_client.iter() {
            let first = found.len();
            found.extend(places.iter().filter_map(|place| {
                let (state, since, has_begun) = place.idle()?;
                let place_of = (client, state, place);
                Some(Idle { place: place_of, since, has_begun, level: place.level(), of_client: 0 })
            }));
            rank_by_client(&mut found[first..], places.len(), now, last);
        }
        let for_others = !found.is_empty();
        choose(&mut found, |(client, ..)| *client, newcomer, count, now, last);
        let told =
            |it: &Idle<(IpAddr, u64, &Arc<Place>)>| it.place.2.tell(it.place.1, &self.totals);
        Looked { told: found.iter().filter(|it| told(it)).count(), for_others }
    }

    /// Connections of a client.
    pub(super) fn held(&self, client: IpAddr) -> usize {
        self.table().get(&client).map_or(0, Vec::len)
    }

    pub(super) fn table(&self) -> MutexGuard<'_, HashMap<IpAddr, Vec<Arc<Place>>>> {
        self.by_client.lock().expect("no code panics while it holds the table")
    }

    pub(super) fn stand(&self, client: IpAddr, place: &Arc<Place>) {
        let mut by_client = self.table();
        let places = by_client.entry(client).or_default();
        place.index.store(places.len(), Ordering::Relaxed);
        places.push(place.clone());
    }

    pub(super) fn step_back(&self, client: IpAddr, place: &Place) {
        let mut by_client = self.table();
        let places = by_client.get_mut(&client).expect("an open connection stands in the table");
        let index = place.index.load(Ordering::Relaxed);
        places.swap_remove(index);
        match places.get(index) {
            Some(moved) => moved.index.store(index, Ordering::Relaxed),
            None if places.is_empty() => drop(by_client.remove(&client)),
            None => {}
        }
    }
}

/// Whose connection it is: an address of IPv4, or a network that a host of IPv6 gets as its own.
pub(super) fn client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 => v4,
    }
}
