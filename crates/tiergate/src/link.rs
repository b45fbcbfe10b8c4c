//! A client's connection and an origin's, joined for one request: every wait on either moves the
//! request's body along, or notices that the client has left.

use crate::budget::Allowance;
use crate::buffers::Buffer;
use crate::config::meant::Timeouts;
use crate::gather::{MALFORMED, TOO_SLOW};
use crate::origin::stream::OriginStream;
use crate::serve::Connection;
use crate::stream::{ClientStream, Outgoing, poll_fill_held};
use crate::upload::{Upload, UploadError};
use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::AsyncWrite;

/// Why a request was not answered by the origin.
#[derive(Debug)]
pub enum Fault {
    /// Nothing was sent to the client yet: it gets an error of ours.
    Answer(u16, &'static str),
    /// The client has left, or does not take what is written.
    Client(io::Error),
    /// The origin broke off.
    Origin,
    /// The origin did not go on in time.
    OriginSlow,
    /// The gate wants the slot for a more important request; nothing was sent to the client yet.
    Preempted,
}

impl Fault {
    /// What the client is told, while nothing was sent to it yet.
    pub fn answer(&self) -> (u16, &'static str) {
        match *self {
            Fault::Answer(status, why) => (status, why),
            Fault::OriginSlow => (504, "the origin did not answer in time"),
            _ => (502, "the origin closed the connection without an answer"),
        }
    }
}

/// What became of a request whose upload ended so.
pub(crate) fn upload_fault(error: UploadError) -> Fault {
    match error {
        UploadError::Client(error) => Fault::Client(error),
        UploadError::Malformed => MALFORMED,
        UploadError::TooLarge => TOO_LARGE,
    }
}

/// A client's connection and an origin's, joined for one request.
#[derive(Debug)]
pub struct Link<'c, S> {
    /// The client's.
    pub connection: &'c mut Connection<S>,
    /// The origin's.
    pub origin: OriginStream,
    /// Bytes of the request's head at the start of the client's input.
    pub head_len: usize,
    /// Where in the client's input lies what of the body came with the head and the origin has not
    /// taken yet.
    pub unsent: Range<usize>,
    /// The rest of the request's body, if it did not come with the head.
    pub upload: &'c mut Option<Upload>,
    /// The policy's.
    pub timeouts: Timeouts,
    /// What may be read ahead of a slow client.
    pub allowance: Allowance<'c>,
}

