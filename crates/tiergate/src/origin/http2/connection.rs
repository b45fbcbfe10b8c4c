//! A connection over HTTP/2 to an origin server: its beginning, and its task.

use super::open::{OpenStream, State};
use super::stream::Http2Stream;
use crate::timers::Timer;
use crate::tls::origin::{TlsFailed, TlsFault};
use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::{Ping, PingPong};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

/// Streams of one connection at most, whatever the server allows.
const STREAMS_MAX: usize = 128;

/// Bytes of an answer that a server may send ahead of its client. Sixteen frames, as for uploads of clients.
const WINDOW: u32 = 256 * 1024;

/// The same for a connection: enough for all of its streams, so that one whose client takes nothing holds up no other.
const CONNECTION_WINDOW: u32 = WINDOW * STREAMS_MAX as u32;

/// How long an answer to a ping may take, at most.
const PONG_WITHIN: Duration = Duration::from_secs(20);

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
    /// streams it allows. `room` is told when there may be room for a stream; `head_max`: bytes of a head, as HTTP/2 counts them;
    /// `ping_interval`: see [`Pings`].
    ///
    /// # Errors
    /// The server's; [`TlsFault::Protocol`] if it speaks otherwise.
    pub(crate) async fn open(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        is_secure: bool,
        room: Arc<Notify>,
        head_max: u32,
        ping_interval: Duration,
    ) -> io::Result<Self> {
        let mut builder = Builder::new();
        builder
            .initial_window_size(WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buffer_size(SEND_BUFFER)
            .max_header_list_size(head_max)
            .enable_push(false)
            // None before its settings.
            .initial_max_send_streams(0);
        let state = Arc::new(State { room, ..State::default() });
        let other = || match state.was_refused.load(Ordering::Relaxed) {
            true => io::Error::from(TlsFailed(TlsFault::Alert)),
            false => io::Error::from(TlsFailed(TlsFault::Protocol)),
        };
        let heard = Heard { stream, state: state.clone(), is_secure, failed: None };
        let (send, h2) = builder.handshake(heard).await.map_err(|_| other())?;
        let pings = Pings::new(ping_interval);
        tokio::spawn(drive(h2, state.clone(), pings));
        let connection = Connection { send, state: state.clone(), is_secure };
        loop {
            if connection.state.is_closed.load(Ordering::Relaxed) {
                return Err(other());
            }
            if connection.state.streams_max.load(Ordering::Relaxed) > 0 {
                return Ok(connection);
            }
            connection.state.settled.notified().await;
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

    /// Whether tunnels and streams have half of its places or more.
    pub(crate) fn is_mostly_lasting(&self) -> bool {
        let allowed = self.state.streams_max.load(Ordering::Relaxed).min(STREAMS_MAX);
        let lasting = self.state.lasting.load(Ordering::Relaxed);
        lasting > 0 && 2 * lasting >= allowed
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
            state.settled.notify_one();
            state.room.notify_waiters();
        }
        if polled.is_ready() {
            return Poll::Ready(());
        }
        let is_dead = ping_pong.as_mut().is_some_and(|it| pings.is_dead(it, &state, context));
        if !is_dead {
            return Poll::Pending;
        }
        state.missed_ping.store(true, Ordering::Relaxed);
        Poll::Ready(())
    })
    .await;
    state.is_closed.store(true, Ordering::Relaxed);
    state.settled.notify_one();
    // Its streams fail with it.
    drop(h2);
    state.room.notify_waiters();
}

/// Asks a server from which nothing has come for a while, though requests are in progress there, whether it is still there. Not
/// often: servers end connections of clients that ask more often than they find right (of gRPC: every five minutes). That a machine is gone
/// the system finds out sooner ([`OriginStream::probe`](crate::origin::stream::OriginStream::probe)).
#[derive(Debug)]
struct Pings {
    timer: Timer,
    interval: Duration,
    /// How often anything had arrived when it was last looked.
    heard: u64,
    awaits_pong: bool,
}

impl Pings {
    /// Asks after an `interval` of silence; the answer has as long, or [`PONG_WITHIN`] if that is less. Zero: never.
    fn new(interval: Duration) -> Self {
        Pings { timer: Timer::armed(interval), interval, heard: 0, awaits_pong: false }
    }

