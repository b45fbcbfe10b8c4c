//! What a connection over HTTP/2 and its streams know of each other.
//!
//! | state | who writes | who reads |
//! |---|---|---|
//! | `streams_max`, `heard`, `missed_ping`, `is_closed` | the connection's task | the same thread |
//! | `open`, `lasting`, `was_used` | its streams, the same thread | the same thread |

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use tokio::sync::Notify;

/// What is known of a connection.
#[derive(Debug, Default)]
pub(super) struct State {
    /// How many streams the server allows; 0 until its settings have come.
    pub(super) streams_max: AtomicUsize,
    /// Streams that are open.
    pub(super) open: AtomicUsize,
    /// Of these, those that have become tunnels or streams.
    pub(super) lasting: AtomicUsize,
    /// How often anything has arrived.
    pub(super) heard: AtomicU64,
    /// It was ended by an alert of the server's TLS: with TLS 1.3 a certificate is refused only after the handshake.
    pub(super) was_refused: AtomicBool,
    /// It was ended because the server did not answer a ping.
    pub(super) missed_ping: AtomicBool,
    /// Whether a request has been sent on it.
    pub(super) was_used: AtomicBool,
    pub(super) is_closed: AtomicBool,
    /// Told when the server's settings have come, or the connection has ended before.
    pub(super) settled: Notify,
    /// Told when there may be room for a stream, or the connection has ended.
    pub(super) room: Arc<Notify>,
}

/// A stream's place on its connection, until it is dropped.
#[derive(Debug)]
pub(super) struct OpenStream {
    state: Arc<State>,
    is_lasting: bool,
}

impl OpenStream {
    /// Another stream of the connection.
    pub(super) fn of(state: &Arc<State>) -> Self {
        state.open.fetch_add(1, Ordering::Relaxed);
        OpenStream { state: state.clone(), is_lasting: false }
    }

    /// It has become a tunnel or a stream. Once is enough.
    pub(super) fn lasts(&mut self) {
        if !std::mem::replace(&mut self.is_lasting, true) {
            self.state.lasting.fetch_add(1, Ordering::Relaxed);
            // There may be another connection for others now.
            self.state.room.notify_one();
        }
    }

    /// How often anything has arrived on the connection.
    pub(super) fn heard(&self) -> u64 {
        self.state.heard.load(Ordering::Relaxed)
    }

    /// Whether the connection was ended because the server did not answer a ping.
    pub(super) fn has_missed_ping(&self) -> bool {
        self.state.missed_ping.load(Ordering::Relaxed)
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.state.open.fetch_sub(1, Ordering::Relaxed);
        if self.is_lasting {
            self.state.lasting.fetch_sub(1, Ordering::Relaxed);
        }
        self.state.room.notify_one();
    }
}
