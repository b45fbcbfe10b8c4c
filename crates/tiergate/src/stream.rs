//! Polling sockets into and out of [`Buffer`]s.

use crate::buffers::Buffer;
use crate::tcp_info;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionread;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use socket2::TcpKeepalive;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tiergate_core::mark::Label;
use tiergate_core::transmit::Sending;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

/// How a client is asked for room; one that answers nothing for long is ended by the time-out for writing.
const ASKS: TcpKeepalive = TcpKeepalive::new()
    .with_time(Duration::from_secs(1))
    .with_interval(Duration::from_secs(1))
    .with_retries(100);

/// A client's connection: plain or through TLS.
pub trait ClientStream: AsyncRead + AsyncWrite + Unpin + Send {
    /// Whether the client has ended its side, be it behind bytes that were not read yet.
    fn is_ended(&self) -> bool;

    /// Whether the client has reset the connection. A system call.
    fn is_reset(&self) -> bool;

    /// Bytes that the client's system has acknowledged, of all that was written, as they went over the network;
    /// `None`: not known. A system call.
    fn delivered(&self) -> Option<u64> {
        None
    }

    /// Its socket, once nothing but what was written is in it; `None`: what is written goes to it later.
    fn socket(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// What it has sent, and may send now; `None`: not known. A system call.
    fn sending(&self) -> Option<Sending> {
        None
    }

    /// Has the packets that leave from now on bear this label; `by_v6`: the client has an address of version 6, also once IPv4 is
    /// written as IPv6. Two system calls.
    ///
    /// # Errors
    /// What the system says.
    fn set_label(&self, _label: Label, _by_v6: bool) -> io::Result<()> {
        Ok(())
    }

    /// The system takes no more while so many bytes that were written have not been sent; 0: as many as it likes. A system call.
    ///
    /// # Errors
    /// What the system says.
    fn limit_unsent(&self, _bytes: u32) -> io::Result<()> {
        Ok(())
    }

    /// Has the system ask the client every second whether it has room, while nothing is on its way to it; or not any more. Up to four system calls.
    ///
    /// # Errors
    /// What the system says.
    fn asks_for_room(&self, _does: bool) -> io::Result<()> {
        Ok(())
    }

    /// Whether to close the connection would lose some of what was written, or may: the client has sent what nobody has read, so that the close is a reset,
    /// or some has not been sent yet, and the client may send until then. Two system calls.
    fn is_unsettled(&self) -> bool {
        false
    }

    /// Has the close of the connection be a reset.
    fn reset_at_close(&self);

    /// Writes like [`AsyncWrite::poll_write_vectored`] what is the end of all that is written. Of it the last packet may stay here until our side is ended,
    /// and then bears that end, too: one packet less, for both sides. The caller ends our side as soon as all is written.
    fn poll_write_last(
        &mut self,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(self).poll_write_vectored(context, slices)
    }
}

impl ClientStream for TcpStream {
    fn is_ended(&self) -> bool {
        let mut socket = [PollFd::new(self, PollFlags::RDHUP)];
        poll(&mut socket, Some(&Timespec::default())).is_ok_and(|count| count > 0)
    }

    fn is_reset(&self) -> bool {
        // Errors and the end of both sides are told unasked.
        let mut socket = [PollFd::new(self, PollFlags::empty())];
        poll(&mut socket, Some(&Timespec::default())).is_ok_and(|count| count > 0)
    }

    fn delivered(&self) -> Option<u64> {
        tcp_info::acknowledged(self)
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }

    fn sending(&self) -> Option<Sending> {
        tcp_info::sending(self)
    }

    fn set_label(&self, label: Label, by_v6: bool) -> io::Result<()> {
        set_label(self, label, by_v6)
    }

    fn limit_unsent(&self, bytes: u32) -> io::Result<()> {
        socket2::SockRef::from(self).set_tcp_notsent_lowat(bytes)
    }

    fn asks_for_room(&self, does: bool) -> io::Result<()> {
        let socket = socket2::SockRef::from(self);
        match does {
            // What a probe is answered with says how much room there is.
            true => socket.set_tcp_keepalive(&ASKS),
            false => socket.set_keepalive(false),
        }
    }

    fn is_unsettled(&self) -> bool {
        ioctl_fionread(self).is_ok_and(|bytes| bytes > 0)
            || tcp_info::unsent(self).is_some_and(|bytes| bytes > 0)
    }

    fn reset_at_close(&self) {
        // Closing with a zero linger time sends a reset.
        let _ = socket2::SockRef::from(self).set_linger(Some(Duration::ZERO));
    }

