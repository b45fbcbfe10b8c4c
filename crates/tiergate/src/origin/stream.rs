//! A connection to an origin server, over TCP, TLS or a UNIX socket.

use super::http2::stream::{Http2Stream, Lost};
use crate::stream::set_label;
use rustls::HandshakeKind;
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tiergate_core::mark::Label;
use tiergate_core::origin::unprocessed::Unprocessed;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

/// How long a connection of many requests is silent before the system probes it.
const PROBED_AFTER: Duration = Duration::from_secs(10);

/// How long the other machine may take nothing of what was sent to it, probes included.
const UNTAKEN_MAX: Duration = Duration::from_secs(30);

/// A connection to an origin server.
#[derive(Debug)]
pub enum OriginStream {
    /// Over TCP.
    Tcp(LabelledTcp),
    /// Over a UNIX socket.
    Unix(UnixStream),
    /// Over TCP, through TLS; in a box, so that plain connections are no larger.
    Tls(Box<TlsStream<LabelledTcp>>),
    /// A stream of a connection over HTTP/2.
    Http2(Box<Http2Stream>),
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
            OriginStream::Tcp(tcp) => tcp.set_label(label),
            OriginStream::Tls(tls) => tls.get_mut().0.set_label(label),
            _ => Ok(()),
        }
    }

    /// Whether it is one of several on a connection.
    pub(crate) fn is_multiplexed(&self) -> bool {
        matches!(self, OriginStream::Http2(_))
    }

    /// Whether what failed may be a connection that was closed while it was idle, rather than a request that the server gave up.
    pub(crate) fn may_be_stale(&self) -> bool {
        match self {
            OriginStream::Http2(stream) => stream.lost() == Some(Lost::Idle),
            _ => true,
        }
    }

    /// Whether the request failed with a connection over HTTP/2 that was in use, whatever the request was.
    pub(crate) fn has_lost_connection(&self) -> bool {
        matches!(self, OriginStream::Http2(stream) if stream.lost() == Some(Lost::InUse))
    }

    /// The request has become a tunnel or a stream: over HTTP/2, its place is no longer one for requests that come and go.
    pub(crate) fn lasts(&mut self) {
        if let OriginStream::Http2(stream) = self {
            stream.lasts();
        }
    }

    /// Drops what the server says before its answer, while the client takes what it said before.
    pub(crate) fn drop_interims(&mut self, context: &mut Context<'_>) {
        if let OriginStream::Http2(stream) = self {
            stream.drop_interims(context);
        }
    }

    /// Has the system find out that the other machine is gone: it probes a connection that is silent, and ends one on which
    /// nothing is taken for [`UNTAKEN_MAX`].
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn probe(&self) -> io::Result<()> {
        let tcp = match self {
            OriginStream::Tcp(tcp) => tcp,
            OriginStream::Tls(tls) => tls.get_ref().0,
            _ => return Ok(()),
        };
        let socket = SockRef::from(&tcp.stream);
        let probes = TcpKeepalive::new().with_time(PROBED_AFTER).with_interval(PROBED_AFTER / 2);
        socket.set_tcp_keepalive(&probes)?;
        socket.set_tcp_user_timeout(Some(UNTAKEN_MAX))
    }

    /// Whether the server says that it has not looked at the request; and what was written of it, if it is still at hand.
    pub(crate) fn unprocessed(&mut self) -> Option<(Unprocessed, Option<Vec<u8>>)> {
        let OriginStream::Http2(stream) = self else { return None };
        let is_refused = stream.unprocessed()? == h2::Reason::REFUSED_STREAM;
        let replay = stream.take_replay();
        let is_whole = replay.is_some();
        Some((Unprocessed { is_refused, is_whole, resent: 0 }, replay))
    }

    /// Whether HTTP/2 was agreed on in the handshake.
    pub(super) fn chose_http2(&self) -> bool {
        matches!(self, OriginStream::Tls(tls) if tls.get_ref().1.alpn_protocol() == Some(b"h2"))
    }

    /// How the handshake went; `None`: there was none.
    pub(super) fn handshake_kind(&self) -> Option<HandshakeKind> {
        match self {
            OriginStream::Tls(tls) => tls.get_ref().1.handshake_kind(),
            _ => None,
        }
    }

    /// Whether an idle connection may be used: nothing has arrived on it, neither bytes nor its end.
    ///
    /// Asks the cached readiness first, so it costs a system call only where something did arrive.
    pub fn is_fresh(&mut self) -> bool {
        let mut byte = [0];
        let read = match self {
            OriginStream::Tcp(tcp) => tcp.stream.try_read(&mut byte),
            OriginStream::Unix(stream) => stream.try_read(&mut byte),
            // None is kept.
            OriginStream::Http2(_) => return false,
            // Session tickets may have arrived, which are nothing of an answer's.
            OriginStream::Tls(tls) => {
                let mut context = Context::from_waker(Waker::noop());
                return Pin::new(&mut **tls)
                    .poll_read(&mut context, &mut ReadBuf::new(&mut byte))
                    .is_pending();
            }
            #[cfg(feature = "memory")]
            OriginStream::Memory(end) => return end.is_fresh(),
        };
        matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

impl LabelledTcp {
    fn set_label(&mut self, label: Label) -> io::Result<()> {
        if self.label == label {
            return Ok(());
        }
        self.label = label;
        set_label(&self.stream, label, self.by_v6)
    }
}

/// For TLS; a plain connection is polled by [`OriginStream`] itself.
impl AsyncRead for LabelledTcp {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for LabelledTcp {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
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
            OriginStream::Http2(stream) => Pin::new(&mut **stream).poll_read(context, buffer),
            OriginStream::Tls(tls) => {
                let mut tls = Pin::new(&mut **tls);
                // What the socket did not take when it was written goes on while the answer is waited for. A failure
                // shows again when it is read.
                if tls.get_ref().1.wants_write() {
                    let _ = tls.as_mut().poll_flush(context);
                }
                tls.poll_read(context, buffer)
            }
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
            OriginStream::Http2(stream) => Pin::new(&mut **stream).poll_write(context, bytes),
            OriginStream::Tls(tls) => Pin::new(&mut **tls).poll_write(context, bytes),
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
            OriginStream::Http2(stream) => {
                Pin::new(&mut **stream).poll_write_vectored(context, slices)
            }
            OriginStream::Tls(tls) => Pin::new(&mut **tls).poll_write_vectored(context, slices),
            #[cfg(feature = "memory")]
            OriginStream::Memory(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            OriginStream::Tls(tls) => Pin::new(&mut **tls).poll_flush(context),
            _ => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            OriginStream::Tcp(tcp) => Pin::new(&mut tcp.stream).poll_shutdown(context),
            OriginStream::Unix(stream) => Pin::new(stream).poll_shutdown(context),
            OriginStream::Http2(stream) => Pin::new(&mut **stream).poll_shutdown(context),
            OriginStream::Tls(tls) => Pin::new(&mut **tls).poll_shutdown(context),
            #[cfg(feature = "memory")]
            OriginStream::Memory(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[test]
    fn tls_and_streams_make_plain_connections_no_larger() {
        let word = size_of::<usize>();
        assert!(size_of::<OriginStream>() <= size_of::<LabelledTcp>() + word);
    }

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
