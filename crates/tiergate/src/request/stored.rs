//! Copies of answers: the answer that passes is kept, and a copy is served in its place.
//!
//! ```text
//! look ─▶ consider ─▶ [pass_on: push …] ─▶ finish ─▶ the store
//! enter, forward ─▶ serve_copy: head, then the body in pieces ─▶ account
//! ```

use super::answer::{Abort, AnswerHead};
use super::body::AnswerBody;
use super::fault::Fault;
use super::limits;
use super::outbox::Outbox;
use super::path::Request;
use super::quality::Quality;
use super::streaming::Streaming;
use crate::budget::Allowance;
use crate::buffers::{self, Buffer, LARGE, SMALL};
use crate::client::seam::Client;
use crate::clock;
use crate::rate_limit::RateLimit;
use crate::stored::{Change, Copy, Making, Passing, StoredRequest};
use std::sync::Arc;
use tiergate_core::classify::path::{Buffers, Paths, normalise};
use tiergate_core::stored::Instead;
use tiergate_wire::http1::{
    self, FieldRoom, FieldTable, Framing, HeadLimits, Parsed, ResponseHead,
};

/// Bytes that a client's protocol may hold of an answer beside the outbox, where a connection has many.
const HANDED_ON_MAX: usize = 2 * LARGE;

/// What is kept was within the policy's bounds, which a reload may have changed.
const ANY_HEAD: HeadLimits =
    HeadLimits { head_len_max: usize::MAX, target_len_max: 0, fields_max: usize::MAX };

impl<C: Client> Request<'_, '_, C> {
    /// The origin's final head is there: begins a copy if the answer may be kept, and drops copies that are no longer true.
    pub(super) fn consider(
        &self,
        head: &ResponseHead<'_>,
        fields: &FieldTable<'_>,
    ) -> Option<Box<Making>> {
        if self.facts.changes && Change::is_made(head.status) {
            drop(self.change());
        }
        let stored = self.stored.as_deref()?;
        if !stored.is_wanted(head.status) {
            return None;
        }
        let mut table = FieldTable::new();
        let limits = limits::of_request_heads(&self.config.policy.limits);
        let Ok(Parsed::Complete(_)) = self.client.head(&limits, &mut table) else { return None };
        let mut room = FieldRoom::new();
        let trusted = self.client.peer().is_trusted(self.config);
        let arrival = &self.facts.arrival;
        let quality = Quality::of(&self.config.policy.plan, arrival);
        Making::begin(
            stored,
            &Passing {
                head,
                fields,
                request: table.believed(trusted, &mut room),
                is_full: stored.is_of(arrival.pool) && quality.is_none_or(|it| !it.is_less()),
                is_stream: Streaming::of(fields.fields()) != Streaming::No,
                keeps_chunks: self.client.takes_chunks(self.facts),
            },
        )
    }

    /// The change of its target that the request is, if it succeeds.
    pub(super) fn change(&self) -> Option<Change> {
        let store = self.config.store.as_ref().filter(|_| self.facts.changes)?;
        let (mut table, mut buffers) = (FieldTable::new(), Buffers::default());
        let limits = limits::of_request_heads(&self.config.policy.limits);
        let Ok(Parsed::Complete(head)) = self.client.head(&limits, &mut table) else { return None };
        match normalise(head.path, self.config.policy.paths, &mut buffers) {
            Ok(Paths { sent: Some(sent), .. }) => Change::of(store, &head.with_path(sent)),
            _ => Change::of(store, &head),
        }
    }

    /// The head of the final answer is about to be passed on: `making` is the copy that is made of it, or there is none.
    pub(super) fn begin_copying(&mut self, making: Option<Box<Making>>) {
        let refresh = self.stored.as_deref_mut().and_then(StoredRequest::take_refresh);
        self.making = making;
        match &mut self.making {
            Some(making) => making.refreshing(refresh),
            None => drop(refresh),
        }
    }

    /// The slot goes back: no more of an answer comes. The copy that was found stays, in place of an error.
    pub(super) fn gives_up_copying(&mut self) {
        self.making = None;
        drop(self.stored.as_deref_mut().and_then(StoredRequest::take_refresh));
    }

    /// Adds to the copy what passes.
    pub(super) fn copy_piece(&mut self, bytes: &[u8]) {
        if let Some(making) = &mut self.making
            && !making.push(bytes)
        {
            self.making = None;
        }
    }

