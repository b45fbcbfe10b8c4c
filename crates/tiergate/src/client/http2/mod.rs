//! Clients over HTTP/2, by the `h2` crate: a task for the connection, and one for each of its streams.
//!
//! ```text
//! connection ── request ──▶ stream: a request's path
//!     ▲                        │ every step watches for the client's reset
//!     └──── frames ◀───────────┘
//! ```
//!
//! What bounds a connection: `h2` itself bounds frames of control (settings, pings and their answers,
//! header blocks, small DATA frames, resets of streams that were not begun yet); the policy bounds
//! streams, header sizes and times; the number of streams that are begun and given up is bounded too,
//! less those that the origin answered.

mod connection;
mod incoming;
mod payload;
mod response;
mod sending;
mod side;
mod tunnel;
mod wire;

pub use connection::serve;
