//! A request's body on its way to the origin, driven by whatever the answer's side waits for.

use crate::buffers::Buffer;
use crate::origin::stream::OriginStream;
use crate::request::body::BodyScanner;
use crate::request::fault::{Fault, MALFORMED, TOO_LARGE};
use crate::request::spool::Spool;
use crate::stream::{ClientStream, poll_fill_held};
use crate::timers::Timer;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tiergate_wire::http1::TrailerNames;
use tokio::io::AsyncWrite;

/// A request's body on its way to the origin.
#[derive(Debug)]
pub(super) struct Upload {
    scanner: BodyScanner,
    /// Read from the client. Its first `checked` bytes are the body's, and not yet taken by the origin;
    /// once the body has ended, what is behind them is a following request's.
    pending: Option<Buffer>,
    checked: usize,
    /// Trailers that come are kept back until the request has been decided about.
    holds_trailers: bool,
    /// What is left when all was read stays here.
    pub(super) holds_end: bool,
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
            holds_trailers: false,
            holds_end: false,
            done: false,
            refused: false,
            total: sent,
            total_max,
        }
    }

    /// The same of a request that is still to be decided about, with what was read of it: all that is in `read`.
    pub(super) fn of(scanner: BodyScanner, read: Option<Buffer>, total_max: u64) -> Self {
        let checked = read.as_ref().map_or(0, |buffer| buffer.content().len());
        let upload = Upload::new(scanner, checked as u64, total_max);
        Upload { pending: read, checked, holds_trailers: true, ..upload }
    }

    /// Whether the whole body has been handed on.
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// Whether the whole body was read from the client.
    pub(super) fn is_read(&self) -> bool {
        self.scanner.is_done()
    }

    /// Whether all was read, and the end of it is held.
    pub(super) fn is_end_held(&self) -> bool {
        self.holds_end && self.is_read() && self.is_moving()
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

    /// Bytes of a following request that came with the last of the body, whether or not the origin has taken that.
    pub(super) fn into_rest(self) -> Option<Buffer> {
        let mut rest = self.pending.filter(|_| self.scanner.is_done())?;
        rest.consume(self.checked);
        (!rest.is_empty()).then_some(rest)
    }

    /// The request has been decided about: trailers that have come go behind the body, and none of those names does.
    pub(super) fn put_trailers(&mut self, left_out: &TrailerNames) {
        self.holds_trailers = false;
        self.scanner.leave_out(left_out);
        if self.scanner.holds_trailers() {
            let pending = self.pending.get_or_insert_with(Buffer::small);
            self.checked += self.scanner.put_trailers(pending, self.checked);
            self.done = false;
        }
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
            if self.is_end_held() {
                return Poll::Pending;
            }
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

    /// Moves what can be moved to a file. Ready when the body has ended or no more is taken.
    ///
    /// # Errors
    /// The client's, or the file's. `timer` is armed anew with `patience` at every step.
    pub(super) fn poll_spool<S: ClientStream>(
        &mut self,
        client: &mut S,
        spool: &mut Spool,
        timer: &Timer,
        patience: Duration,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Fault>> {
        loop {
            // One buffer after the other: what the client sends meanwhile waits in its socket.
            ready!(spool.poll_written(timer, patience, context))?;
            if self.checked > 0 {
                let buffer = self.pending.as_ref().expect("checked bytes lie in it");
                let count = spool.put(&buffer.content()[..self.checked]);
                self.moved(count);
            }
            if spool.is_to_be_written() {
                continue;
            }
            if self.done || !spool.is_filling() {
                return Poll::Ready(Ok(()));
            }
            let Some(fresh) = spool.buffer() else { continue };
            match ready!(poll_fill_held(client, &mut self.pending, || fresh, context)) {
                Ok(0) => return Poll::Ready(Err(Fault::gone())),
                Ok(_) => self.check()?,
                Err(error) => return Poll::Ready(Err(Fault::Client(error))),
            }
            timer.arm(patience);
        }
    }

    /// Looks at what was just read.
    fn check(&mut self) -> Result<(), Fault> {
        let buffer = self.pending.as_mut().expect("just read");
        let passed = match self.holds_trailers {
            true => self.scanner.pass_body(buffer, 0),
            false => self.scanner.pass(buffer, 0),
        };
        let passed = passed.map_err(|_| MALFORMED)?;
        self.checked = passed.kept;
        self.total += passed.consumed as u64;
        if self.total_max > 0 && self.total > self.total_max {
            return Err(TOO_LARGE);
        }
        // Of trailers alone nothing is left.
        if self.checked == 0 {
            self.moved(0);
        }
        Ok(())
    }

    fn poll_send(&mut self, origin: &mut OriginStream, context: &mut Context<'_>) -> Poll<()> {
        while self.checked > 0 {
            let buffer = self.pending.as_ref().expect("checked bytes lie in it");
            let bytes = &buffer.content()[..self.checked];
            match ready!(Pin::new(&mut *origin).poll_write(context, bytes)) {
                Ok(count) if count > 0 => self.moved(count),
                // It may have answered before it closed; the answer's side finds out.
                _ => {
                    self.refused = true;
                    return Poll::Ready(());
                }
            }
        }
        Poll::Ready(())
    }

    /// So much of what was checked has been handed on.
    fn moved(&mut self, count: usize) {
        let buffer = self.pending.as_mut().expect("checked bytes lie in it");
        buffer.consume(count);
        self.checked -= count;
        if self.checked == 0 {
            self.pending.take_if(|buffer| buffer.is_empty());
            self.done = self.scanner.is_done();
            debug_assert!(self.done || self.pending.is_none(), "a body uses all that was read");
        }
    }
}
