//! A request on its way to the origin: its head with what came of the body, and then the rest.

use super::input::Input;
use super::side::Http1;
use super::upload::Upload;
use crate::config::meant::Timeouts;
use crate::origin::stream::OriginStream;
use crate::request::fault::Fault;
use crate::stream::{ClientStream, Outgoing};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::AsyncWrite;

impl<S: ClientStream> Http1<'_, S> {
    /// Sends the head, and as much as goes at once of what came with it. `sent`: bytes of both so far.
    ///
    /// # Errors
    /// The origin's connection.
    pub(super) fn poll_request(
        &mut self,
        head: &[u8],
        sent: &mut usize,
        origin: &mut OriginStream,
        timeouts: &Timeouts,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let body_end = self.head_len + self.early_len;
        let early = &self.input.received()[self.head_len..body_end];
        let of_body = sent.saturating_sub(head.len());
        let mut outgoing = Outgoing::new(&head[*sent - of_body..], &early[of_body..]);
        let polled = outgoing.poll(origin, context);
        let left = outgoing.left();
        *sent = head.len() + early.len() - left;
        if polled.is_pending() && left > early.len() {
            return Poll::Pending;
        }
        // The origin may want to be read before it takes more of the body. Not so of the head: the
        // answer's is written over it.
        self.unsent = body_end - left.min(self.early_len)..body_end;
        if self.unsent.is_empty() {
            self.early_is_sent(timeouts);
        }
        match polled {
            Poll::Pending => Poll::Ready(Ok(())),
            ready => ready,
        }
    }

    /// Sends on what is left of the body, as far as client and origin let it: what is in a file, what came with the head, what still comes.
    ///
    /// # Errors
    /// The client's faults.
    pub(super) fn poll_rest(
        &mut self,
        origin: &mut OriginStream,
        timeouts: &Timeouts,
        context: &mut Context<'_>,
    ) -> Result<(), Fault> {
        if self.spool.is_some() && self.poll_spooled(origin, timeouts, context)?.is_pending() {
            return Ok(());
        }
        if !self.unsent.is_empty() && self.poll_early(origin, timeouts, context).is_pending() {
            return Ok(());
        }
        let Some(upload) = self.upload.as_mut().filter(|upload| upload.is_moving()) else {
            return Ok(());
        };
        let was_read = upload.is_read();
        let Input { io, timer, .. } = &mut self.input;
        let polled = upload.poll(io, origin, timer, timeouts.request_body, context)?;
        if polled.is_ready() {
            timer.arm(timeouts.response_head);
        }
        if polled.is_ready() || upload.is_read() && !was_read {
            self.input.request_is_here();
        }
        Ok(())
    }

    /// Sends on what came with the head. Ready when the origin has it all; never if it takes no more.
    fn poll_early(
        &mut self,
        origin: &mut OriginStream,
        timeouts: &Timeouts,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        while !self.unsent.is_empty() {
            let bytes = &self.input.received()[self.unsent.clone()];
            match ready!(Pin::new(&mut *origin).poll_write(context, bytes)) {
                Ok(count) if count > 0 => {
                    self.unsent.start += count;
                    self.input.timer.arm(timeouts.write);
                }
                // After a failure it may have answered all the same; the answer's side finds out.
                _ => return Poll::Pending,
            }
        }
        self.early_is_sent(timeouts);
        Poll::Ready(())
    }

    /// The origin has what came with the head: the rest of the body is next, or the answer.
    fn early_is_sent(&mut self, timeouts: &Timeouts) {
        let is_streamed = self.upload.as_ref().is_some_and(Upload::is_moving);
        let has_more = is_streamed || self.spool.is_some();
        let time = if has_more { timeouts.request_body } else { timeouts.response_head };
        self.input.timer.arm(time);
        // A body that is streamed is not sent again: only the head is still looked at. The memory is
        // free for others, and there is room to notice that the client leaves. Behind one that was read to its end, a
        // following request's bytes may lie there.
        let is_read = self.upload.as_ref().is_some_and(Upload::is_read);
        if is_streamed
            && !is_read
            && let Some(buffer) = &mut self.input.buffer
        {
            buffer.truncate(self.head_len);
            buffer.settle();
        }
    }

    /// Sends on what is in the file. Ready when the origin has it all; never if it takes no more.
    fn poll_spooled(
        &mut self,
        origin: &mut OriginStream,
        timeouts: &Timeouts,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Fault>> {
        let spool = self.spool.as_mut().expect("asked by its owner");
        ready!(spool.poll_send(origin, &self.input.timer, timeouts.request_body, context))?;
        self.spool = None;
        let is_streamed = self.upload.as_ref().is_some_and(Upload::is_moving);
        if !is_streamed {
            self.input.timer.arm(timeouts.response_head);
        }
        Poll::Ready(Ok(()))
    }
}
