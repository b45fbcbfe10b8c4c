//! A client connection over HTTP/2: it accepts streams, and knows when to end.

use super::incoming::io_error;
use super::payload::Payload;
use super::side;
use super::wire::Wire;
use crate::buffers::Buffer;
use crate::client::peer::Peer;
use crate::client::streams::counted::Counted;
use crate::client::streams::parking::Surplus;
use crate::client::streams::tally::{Tally, resets_max};
use crate::client::streams::window;
use crate::clock;
use crate::connections::Connection as OpenConnection;
use crate::observe::counters::Protocol;
use crate::request::stray::Stray;
use crate::shared::{Config, Shared};
use crate::stream::ClientStream;
use crate::timers::{TICK, Timer};
use h2::server::{Builder, Connection};
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, ReadBuf};

/// Bytes of a stream's answer that wait in `h2` for the socket: two of our buffers, so that there is room for
/// the next while one goes out.
const SEND_BUFFER: usize = 2 * crate::buffers::LARGE;

/// Streams that a client has reset and that `h2` still remembers, to tell late frames from wrong ones.
const RESET_STREAMS_REMEMBERED: usize = 64;

/// Streams that the client may reset before we have so much as looked at them; then the connection
/// ends (CVE-2023-44487). The same as `h2`'s default.
const RESETS_UNSEEN_MAX: usize = 20;

/// Streams that we reset because the client broke a rule; then the connection ends (CVE-2025-8671).
const RESETS_BY_FAULT_MAX: usize = 256;

/// How long a connection that has nothing more to say waits for the client to go.
const GOODBYE: Duration = Duration::from_secs(1);

/// Bytes that are read meanwhile.
const GOODBYE_BYTES_MAX: usize = 256 * 1024;

/// Serves a connection until either side ends it. `early` was read already and begins with the
/// preface, or `None` if nothing was read; `timer` runs for the preface.
pub async fn serve<S: ClientStream + 'static>(
    io: S,
    peer: Box<Peer>,
    early: Option<Buffer>,
    timer: Timer,
    open: &OpenConnection,
    shared: &Arc<Shared>,
) {
    let config = shared.config.load_full();
    let wire = Wire::new(io, early, config.policy.timeouts.write);
    let mut handshake = pin!(settings(&config).handshake::<_, Payload>(wire.clone()));
    let shaken = timer.bound(|context| {
        let polled = handshake.as_mut().poll(context);
        // Our settings leave at once: they need not wait for the client's.
        match wire.poll_drain(context) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => polled.map_err(io_error),
        }
    });
    let Some(Ok(h2)) = open.unless_evicted(shaken).await else { return };
    let meter = wire.meter(peer.by_v6);
    let mut session = Session {
        h2,
        wire,
        peer: peer.into(),
        timer,
        open,
        tally: Arc::new(Tally::new(meter)),
        resets_max: resets_max(&config),
        window: window::CONNECTION,
        surplus: Surplus::default(),
        phase: Phase::Open,
        goodbye: GOODBYE,
    };
    drop(config);
    session.run(shared).await;
    // All was answered: others need not wait until it has gone.
    open.idle();
    let _ = open.unless_evicted(session.say_goodbye()).await;
}

fn settings(config: &Config) -> Builder {
    let limits = &config.policy.limits;
    let mut builder = Builder::new();
    builder
        // WebSockets (RFC 8441).
        .enable_connect_protocol()
        .initial_window_size(window::STREAM)
        .initial_connection_window_size(window::CONNECTION)
        .max_send_buffer_size(SEND_BUFFER)
        .max_concurrent_streams(limits.http2_streams_max)
        .max_header_list_size(u32::try_from(limits.request_head_max).unwrap_or(u32::MAX))
        .max_concurrent_reset_streams(RESET_STREAMS_REMEMBERED)
        .max_pending_accept_reset_streams(RESETS_UNSEEN_MAX)
        .max_local_error_reset_streams(Some(RESETS_BY_FAULT_MAX));
    builder
}

/// A connection after the preface.
struct Session<'c, S> {
    h2: Connection<Wire<S>, Payload>,
    wire: Wire<S>,
    peer: Arc<Peer>,
    timer: Timer,
    open: &'c OpenConnection,
    tally: Arc<Tally>,
    resets_max: u32,
    /// The connection's window.
    window: u32,
    surplus: Surplus,
    phase: Phase,
    /// How long it waits for the client to go when there is nothing more to say.
    goodbye: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// New streams are welcome.
    Open,
    /// GOAWAY was said; the streams that are open go on.
    Closing,
    /// No task lives any more: the timer runs for what `h2` still has to say.
    Leaving,
}

impl<S: ClientStream + 'static> Session<'_, S> {
    async fn run(&mut self, shared: &Arc<Shared>) {
        self.timer.arm_idle(idle(shared));
        while let Some((request, respond)) =
            poll_fn(|context| self.poll_accept(shared, context)).await
        {
            let counted = Counted::begin(&self.tally);
            let (peer, shared) = (self.peer.clone(), shared.clone());
            tokio::spawn(side::run(request, respond, peer, shared, counted));
        }
    }