    fn poll_write_last(
        &mut self,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
        let send = |stream: &Self| {
            Ok(sendmsg(stream, slices, &mut SendAncillaryBuffer::default(), flags)?)
        };
        loop {
            ready!(self.poll_write_ready(context))?;
            match self.try_io(Interest::WRITABLE, || send(self)) {
                Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }
}

/// A client's connection while it gets the last of what it gets: see [`ClientStream::poll_write_last`].
#[derive(Debug)]
pub struct Last<'s, S>(pub &'s mut S);

impl<S: ClientStream> AsyncWrite for Last<'_, S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_write_last(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_write_last(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_shutdown(context)
    }
}

/// Has the packets of a TCP connection bear this label from now on, by IPv6 or IPv4. Two system calls.
///
/// # Errors
/// What the system says.
pub fn set_label(socket: &TcpStream, label: Label, by_v6: bool) -> io::Result<()> {
    let socket = socket2::SockRef::from(socket);
    // The code point is the upper six bits of either field; the kernel keeps the two of ECN itself. A socket of IPv6 whose
    // peer has IPv4 sends by IPv4, and has that one's field.
    let field = u32::from(label.dscp) << 2;
    if by_v6 {
        socket.set_tclass_v6(field)?
    } else {
        socket.set_tos_v4(field)?
    }
    // Last: of IPv4 the system derives one from the field, by what its bits meant before RFC 2474.
    socket.set_priority(label.priority.into())
}

/// Reads into the room behind the buffer's content. 0 is the end of the stream, or a full buffer.
pub fn poll_fill<R: AsyncRead + Unpin>(
    io: &mut R,
    buffer: &mut Buffer,
    context: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    let mut read = ReadBuf::new(buffer.room());
    ready!(Pin::new(io).poll_read(context, &mut read))?;
    let count = read.filled().len();
    buffer.filled(count);
    Poll::Ready(Ok(count))
}

/// Reads into `held`, taking a buffer by `fresh` only if bytes are there.
pub fn poll_fill_held<R: AsyncRead + Unpin>(
    io: &mut R,
    held: &mut Option<Buffer>,
    fresh: impl FnOnce() -> Buffer,
    context: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    if let Some(buffer) = held {
        return poll_fill(io, buffer, context);
    }
    let mut buffer = fresh();
    let count = ready!(poll_fill(io, &mut buffer, context))?;
    *held = Some(buffer);
    Poll::Ready(Ok(count))
}

/// Two byte strings on their way out, in one system call where the socket takes them.
#[derive(Debug)]
pub struct Outgoing<'b> {
    first: &'b [u8],
    second: &'b [u8],
}

impl<'b> Outgoing<'b> {
    /// `first`, then `second`.
    pub fn new(first: &'b [u8], second: &'b [u8]) -> Self {
        Outgoing { first, second }
    }

    /// How many bytes are left.
    pub fn left(&self) -> usize {
        self.first.len() + self.second.len()
    }

    /// Writes until all is written and flushed.
    pub fn poll<W: AsyncWrite + Unpin>(
        &mut self,
        io: &mut W,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while self.left() > 0 {
            ready!(self.poll_some(io, context))?;
        }
        Pin::new(io).poll_flush(context)
    }

    /// Writes what is taken at once, and says how much; there must be something left.
    pub fn poll_some<W: AsyncWrite + Unpin>(
        &mut self,
        io: &mut W,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let io = Pin::new(io);
        let written = if self.second.is_empty() {
            ready!(io.poll_write(context, self.first))?
        } else if self.first.is_empty() {
            ready!(io.poll_write(context, self.second))?
        } else {
            let slices = [IoSlice::new(self.first), IoSlice::new(self.second)];
            ready!(io.poll_write_vectored(context, &slices))?
        };
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        let of_first = written.min(self.first.len());
        self.first = &self.first[of_first..];
        self.second = &self.second[written - of_first..];
        Poll::Ready(Ok(written))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn the_last_packet_bears_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let address = listener.local_addr().expect("bound");
        let mut client = TcpStream::connect(address).await.expect("it listens");
        let (mut server, _) = listener.accept().await.expect("it comes");
        server.set_nodelay(true).expect("TCP");
        let is_there = |client: &TcpStream| client.try_read(&mut [0; 1]).is_ok();
        // As all that is not the last: on loopback it is there when the call returns.
        server.write_all(b"1").await.expect("open");
        client.readable().await.expect("open");
        assert!(is_there(&client));
        let mut outgoing = Outgoing::new(b"head", b"body");
        let last = &mut Last(&mut server);
        poll_fn(|context| outgoing.poll(last, context)).await.expect("open");
        assert!(!is_there(&client), "it waits for the end");
        server.shutdown().await.expect("open");
        let mut read = Vec::new();
        client.read_to_end(&mut read).await.expect("open");
        assert_eq!(read, b"headbody");
    }
}
