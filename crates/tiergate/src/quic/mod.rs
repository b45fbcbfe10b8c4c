//! QUIC for HTTP/3: UDP sockets, one for each thread that accepts, and what a connection is before its first request.
//!
//! ```text
//! UDP socket ─▶ quinn ─▶ incoming ─▶ [retry] ─▶ room ─▶ handshake ─▶ client::http3
//! ```
//!
//! The kernel picks the socket of a packet by the connection's id, in which the thread's place is hidden ([`steer`]): so a
//! connection stays with its thread, whatever address the client has next (docs/adr/0050).

mod accept;
mod group;
mod settings;
mod socket;
mod steer;

pub use accept::{Listener, accept, leave};
pub use group::Group;
pub use socket::{bind, is_taken};
