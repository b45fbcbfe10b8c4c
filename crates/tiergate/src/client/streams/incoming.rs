//! The body of a request as it comes by a stream, whatever the protocol.

use bytes::Bytes;
use http::HeaderMap;
use std::io;
use std::task::{Context, Poll};

/// The body of a request as it comes by a stream.
pub(in crate::client) trait Incoming {
    /// The next bytes of it, of which the client may send no more until they are released; `None`: only trailers may follow.
    ///
    /// # Errors
    /// The client has left, or the body is not framed as it says.
    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>>;

    /// The trailers. Once there is no more data.
    ///
    /// # Errors
    /// As those of [`poll_data`](Self::poll_data).
    fn poll_trailers(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<HeaderMap>>>;

    /// Whether all has come, as far as that is known.
    fn is_ended(&self) -> bool;

    /// The client may send so many bytes more. A failure means that the stream is gone, which reading tells.
    fn release(&mut self, bytes: usize);
}
