//! What the origin has begun to answer.

use super::answer::{AnswerHead, is_final};
use super::body::AnswerBody;
use super::limits;
use super::path::Request;
use super::quality::Quality;
use super::streaming::Streaming;
use crate::client::seam::Client;
use crate::grpc;
use crate::rate_limit::RateLimit;
use tiergate_core::outcome::End;
use tiergate_wire::http1::{self, FieldTable, Parsed};

/// What was found at the beginning of what the origin sent.
pub(super) enum Seen {
    /// More must come.
    Partial,
    /// It cannot be passed on.
    Bad(&'static str),
    /// A head of `len` bytes, and another follows.
    Interim { len: usize },
    /// A head of `len` bytes, after which another protocol is spoken.
    Switch { len: usize },
    /// The final head, of `len` bytes, of an error in place of which a copy is served.
    Failed { len: usize, status: u16 },
    /// The final head, of `len` bytes.
    Final { len: usize, status: u16, end: End, body: AnswerBody },
}

impl<C: Client> Request<'_, '_, C> {
    /// Looks for an answer's head; if it is whole, the client's side takes it, over the request's head,
    /// which will not be sent again.
    ///
    /// Apart from the exchange so that the table of fields is not kept across its waits.
    pub(super) fn look(&mut self, bytes: &[u8]) -> Seen {
        if bytes.is_empty() {
            return Seen::Partial;
        }
        let policy = &self.config.policy;
        let limits = limits::of_response_heads(&policy.limits);
        let mut table = FieldTable::new();
        let parsed = http1::parse_response(bytes, &mut table, &limits, self.facts.head_only);
        let head = match parsed {
            Ok(Parsed::Complete(head)) => head,
            Ok(Parsed::Partial) => return Seen::Partial,
            Err(error) => return Seen::Bad(error.why),
        };
        if head.upgrade && !self.facts.upgrade {
            return Seen::Bad("the origin switched protocols unasked");
        }
        let is_final = is_final(&head);
        if is_final {
            self.note_load(head.status, &table);
        }
        if is_final && matches!(head.status, 500 | 502 | 503 | 504) && self.has_copy_for_failure() {
            return Seen::Failed { len: head.len, status: head.status };
        }
        let making = if is_final { self.consider(&head, &table) } else { None };
        self.mark();
        let session = self.facts.session.as_deref().filter(|_| is_final);
        let cookie = session.zip(policy.session.as_ref()).and_then(|(session, settings)| {
            session.answered(settings, head.status, table.fields())
        });
        let quality = Quality::of(&policy.plan, &self.facts.arrival);
        let location = quality.and_then(|quality| {
            let mut fields = table.fields().iter();
            let found = fields.find(|field| field.name.eq_ignore_ascii_case(b"location"))?;
            quality.location(found.value, || self.host())
        });
        if let Some(told) = self.facts.told_id(policy) {
            // An origin may repeat what it was sent.
            table.leave_out(told.field().name);
        }
        let answer = AnswerHead {
            policy,
            facts: self.facts,
            bytes,
            head: &head,
            fields: &table,
            cookie,
            quality,
            location,
            limit: RateLimit::of(policy, self.facts.limit.as_deref().filter(|_| is_final)),
            draining: self.shared.is_draining(),
        };
        self.head.clear();
        if let Err(why) = self.client.put_head(&answer, &mut self.head) {
            return Seen::Bad(why);
        }
        let (len, status) = (head.len, head.status);
        if is_final {
            self.begin_copying(making);
        }
        match is_final {
            true => {
                let dechunk = !self.client.takes_chunks(self.facts);
                let mut body = AnswerBody::new(head.body, dechunk, head.keep_alive);
                body.streaming = Streaming::of(table.fields());
                if let Some(told) = self.facts.told_id(policy) {
                    body.leave_out(&told.header.trailers);
                }
                // A call that ends with its head has its status there.
                let call = match body.streaming {
                    Streaming::Messages => grpc::status(table.fields()),
                    _ => None,
                };
                let end = call.map_or_else(|| End::of_status(status), End::of_grpc_status);
                Seen::Final { len, status, end, body }
            }
            false if head.upgrade => Seen::Switch { len },
            false => Seen::Interim { len },
        }
    }

    /// Notes for sensors what the origin reports of its load.
    #[inline]
    fn note_load(&self, status: u16, fields: &FieldTable<'_>) {
        let reports = self.config.sensors.reports();
        if reports.is_empty() {
            return;
        }
        let place = self.place.as_ref().expect("held until the origin is done");
        reports.answered(self.facts.arrival.pool, place.index(), status, fields);
    }

    /// The host that the client asked for; empty if that is not known.
    fn host(&self) -> Vec<u8> {
        let limits = limits::of_request_heads(&self.config.policy.limits);
        match self.client.head(&limits, &mut FieldTable::new()) {
            Ok(Parsed::Complete(head)) => head.host.to_vec(),
            _ => Vec::new(),
        }
    }
}
