//! A client's connection over HTTP/1.1: what was received, and how more is read and answers of ours are
//! written.

use crate::buffers::{self, Buffer};
use crate::client::peer::Peer;
use crate::clock;
use crate::stream::{ClientStream, Last, Outgoing, poll_fill, poll_fill_held};
use crate::timers::Timer;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tiergate_core::time::Moment;

/// How long after the last byte of its request a client may end its side and still wait for the answer, as
/// scripts do (`nc -N`, `socat`, `shutdown(SHUT_WR)`) as soon as they have sent all. Later it is taken to have
/// left: the end of its side is all that is seen of a client that closes the connection.
const HALF_CLOSE_MAX: Duration = Duration::from_millis(10);

/// How often a client whose bytes are not read any more is looked at; and one whose request waits for a slot.
pub(super) const GLANCE: Duration = Duration::from_secs(1);
pub(super) const GLANCE_IN_QUEUE: Duration = Duration::from_millis(100);

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
    /// Until then a client that ends its side still waits for the answer.
    stays_until: Moment,
    /// The client has ended its side, and waits for the answer.
    half_closed: bool,
    /// Runs while the client's bytes are not read.
    glance: Option<Timer>,
}

impl<S: ClientStream> Input<S> {
    /// A connection of which `buffer` was received.
    pub(super) fn new(io: S, peer: Box<Peer>, timer: Timer, buffer: Option<Buffer>) -> Self {
        Input {
            io,
            peer,
            timer,
            buffer,
            stays_until: Moment::ZERO,
            half_closed: false,
            glance: None,
        }
    }

    /// The client has sent a whole request, or all that is read of it before the verdict.
    pub(super) fn request_is_here(&mut self) {
        self.stays_until = clock::now() + HALF_CLOSE_MAX;
        self.glance = None;
    }

    /// The client gets the answer: if it ends its side only now, it leaves.
    pub(super) fn answer_is_here(&mut self) {
        self.stays_until = Moment::ZERO;
    }

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

    /// Ready when the client has gone away. Bytes of a further request are kept, as far as there is room.
    /// The head and a body's beginning may fill the buffer: there is room for as much again.
    pub(super) fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while !self.half_closed {
            let buffer = self.buffer.get_or_insert_with(Buffer::small);
            if buffer.is_full() {
                buffer.make_room(2 * buffers::SMALL);
            }
            if buffer.is_full() {
                return self.poll_gone_unread(GLANCE, context);
            }
            match ready!(poll_fill(&mut self.io, buffer, context)) {
                Err(_) => return Poll::Ready(()),
                Ok(0) if self.has_left() => return Poll::Ready(()),
                Ok(_) => {}
            }
        }
        Poll::Pending
    }

    /// The same, without reading: the system is asked now and then whether there is an end behind the bytes
    /// that the client has sent.
    pub(super) fn poll_gone_unread(
        &mut self,
        every: Duration,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        self.poll_glance(every, |it| it.io.is_ended() && it.has_left(), context)
    }

    /// The same of a client that may have ended its side behind bytes that are still to be read: only a reset says that it has left.
    pub(super) fn poll_reset(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.poll_glance(GLANCE, |it| it.io.is_reset(), context)
    }

    fn poll_glance(
        &mut self,
        every: Duration,
        mut is_gone: impl FnMut(&mut Self) -> bool,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        let mut looks = self.glance.is_none();
        while !self.half_closed {
            let glance = self.glance.get_or_insert_with(Timer::new);
            if !looks && !glance.poll_expired(context) {
                break;
            }
            looks = false;
            glance.arm(every);
            if is_gone(self) {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }

    /// The client has ended its side: whether it is taken to have left.
    fn has_left(&mut self) -> bool {
        self.half_closed = clock::now() <= self.stays_until;
        !self.half_closed
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

    /// Writes two byte strings of ours, within `time`. `is_last`: our side is ended as soon as they are written.
    ///
    /// # Errors
    /// The connection broke, or the client took nothing for too long.
    pub(super) async fn write(
        &mut self,
        first: &[u8],
        second: &[u8],
        time: Duration,
        is_last: bool,
    ) -> io::Result<()> {
        self.timer.arm(time);
        let mut outgoing = Outgoing::new(first, second);
        let Input { io, timer, .. } = self;
        let write = |context: &mut Context<'_>| match is_last {
            true => outgoing.poll(&mut Last(io), context),
            false => outgoing.poll(io, context),
        };
        timer.bound(write).await
    }

    /// Ends our side, and lingers if the client has sent more, or not all has gone to it yet: a mere close would be a reset then, which loses what of
    /// the answer is still here, and is no end of TLS.
    ///
    /// # Errors
    /// The connection broke.
    pub(super) async fn close(&mut self) -> io::Result<()> {
        self.end().await?;
        match self.io.is_unsettled() {
            true => self.read_out().await,
            false => Ok(()),
        }
    }

    /// Ends our side and reads what the client still sends, bounded in time and bytes.
    ///
    /// # Errors
    /// The connection broke.
    pub(super) async fn linger(&mut self) -> io::Result<()> {
        self.end().await?;
        self.read_out().await
    }

    async fn end(&mut self) -> io::Result<()> {
        self.timer.arm(LINGER);
        let Input { io, timer, .. } = self;
        timer.bound(|context| Pin::new(&mut *io).poll_shutdown(context)).await
    }

    async fn read_out(&mut self) -> io::Result<()> {
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
