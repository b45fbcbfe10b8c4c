//! The open client connections, by client. When there are as many as the policy allows, those that wait
//! for a request, or for the rest of it before it asks for a slot, make room for others: of the client with
//! most connections, the one idle longest. So a client that holds hundreds of idle connections locks nobody
//! out, and loses them before a client with a few.
//!
//! A newcomer takes the place of its own client's connections, or of one of a client that has more even so.
//! One of a client with as many makes room only when it has long been idle: else a client that holds hundreds
//! of connections which are not idle would have those of others closed, one for each that it opens.
//!
//! | state | who reads | who writes |
//! |---|---|---|
//! | the table | a thread that looks for room | accept and close, under its lock |
//! | state of a connection | a thread that looks for room | its own task; one that looks for room, once |
//! | waker | a thread that looks for room | its own task |
//!
//! A request costs two atomic stores and, if its connection waited for it, a lock that is never contended
//! for long; looking for room costs some nanoseconds a connection.

use crate::budget::{Budget, Reserved};
use crate::clock;
use std::collections::HashMap;
use std::future::poll_fn;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::sync::Notify;

/// How long a thread waits for room before it looks again: connections become idle unheard.
const LOOK: Duration = Duration::from_millis(20);

/// A look for room finds it for so many parts of all connections at once, so that many newcomers are not
/// as many looks.
const PARTS: usize = 256;

/// From so long on, a connection is idle for long: longer than a client that asks again and again pauses, and so short that
/// others who come wait no longer than for a page.
const LONG: Duration = Duration::from_secs(1);

/// What is added to the moment since when a connection is idle that has a request, of which the rest is still to come: it is
/// never idle for long.
const BEGUN: u64 = 1 << 60;

/// State of a connection that has a request.
const BUSY: u64 = 0;
/// State of a connection that is to make room. Any other: idle since so many nanoseconds, and one.
const EVICTED: u64 = u64::MAX;

/// The open client connections.
#[derive(Debug, Default)]
pub struct Connections {
    open: Arc<Budget>,
    /// Those of them that are about to make room.
    leaving: AtomicUsize,
    by_client: Mutex<HashMap<IpAddr, Vec<Arc<Place>>>>,
    left: Notify,
}

/// What of a connection others see.
#[derive(Debug)]
struct Place {
    state: AtomicU64,
    /// Where it stands among its client's.
    index: AtomicUsize,
    task: Mutex<Option<Waker>>,
}

/// An open connection. Dropped, it leaves the table.
#[derive(Debug)]
pub struct Connection {
    connections: Arc<Connections>,
    client: IpAddr,
    place: Arc<Place>,
    /// That it is one of those open.
    counted: Option<Reserved>,
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

    /// A connection from `address`, which waits for its first request, once fewer than `max` are open; idle ones make
    /// room for it. Says how many were told to.
    pub async fn enter(self: &Arc<Self>, address: IpAddr, max: usize) -> (Connection, usize) {
        let mut evicted = 0;
        loop {
            let left = self.left.notified();
            // Several listeners may ask at once.
            if let Some(entered) = self.enter_now(address, max) {
                return (entered, evicted);
            }
            if self.open().saturating_sub(self.leaving.load(Ordering::Relaxed)) >= max {
                evicted += self.evict(max / PARTS + 1, Some(client(address)));
            }
            let _ = tokio::time::timeout(LOOK, left).await;
        }
    }

    /// The same at once; `None` if as many are open.
    fn enter_now(self: &Arc<Self>, address: IpAddr, max: usize) -> Option<Connection> {
        let counted = Some(self.open.take(1, max)?);
        let place = Arc::new(Place {
            state: AtomicU64::new(idle_since_now()),
            index: AtomicUsize::new(0),
            task: Mutex::default(),
        });
        let client = client(address);
        self.stand(client, &place);
        Some(Connection { connections: self.clone(), client, place, counted })
    }

    /// Tells up to `count` idle connections to make room, for one of a client (`None`: for whatever it may be): one
    /// after the other, of the client that has most left, the one idle longest. Says how many.
    pub fn evict(&self, count: usize, newcomer: Option<IpAddr>) -> usize {
        self.evict_at(idle_since_now(), count, newcomer)
    }

    fn evict_at(&self, now: u64, count: usize, newcomer: Option<IpAddr>) -> usize {
        let by_client = self.table();
        let held = newcomer.map_or(0, |client| by_client.get(&client).map_or(0, Vec::len));
        let long_ago = now.saturating_sub(LONG.as_nanos() as u64);
        let may = |client: IpAddr, connections: usize, since: u64| {
            newcomer.is_none_or(|newcomer| newcomer == client)
                || connections > held + 1
                || connections > held && since <= long_ago
        };
        let mut found = Vec::new();
        for (&client, places) in by_client.iter() {
            let first = found.len();
            let idle = |place| Some((0, idle_since(place)?, place));
            found.extend(places.iter().filter_map(idle));
            let of_client: &mut [(usize, u64, &Arc<Place>)] = &mut found[first..];
            of_client.sort_unstable_by_key(|(_, since, _)| turn(*since));
            for (before, (connections, ..)) in of_client.iter_mut().enumerate() {
                *connections = places.len() - before;
            }
            let may =
                |(connections, since, _): &&(usize, u64, _)| may(client, *connections, *since);
            let count = of_client.iter().take_while(may).count();
            found.truncate(first + count);
        }
        let order =
            |(connections, since, _): &(usize, u64, _)| (usize::MAX - connections, turn(*since));
        if count < found.len() {
            found.select_nth_unstable_by_key(count, order);
            found.truncate(count);
        }
        found.into_iter().filter(|(_, since, place)| self.tell(place, *since)).count()
    }

