//! A request's body as `h2` has it.

use crate::client::streams::incoming::Incoming;
use bytes::Bytes;
use h2::RecvStream;
use http::HeaderMap;
use std::io;
use std::task::{Context, Poll};

impl Incoming for RecvStream {
    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        RecvStream::poll_data(self, context).map(|data| data.transpose().map_err(io_error))
    }

    fn poll_trailers(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<HeaderMap>>> {
        RecvStream::poll_trailers(self, context).map_err(io_error)
    }

    fn is_ended(&self) -> bool {
        self.is_end_stream()
    }

    fn release(&mut self, bytes: usize) {
        let _ = self.flow_control().release_capacity(bytes);
    }
}

/// What the connection's failure is in terms of I/O.
pub(super) fn io_error(error: h2::Error) -> io::Error {
    match error.is_io() {
        true => error.into_io().expect("just asked"),
        false => io::Error::new(io::ErrorKind::ConnectionReset, error),
    }
}
