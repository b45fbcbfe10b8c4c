//! What of a request's body came with its head, or was gathered behind it; or is in a file.

use super::side::Http1;
use super::upload::Upload;
use crate::budget::Allowance;
use crate::buffers::{self, SMALL};
use crate::config::meant::Timeouts;
use crate::origin::stream::OriginStream;
use crate::request::body::BodyScanner;
use crate::request::facts::RequestFacts;
use crate::request::fault::{Fault, MALFORMED};
use crate::request::spool::Spool;
use crate::stream::ClientStream;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::AsyncWrite;

/// Room behind the body, so that the client's leaving is noticed while the request waits.
const ROOM_BEHIND: usize = SMALL;

impl<S: ClientStream> Http1<'_, S> {
    /// Finds how much of the body came with the head; says whether that is all. Its trailers are kept back until the request has been
    /// decided about.
    pub(super) fn scan(&mut self, facts: &RequestFacts) -> Result<bool, Fault> {
        self.head_len = facts.head_len;
        let scanner = self.scanner.get_or_insert_with(|| BodyScanner::new(facts.body));
        // A reload may have given other names a meaning since it was made.
        scanner.leave_out(&facts.left_out);
        if scanner.is_done() {
            return Ok(true);
        }
        let buffer = self.input.buffer.as_mut().expect("the head lies in it");
        let at = self.head_len + self.early_len;
        let passed = scanner.pass_body(buffer, at).map_err(|_| MALFORMED)?;
        self.early_len += passed.kept;
        Ok(passed.done)
    }

    /// The body is next to go to the origin: trailers that have come go behind it.
    pub(super) fn put_trailers(&mut self) {
        if let (Some(scanner), Some(buffer)) = (&mut self.scanner, &mut self.input.buffer) {
            self.early_len += scanner.put_trailers(buffer, self.head_len + self.early_len);
        }
    }

    /// Makes room behind what was received, for `most` bytes in all and a little more; `false` if there is
    /// no memory left for it.
    pub(super) fn make_room(&mut self, most: usize, allowance: &Allowance<'_>) -> bool {
        let buffer = self.input.buffer.as_mut().expect("the head lies in it");
        buffer.make_room(0);
        if !buffer.is_full() {
            return true;
        }
        // What is there counts as well until it was moved.
        let larger = buffers::next_len(buffer.capacity(), most + ROOM_BEHIND)
            .max(buffer.capacity() + ROOM_BEHIND);
        let Some(reserved) = allowance.take(0, larger) else { return false };
        buffer.move_into(reserved);
        true
    }

    /// Sends on what came with the head. Ready when the origin has it all; never if it takes no more.
    pub(super) fn poll_early(
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
    pub(super) fn early_is_sent(&mut self, timeouts: &Timeouts) {
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

    /// The body goes to a file from its beginning: only the head stays where it is.
    pub(super) fn begin_spool(&mut self, spool: Box<Spool>, facts: &RequestFacts, body_max: u64) {
        let mut early = self.input.buffer.take().expect("the head lies in it");
        self.input.buffer = Some(early.split_front(facts.head_len));
        let early = Some(early).filter(|early| !early.is_empty());
        let scanner = self.scanner.take().expect("the body was gathered");
        self.early_len = 0;
        self.upload = Some(Upload::of(scanner, early, body_max));
        self.spool = Some(spool);
    }

    /// Sends on what is in the file. Ready when the origin has it all; never if it takes no more.
    pub(super) fn poll_spooled(
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

    /// Bytes of a following request that came with the last of the body go before what is read next.
    pub(super) fn put_rest_back(&mut self) {
        if let Some(rest) = self.upload.take().and_then(Upload::into_rest) {
            self.input.buffer = Some(rest);
        }
    }
}
