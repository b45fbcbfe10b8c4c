//! The origin's answer on its way to the client, and the connection after it.

use super::input::Input;
use super::next::Next;
use super::side::Http1;
use super::upload::Upload;
use crate::buffers;
use crate::client::seam::Client;
use crate::date;
use crate::observe::counters::Protocol;
use crate::request::answer::AnswerHead;
use crate::request::facts::RequestFacts;
use crate::request::fault::Fault;
use crate::request::outbox::Outbox;
use crate::stream::{ClientStream, Last};
use arrayvec::ArrayVec;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;
use tiergate_core::mark::{Label, Mark};
use tiergate_core::request::Field;
use tiergate_wire::http1::{self, ResponseInfo, Version};

/// Bytes of a background answer that the system may hold unsent: a packet's. What waits there is beyond our control.
const UNSENT_MAX: u32 = 1448;

impl<S: ClientStream> Http1<'_, S> {
    /// Has the connection's packets bear the label of the answer; says whether they bore another before.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn label(&mut self, mark: Option<Mark>) -> io::Result<bool> {
        // A reload may have taken the marks away.
        let label = mark.map_or(Label::default(), |mark| mark.label);
        if self.label == label {
            return Ok(false);
        }
        // If it fails, it is not tried again for each answer.
        self.label = label;
        self.input.io.set_label(label, self.input.peer.by_v6).map(|()| true)
    }

    /// Has the system hold little that is unsent of an answer of the background, and of others as much as it likes.
    pub(super) fn limit_unsent(&mut self, is_in_turns: bool) {
        if std::mem::replace(&mut self.is_in_turns, is_in_turns) != is_in_turns {
            // Where the system refuses, more of it waits there.
            let _ = self.input.io.limit_unsent(if is_in_turns { UNSENT_MAX } else { 0 });
        }
    }

    /// Writes the answer's head, and settles whether the connection stays open after it.
    pub(super) fn write_head(&mut self, answer: &AnswerHead<'_, '_>, out: &mut Vec<u8>) {
        let AnswerHead { facts, head, fields, .. } = *answer;
        let is_final = answer.is_final();
        if is_final {
            self.input.answer_is_here();
        }
        let client = version(facts);
        if client == Version::Http10 && head.is_interim() {
            // It knows none (RFC 9110 §15.2).
            return;
        }
        let mut values = [Vec::new(), Vec::new()];
        let mut extra = ArrayVec::<Field<'_>, 7>::new();
        if let Some(limit) = &answer.limit {
            values = [buffers::text(), buffers::text()];
            limit.put_policy(&mut values[0]);
            limit.put_state(&mut values[1]);
            extra.push(Field { name: b"RateLimit-Policy", value: &values[0] });
            extra.push(Field { name: b"RateLimit", value: &values[1] });
        }
        if let Some(value) = &answer.cookie {
            extra.push(Field { name: b"Set-Cookie", value: value.as_bytes() });
        }
        extra.extend(answer.id().map(|told| told.field()));
        for (name, value) in answer.cache_control() {
            extra.push(Field { name: name.as_bytes(), value: value.as_bytes() });
        }
        if let Some(value) = self.input.peer.alt_svc.as_ref().and_then(|it| it.value())
            && !fields.fields().iter().any(|it| it.name.eq_ignore_ascii_case(b"alt-svc"))
        {
            extra.push(Field { name: b"Alt-Svc", value: value.as_bytes() });
        }
        let may_keep = facts.keep && self.is_sent() && !answer.draining;
        self.keep = date::with_line(|date_line| {
            let info = ResponseInfo {
                client,
                keep_alive: may_keep || !is_final,
                via: answer.policy.forwarding.via,
                date_line: if answer.lacks_date() { date_line } else { b"" },
                location: answer.location.as_deref(),
                extra: &extra,
            };
            http1::write_response_head(out, head, fields, &info)
        });
        drop(extra);
        if answer.limit.is_some() {
            values.into_iter().for_each(buffers::keep_text);
        }
    }

    /// Writes what is in the outbox; with `ends`, it is the last of the answer.
    pub(super) fn poll_answer(
        &mut self,
        outbox: &mut Outbox,
        ends: bool,
        time: Duration,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Fault>> {
        // Not where each piece waits for its turn.
        let is_last = ends && !self.keep && outbox.allowed().is_none();
        let Input { io, timer, .. } = &mut self.input;
        let taken = || timer.arm(time);
        let written = match is_last {
            true => outbox.poll(&mut Last(io), taken, context),
            false => outbox.poll(io, taken, context),
        };
        written.map_err(Fault::Client)
    }

    /// The client has the whole answer.
    pub(super) fn answered(&mut self, facts: &RequestFacts) {
        // Of a body that was streamed nothing is left behind the head.
        let early_len = if self.upload.is_none() { self.early_len } else { 0 };
        self.input.use_up(facts.head_len + early_len);
        let sent_whole = self.upload.as_ref().is_none_or(Upload::is_done);
        self.put_rest_back();
        self.next = match self.keep {
            true => Next::Keep,
            // A close with unread bytes would be a reset, which can overtake the answer.
            false if !sent_whole || self.input.buffer.is_some() => Next::Linger,
            false => Next::Close,
        };
    }
}

fn version(facts: &RequestFacts) -> Version {
    match facts.protocol {
        Protocol::Http10 => Version::Http10,
        _ => Version::Http11,
    }
}
