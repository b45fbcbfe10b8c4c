//! A connection over HTTP/2 to an origin server: its beginning, and its task.

use super::open::{OpenStream, State};
use super::stream::Http2Stream;
use crate::timers::Timer;
use crate::tls::origin::{TlsFailed, TlsFault};
use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::{Ping, PingPong};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;

/// Streams of one connection at most, whatever the server allows.
const STREAMS_MAX: usize = 128;

/// Bytes of an answer that a server may send ahead of its client. Sixteen frames, as for uploads of clients.
const WINDOW: u32 = 256 * 1024;

/// The same for a connection: enough for all of its streams, so that one whose client takes nothing holds up no other.
const CONNECTION_WINDOW: u32 = WINDOW * STREAMS_MAX as u32;

/// Bytes of the head of an answer; the policy's own bound may be lower.
const HEAD_MAX: u32 = 256 * 1024;

/// Bytes of a stream's request that wait in `h2` for the socket.
const SEND_BUFFER: usize = 2 * crate::buffers::LARGE;

/// A connection that may get streams.
#[derive(Debug)]
pub(crate) struct Connection {
    send: SendRequest<Bytes>,
    state: Arc<State>,
    is_secure: bool,
}

impl Connection {
    /// Begins the protocol, and waits for the server's settings: one round trip, in which a server shows that it speaks HTTP/2, and says how many
    /// streams it allows. `room` is told when there may be room for a stream; `ping_interval`: see [`Pings`].
    ///
    /// # Errors
    /// The server's; [`TlsFault::Protocol`] if it speaks otherwise.
    pub(crate) async fn open(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        is_secure: bool,
        room: Arc<Notify>,
        ping_interval: Duration,
    ) -> io::Result<Self> {
        let mut builder = Builder::new();
        builder
            .initial_window_size(WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buffer_size(SEND_BUFFER)
            .max_header_list_size(HEAD_MAX)
            .enable_push(false)
            // None before its settings.
            .initial_max_send_streams(0);
        let other = |_| io::Error::from(TlsFailed(TlsFault::Protocol));
        let (send, h2) = builder.handshake(stream).await.map_err(other)?;
        let state = Arc::new(State { room: room.clone(), ..State::default() });
        let pings = Pings::new(ping_interval);
        tokio::spawn(drive(h2, state.clone(), pings));
        let connection = Connection { send, state, is_secure };
        loop {
            let mut told = std::pin::pin!(room.notified());
            told.as_mut().enable();
            if connection.state.is_closed.load(Ordering::Relaxed) {
                return Err(TlsFailed(TlsFault::Protocol).into());
            }
            if connection.state.streams_max.load(Ordering::Relaxed) > 0 {
                return Ok(connection);
            }
            told.await;
        }
    }

    /// Whether it gets no more streams: it has ended, or the server has said that it will.
    pub(crate) fn is_over(&mut self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        self.state.is_closed.load(Ordering::Relaxed)
            || matches!(self.send.poll_ready(&mut context), Poll::Ready(Err(_)))
    }

    /// Streams that are open.
    pub(crate) fn open_streams(&self) -> usize {
        self.state.open.load(Ordering::Relaxed)
    }

    /// Whether there is room for another.
    pub(crate) fn has_room(&self) -> bool {
        let allowed = self.state.streams_max.load(Ordering::Relaxed).min(STREAMS_MAX);
        self.open_streams() < allowed
    }

    /// Whether a request has been sent on it before.
    pub(crate) fn was_used(&self) -> bool {
        self.state.was_used.load(Ordering::Relaxed)
    }

    /// A stream for a request.
    pub(crate) fn stream(&self) -> Http2Stream {
        self.state.was_used.store(true, Ordering::Relaxed);
        Http2Stream::new(self.send.clone(), OpenStream::of(&self.state), self.is_secure)
    }
}

/// Moves frames until the connection ends: when either side ends it, it breaks, a ping is not answered, or no handle is left.
async fn drive<S: AsyncRead + AsyncWrite + Unpin>(
    mut h2: h2::client::Connection<S, Bytes>,
    state: Arc<State>,
    mut pings: Pings,
) {
    let mut ping_pong = h2.ping_pong();
    poll_fn(|context| {
        let polled = Pin::new(&mut h2).poll(context);
        let allowed = h2.max_concurrent_send_streams();
        if state.streams_max.swap(allowed, Ordering::Relaxed) < allowed {
            state.room.notify_waiters();
        }
        if polled.is_ready() {
            return Poll::Ready(());
        }
        let is_busy = state.open.load(Ordering::Relaxed) > 0;
        let is_dead = ping_pong.as_mut().is_some_and(|it| pings.is_dead(it, is_busy, context));
        if is_dead { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    state.is_closed.store(true, Ordering::Relaxed);
    // Its streams fail with it.
    drop(h2);
    state.room.notify_waiters();
}

/// Asks a server now and then, while requests are in progress there, whether it is still there: one that has vanished without a word would
/// hold its requests until their time-outs.
#[derive(Debug)]
struct Pings {
    timer: Timer,
    interval: Duration,
    awaits_pong: bool,
}

impl Pings {
    /// Asks after each `interval`, which is also the time for the answer; zero: never.
    fn new(interval: Duration) -> Self {
        Pings { timer: Timer::armed(interval), interval, awaits_pong: false }
    }

    /// Whether the server has not answered in time. The task is woken when the next ping is due.
    fn is_dead(
        &mut self,
        ping_pong: &mut PingPong,
        is_busy: bool,
        context: &mut Context<'_>,
    ) -> bool {
        if self.awaits_pong && ping_pong.poll_pong(context).is_ready() {
            self.awaits_pong = false;
        }
        while self.timer.poll_expired(context) {
            if self.awaits_pong {
                return true;
            }
            self.awaits_pong = is_busy && ping_pong.send_ping(Ping::opaque()).is_ok();
            if self.awaits_pong {
                // So that the task is woken by the answer.
                let _ = ping_pong.poll_pong(context);
                context.waker().wake_by_ref();
            }
            self.timer.arm(self.interval);
        }
        false
    }
}
