//! A thread's connections over HTTP/2: which of them a request's stream is opened on, and when another connection is opened.
//!
//! One is opened where none has room for a stream, one at a time, in a task of its own: a client that leaves does not take it
//! with it. Who finds no room meanwhile waits.

use super::connection::Connection;
use crate::config::meant::Server;
use crate::origin::Lease;
use crate::origin::servers::OriginServer;
use crate::origin::stream::OriginStream;
use crate::origin::transport::{Dialled, Transport};
use crate::tls::origin::TlsFailed;
use std::cell::RefCell;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tiergate_core::time::Moment;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

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
    /// A connection over HTTP/1.1, for whoever looks first.
    spare: Option<OriginStream>,
    /// How many could not be opened, and why not the last.
    failures: u64,
    failure: Option<Failure>,
    room: Arc<Notify>,
}

/// Why a connection could not be opened: an error for each that waited for it.
#[derive(Clone, Copy, Debug)]
enum Failure {
    System(i32),
    Tls(TlsFailed),
    Kind(io::ErrorKind),
}

impl Failure {
    fn of(error: &io::Error) -> Self {
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsFailed>());
        match (error.raw_os_error(), tls) {
            (Some(errno), _) => Failure::System(errno),
            (None, Some(fault)) => Failure::Tls(*fault),
            (None, None) => Failure::Kind(error.kind()),
        }
    }

    fn error(self) -> io::Error {
        match self {
            Failure::System(errno) => io::Error::from_raw_os_error(errno),
            Failure::Tls(fault) => fault.into(),
            Failure::Kind(kind) => kind.into(),
        }
    }
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
/// Of the connection that was opened; `TimedOut` after `within`, or `WouldBlock` if those that are open stayed full.
pub(crate) async fn lease(
    server: &Arc<OriginServer>,
    transport: &Arc<Transport>,
    named: &Server,
    within: Duration,
) -> io::Result<Lease> {
    let ends = Instant::now() + within;
    let (room, mut failures) = with_pool(server, transport, |pool| {
        pool.is_http1 &= pool.connections.is_empty();
        (pool.room.clone(), pool.failures)
    });
    loop {
        let mut told = pin!(room.notified());
        told.as_mut().enable();
        let next = with_pool(server, transport, |pool| pool.next(transport, failures));
        match next {
            Next::Stream(lease) => return Ok(lease),
            Next::Failed(failure) => return Err(failure.error()),
            Next::Open => {
                let opening = open(server.clone(), transport.clone(), named.clone(), ends);
                // It was not opened for those who were there before.
                failures = with_pool(server, transport, |pool| pool.failures);
                tokio::spawn(opening);
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
            Next::Wait => {}
        }
        if timeout_at(ends, told).await.is_err() {
            let is_full = with_pool(server, transport, |pool| !pool.connections.is_empty());
            let kind = if is_full {
                io::Error::from_raw_os_error(libc::EAGAIN)
            } else {
                io::ErrorKind::TimedOut.into()
            };
            return Err(kind);
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
    Failed(Failure),
    /// It opens a connection.
    Open,
    /// It opens one over HTTP/1.1, for itself.
    Alone,
    Wait,
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

    fn next(&mut self, transport: &Transport, failures: u64) -> Next {
        if let Some(lease) = self.take() {
            return Next::Stream(lease);
        }
        if let Some(stream) = self.spare.take() {
            return Next::Stream(Lease::fresh(stream));
        }
        if self.failures > failures
            && let Some(failure) = self.failure
        {
            return Next::Failed(failure);
        }
        if self.is_http1 {
            return Next::Alone;
        }
        if self.is_opening || self.connections.len() >= transport.connections_max {
            return Next::Wait;
        }
        self.is_opening = true;
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
    let opening = Connection::open(stream, transport.is_secure(), room, transport.ping_interval);
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
                room: Arc::default(),
            });
            pools.len() - 1
        });
        act(&mut pools[place])
    })
}