    /// The answer is whole.
    pub(super) fn keep_copy(&mut self, body: &AnswerBody) {
        if let Some(making) = self.making.take() {
            making.finish(body.chunks());
        }
    }

    /// Whether there is a copy that is better than an error.
    pub(super) fn has_copy_for_failure(&self) -> bool {
        self.stored.as_deref().is_some_and(StoredRequest::has_copy)
    }

    /// The request had a slot and failed; its end is noted. Answers with the copy.
    pub(super) async fn serve_copy_for_failure(&mut self) {
        self.shared.door.stored_after_failure(&self.facts.arrival);
        self.serve_copy(Instead::Failure).await;
    }

    /// Answers with the copy that was found when the request came.
    pub(super) async fn serve_copy(&mut self, instead: Instead) {
        // Nothing else is left of its part in the store: another request may bring a new copy meanwhile.
        let stored = self.stored.take();
        let copy = stored.and_then(|it| it.into_copy()).expect("the gate was told of it");
        self.record.stored = Some(instead);
        self.mark();
        if let Err(why) = self.put_copy_head(&copy, instead) {
            return self.fail(Fault::Answer(502, why)).await;
        }
        self.record.status = 200;
        let mut outbox = Outbox::new(std::mem::take(&mut self.head));
        let sent = self.send_copy(&copy, &mut outbox).await;
        self.record.sent += outbox.written();
        self.leave_line();
        self.head = outbox.into_head();
        match sent {
            Ok(()) => {
                self.client.peer().history.answer();
                self.account();
                self.client.finish(self.facts);
            }
            Err(Fault::Client(error)) => self.leave(&error),
            // Nothing of the origin's is read meanwhile.
            Err(_) => self.client.abort(Abort::Truncated),
        }
    }

    fn put_copy_head(&mut self, copy: &Copy, instead: Instead) -> Result<(), &'static str> {
        let mut bytes = buffers::text();
        copy.put_head(clock::now(), instead, &mut bytes);
        let mut table = FieldTable::new();
        let parsed = http1::parse_response(&bytes, &mut table, &ANY_HEAD, self.facts.head_only);
        let Ok(Parsed::Complete(head)) = parsed else {
            return Err("the stored copy is malformed");
        };
        let policy = &self.config.policy;
        if let Some(told) = self.facts.told_id(policy) {
            // That of the request by which the copy came.
            table.leave_out(told.field().name);
        }
        let answer = AnswerHead {
            policy,
            facts: self.facts,
            bytes: &bytes,
            head: &head,
            fields: &table,
            cookie: None,
            quality: None,
            location: None,
            limit: RateLimit::of(policy, self.facts.limit.as_deref()),
            draining: self.shared.is_draining(),
        };
        self.head.clear();
        let put = self.client.put_head(&answer, &mut self.head);
        drop(table);
        buffers::keep_text(bytes);
        put
    }

    /// Sends it piece by piece: a slow client holds a few buffers and the copy that others share. No slot bounds how many do that, so
    /// they count as memory for slow clients; where there is none left, the pieces are small, and go one after the other.
    async fn send_copy(&mut self, copy: &Arc<Copy>, outbox: &mut Outbox) -> Result<(), Fault> {
        self.stand_in_line(outbox);
        let ends = AnswerBody::new(Framing::None, false, false);
        let mut rest = if self.facts.head_only { &[][..] } else { &copy.body[..] };
        let head = self.client.head_memory();
        let most = if head > 0 { LARGE + HANDED_ON_MAX } else { LARGE };
        let all = limits::allowance(self.shared, &self.config.policy);
        let memory = Allowance { own_max: usize::MAX, ..all }.take(0, rest.len().min(most) + head);
        outbox.is_sparing = memory.is_none();
        let len_max = if memory.is_some() { LARGE } else { SMALL };
        while rest.len() > len_max {
            rest = push(outbox, rest, len_max);
            self.flush(outbox, None).await?;
        }
        push(outbox, rest, len_max);
        self.flush(outbox, Some(&ends)).await
    }
}

/// Puts the beginning into the outbox, at most so many bytes; the rest is returned.
fn push<'c>(outbox: &mut Outbox, bytes: &'c [u8], len_max: usize) -> &'c [u8] {
    if bytes.is_empty() {
        return bytes;
    }
    let piece = &bytes[..bytes.len().min(len_max)];
    let mut buffer = if piece.len() <= SMALL { Buffer::small() } else { Buffer::large() };
    let taken = buffer.append(piece);
    outbox.push(buffer);
    &bytes[taken..]
}
