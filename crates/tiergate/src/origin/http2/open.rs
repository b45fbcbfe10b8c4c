//! What a connection over HTTP/2 and its streams know of each other.
//!
//! | state | who writes | who reads |
//! |---|---|---|
//! | `streams_max`, `is_closed` | the connection's task | the same thread |
//! | `open`, `was_used` | its streams, the same thread | the same thread |

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::sync::Notify;

/// What is known of a connection.
#[derive(Debug, Default)]
pub(super) struct State {
    /// How many streams the server allows; 0 until its settings have come.
    pub(super) streams_max: AtomicUsize,
    /// Streams that are open.
    pub(super) open: AtomicUsize,
    /// Whether a request has been sent on it.
    pub(super) was_used: AtomicBool,
    pub(super) is_closed: AtomicBool,
    /// Told when there may be room for a stream, or the connection has ended.
    pub(super) room: Arc<Notify>,
}

/// A stream's place on its connection, until it is dropped.
#[derive(Debug)]
pub(super) struct OpenStream(Arc<State>);

impl OpenStream {
    /// Another stream of the connection.
    pub(super) fn of(state: &Arc<State>) -> Self {
        state.open.fetch_add(1, Ordering::Relaxed);
        OpenStream(state.clone())
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
        self.0.room.notify_one();
    }
}
