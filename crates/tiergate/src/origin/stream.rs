//! A connection to an origin server, over TCP or a UNIX socket.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// A connection to an origin server.
#[derive(Debug)]
pub enum OriginStream {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over a UNIX socket.
    Unix(UnixStream),
    /// In memory, to the tests' origin.
    #[cfg(feature = "memory")]
    Memory(crate::memory::End),
}

impl OriginStream {
    /// Whether an idle connection may be used: nothing has arrived on it, neither bytes nor its end.
    ///
    /// Asks the cached readiness first, so it costs a system call only where something did arrive.
    pub fn is_fresh(&self) -> bool {
        let mut byte = [0];
        let read = match self {
            OriginStream::Tcp(stream) => stream.try_read(&mut byte),
            OriginStream::Unix(stream) => stream.try_read(&mut byte),
            #[cfg(feature = "memory")]
            OriginStream::Memory(end) => return end.is_fresh(),
        };
        matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// A connection to a server, held by one request. Dropped, it is closed; see [`Place::give_back`](super::Place::give_back).
#[derive(Debug)]
pub struct Lease {
    /// The connection.
    pub stream: OriginStream,
    /// Whether an earlier request has used it: it may have been closed at the other end meanwhile.
    pub reused: bool,
}

impl Lease {
    /// A connection that no request has used.
    pub(super) fn fresh(stream: OriginStream) -> Self {
        Lease { stream, reused: false }
    }
}

impl AsyncRead for OriginStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            OriginStream::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            OriginStream::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
            #[cfg(feature = "memory")]
            OriginStream::Memory(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for OriginStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            OriginStream::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            OriginStream::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
            #[cfg(feature = "memory")]
            OriginStream::Memory(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            OriginStream::Tcp(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            OriginStream::Unix(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            #[cfg(feature = "memory")]
            OriginStream::Memory(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            OriginStream::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            OriginStream::Unix(stream) => Pin::new(stream).poll_shutdown(context),
            #[cfg(feature = "memory")]
            OriginStream::Memory(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