    /// Whether the server has not answered in time. The task is woken when the next ping is due.
    fn is_dead(
        &mut self,
        ping_pong: &mut PingPong,
        state: &State,
        context: &mut Context<'_>,
    ) -> bool {
        if self.awaits_pong && ping_pong.poll_pong(context).is_ready() {
            self.awaits_pong = false;
        }
        while self.timer.poll_expired(context) {
            let heard = state.heard.load(Ordering::Relaxed);
            let is_silent = std::mem::replace(&mut self.heard, heard) == heard;
            if self.awaits_pong && is_silent {
                return true;
            }
            let is_busy = state.open.load(Ordering::Relaxed) > 0;
            if !self.awaits_pong && is_silent && is_busy {
                self.awaits_pong = ping_pong.send_ping(Ping::opaque()).is_ok();
                // So that the task is woken by the answer.
                let _ = ping_pong.poll_pong(context);
                context.waker().wake_by_ref();
            }
            self.timer.arm(match self.awaits_pong {
                true => self.interval.min(PONG_WITHIN),
                false => self.interval,
            });
        }
        false
    }
}

/// Counts how often anything arrives, and notes that the server refused.
#[derive(Debug)]
struct Heard<S> {
    stream: S,
    state: Arc<State>,
    is_secure: bool,
    /// Why nothing can be written, while what the server said before is read.
    failed: Option<io::Error>,
}

/// Bytes that are read at once where only an alert is looked for.
const LAST_WORDS: usize = 1024;

impl<S: AsyncRead + AsyncWrite + Unpin> Heard<S> {
    /// Writes. While the server's settings are awaited, a TLS connection that it has closed is read to its end before that is passed on: a
    /// server that refuses a certificate sends an alert and closes, and whether the alert is read first or something is written to the
    /// closed connection is chance.
    fn write<T>(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        use io::ErrorKind::{BrokenPipe, ConnectionReset};
        let error = match self.failed.take() {
            Some(error) => error,
            None => match std::task::ready!(write(Pin::new(&mut self.stream), context)) {
                Ok(written) => return Poll::Ready(Ok(written)),
                Err(error) => error,
            },
        };
        let is_settled = self.state.streams_max.load(Ordering::Relaxed) > 0;
        let is_closed = matches!(error.kind(), BrokenPipe | ConnectionReset);
        if !self.is_secure || is_settled || !is_closed {
            return Poll::Ready(Err(error));
        }
        loop {
            let mut bytes = [0; LAST_WORDS];
            let mut bytes = ReadBuf::new(&mut bytes);
            match Pin::new(&mut *self).poll_read(context, &mut bytes) {
                Poll::Ready(Ok(())) if !bytes.filled().is_empty() => {}
                Poll::Ready(_) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    self.failed = Some(error);
                    return Poll::Pending;
                }
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Heard<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            this.state.heard.fetch_add(1, Ordering::Relaxed);
        }
        // The library keeps of an error only its words.
        if let Poll::Ready(Err(error)) = &read
            && TlsFault::of(error) == TlsFault::Alert
        {
            this.state.was_refused.store(true, Ordering::Relaxed);
        }
        read
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Heard<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().write(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().write(context, |stream, context| stream.poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().write(context, |stream, context| stream.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that has sent an alert and closed the connection; both are seen, in either order, when a turn of the event loop is over.
    struct Refused {
        turns: u8,
        alert: bool,
    }

    impl AsyncRead for Refused {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            if self.turns > 0 {
                self.turns -= 1;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            if std::mem::take(&mut self.alert) {
                let alert = rustls::AlertDescription::CertificateRequired;
                let error = rustls::Error::AlertReceived(alert);
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
            }
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Refused {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn an_alert_is_read_though_a_write_fails_first() {
        for (turns, alert, fault) in
            [(0, true, TlsFault::Alert), (2, true, TlsFault::Alert), (2, false, TlsFault::Protocol)]
        {
            let (room, pings) = (Arc::new(Notify::new()), Duration::ZERO);
            let opened = Connection::open(Refused { turns, alert }, true, room, 16_384, pings);
            let error = opened.await.expect_err("the server refuses");
            assert_eq!(error.to_string(), fault.why(), "{turns} {alert}");
        }
    }
}
