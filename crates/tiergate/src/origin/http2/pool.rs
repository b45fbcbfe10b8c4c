//! A thread's connections over HTTP/2: which of them a request's stream is opened on, and when another connection is opened.
//!
//! One is opened where none has room for a stream, one at a time, in a task of its own: a client that leaves does not take it
//! with it. Who finds no room meanwhile waits.

use super::connection::Connection;
use super::failure::{Failure, NoPlace};
use crate::config::meant::Server;
use crate::origin::Lease;
use crate::origin::servers::OriginServer;
use crate::origin::stream::OriginStream;
use crate::origin::transport::{Dialled, Transport};
use std::cell::RefCell;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tiergate_core::time::Moment;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// How long no connection is opened beside others after one could not be opened.
const OPEN_AGAIN: Duration = Duration::from_secs(1);

/// How much longer than for a connection the request waits that opens it.
const END_TOLD: Duration = Duration::from_millis(50);

/// The connections to one server, spoken to in one way.
struct Pool {
    server: Arc<OriginServer>,
    transport: Arc<Transport>,
    connections: Vec<Connection>,
    /// Since when none of them has a stream.
    idle_since: Option<Moment>,
    is_opening: bool,
    /// Servers that chose HTTP/1.1: each request opens its own.
    is_http1: bool,
    /// A connection over HTTP/1.1, for the first request that looks.
    spare: Option<OriginStream>,
    /// How many could not be opened, and why not the last.
    failures: u64,
    failure: Option<Failure>,
    /// No request has reported the last yet.
    is_unreported: bool,
    /// Beside connections that live, none is opened before.
    open_again: Option<Instant>,
    room: Arc<Notify>,
}

thread_local! {
    static POOLS: RefCell<Vec<Pool>> = const { RefCell::new(Vec::new()) };
}

/// A stream on a connection that has room.
pub(crate) fn take(server: &Arc<OriginServer>, transport: &Arc<Transport>) -> Option<Lease> {
    POOLS.with_borrow_mut(|pools| pools.iter_mut().find(|it| it.is_of(server, transport))?.take())
}

/// A stream on a connection that has room, or a connection over HTTP/1.1 where the server has chosen that; opens a connection if
/// none has room, and waits.
///
/// # Errors
/// Of the connection that was opened, with [`Anothers`](super::failure::Anothers) around it for all but one of those that waited for it; [`NoPlace`] after
/// `within` if those that are open stayed full.
pub(crate) async fn lease(
    server: &Arc<OriginServer>,
    transport: &Arc<Transport>,
    named: &Server,
    within: Duration,
) -> io::Result<Lease> {
    let ends = Instant::now() + within;
    let (room, failures) = with_pool(server, transport, |pool| {
        pool.is_http1 &= pool.connections.is_empty();
        (pool.room.clone(), pool.failures)
    });
    let mut seen = Seen { failures, opens: false };
    loop {
        let mut told = pin!(room.notified());
        told.as_mut().enable();
        let next = with_pool(server, transport, |pool| pool.next(transport, &mut seen));
        let mut until = ends;
        match next {
            Next::Stream(lease) => return Ok(lease),
            Next::Failed(error) => return Err(error),
            Next::Open => {
                tokio::spawn(open(server.clone(), transport.clone(), named.clone(), ends));
            }
            Next::Alone => {
                let dialled = transport.dial(server, named, ends).await?;
                match dialled {
                    Dialled::Http1(stream) => return Ok(Lease::fresh(stream)),
                    Dialled::Http2(stream) => {
                        let opened = begin(stream, transport, room.clone(), ends).await;
                        ended(server, transport, opened.map(Opened::Http2));
                        continue;
                    }
                }
            }
            Next::Wait(again) => until = again.map_or(ends, |again| again.min(ends)),
        }
        // The one that opens it reports how that ended, also where both ran out of time.
        let until = if seen.opens { until + END_TOLD } else { until };
        if timeout_at(until, told).await.is_err() && Instant::now() >= ends {
            let is_full = with_pool(server, transport, |pool| !pool.connections.is_empty());
            return Err(match is_full {
                true => io::Error::new(io::ErrorKind::WouldBlock, NoPlace),
                false => Failure::Kind(io::ErrorKind::TimedOut).of_another(),
            });
        }
    }
}

/// Closes connections that had no stream for longer than `idle_max`, and forgets those that have ended.
pub fn sweep(now: Moment, idle_max: Duration) {
    POOLS.with_borrow_mut(|pools| {
        for pool in pools.iter_mut() {
            pool.connections.retain_mut(|it| !it.is_over());
            if pool.connections.iter().any(|it| it.open_streams() > 0) {
                pool.idle_since = None;
            } else if now.since(*pool.idle_since.get_or_insert(now)) >= idle_max {
                pool.connections.clear();
            }
        }
        pools.retain(|pool| {
            !pool.connections.is_empty()
                || pool.is_opening
                || pool.idle_since.is_none_or(|since| now.since(since) < idle_max)
        });
    });
}

