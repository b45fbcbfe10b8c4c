//! What the gateway answers itself: refusals, after which the connection may stay open, and errors.

use super::next::Next;
use super::side::Http1;
use crate::buffers;
use crate::config::meant::{RefusalConnection, Timeouts};
use crate::observe::counters::Protocol;
use crate::request::answer::RefusalAnswer;
use crate::request::record::Written;
use crate::respond;
use crate::stream::ClientStream;
use crate::trace::ids::ToldId;
use tiergate_wire::http1::Framing;

/// Bytes of a refused request's body that are read to keep the connection: less than what a new
/// connection costs.
const DRAIN_MAX: u64 = 64 * 1024;

impl<S: ClientStream> Http1<'_, S> {
    /// Makes the refusal, and settles whether the connection stays open after it.
    pub(super) fn write_refusal(&mut self, refusal: &RefusalAnswer<'_>) -> Written {
        if refusal.connection == RefusalConnection::Reset {
            self.next = Next::Reset;
            return Written::default();
        }
        self.spool = None;
        let facts = refusal.facts;
        self.keep = facts.keep
            && self.drainable(refusal).is_some()
            && refusal.connection == RefusalConnection::Keep
            && facts.protocol == Protocol::Http11
            && !refusal.draining;
        let mut out = buffers::text();
        let head_only = facts.head_only;
        let rest = refusal.template.write(&mut out, &refusal.advice, self.keep, head_only);
        self.refusal = out;
        let body = if head_only { 0 } else { refusal.template.body_len(&refusal.advice) as u64 };
        Written { bytes: (self.refusal.len() + rest.len()) as u64, body }
    }

    /// Sends it, and reads what of the request's body must have gone before the next request.
    pub(super) async fn send_refusal(&mut self, refusal: &RefusalAnswer<'_>, timeouts: &Timeouts) {
        let out = std::mem::take(&mut self.refusal);
        if out.is_empty() {
            return;
        }
        let rest = refusal.template.uncopied_body(refusal.facts.head_only);
        let written = self.input.write(&out, rest, timeouts.write, !self.keep).await;
        buffers::keep_text(out);
        if written.is_err() {
            return;
        }
        self.input.use_up(refusal.facts.head_len);
        let drainable = self.drainable(refusal);
        self.put_rest_back();
        self.next = match drainable {
            Some(0) if self.keep => Next::Keep,
            Some(len) if self.keep => {
                self.input.timer.arm(timeouts.request_body);
                match self.input.skip(len).await {
                    Ok(()) => Next::Keep,
                    Err(_) => Next::Cut,
                }
            }
            Some(0) if self.input.buffer.is_none() => Next::Close,
            _ => Next::Linger,
        };
    }

    /// Sends an error.
    pub(super) async fn send_error(
        &mut self,
        status: u16,
        why: &'static str,
        head_only: bool,
        id: Option<ToldId<'_>>,
        timeouts: &Timeouts,
    ) {
        self.spool = None;
        let mut out = buffers::text();
        respond::write_error(&mut out, status, why, id, head_only);
        if self.input.write(&out, &[], timeouts.write, true).await.is_ok() {
            self.next = Next::Linger;
        }
        buffers::keep_text(out);
    }

    /// Bytes of a refused request's body that are read to keep the connection; `None`: it is not kept.
    fn drainable(&self, refusal: &RefusalAnswer<'_>) -> Option<u64> {
        let facts = refusal.facts;
        if let Some(upload) = &self.upload {
            return upload.is_read().then_some(0);
        }
        match facts.body {
            Framing::None => Some(0),
            // A client that expects 100 may send the body or not: only closing is safe.
            Framing::Length(len) if len <= DRAIN_MAX && !facts.expects => Some(len),
            _ => None,
        }
    }
}
