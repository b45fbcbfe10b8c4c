//! Listening sockets, and what a connection is before its first request.
//!
//! ```text
//! accept ─▶ [PROXY header] ─▶ [TLS] ─▶ first bytes ─┬─ HTTP/2 preface ─▶ http2
//!                                                   └─ anything else  ─▶ http1
//! ```
//!
//! | file | what it has |
//! |---|---|
//! | `in_force` | a listener's settings |
//! | `socket` | listening sockets, and what a policy wants of them |
//! | `accept` | from the listen queue to a task, here or in a lane |
//! | `class` | the class of a connection, as far as it is known at accept |
//! | `connection` | from the first byte to the protocol |
//!
//! HTTP/3 comes by UDP ([`crate::quic`]).

mod accept;
mod class;
mod connection;
mod in_force;
mod socket;

pub use accept::accept;
pub(crate) use class::class_at_accept;
pub use connection::plain;
pub use in_force::{InForce, Settings};
pub use socket::{Program, Wanted, bind, demultiplex};
