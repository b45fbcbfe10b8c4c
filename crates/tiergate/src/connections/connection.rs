//! An open connection, from its entry to its end.

use super::place::{EVICTED, Place};
use super::table::{Connections, LOOK, PARTS, client};
use crate::budget::Reserved;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use tiergate_core::admit::connections::{Bounds, Level, Newcomer};

/// What became of a connection that was accepted.
#[derive(Debug)]
pub struct Entered {
    /// It; `None`: its client holds others, and none of another's may make room for it: to be closed, so that those
    /// behind it do not wait.
    pub connection: Option<Connection>,
    /// How many were told to make room.
    pub evicted: usize,
}

impl Connections {
    /// A connection from `address`, which waits for its first request, once fewer than the most are open; idle
    /// ones make room for it. `level`: what its requests have by its address alone; asked only if there is no room.
    pub async fn enter(
        self: &Arc<Self>,
        address: IpAddr,
        bounds: Bounds,
        level: impl FnOnce() -> Option<Level>,
    ) -> Entered {
        if let Some(entered) = self.enter_now(address, bounds.max, None) {
            return Entered { connection: Some(entered), evicted: 0 };
        }
        let (level, mut evicted) = (level(), 0);
        loop {
            let left = self.left.notified();
            // Several listeners may ask at once.
            if let Some(entered) = self.enter_now(address, bounds.max, level) {
                return Entered { connection: Some(entered), evicted };
            }
            if self.open().saturating_sub(self.totals.leaving.load(Ordering::Relaxed)) >= bounds.max
            {
                let client = client(address);
                let held = self.held(client);
                let newcomer = Newcomer::Connection { client, held, level };
                let looked = self.look(bounds.max / PARTS + 1, newcomer, bounds.last());
                evicted += looked.told;
                if looked.told == 0 && looked.for_others && held > 0 {
                    return Entered { connection: None, evicted };
                }
            }
            let _ = tokio::time::timeout(LOOK, left).await;
        }
    }

    /// The same at once; `None` if as many are open.
    pub(super) fn enter_now(
        self: &Arc<Self>,
        address: IpAddr,
        max: usize,
        level: Option<Level>,
    ) -> Option<Connection> {
        let counted = self.open.take(1, max)?;
        let (client, place) = (client(address), Arc::new(Place::new(level)));
        self.stand(client, &place);
        Some(Connection::new(self.clone(), client, place, counted))
    }
}

/// An open connection. Dropped, it leaves the table.
#[derive(Debug)]
pub struct Connection {
    connections: Arc<Connections>,
    client: IpAddr,
    pub(super) place: Arc<Place>,
    /// That it is one of those open.
    counted: Option<Reserved>,
}

impl Connection {
    fn new(
        connections: Arc<Connections>,
        client: IpAddr,
        place: Arc<Place>,
        counted: Reserved,
    ) -> Self {
        Connection { connections, client, place, counted: Some(counted) }
    }

    /// A trusted peer says whose connection it is.
    pub fn belongs_to(&mut self, address: IpAddr) {
        let client = client(address);
        if client != self.client {
            self.connections.step_back(self.client, &self.place);
            self.client = client;
            self.connections.stand(client, &self.place);
        }
    }

    /// How important it is, for its requests to say. Once it is known whose connection it is.
    pub fn standing(&self) -> Standing {
        let Connection { connections, client, place, .. } = self;
        Standing { connections: connections.clone(), client: *client, place: place.clone() }
    }

    /// The connection waits for a request.
    pub fn idle(&self) {
        self.place.rests(false);
    }

    /// The connection has a request, of which the rest is still to come before it asks for a slot.
    pub fn has_begun(&self) {
        self.place.rests(true);
    }

    /// The connection has a request, and need not make room any more.
    pub fn busy(&self) {
        self.place.busy(&self.connections.totals);
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
        self.place.ends(&self.connections.totals);
        self.connections.step_back(self.client, &self.place);
        self.counted = None;
        self.connections.left.notify_one();
    }
}

/// How important a connection is, by the requests that it brings.
#[derive(Clone, Debug)]
pub struct Standing {
    connections: Arc<Connections>,
    client: IpAddr,
    place: Arc<Place>,
}

impl Standing {
    /// The connection brings a request of this level: whether it may stay, and how many others were told to make room.
    /// `is_sole`: no other request of it is in progress; beside a more important one a request changes nothing.
    ///
    /// A comparison, if the one before had the same level.
    pub fn brings(&self, level: Level, is_sole: bool, bounds: Bounds) -> (bool, usize) {
        match self.place.is_known() && self.place.level() == Some(level) {
            true => (true, 0),
            false => self.changes(level, is_sole, bounds),
        }
    }

    #[cold]
    fn changes(&self, level: Level, is_sole: bool, bounds: Bounds) -> (bool, usize) {
        let place = &*self.place;
        let is_known = place.is_known();
        let sinks = is_known && place.level() < Some(level);
        if sinks && !is_sole {
            return (true, 0);
        }
        let (stays, evicted) = match is_known && !sinks {
            true => (true, 0),
            false => self.connections.has_room(self.client, level, is_known.into(), bounds),
        };
        if stays {
            place.brought(level, &self.connections.totals);
        }
        (stays, evicted)
    }
}
