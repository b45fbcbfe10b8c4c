//! A request's body before it goes to the origin: see [`crate::gather`].

use super::upload::io_error;
use crate::budget::Allowance;
use crate::buffers::{Buffer, SMALL};
use crate::config::meant::Policy;
use crate::gather::{TOO_SLOW, next_len};
use crate::http1::Framing;
use crate::link::{Fault, TOO_LARGE};
use crate::timers::Timer;
use bytes::Bytes;
use h2::RecvStream;
use std::future::poll_fn;
use std::task::{Context, Poll};

/// A request's body, of which nothing has gone to the origin.
#[derive(Debug)]
pub(super) struct Intake {
    pub(super) body: RecvStream,
    /// Read after `gathered`, and not copied: the client may not replace it yet.
    pub(super) first: Option<Bytes>,
    /// Copied, so that neither the connection's window nor a larger read of `h2` is held by it.
    pub(super) gathered: Option<Buffer>,
}

impl Intake {
    pub(super) fn new(body: RecvStream) -> Self {
        Intake { body, first: None, gathered: None }
    }

    /// Looks at what has come together with the head; says whether that is all.
    pub(super) fn poll_whole(&mut self, context: &mut Context<'_>) -> bool {
        if self.first.is_none()
            && let Poll::Ready(Some(Ok(data))) = self.body.poll_data(context)
        {
            self.first = Some(data);
        }
        // A failure shows again when more is read.
        self.body.is_end_stream()
    }

    /// Bytes that were read.
    pub(super) fn len(&self) -> usize {
        let gathered = self.gathered.as_ref().map_or(0, |buffer| buffer.content().len());
        gathered + self.first.as_ref().map_or(0, Bytes::len)
    }

    /// Reads the body: whole, or as much as there is memory for.
    ///
    /// # Errors
    /// What to answer, or the client's leaving.
    pub(super) async fn gather(
        &mut self,
        framing: Framing,
        policy: &Policy,
        allowance: &Allowance<'_>,
    ) -> Result<(), Fault> {
        let bound = policy.buffering.request_max;
        let body_max = policy.limits.request_body_max;
        let most = match framing {
            Framing::Length(len) => usize::try_from(len).map_or(bound, |len| len.min(bound)),
            _ => bound,
        };
        let timer = Timer::new();
        loop {
            if body_max > 0 && self.len() as u64 > body_max {
                return Err(TOO_LARGE);
            }
            if !self.copy(most, allowance) || self.len() >= bound {
                return Ok(());
            }
            timer.arm(policy.timeouts.request_body);
            let read = poll_fn(|context| match self.body.poll_data(context) {
                Poll::Ready(read) => Poll::Ready(Ok(read)),
                Poll::Pending if timer.poll_expired(context) => Poll::Ready(Err(TOO_SLOW)),
                Poll::Pending => Poll::Pending,
            });
            match read.await? {
                Some(Ok(data)) => self.first = Some(data),
                Some(Err(error)) => return Err(Fault::Client(io_error(error))),
                None => return Ok(()),
            }
        }
    }

    /// Copies what was read last, and lets the client replace it; `false` if there is no memory left.
    fn copy(&mut self, most: usize, allowance: &Allowance<'_>) -> bool {
        let Some(data) = &self.first else { return true };
        let (has, capacity) = match &self.gathered {
            Some(buffer) => (buffer.content().len(), buffer.capacity()),
            None => (0, 0),
        };
        let needs = has + data.len();
        if needs > capacity {
            let larger = next_len(capacity.max(SMALL), most).max(needs);
            let Some(reserved) = allowance.take(0, larger) else { return false };
            match &mut self.gathered {
                Some(buffer) => buffer.move_into(reserved),
                None => self.gathered = Some(Buffer::reserved(reserved)),
            }
        }
        let buffer = self.gathered.as_mut().expect("just made");
        buffer.append(data);
        // An error means that the stream is gone, which reading tells.
        let _ = self.body.flow_control().release_capacity(data.len());
        self.first = None;
        true
    }
}