    /// Tells one that was idle since then; `false`: it has a request now.
    fn tell(&self, place: &Place, since: u64) -> bool {
        let told =
            place.state.compare_exchange(since, EVICTED, Ordering::AcqRel, Ordering::Relaxed);
        if told.is_ok() {
            self.leaving.fetch_add(1, Ordering::Relaxed);
            place.waker().take().into_iter().for_each(Waker::wake);
        }
        told.is_ok()
    }

    fn table(&self) -> MutexGuard<'_, HashMap<IpAddr, Vec<Arc<Place>>>> {
        self.by_client.lock().expect("no code panics while it holds the table")
    }

    fn stand(&self, client: IpAddr, place: &Arc<Place>) {
        let mut by_client = self.table();
        let places = by_client.entry(client).or_default();
        place.index.store(places.len(), Ordering::Relaxed);
        places.push(place.clone());
    }

    fn step_back(&self, client: IpAddr, place: &Place) {
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

impl Place {
    fn waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.task.lock().expect("no code panics while it holds the waker")
    }
}

impl Connection {
    /// A trusted peer says whose connection it is.
    pub fn belongs_to(&mut self, address: IpAddr) {
        let client = client(address);
        if client != self.client {
            self.connections.step_back(self.client, &self.place);
            self.client = client;
            self.connections.stand(client, &self.place);
        }
    }

    /// The connection waits for a request.
    pub fn idle(&self) {
        if self.place.state.load(Ordering::Relaxed) == BUSY {
            self.place.state.store(idle_since_now(), Ordering::Release);
        }
    }

    /// The connection has a request, of which the rest is still to come before it asks for a slot.
    pub fn has_begun(&self) {
        if self.place.state.load(Ordering::Relaxed) == BUSY {
            self.place.state.store(idle_since_now() + BEGUN, Ordering::Release);
        }
    }

    /// The connection has a request, and need not make room any more.
    pub fn busy(&self) {
        if self.place.state.load(Ordering::Relaxed) != BUSY
            && self.place.state.swap(BUSY, Ordering::AcqRel) == EVICTED
        {
            self.connections.leaving.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether the connection is to make room; if not, the task is woken when it is.
    pub fn poll_evicted(&self, context: &mut Context<'_>) -> bool {
        let mut waker = self.place.waker();
        if self.place.state.load(Ordering::Acquire) == EVICTED {
            return true;
        }
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            *waker = Some(context.waker().clone());
        }
        false
    }

    /// What comes of the future; `None` if the connection is to make room before. Cancel safe if the
    /// future is.
    pub async fn unless_evicted<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        poll_fn(|context| match future.as_mut().poll(context) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending if self.poll_evicted(context) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.busy();
        self.connections.step_back(self.client, &self.place);
        self.counted = None;
        self.connections.left.notify_one();
    }
}

fn idle_since_now() -> u64 {
    (clock::recent().nanos() + 1).clamp(BUSY + 1, BEGUN - 1)
}

/// The order in which those of a client make room. One that has a request goes like one that has been idle for less long.
fn turn(since: u64) -> u64 {
    if since < BEGUN { since } else { since - BEGUN + LONG.as_nanos() as u64 }
}

fn idle_since(place: &Arc<Place>) -> Option<u64> {
    let state = place.state.load(Ordering::Relaxed);
    (state != BUSY && state != EVICTED).then_some(state)
}

/// Whose connection it is: an address of IPv4, or a network that a host of IPv6 gets as its own.
fn client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn enter(table: &Arc<Connections>, from: &str) -> Connection {
        table.enter_now(address(from), usize::MAX).expect("there is room")
    }

    fn evicted(connections: &[Connection]) -> Vec<usize> {
        let told = |it: &Connection| it.place.state.load(Ordering::Relaxed) == EVICTED;
        connections.iter().enumerate().filter_map(|(at, it)| told(it).then_some(at)).collect()
    }

    /// Makes them idle since moments in the given order.
    fn idle_in_order(connections: &[Connection], order: &[u64]) {
        for (connection, &since) in connections.iter().zip(order) {
            connection.place.state.store(since, Ordering::Relaxed);
        }
    }

