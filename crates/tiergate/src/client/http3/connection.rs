//! A client connection over HTTP/3: it accepts streams, and knows when to end.

use super::line::Line;
use super::stream::{self, DELIVERIES_MAX};
use super::transport::Transport;
use crate::client::peer::Peer;
use crate::client::streams::counted::Counted;
use crate::client::streams::parking::Surplus;
use crate::client::streams::tally::{Meter, Tally, resets_max};
use crate::client::streams::window;
use crate::clock;
use crate::connections::Connection as OpenConnection;
use crate::observe::counters::Protocol;
use crate::request::stray::Stray;
use crate::shared::Shared;
use crate::timers::{TICK, Timer};
use bytes::Bytes;
use h3::error::{Code, ConnectionError, LocalError};
use h3::server::{Connection, RequestResolver};
use quinn::VarInt;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Fields that `h3` can hold, by the least that one counts for: beyond, it panics.
const FIELDS_LEN_MAX: u64 = 24_576 * 32;

/// How long a connection that has nothing more to say waits for the client to go.
const GOODBYE: Duration = Duration::from_secs(1);

/// How long requests are still taken that left before the client can have heard that the connection ends: two round trips,
/// within these bounds.
const GRACE: (Duration, Duration) = (TICK, Duration::from_secs(1));

/// How clients break the protocol that `h3` does not see.
const CUT_OFF: &str = "a stream has ended within a frame";
const TOO_MANY_RESETS: &str = "too many streams were reset";

/// A request and the way its answer goes.
type Accepted = (RequestResolver<Transport, Bytes>, Arc<Line>);

/// Serves a connection until either side ends it, or `stop`. `timer` runs for its beginning.
pub async fn serve(
    quic: quinn::Connection,
    peer: Box<Peer>,
    timer: Timer,
    open: &OpenConnection,
    stop: impl Future<Output = ()> + Send,
    shared: &Arc<Shared>,
) {
    let config = shared.config.load_full();
    let head_len_max = config.policy.limits.request_head_max as u64;
    let mut builder = h3::server::builder();
    builder.max_field_section_size(head_len_max.min(FIELDS_LEN_MAX)).send_grease(false);
    let mut beginning = pin!(builder.build(Transport::new(quic.clone(), head_len_max)));
    let begun = timer.bound(|context| beginning.as_mut().poll(context).map_err(io::Error::other));
    let Some(Ok(h3)) = open.unless_evicted(begun).await else { return };
    let mut session = Session {
        h3,
        quic,
        peer: peer.into(),
        timer,
        open,
        stop: Box::pin(stop),
        // What has left by a socket that all connections share says nothing of one, and its packets bear no marks of their own.
        tally: Arc::new(Tally::new(Meter::new(|| None, |_| Ok(()), |_| {}, || None, |_| {}))),
        resets_max: resets_max(&config),
        streams_max: config.policy.limits.http2_streams_max as usize,
        window: window::CONNECTION,
        surplus: Surplus::default(),
        phase: Phase::Open,
    };
    drop(config);
    session.run(shared).await;
    session.end(shared).await;
}

/// A connection after the handshake.
struct Session<'c> {
    h3: Connection<Transport, Bytes>,
    quic: quinn::Connection,
    peer: Arc<Peer>,
    timer: Timer,
    open: &'c OpenConnection,
    /// The listener's end.
    stop: Pin<Box<dyn Future<Output = ()> + Send + 'c>>,
    tally: Arc<Tally>,
    resets_max: u32,
    streams_max: usize,
    /// The connection's window.
    window: u32,
    surplus: Surplus,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// New streams are welcome.
    Open,
    /// GOAWAY was said; streams that had left before are served.
    Warned,
    /// GOAWAY has said which stream is the last; those that are open go on.
    Closing,
    /// No task lives any more: the timer runs for the client to go.
    Leaving,
}