/// What a request that needs a stream does next.
enum Next {
    Stream(Lease),
    /// The connection that it waited for could not be opened.
    Failed(io::Error),
    /// It opens a connection.
    Open,
    /// It opens one over HTTP/1.1, for itself.
    Alone,
    /// It waits for room; it looks again then.
    Wait(Option<Instant>),
}

/// What a request that waits knows.
struct Seen {
    /// The failures that were before it.
    failures: u64,
    /// It has opened a connection.
    opens: bool,
}

impl Pool {
    fn is_of(&self, server: &Arc<OriginServer>, transport: &Arc<Transport>) -> bool {
        Arc::ptr_eq(&self.server, server) && Arc::ptr_eq(&self.transport, transport)
    }

    fn take(&mut self) -> Option<Lease> {
        self.connections.retain_mut(|it| !it.is_over());
        let with_room = self.connections.iter().filter(|it| it.has_room());
        let connection = with_room.min_by_key(|it| it.open_streams())?;
        self.idle_since = None;
        let reused = connection.was_used();
        Some(Lease { stream: OriginStream::Http2(Box::new(connection.stream())), reused })
    }

    fn next(&mut self, transport: &Transport, seen: &mut Seen) -> Next {
        if let Some(lease) = self.take() {
            return Next::Stream(lease);
        }
        if let Some(mut stream) = self.spare.take()
            && stream.is_fresh()
        {
            // Where the request that opened it has left, it may have been idle for long.
            return Next::Stream(Lease { stream, reused: !seen.opens });
        }
        let has_failed = self.failures > seen.failures;
        if !self.connections.is_empty() {
            // A server that works on what it has is not gone because it takes no connection more.
            seen.failures = self.failures;
        } else if has_failed && let Some(failure) = self.failure {
            return Next::Failed(match std::mem::take(&mut self.is_unreported) {
                true => failure.error(),
                false => failure.of_another(),
            });
        }
        if self.is_http1 {
            return Next::Alone;
        }
        // What tunnels and streams have taken for long is not missing for the others.
        let counted = self.connections.iter().filter(|it| !it.is_mostly_lasting()).count();
        if self.is_opening || counted >= transport.connections_max {
            return Next::Wait(None);
        }
        if let Some(at) = self.open_again
            && !self.connections.is_empty()
            && Instant::now() < at
        {
            return Next::Wait(Some(at));
        }
        self.is_opening = true;
        // It was not opened for those who were there before.
        *seen = Seen { failures: self.failures, opens: true };
        Next::Open
    }
}

/// What was opened.
enum Opened {
    Http1(OriginStream),
    Http2(Connection),
}

async fn open(server: Arc<OriginServer>, transport: Arc<Transport>, named: Server, ends: Instant) {
    let room = with_pool(&server, &transport, |pool| pool.room.clone());
    let opened = match transport.dial(&server, &named, ends).await {
        Ok(Dialled::Http1(stream)) => Ok(Opened::Http1(stream)),
        Ok(Dialled::Http2(stream)) => {
            begin(stream, &transport, room, ends).await.map(Opened::Http2)
        }
        Err(error) => Err(error),
    };
    ended(&server, &transport, opened);
}

async fn begin(
    stream: OriginStream,
    transport: &Transport,
    room: Arc<Notify>,
    ends: Instant,
) -> io::Result<Connection> {
    stream.probe()?;
    let opening = Connection::open(
        stream,
        transport.is_secure(),
        room,
        transport.head_max,
        transport.ping_interval,
    );
    timeout_at(ends, opening).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// A connection was opened, or could not be.
fn ended(server: &Arc<OriginServer>, transport: &Arc<Transport>, opened: io::Result<Opened>) {
    let room = with_pool(server, transport, |pool| {
        pool.is_opening = false;
        match opened {
            Ok(Opened::Http1(stream)) => {
                pool.is_http1 = true;
                pool.spare = Some(stream);
            }
            Ok(Opened::Http2(connection)) => {
                pool.is_http1 = false;
                pool.connections.push(connection);
            }
            Err(error) => {
                pool.failures += 1;
                pool.failure = Some(Failure::of(&error));
                pool.is_unreported = pool.connections.is_empty();
                pool.open_again = Some(Instant::now() + OPEN_AGAIN);
            }
        }
        pool.room.clone()
    });
    room.notify_waiters();
}

fn with_pool<T>(
    server: &Arc<OriginServer>,
    transport: &Arc<Transport>,
    act: impl FnOnce(&mut Pool) -> T,
) -> T {
    POOLS.with_borrow_mut(|pools| {
        let known = pools.iter().position(|it| it.is_of(server, transport));
        let place = known.unwrap_or_else(|| {
            pools.push(Pool {
                server: server.clone(),
                transport: transport.clone(),
                connections: Vec::new(),
                idle_since: None,
                is_opening: false,
                is_http1: false,
                spare: None,
                failures: 0,
                failure: None,
                is_unreported: false,
                open_again: None,
                room: Arc::default(),
            });
            pools.len() - 1
        });
        act(&mut pools[place])
    })
}
