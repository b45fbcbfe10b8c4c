//! A connection to an origin server, over TCP or a UNIX socket.

use crate::stream::set_label;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use tiergate_core::mark::Label;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// A connection to an origin server.
#[derive(Debug)]
pub enum OriginStream {
    /// Over TCP.
    Tcp(LabelledTcp),
    /// Over a UNIX socket.
    Unix(UnixStream),
    /// In memory, to the tests' origin.
    #[cfg(feature = "memory")]
    Memory(crate::memory::End),
}

/// A connection over TCP, and what its packets bear.
#[derive(Debug)]
pub struct LabelledTcp {
    stream: TcpStream,
    by_v6: bool,
    label: Label,
}

impl OriginStream {
    /// One over TCP that nothing was sent on, to this address.
    pub(super) fn tcp(stream: TcpStream, to: SocketAddr) -> Self {
        // What is written as IPv6 but is an address of IPv4 gets packets of IPv4.
        let by_v6 = matches!(to, SocketAddr::V6(to) if to.ip().to_ipv4_mapped().is_none());
        OriginStream::Tcp(LabelledTcp { stream, by_v6, label: Label::default() })
    }

    /// Has its packets bear this label from now on; over TCP only. A comparison where they do, else two system calls.
    ///
    /// # Errors
    /// What the system says: once, and not again for the same label.
    pub fn set_label(&mut self, label: Label) -> io::Result<()> {
        match self {
            OriginStream::Tcp(tcp) if tcp.label != label => {
                tcp.label = label;
                set_label(&tcp.stream, label, tcp.by_v6)
            }
            _ => Ok(()),
        }
    }

    /// Whether an idle connection may be used: nothing has arrived on it, neither bytes nor its end.
    ///
    /// Asks the cached readiness first, so it costs a system call only where something did arrive.
    pub fn is_fresh(&self) -> bool {
        let mut byte = [0];
        let read = match self {
            OriginStream::Tcp(tcp) => tcp.stream.try_read(&mut byte),
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
            OriginStream::Tcp(tcp) => Pin::new(&mut tcp.stream).poll_read(context, buffer),
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
            OriginStream::Tcp(tcp) => Pin::new(&mut tcp.stream).poll_write(context, bytes),
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
            OriginStream::Tcp(tcp) => {
                Pin::new(&mut tcp.stream).poll_write_vectored(context, slices)
            }
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
            OriginStream::Tcp(tcp) => Pin::new(&mut tcp.stream).poll_shutdown(context),
            OriginStream::Unix(stream) => Pin::new(stream).poll_shutdown(context),
            #[cfg(feature = "memory")]
            OriginStream::Memory(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::SockRef;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn packets_bear_the_label_that_was_set_last_by_either_version_of_ip() {
        for (listen, connect) in
            [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("127.0.0.1", "::ffff:127.0.0.1")]
        {
            let listener = TcpListener::bind((listen, 0)).await.expect("loopback");
            let port = listener.local_addr().expect("bound").port();
            let to = SocketAddr::new(connect.parse().expect("an address"), port);
            let stream = TcpStream::connect(to).await.expect("it listens");
            let mut origin = OriginStream::tcp(stream, to);
            let borne = |origin: &OriginStream| {
                let OriginStream::Tcp(tcp) = origin else { panic!("it is TCP") };
                let socket = SockRef::from(&tcp.stream);
                let field = if listen == "::1" { socket.tclass_v6() } else { socket.tos_v4() };
                (field.expect("set") >> 2, socket.priority().expect("set"))
            };
            assert_eq!(borne(&origin), (0, 0));
            // Of AF41, the system by itself would make 2, which is after all others.
            for (dscp, priority) in [(1, 1), (34, 0), (34, 6), (0, 0)] {
                origin.set_label(Label { dscp, priority }).expect("it needs no right");
                assert_eq!(borne(&origin), (dscp.into(), priority.into()), "{connect}");
            }
        }
    }
}
