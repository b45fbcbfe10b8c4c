//! What the link asks of a client's connection.

use std::task::{Context, Poll};
use tiergate_core::transmit::{Carried, Sending};

/// The client has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone;

/// A client's side of a request, as far as the link is concerned.
pub(crate) trait Carrier {
    /// Hands on what the connection has sent and may send now, and what of that was charged to the link; `None`: that is not known. A system call.
    fn with_carried<T>(&mut self, _then: impl FnOnce(&mut Carried, &Sending) -> T) -> Option<T> {
        None
    }

    /// So many bytes on the wire were charged to the link for what it has taken of an answer; in turns, or not.
    fn charged(&mut self, _on_wire: f64, _in_turns: bool) {}

    /// Has the system ask the peer every second whether it has room, while nothing is on its way to it; or not any more. Up to four system calls.
    fn asks_for_room(&mut self, _does: bool) {}

    /// Ready when the protocol lets more of the answer through, however little, as far as it tells.
    ///
    /// # Errors
    /// The client has left.
    fn poll_open(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        Poll::Ready(Ok(()))
    }
}