    #[test]
    fn room_is_made_by_the_client_with_most_and_there_by_the_one_idle_longest() {
        let table = Arc::new(Connections::default());
        let of = ["192.0.2.1", "192.0.2.2", "192.0.2.2", "192.0.2.2", "192.0.2.3", "192.0.2.3"];
        let open: Vec<_> = of.iter().map(|text| enter(&table, text)).collect();
        idle_in_order(&open, &[1, 30, 20, 40, 60, 50]);
        assert_eq!((table.evict(1, None), evicted(&open)), (1, vec![2]));
        // Two with two each: the one idle longest of all.
        assert_eq!((table.evict(1, None), evicted(&open)), (1, vec![1, 2]));
        drop(open);
        assert_eq!((table.open(), table.leaving.load(Ordering::Relaxed)), (0, 0));
        assert!(table.table().is_empty());
    }

    #[test]
    fn several_at_once_are_those_that_one_after_the_other_would_be() {
        let table = Arc::new(Connections::default());
        let of = ["192.0.2.1", "192.0.2.2", "192.0.2.2", "192.0.2.2", "192.0.2.3", "192.0.2.3"];
        let open: Vec<_> = of.iter().map(|text| enter(&table, text)).collect();
        idle_in_order(&open, &[1, 30, 20, 40, 60, 50]);
        assert_eq!((table.evict(3, None), evicted(&open)), (3, vec![1, 2, 5]));
    }

    #[test]
    fn one_that_opens_many_takes_nothing_from_those_that_have_few() {
        let table = Arc::new(Connections::default());
        let (few, many, new) = ("192.0.2.1", "192.0.2.2", "192.0.2.3");
        let modest = [enter(&table, few)];
        let greedy: Vec<_> = (0..3).map(|_| enter(&table, many)).collect();
        greedy.iter().for_each(Connection::busy);
        idle_in_order(&modest, &[u64::MAX / 2]);
        assert_eq!(table.evict(1, Some(address(many))), 0);
        // Nor does one that has none, unless it has been idle for long.
        assert_eq!(table.evict(1, Some(address(new))), 0);
        // What is not whole makes room, for whom it may be.
        greedy[0].has_begun();
        greedy[2].idle();
        assert_eq!((table.evict(1, Some(address(new))), evicted(&greedy)), (1, vec![2]));
        assert_eq!((table.evict(1, Some(address(many))), evicted(&greedy)), (1, vec![0, 2]));
        idle_in_order(&modest, &[1]);
        let later = LONG.as_nanos() as u64 + 1;
        assert_eq!(table.evict_at(later, 1, Some(address(many))), 0);
        assert_eq!(table.evict_at(later, 1, Some(address(new))), 1);
    }

    #[test]
    fn a_connection_with_a_request_makes_no_room() {
        let table = Arc::new(Connections::default());
        let open: Vec<_> = (0..3).map(|_| enter(&table, "::1")).collect();
        open[0].busy();
        assert_eq!(table.evict(9, None), 2);
        // A request that came at the last moment is served.
        open[1].busy();
        assert_eq!((evicted(&open), table.leaving.load(Ordering::Relaxed)), (vec![2], 1));
        open[1].idle();
        assert_eq!((table.evict(9, None), evicted(&open)), (1, vec![1, 2]));
    }

    #[test]
    fn a_client_is_an_address_or_a_network_of_version_6() {
        for (one, other, same) in [
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("2001:db8::1", "2001:db8::ffff:1", true),
            ("2001:db8:0:1::1", "2001:db8:0:2::1", false),
        ] {
            assert_eq!(client(address(one)) == client(address(other)), same, "{one} {other}");
        }
        let table = Arc::new(Connections::default());
        let mut open = enter(&table, "192.0.2.1");
        open.belongs_to(address("192.0.2.9"));
        assert_eq!(table.table().keys().collect::<Vec<_>>(), [&address("192.0.2.9")]);
    }

    #[tokio::test]
    async fn newcomers_get_in_as_soon_as_an_idle_connection_has_left() {
        let table = Arc::new(Connections::default());
        let idle = enter(&table, "192.0.2.1");
        let other = enter(&table, "192.0.2.1");
        other.busy();
        let leaves = async {
            assert_eq!(idle.unless_evicted(std::future::pending::<()>()).await, None);
            drop(idle);
        };
        let comes = table.enter(address("192.0.2.2"), 2);
        let ((), (busy, evicted)) = tokio::join!(leaves, comes);
        assert_eq!((evicted, table.open()), (1, 2));
        busy.busy();
        let comes = table.enter(address("192.0.2.2"), 2);
        assert!(tokio::time::timeout(5 * LOOK, comes).await.is_err());
    }

    #[tokio::test]
    async fn of_several_listeners_that_ask_at_once_one_gets_the_last_place() {
        let table = Arc::new(Connections::default());
        let first = enter(&table, "192.0.2.1");
        let come = |from| table.enter(address(from), 1);
        let together = async { tokio::join!(come("192.0.2.2"), come("192.0.2.3")) };
        let mut together = pin!(together);
        let nobody_yet = tokio::time::timeout(LOOK / 2, together.as_mut()).await;
        assert!(nobody_yet.is_err());
        drop(first);
        let both = tokio::time::timeout(5 * LOOK, together).await;
        assert!(both.is_err(), "two are open");
    }
}