impl<S: ClientStream> Link<'_, S> {
    /// Sends the head and what there is of the body, or as much of that as the origin takes at once:
    /// it may want to be read before it takes more.
    ///
    /// # Errors
    /// The origin's connection broke, or took nothing in time.
    pub async fn send(&mut self, head: &[u8], body_len: usize) -> io::Result<()> {
        let body_at = self.head_len;
        let Connection { timer, input, .. } = &mut *self.connection;
        let early = input.as_ref().map_or(&[][..], Buffer::content);
        let mut outgoing = Outgoing::new(head, &early[body_at..body_at + body_len]);
        timer.arm(self.timeouts.write);
        let sent = timer
            .bound(|context| match outgoing.poll(&mut self.origin, context) {
                // Not so the head: the answer's is written over it.
                Poll::Pending if outgoing.left() <= body_len => Poll::Ready(Ok(())),
                polled => polled,
            })
            .await;
        let body_end = body_at + body_len;
        self.unsent = body_end - outgoing.left().min(body_len)..body_end;
        if self.unsent.is_empty() {
            self.early_is_sent();
        }
        sent
    }

    /// Whether all of the request has been sent.
    pub fn is_sent(&self) -> bool {
        self.unsent.is_empty() && self.upload.as_ref().is_none_or(Upload::is_done)
    }

    /// Reads from the origin into `held`; 0 is the end. The client's leaving ends the wait.
    ///
    /// # Errors
    /// See [`Fault`]; the origin's only as `Origin` or `OriginSlow`.
    pub(crate) fn poll_read(
        &mut self,
        held: &mut Option<Buffer>,
        context: &mut Context<'_>,
    ) -> Poll<Result<usize, Fault>> {
        self.poll_upload(context)?;
        let read = poll_fill_held(&mut self.origin, held, Buffer::large, context);
        if let Poll::Ready(read) = read {
            return Poll::Ready(read.map_err(|_| Fault::Origin));
        }
        // While there is an upload, the client's bytes are the upload's to read.
        let watch = self.upload.as_ref().is_none_or(Upload::has_left_the_client);
        if watch && self.connection.poll_gone(context).is_ready() {
            return Poll::Ready(Err(Fault::Client(io::ErrorKind::UnexpectedEof.into())));
        }
        if self.connection.timer.poll_expired(context) {
            let waits_for_client =
                self.upload.as_ref().is_some_and(|upload| !upload.is_done() && upload.is_dry());
            return Poll::Ready(Err(match waits_for_client && self.unsent.is_empty() {
                true => TOO_SLOW,
                false => Fault::OriginSlow,
            }));
        }
        Poll::Pending
    }

    /// Writes to the client.
    ///
    /// # Errors
    /// See [`Fault`]; never the origin's.
    pub async fn write(&mut self, first: &[u8], second: &[u8]) -> Result<(), Fault> {
        let mut outgoing = Outgoing::new(first, second);
        self.connection.timer.arm(self.timeouts.write);
        poll_fn(|context| {
            self.poll_upload(context)?;
            if let Poll::Ready(written) = outgoing.poll(&mut self.connection.io, context) {
                return Poll::Ready(written.map_err(Fault::Client));
            }
            if self.connection.timer.poll_expired(context) {
                return Poll::Ready(Err(Fault::Client(io::ErrorKind::TimedOut.into())));
            }
            Poll::Pending
        })
        .await
    }

    /// Sends on what came with the head. Ready when the origin has it all; never if it takes no more.
    fn poll_early(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Connection { timer, input, .. } = &*self.connection;
        let early = input.as_ref().expect("what is unsent lies in it").content();
        while !self.unsent.is_empty() {
            let bytes = &early[self.unsent.clone()];
            match Pin::new(&mut self.origin).poll_write(context, bytes) {
                Poll::Ready(Ok(count)) if count > 0 => {
                    self.unsent.start += count;
                    timer.arm(self.timeouts.write);
                }
                // After a failure it may have answered all the same; the answer's side finds out.
                Poll::Ready(_) | Poll::Pending => return Poll::Pending,
            }
        }
        self.early_is_sent();
        Poll::Ready(())
    }

    /// The origin has what came with the head: the rest of the body is next, or the answer.
    fn early_is_sent(&mut self) {
        let Connection { timer, input, .. } = &mut *self.connection;
        if self.upload.is_none() {
            timer.arm(self.timeouts.response_head);
            return;
        }
        timer.arm(self.timeouts.request_body);
        // A body that is streamed is not sent again: only the head is still looked at. The memory is
        // free for others, and there is room to notice that the client leaves.
        if let Some(buffer) = input {
            buffer.truncate(self.head_len);
            buffer.settle();
        }
    }

    /// Moves the request's body on.
    pub(crate) fn poll_upload(&mut self, context: &mut Context<'_>) -> Result<(), Fault> {
        if !self.unsent.is_empty() && self.poll_early(context).is_pending() {
            return Ok(());
        }
        let Some(upload) = self.upload.as_mut().filter(|upload| upload.is_moving()) else {
            return Ok(());
        };
        let Connection { io, timer, .. } = &mut *self.connection;
        let patience = self.timeouts.request_body;
        let moved = upload.poll(io, &mut self.origin, timer, patience, context);
        match moved {
            Poll::Pending => Ok(()),
            Poll::Ready(Ok(())) => {
                timer.arm(self.timeouts.response_head);
                Ok(())
            }
            Poll::Ready(Err(error)) => Err(upload_fault(error)),
        }
    }
}

/// The body is longer than the policy's bound.
pub const TOO_LARGE: Fault = Fault::Answer(413, "the body is larger than this site takes");
