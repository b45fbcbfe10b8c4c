//! A request on its path: what every step has at hand, and how it ends without the origin's answer.

use super::account;
use super::facts::RequestFacts;
use super::fault::{Fault, MALFORMED_TEXT};
use super::record::Record;
use super::rest::Rest;
use super::slow::SlowDetector;
use super::streaming::StreamDetector;
use crate::client::seam::Client;
use crate::clock;
use crate::door::SlotGuard;
use crate::link::Turn;
use crate::observe::counters::Protocol;
use crate::origin::Place;
use crate::origin::stream::OriginStream;
use crate::request::answer::Abort;
use crate::shared::{Config, Shared};
use crate::stored::{Making, StoredRequest};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tiergate_core::mark::Label;
use tiergate_core::outcome::End;

/// A request on its path, once its head has been understood.
pub(super) struct Request<'r, 'd, C> {
    pub(super) client: &'r mut C,
    pub(super) shared: &'d Arc<Shared>,
    pub(super) config: &'r Arc<Config>,
    pub(super) facts: &'r RequestFacts,
    pub(super) record: Record,
    /// The head as it goes to the origin.
    pub(super) head: Vec<u8>,
    /// Given back when the origin is done.
    pub(super) slot: Option<SlotGuard<'d>>,
    /// The place at the server that it was sent to, until the origin is done.
    pub(super) place: Option<Place>,
    /// The connection to that server, until the origin is done and has taken the whole request.
    pub(super) origin: Option<OriginStream>,
    /// What was written of it to a server that has not looked at it: written again, to another connection.
    pub(super) replay: Option<Vec<u8>>,
    /// How often it was sent again, because a server had not looked at it or had closed its connection.
    pub(super) resent: u32,
    /// Whether the client still waits to be told that its body is wanted.
    pub(super) awaits_100: bool,
    /// Whether the answer is a stream.
    pub(super) stream: StreamDetector,
    /// Whether the client is too slow.
    pub(super) slow: SlowDetector,
    /// Its part in the store, where its rule has copies, until its answer is passed on; boxed, because most have none.
    pub(super) stored: Option<Box<StoredRequest>>,
    /// The copy that is made of the answer.
    pub(super) making: Option<Box<Making>>,
    /// Where its answer stands among those that wait for the link; `None`: it is not of the background, or nothing is known of the
    /// link.
    pub(super) turn: Option<Box<Turn>>,
    /// Bytes that had been received when it was looked last what their acknowledgement took of the link.
    pub(super) acknowledged: u64,
    /// What is still to come of the answer when its client has left.
    pub(super) rest: Option<Box<Rest>>,
}

impl<'r, 'd, C: Client> Request<'r, 'd, C> {
    pub(super) fn new(
        client: &'r mut C,
        shared: &'d Arc<Shared>,
        config: &'r Arc<Config>,
        facts: &'r RequestFacts,
        record: Record,
    ) -> Self {
        Request {
            client,
            shared,
            config,
            facts,
            record,
            head: Vec::new(),
            slot: None,
            place: None,
            origin: None,
            replay: None,
            resent: 0,
            awaits_100: facts.expects,
            stream: StreamDetector::default(),
            slow: SlowDetector::default(),
            stored: None,
            making: None,
            turn: None,
            acknowledged: 0,
            rest: None,
        }
    }

    /// Counts and logs the request; once, at its end.
    pub(super) fn account(&self) {
        account::request(self.shared, self.config, &*self.client, self.facts, &self.record);
    }

    /// An answer to the request is about to be written: its packets get the label of its class. What the system refuses
    /// is counted, and said once; the answer goes out without.
    pub(super) fn mark(&mut self) {
        let mark = self.config.mark_of(self.facts.arrival.class);
        let tally = self.shared.tally();
        match self.client.mark(mark) {
            Ok(false) => {}
            Ok(true) => tally.marks_changed.one(),
            Err(error) => self.marking_failed(&error, mark.map(|mark| mark.label)),
        }
    }

    /// The request is about to be sent on this connection: its packets get the label of its class, if requests are marked.
    pub(super) fn label_request(&self, origin: &mut OriginStream) {
        let label = self.config.origin_label(self.facts.arrival.class);
        if let Err(error) = origin.set_label(label) {
            self.marking_failed(&error, Some(label));
        }
    }

    #[cold]
    fn marking_failed(&self, error: &io::Error, label: Option<Label>) {
        self.shared.tally().marks_failed.one();
        if self.shared.mark_complaint.is_due(clock::recent(), Duration::MAX) {
            let dscp = label.map(|label| label.dscp);
            tracing::warn!(%error, dscp, "packets cannot be marked");
        }
    }

    /// Notes how the request ended, and gives its slot back.
    pub(super) fn end(&mut self, end: End) {
        // A stream has been counted as one, however its client leaves it.
        if self.record.end != Some(End::Upgraded) {
            self.record.end = Some(end);
        }
        if let Some(slot) = &mut self.slot {
            slot.note(end);
            self.free_slot();
        }
    }

    /// The slot goes back, with the outcome noted last.
    pub(super) fn free_slot(&mut self) {
        let Some(slot) = self.slot.take() else { return };
        self.gives_up_copying();
        if self.facts.ids.as_ref().is_some_and(|ids| ids.sampled().is_some()) {
            self.record.origin_done = Some(clock::now());
        }
        if let Some(observed) = &self.facts.observed
            && !slot.is_stream()
        {
            observed.freed(clock::now().since(slot.admitted()), slot.outcome());
        }
    }

    /// If the answer has become a stream, its slot went back then, and the server has one request less to work on.
    pub(super) fn note_stream(&mut self) {
        if self.stream.found()
            && let Some(place) = &mut self.place
        {
            place.lasts();
            self.origin.iter_mut().for_each(OriginStream::lasts);
        }
        if let Some(observed) = &self.facts.observed
            && let Some(slot) = self.slot.as_ref().filter(|slot| slot.is_stream())
        {
            let outcome = slot.outcome();
            observed.freed(outcome.first_byte.unwrap_or_default(), outcome);
        }
    }

    /// The client has left, or does not take what is sent.
    pub(super) fn leave(&mut self, error: &io::Error) {
        if let Some(slot) = &mut self.slot {
            slot.left(clock::now());
        }
        if self.facts.protocol == Protocol::Http3 && error.kind() == io::ErrorKind::InvalidData {
            // Its stream is reset, and no answer says so.
            self.shared.tally().protocol_error(self.facts.protocol);
            if self.record.cause.is_empty() {
                self.record.cause = MALFORMED_TEXT;
            }
        }
        self.abandon();
        self.end(End::Cancelled);
        self.account();
        self.client.abort(match error.kind() {
            io::ErrorKind::TimedOut => Abort::ClientSlow,
            _ => Abort::ClientGone,
        });
    }

    /// Answers with an error of ours; nothing was sent to the client yet.
    pub(super) async fn fail(&mut self, fault: Fault) {
        let (status, why) = match fault {
            Fault::Client(error) => return self.leave(&error),
            fault => fault.answer(),
        };
        // 501: the client's head asks for what we do not do.
        if status < 500 || status == 501 {
            self.shared.tally().bad_request(status);
        }
        self.record.status = status;
        if self.record.cause.is_empty() {
            self.record.cause = why;
        }
        let (head_only, policy) = (self.facts.head_only, &self.config.policy);
        let told = self.facts.told_id(policy);
        self.record.sent = self.client.error_len(status, why, head_only, told);
        self.account();
        self.mark();
        self.client.fail(status, why, head_only, told, &policy.timeouts).await;
    }
}
