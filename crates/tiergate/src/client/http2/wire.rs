//! What the `h2` crate reads from and writes to: the client's connection, with the bytes that were
//! read before it was known to be HTTP/2 in front, and what is written gathered.
//!
//! `h2` writes and flushes each larger DATA frame by itself, which would cost a system call (and under
//! TLS a runt of a record) for each answer of a kilobyte. So its flushes are not taken at their word:
//! the connection's task calls [`Wire::poll_drain`] when `h2` has nothing more to say for now.
//! Measured with 8 connections of 32 streams, 1 KiB each: 0.04 writes a request.
//!
//! | state | who reads and writes | lock |
//! |---|---|---|
//! | the line | `h2` and the connection's loop, in the same task | never contended |

use crate::buffers::Buffer;
use crate::client::streams::tally::Meter;
use crate::stream::ClientStream;
use crate::timers::Timer;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tiergate_core::transmit::Sending;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that the system may hold unsent while an answer on the connection waits for turns on the link: a client that reads nothing would have them
/// together later.
const UNSENT_MAX: u32 = 16 << 10;

/// A handle on the client's connection.
#[derive(Debug)]
pub(super) struct Wire<S>(Arc<Mutex<Line<S>>>);

#[derive(Debug)]
struct Line<S> {
    io: S,
    /// Read before, and not yet read by `h2`.
    early: Option<Buffer>,
    /// Written by `h2`, and not yet to the socket.
    out: Option<Buffer>,
    /// Armed while the socket takes nothing.
    stalled: Timer,
    is_stalled: bool,
    stall_max: Duration,
    /// The client has ended its side.
    ended: bool,
}

impl<S> Clone for Wire<S> {
    fn clone(&self) -> Self {
        Wire(self.0.clone())
    }
}

impl<S: ClientStream> Wire<S> {
    pub(super) fn new(io: S, early: Option<Buffer>, stall_max: Duration) -> Self {
        Wire(Arc::new(Mutex::new(Line {
            io,
            early: early.filter(|buffer| !buffer.is_empty()),
            out: None,
            stalled: Timer::new(),
            is_stalled: false,
            stall_max,
            ended: false,
        })))
    }

    fn line(&self) -> MutexGuard<'_, Line<S>> {
        self.0.lock().expect("no code panics while it holds the line")
    }

    /// Writes what `h2` has written so far to the socket.
    ///
    /// # Errors
    /// What the socket says; `TimedOut` when it has taken nothing for too long.
    pub(super) fn poll_drain(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.line().poll_drain(context)
    }

    /// Asks for what was delivered, and sets the label; keeps no connection open. `by_v6`: its packets are of IPv6.
    pub(super) fn meter(&self, by_v6: bool) -> Meter
    where
        S: 'static,
    {
        const HELD: &str = "no code panics while it holds the line";
        let [asked, marked, limited, looked, told] = [(); 5].map(|()| Arc::downgrade(&self.0));
        let ask = move || asked.upgrade()?.lock().expect(HELD).io.delivered();
        let set_label = move |label| match marked.upgrade() {
            Some(line) => line.lock().expect(HELD).io.set_label(label, by_v6),
            None => Ok(()),
        };
        // What waits here has not been sent either.
        let sending = move || {
            let line = looked.upgrade()?;
            let line = line.lock().expect(HELD);
            let waits = line.out.as_ref().map_or(0, |out| out.content().len() as u64);
            let sending = line.io.sending()?;
            Some(Sending { unsent: sending.unsent + waits, ..sending })
        };
        let limit_unsent = move |is_in_turns| {
            if let Some(line) = limited.upgrade() {
                // Where the system refuses, more of it waits there.
                let bytes = if is_in_turns { UNSENT_MAX } else { 0 };
                let _ = line.lock().expect(HELD).io.limit_unsent(bytes);
            }
        };
        let asks_for_room = move |does| {
            if let Some(line) = told.upgrade() {
                // Where the system refuses, the client says by itself that it has room.
                let _ = line.lock().expect(HELD).io.asks_for_room(does);
            }
        };
        Meter::new(ask, set_label, limit_unsent, sending, asks_for_room)
    }

    /// Whether the client has ended its side.
    pub(super) fn is_ended(&self) -> bool {
        self.line().ended
    }
}

impl<S: ClientStream> Line<S> {
    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.out.is_none() && !self.is_stalled {
            return Poll::Ready(Ok(()));
        }
        let drained = self.poll_write_out(context);
        if drained.is_ready() {
            self.is_stalled = false;
            self.stalled.arm(Duration::ZERO);
            return drained;
        }
        if !self.is_stalled {
            self.is_stalled = true;
            self.stalled.arm(self.stall_max);
        }
        if self.stalled.poll_expired(context) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Poll::Pending
    }

    fn poll_write_out(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(out) = &mut self.out {
            let count = ready!(Pin::new(&mut self.io).poll_write(context, out.content()))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            out.consume(count);
            if out.is_empty() {
                self.out = None;
                // Only a whole buffer earns the next its time: a client may take byte after byte for ever.
                self.stalled.arm(self.stall_max);
            }
        }
        Pin::new(&mut self.io).poll_flush(context)
    }

    /// Takes bytes over: as many as there is room for.
    fn put(&mut self, bytes: &[u8]) -> usize {
        let out = self.out.get_or_insert_with(Buffer::large);
        let room = out.room();
        let count = room.len().min(bytes.len());
        room[..count].copy_from_slice(&bytes[..count]);
        out.filled(count);
        count
    }

    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.out {
            Some(out) if out.is_full() => self.poll_drain(context),
            _ => Poll::Ready(Ok(())),
        }
    }
}

impl<S: ClientStream> AsyncRead for Wire<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let line = &mut *self.line();
        if let Some(early) = &mut line.early {
            let count = early.content().len().min(buffer.remaining());
            buffer.put_slice(&early.content()[..count]);
            early.consume(count);
            if early.is_empty() {
                line.early = None;
            }
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut line.io).poll_read(context, buffer))?;
        line.ended |= buffer.filled().len() == before;
        Poll::Ready(Ok(()))
    }
}

impl<S: ClientStream> AsyncWrite for Wire<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut line = self.line();
        ready!(line.poll_room(context))?;
        Poll::Ready(Ok(line.put(bytes)))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut line = self.line();
        ready!(line.poll_room(context))?;
        let mut taken = 0;
        for slice in slices {
            let count = line.put(slice);
            taken += count;
            if count < slice.len() {
                break;
            }
        }
        Poll::Ready(Ok(taken))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Does nothing: see [`Wire::poll_drain`].
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut line = self.line();
        ready!(line.poll_drain(context))?;
        Pin::new(&mut line.io).poll_shutdown(context)
    }
}
