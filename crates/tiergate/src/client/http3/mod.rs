//! Clients over HTTP/3, by the `h3` crate over QUIC by `quinn`: a task for the connection, and one for each of its streams.
//!
//! ```text
//! QUIC ─▶ transport ─▶ h3 ─▶ connection ── head ──▶ stream: a request's path
//!            │  ▲                                     │
//!          frames └──────────── line ◀────────────────┘
//! ```
//!
//! What bounds a connection: QUIC's windows and its number of streams; the policy's header sizes and times; and what `h3`
//! itself would hold without a bound is cut to size before it gets there: frames ([`frames`]) and the client's control
//! streams ([`transport`]). The number of streams that are begun and given up is bounded as over HTTP/2.

mod body;
mod connection;
mod frames;
mod line;
mod side;
mod stream;
mod transport;

pub use connection::serve;
