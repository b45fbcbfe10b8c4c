//! HTTP/2 to origin servers, by the `h2` crate: requests are streams of a few connections, a thread's own.
//!
//! ```text
//! request's path ══ bytes of HTTP/1.1 ══▶ Http2Stream ── HEADERS, DATA, trailers ──▶ connection's task ──▶ socket
//!                ◀═════════════════════             ◀──────────────────────────
//! ```
//!
//! The path writes to a stream what it would write to a connection over HTTP/1.1, which its own writer has generated from the
//! parsed head, and reads what such a server would answer: so all that is decided, bounded and refused there is the same for both, and
//! what the server says passes the same strict parser ([ADR 48](../../../../../docs/adr/0048-http2-to-the-origin.md)).
//!
//! What bounds it: connections to each server by each thread (`http2_connections_max`), streams by connection ([`connection::STREAMS_MAX`], or
//! fewer if the server says so; a connection that is half full of tunnels and streams counts no longer), bytes that a server may send ahead ([`connection::WINDOW`] of each stream), one write of ours that its windows do
//! not let through yet, heads (`limits.response_head_max`), and what is kept of a request to send it again ([`stream::REPLAY_MAX`]).

mod answer;
pub(super) mod connection;
pub(super) mod failure;
mod open;
mod pool;
mod request;
pub(crate) mod stream;
mod upload;

pub use pool::sweep;
pub(super) use pool::{lease, take};