    /// The next stream; `None` at the connection's end.
    #[allow(clippy::type_complexity)]
    fn poll_accept(
        &mut self,
        shared: &Shared,
        context: &mut Context<'_>,
    ) -> Poll<Option<(http::Request<h2::RecvStream>, h2::server::SendResponse<Payload>)>> {
        self.tally.parking.watch(context);
        loop {
            match self.h2.poll_accept(context) {
                Poll::Ready(Some(Ok(stream))) => return Poll::Ready(Some(stream)),
                Poll::Ready(Some(Err(error))) => {
                    // What the client did is against the protocol.
                    if error.is_library() {
                        self.broke(shared, &error);
                    }
                    return Poll::Ready(None);
                }
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => {}
            }
            if let Poll::Ready(Err(_)) = self.wire.poll_drain(context) {
                return Poll::Ready(None);
            }
            if !self.make_room() && !self.look_around(shared, context) {
                return match self.phase {
                    Phase::Leaving
                        if self.timer.poll_expired(context) || self.open.poll_evicted(context) =>
                    {
                        Poll::Ready(None)
                    }
                    _ => Poll::Pending,
                };
            }
        }
    }

    /// Makes the connection's window as large as it is to be; says whether `h2` has something to say
    /// because of it.
    fn make_room(&mut self) -> bool {
        let window = self.tally.parking.window();
        let grows = window > self.window;
        if grows {
            self.window = window;
            self.h2.set_target_window_size(window);
        }
        grows
    }

    /// Changes the phase if it is time to; says whether `h2` has something to say because of it.
    fn look_around(&mut self, shared: &Shared, context: &mut Context<'_>) -> bool {
        let busy = self.tally.live() > 0;
        match self.phase {
            Phase::Open => {
                if self.tally.resets() > self.resets_max {
                    self.broke(shared, &"too many streams were reset");
                    self.h2.abrupt_shutdown(h2::Reason::ENHANCE_YOUR_CALM);
                    self.leave();
                    return true;
                }
                if busy {
                    self.timer.arm_idle(idle(shared));
                }
                if self.makes_room(busy, context) {
                    return true;
                }
                let over = shared.is_draining() && busy
                    || self.tally.is_closing()
                    || self.surplus.poll_ends(&self.tally.parking, busy, context)
                    || self.timer.poll_expired(context);
                if over {
                    self.h2.graceful_shutdown();
                    self.phase = Phase::Closing;
                    self.timer.arm(Duration::ZERO);
                }
                over
            }
            Phase::Closing if !busy => {
                self.leave();
                false
            }
            // What still gathers would hold the connection for as long as it likes.
            Phase::Closing => self.makes_room(busy, context),
            Phase::Leaving => false,
        }
    }

    /// Whether the connection makes room for others: one without a stream, or with only such as still gather their bodies.
    fn makes_room(&mut self, busy: bool, context: &mut Context<'_>) -> bool {
        if self.tally.asking() > 0 {
            self.open.busy();
            return false;
        }
        if busy {
            self.open.has_begun()
        } else {
            self.open.idle()
        }
        let is_evicted = self.open.poll_evicted(context);
        if is_evicted {
            self.h2.abrupt_shutdown(h2::Reason::NO_ERROR);
            self.goodbye = TICK;
            self.leave();
        }
        is_evicted
    }

    fn broke(&self, shared: &Shared, why: &dyn std::fmt::Display) {
        let config = shared.config.load();
        let stray = Stray { shared, config: &config, since: clock::recent() };
        stray.broke(self.peer.address.ip(), Protocol::Http2, why);
    }

    fn leave(&mut self) {
        self.phase = Phase::Leaving;
        self.open.idle();
        self.timer.arm(self.goodbye);
    }

    /// Reads what the client still sends, so that the last frames are not lost to a reset.
    async fn say_goodbye(&mut self) {
        if self.wire.is_ended() {
            return;
        }
        self.timer.arm(self.goodbye);
        let mut left = GOODBYE_BYTES_MAX;
        let wire = &mut self.wire;
        let _ = self
            .timer
            .bound(|context| {
                loop {
                    let mut bytes = [0; 4096];
                    let mut read = ReadBuf::new(&mut bytes);
                    match Pin::new(&mut *wire).poll_read(context, &mut read) {
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                        Poll::Ready(Ok(())) => {}
                    }
                    left = left.saturating_sub(read.filled().len());
                    if read.filled().is_empty() || left == 0 {
                        return Poll::Ready(io::Result::Ok(()));
                    }
                }
            })
            .await;
    }
}

fn idle(shared: &Shared) -> Duration {
    shared.config.load().policy.timeouts.idle
}