impl Session<'_> {
    async fn run(&mut self, shared: &Arc<Shared>) {
        self.timer.arm_idle(idle(shared));
        while let Some((request, line)) = poll_fn(|context| self.poll_accept(shared, context)).await
        {
            if self.tally.live() >= self.streams_max.saturating_mul(2) {
                // QUIC counts streams, and a task may outlive its stream; so many do not.
                line.reset(Code::H3_REQUEST_REJECTED.value());
                self.tally.ends_headless();
                continue;
            }
            let counted = Counted::begin(&self.tally);
            let (peer, quic) = (self.peer.clone(), self.quic.clone());
            tokio::spawn(stream::run(request, line, peer, quic, shared.clone(), counted));
        }
    }

    /// The next stream; `None` at the connection's end.
    fn poll_accept(
        &mut self,
        shared: &Shared,
        context: &mut Context<'_>,
    ) -> Poll<Option<Accepted>> {
        self.tally.parking.watch(context);
        loop {
            // The future has no state of its own.
            let accepted = pin!(self.h3.accept()).poll(context);
            match accepted {
                Poll::Ready(Ok(Some(request))) => {
                    let line = self.h3.inner.conn.accepted().expect("just accepted");
                    return Poll::Ready(Some((request, line)));
                }
                Poll::Ready(Ok(None)) => return Poll::Ready(None),
                Poll::Ready(Err(error)) => {
                    self.log_broken(shared, &error);
                    return Poll::Ready(None);
                }
                Poll::Pending => {}
            }
            self.make_room();
            if !self.look_around(shared, context) {
                let is_over = self.phase == Phase::Leaving
                    && (self.timer.poll_expired(context) || self.open.poll_evicted(context));
                return if is_over { Poll::Ready(None) } else { Poll::Pending };
            }
        }
    }

    /// Logs what the client did against the protocol.
    fn log_broken(&self, shared: &Shared, error: &ConnectionError) {
        match error {
            _ if self.h3.inner.conn.is_cut_off() => self.broke(shared, &CUT_OFF),
            // By its code alone: the rest has what the client sent.
            ConnectionError::Local { error: LocalError::Application { code, .. }, .. }
                if ![Code::H3_NO_ERROR, Code::H3_INTERNAL_ERROR].contains(code) =>
            {
                self.broke(shared, code);
            }
            _ => {}
        }
    }

    fn broke(&self, shared: &Shared, why: &dyn std::fmt::Display) {
        let config = shared.config.load();
        let stray = Stray { shared, config: &config, since: clock::recent() };
        stray.broke(self.peer.address.ip(), Protocol::Http3, why);
    }

    /// Makes the connection's window as large as it is to be.
    fn make_room(&mut self) {
        let window = self.tally.parking.window();
        if window > self.window {
            self.window = window;
            self.quic.set_receive_window(VarInt::from_u32(window));
        }
    }

    /// Changes the phase if it is time to; says whether that has to be looked at again.
    fn look_around(&mut self, shared: &Shared, context: &mut Context<'_>) -> bool {
        let busy = self.tally.live() > 0;
        match self.phase {
            Phase::Open => {
                if self.tally.resets() > self.resets_max {
                    self.broke(shared, &TOO_MANY_RESETS);
                    self.close(Code::H3_EXCESSIVE_LOAD);
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
                    || self.has_moved()
                    || self.surplus.poll_ends(&self.tally.parking, busy, context)
                    || self.stop.as_mut().poll(context).is_ready()
                    || self.timer.poll_expired(context);
                if over {
                    self.go_away(self.streams_max, context);
                    self.phase = Phase::Warned;
                    self.timer.arm((2 * self.quic.rtt()).clamp(GRACE.0, GRACE.1));
                }
                over
            }
            Phase::Warned if self.timer.poll_expired(context) => {
                self.h3.inner.conn.rejects = true;
                // The first that is not served, by which the client knows what to repeat.
                self.go_away(1, context);
                self.phase = Phase::Closing;
                true
            }
            Phase::Closing if !busy => {
                self.phase = Phase::Leaving;
                self.open.idle();
                self.timer.arm(GOODBYE);
                true
            }
            // What still gathers would hold the connection for as long as it likes.
            Phase::Warned | Phase::Closing => self.makes_room(busy, context),
            Phase::Leaving => false,
        }
    }

    /// Whether the client comes from another address, by which it may be another: in class, trust and bounds. What it
    /// asks from there belongs to a connection of its own.
    fn has_moved(&self) -> bool {
        let now = self.quic.remote_address().ip().to_canonical();
        now != self.peer.address.ip().to_canonical()
    }

    /// Says that so many streams beyond the last are the last.
    fn go_away(&mut self, more: usize, context: &mut Context<'_>) {
        // What does not leave now, for want of a window, leaves with the next that is said there.
        let _ = pin!(self.h3.shutdown(more)).poll(context);
    }

    /// Whether the connection has made room for others: one without a stream, or with only such as still gather their bodies.
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
            self.close(Code::H3_NO_ERROR);
        }
        is_evicted
    }

    /// Ends the connection at once, with all of its streams.
    fn close(&mut self, code: Code) {
        self.quic.close(VarInt::from_u64(code.value()).expect("codes are short"), b"");
    }

    /// Closes it, once what has been answered has arrived.
    async fn end(mut self, shared: &Shared) {
        // Each of them ends by itself.
        self.timer.arm(shared.config.load().policy.timeouts.write * (DELIVERIES_MAX + 1));
        let (tally, timer, open) = (&self.tally, &self.timer, self.open);
        if tally.asking() == 0 {
            open.idle();
        }
        poll_fn(|context| {
            tally.parking.watch(context);
            match tally.live() == 0 || timer.poll_expired(context) || open.poll_evicted(context) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
        self.open.idle();
        self.close(Code::H3_NO_ERROR);
        // The connection's own task has to say so before the process may end.
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
    }
}

fn idle(shared: &Shared) -> Duration {
    shared.config.load().policy.timeouts.idle
}
