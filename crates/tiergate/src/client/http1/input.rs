//! A client's connection over HTTP/1.1: what was received, and how more is read and answers of ours are
//! written.

use crate::buffers::{self, Buffer};
use crate::client::peer::Peer;
use crate::stream::{ClientStream, Outgoing, poll_fill, poll_fill_held};
use crate::timers::Timer;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// How long a connection that was answered with an error is still read, so that the answer is not
/// lost to a reset (RFC 9112 §9.6).
const LINGER: Duration = Duration::from_secs(1);

/// Bytes that a lingering close reads at most.
const LINGER_BYTES_MAX: usize = 256 * 1024;

/// A client's connection, and what was received over it.
#[derive(Debug)]
pub(super) struct Input<S> {
    pub(super) io: S,
    pub(super) peer: Box<Peer>,
    pub(super) timer: Timer,
    /// What was received and is not used up; `None` while there is nothing.
    pub(super) buffer: Option<Buffer>,
}

impl<S: ClientStream> Input<S> {
    /// What was received and is not used up.
    pub(super) fn received(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], Buffer::content)
    }

    /// Waits for the first bytes of a request; holds no buffer meanwhile.
    ///
    /// # Errors
    /// The connection broke, was closed or idle for too long.
    pub(super) async fn await_bytes(&mut self) -> io::Result<()> {
        let Input { io, timer, buffer, .. } = self;
        let count =
            timer.bound(|context| poll_fill_held(io, buffer, Buffer::small, context)).await?;
        if count == 0 {
            *buffer = None;
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    /// Reads behind what was received. There must be room.
    pub(super) fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let buffer = self.buffer.get_or_insert_with(Buffer::small);
        poll_fill(&mut self.io, buffer, context).map(|read| match read? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        })
    }

    /// Makes the buffer hold `len` bytes if it is full.
    pub(super) fn make_room(&mut self, len: usize) {
        self.buffer.get_or_insert_with(Buffer::small).make_room(len);
    }

    /// Ready when the client has gone away. Bytes of a further request are kept; when there is no room
    /// for more, nothing is noticed until there is. The head and a body's beginning may fill the
    /// buffer: there is room for as much again.
    pub(super) fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let buffer = self.buffer.get_or_insert_with(Buffer::small);
            if buffer.is_full() {
                buffer.make_room(2 * buffers::SMALL);
            }
            if buffer.is_full() {
                return Poll::Pending;
            }
            match poll_fill(&mut self.io, buffer, context) {
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(_)) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Forgets bytes that were received; gives the buffer back if none are left.
    pub(super) fn use_up(&mut self, count: usize) {
        if let Some(buffer) = &mut self.buffer {
            buffer.consume(count);
            if buffer.is_empty() {
                self.buffer = None;
            } else {
                buffer.settle();
            }
        }
    }

    /// Reads and forgets `len` bytes.
    ///
    /// # Errors
    /// The connection broke, or nothing came for too long.
    pub(super) async fn skip(&mut self, mut len: u64) -> io::Result<()> {
        loop {
            let skipped = len.min(self.received().len() as u64);
            self.use_up(skipped as usize);
            len -= skipped;
            if len == 0 {
                return Ok(());
            }
            self.await_bytes().await?;
        }
    }

    /// Writes two byte strings of ours, within `time`.
    ///
    /// # Errors
    /// The connection broke, or the client took nothing for too long.
    pub(super) async fn write(
        &mut self,
        first: &[u8],
        second: &[u8],
        time: Duration,
    ) -> io::Result<()> {
        self.timer.arm(time);
        let mut outgoing = Outgoing::new(first, second);
        let Input { io, timer, .. } = self;
        timer.bound(|context| outgoing.poll(io, context)).await
    }

    /// Ends our side.
    ///
    /// # Errors
    /// The connection broke.
    pub(super) async fn end(&mut self) -> io::Result<()> {
        self.timer.arm(LINGER);
        let Input { io, timer, .. } = self;
        timer.bound(|context| Pin::new(&mut *io).poll_shutdown(context)).await
    }

    /// Ends our side and reads what the client still sends, bounded in time and bytes.
    ///
    /// # Errors
    /// The connection broke.
    pub(super) async fn linger(&mut self) -> io::Result<()> {
        self.end().await?;
        let Input { io, timer, buffer, .. } = self;
        let mut left = LINGER_BYTES_MAX;
        while left > 0 {
            *buffer = None;
            let read = timer.bound(|context| poll_fill_held(io, buffer, Buffer::small, context));
            match read.await? {
                0 => break,
                count => left = left.saturating_sub(count),
            }
        }
        Ok(())
    }
}
