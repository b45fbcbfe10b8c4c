//! A request's body on its way to the origin, driven by whatever the answer's side waits for.

use crate::buffers::Buffer;
use crate::origin::stream::OriginStream;
use crate::request::body::BodyScanner;
use crate::request::fault::{Fault, MALFORMED, TOO_LARGE};
use crate::stream::{ClientStream, poll_fill_held};
use crate::timers::Timer;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::AsyncWrite;

/// A request's body on its way to the origin.
#[derive(Debug)]
pub(super) struct Upload {
    scanner: BodyScanner,
    /// Read from the client. Its first `checked` bytes are the body's, and not yet taken by the origin;
    /// once the body has ended, what is behind them is a following request's.
    pending: Option<Buffer>,
    checked: usize,
    done: bool,
    /// The origin takes no more: what the client still sends is not read.
    refused: bool,
    total: u64,
    total_max: u64,
}

impl Upload {
    /// The rest of a body, of which `scanner` has seen the beginning: `sent` bytes.
    pub(super) fn new(scanner: BodyScanner, sent: u64, total_max: u64) -> Self {
        Upload {
            scanner,
            pending: None,
            checked: 0,
            done: false,
            refused: false,
            total: sent,
            total_max,
        }
    }

    /// Whether the whole body has been handed on.
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// Whether there is more to be moved: the body has not ended and the origin takes it.
    pub(super) fn is_moving(&self) -> bool {
        !self.done && !self.refused
    }

    /// Whether the client's connection is free for the next request: no byte of one was read here.
    pub(super) fn has_left_the_client(&self) -> bool {
        self.done && self.pending.is_none()
    }

    /// Whether nothing more is read here.
    pub(super) fn has_stopped(&self) -> bool {
        !self.is_moving()
    }

    /// Bytes of a following request that came with the last of the body.
    pub(super) fn into_rest(self) -> Option<Buffer> {
        self.pending.filter(|_| self.done)
    }

    /// Bytes of the body that were read, those that came with the head included.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Whether it is the client's turn: all that was read has been taken.
    pub(super) fn is_dry(&self) -> bool {
        self.checked == 0
    }

    /// Moves what can be moved. Ready when the body has ended or the origin takes no more.
    ///
    /// # Errors
    /// The client's. `timer` is armed anew with `patience` at every step.
    pub(super) fn poll<S: ClientStream>(
        &mut self,
        client: &mut S,
        origin: &mut OriginStream,
        timer: &Timer,
        patience: Duration,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Fault>> {
        while self.is_moving() {
            if self.checked > 0 {
                ready!(self.poll_send(origin, context));
                timer.arm(patience);
                continue;
            }
            let read = poll_fill_held(client, &mut self.pending, Buffer::large, context);
            match ready!(read) {
                Ok(0) => return Poll::Ready(Err(Fault::gone())),
                Ok(_) => self.check()?,
                Err(error) => return Poll::Ready(Err(Fault::Client(error))),
            }
            timer.arm(patience);
        }
        Poll::Ready(Ok(()))
    }

    /// Looks at what was just read.
    fn check(&mut self) -> Result<(), Fault> {
        let buffer = self.pending.as_mut().expect("just read");
        let passed = self.scanner.pass(buffer, 0).map_err(|_| MALFORMED)?;
        self.checked = passed.kept;
        self.total += passed.consumed as u64;
        if self.total_max > 0 && self.total > self.total_max {
            return Err(TOO_LARGE);
        }
        Ok(())
    }

    fn poll_send(&mut self, origin: &mut OriginStream, context: &mut Context<'_>) -> Poll<()> {
        while self.checked > 0 {
            let buffer = self.pending.as_mut().expect("checked bytes lie in it");
            let bytes = &buffer.content()[..self.checked];
            match ready!(Pin::new(&mut *origin).poll_write(context, bytes)) {
                Ok(count) if count > 0 => {
                    buffer.consume(count);
                    self.checked -= count;
                }
                // It may have answered before it closed; the answer's side finds out.
                _ => {
                    self.refused = true;
                    return Poll::Ready(());
                }
            }
        }
        self.pending = self.pending.take().filter(|buffer| !buffer.is_empty());
        self.done = self.scanner.is_done();
        debug_assert!(self.done || self.pending.is_none(), "a body uses all that was read of it");
        Poll::Ready(())
    }
}
