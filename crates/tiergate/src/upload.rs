//! A request's body on its way to the origin, driven by whatever the answer's side waits for.

use crate::body::{BodyScanner, Malformed};
use crate::buffers::Buffer;
use crate::origin::stream::OriginStream;
use crate::stream::{ClientStream, poll_fill_held};
use crate::timers::Timer;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::AsyncWrite;

/// Why an upload ended before the body did.
#[derive(Debug)]
pub enum UploadError {
    /// The client left or sent nothing more in time.
    Client(io::Error),
    /// The body is not framed as it says.
    Malformed,
    /// The body is larger than the policy takes.
    TooLarge,
}

/// A request's body on its way to the origin.
#[derive(Debug)]
pub struct Upload {
    scanner: BodyScanner,
    /// Read from the client and not yet taken by the origin: the buffer's first `checked` bytes are.
    pending: Option<Buffer>,
    checked: usize,
    done: bool,
    /// The origin takes no more: what the client still sends is not read.
    refused: bool,
    total: u64,
    total_max: u64,
    /// Bytes of a following request that came with the last of the body.
    pub rest: Option<Buffer>,
}

impl Upload {
    /// The rest of a body, of which `scanner` has seen the beginning: `sent` bytes.
    pub fn new(scanner: BodyScanner, sent: u64, total_max: u64) -> Self {
        Upload {
            scanner,
            pending: None,
            checked: 0,
            done: false,
            refused: false,
            total: sent,
            total_max,
            rest: None,
        }
    }

    /// Whether the whole body has been handed on.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Whether there is more to be moved: the body has not ended and the origin takes it.
    pub fn is_moving(&self) -> bool {
        !self.done && !self.refused
    }

    /// Whether the client's connection is free for the next request: no byte of one was read here.
    pub fn has_left_the_client(&self) -> bool {
        self.done && self.rest.is_none()
    }

    /// Bytes of the body that were read, those that came with the head included.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Whether it is the client's turn: all that was read has been taken.
    pub fn is_dry(&self) -> bool {
        self.checked == 0
    }

    /// Moves what can be moved. Ready when the body has ended or the origin takes no more.
    ///
    /// # Errors
    /// See [`UploadError`]. `timer` is armed anew with `patience` at every step.
    pub fn poll<S: ClientStream>(
        &mut self,
        client: &mut S,
        origin: &mut OriginStream,
        timer: &Timer,
        patience: Duration,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), UploadError>> {
        while self.is_moving() {
            if self.checked > 0 {
                ready!(self.poll_send(origin, context));
                timer.arm(patience);
                continue;
            }
            let read = poll_fill_held(client, &mut self.pending, Buffer::large, context);
            match ready!(read) {
                Ok(0) => {
                    let gone = io::ErrorKind::UnexpectedEof.into();
                    return Poll::Ready(Err(UploadError::Client(gone)));
                }
                Ok(_) => self.check()?,
                Err(error) => return Poll::Ready(Err(UploadError::Client(error))),
            }
            timer.arm(patience);
        }
        Poll::Ready(Ok(()))
    }

    /// Looks at what was just read.
    fn check(&mut self) -> Result<(), UploadError> {
        let buffer = self.pending.as_ref().expect("just read");
        let scan =
            self.scanner.feed(buffer.content()).map_err(|Malformed| UploadError::Malformed)?;
        self.checked = scan.consumed;
        self.total += scan.consumed as u64;
        if self.total_max > 0 && self.total > self.total_max {
            return Err(UploadError::TooLarge);
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
        let rest = self.pending.take().filter(|buffer| !buffer.is_empty());
        if self.scanner.is_done() {
            self.done = true;
            self.rest = rest;
        } else {
            debug_assert!(rest.is_none(), "an unfinished body uses all that was read");
        }
        Poll::Ready(())
    }
}
