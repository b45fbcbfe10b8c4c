//! A connection over HTTP/1.1 as the client's side of one request.

use super::input::{GLANCE, GLANCE_IN_QUEUE, Input};
use super::next::Next;
use super::upload::Upload;
use crate::budget::Allowance;
use crate::buffers::Buffer;
use crate::client::peer::Peer;
use crate::client::seam::{Client, Gathered};
use crate::client::tunnel;
use crate::config::meant::Timeouts;
use crate::connections::Connection;
use crate::link::Carrier;
use crate::observe::counters::Protocol;
use crate::origin::stream::OriginStream;
use crate::request::answer::{Abort, AnswerHead, RefusalAnswer};
use crate::request::body::{AnswerBody, BodyScanner, is_whole};
use crate::request::facts::RequestFacts;
use crate::request::fault::{Fault, TOO_LARGE};
use crate::request::outbox::Outbox;
use crate::request::record::Written;
use crate::request::spool::Spool;
use crate::respond;
use crate::stream::ClientStream;
use crate::timers::Timer;
use crate::trace::ids::ToldId;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tiergate_core::gate::Delivered;
use tiergate_core::mark::{Label, Mark};
use tiergate_core::transmit::{Carried, Sending};
use tiergate_wire::http1::{
    self, FieldTable, Framing, HeadError, HeadLimits, HeadSearch, Malformed, Parsed, RequestHead,
    Version,
};

/// What a client waits for that has announced a body (RFC 9110 §15.2.1).
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A connection over HTTP/1.1, with what is kept of the request in progress.
#[derive(Debug)]
pub(super) struct Http1<'c, S> {
    pub(super) input: Input<S>,
    /// Among those open.
    open: &'c Connection,
    /// What the request in progress does to the connection; until it has ended, it is cut.
    pub(super) next: Next,
    /// Whether the connection stays open after the answer whose head was taken last.
    pub(super) keep: bool,
    /// Tells when a head that came in pieces may be whole.
    search: HeadSearch,
    /// Bytes of the request's head at the start of the input.
    pub(super) head_len: usize,
    /// Finds the end of its body; `None` until that is looked at.
    pub(super) scanner: Option<BodyScanner>,
    /// Bytes of the body behind the head.
    pub(super) early_len: usize,
    /// Where in the input lies what of the early body the origin has not taken yet.
    pub(super) unsent: Range<usize>,
    /// The rest of the body, if it did not come with the head.
    pub(super) upload: Option<Upload>,
    /// What of the body is in a file and goes before the rest, until the origin has it.
    pub(super) spool: Option<Box<Spool>>,
    /// A refusal that is about to be sent.
    pub(super) refusal: Vec<u8>,
    /// The label that the connection's packets bear.
    pub(super) label: Label,
    /// Whether the answer that was written last is of the background.
    pub(super) is_in_turns: bool,
    /// What the connection took of the link.
    pub(super) carried: Carried,
}

impl<'c, S: ClientStream> Http1<'c, S> {
    /// Between two requests.
    pub(super) fn new(input: Input<S>, open: &'c Connection) -> Self {
        Http1 {
            input,
            open,
            next: Next::Cut,
            keep: false,
            search: HeadSearch::default(),
            head_len: 0,
            scanner: None,
            early_len: 0,
            unsent: 0..0,
            upload: None,
            spool: None,
            refusal: Vec::new(),
            label: Label::default(),
            is_in_turns: false,
            carried: Carried::default(),
        }
    }

    /// The request has ended: what becomes of the connection.
    pub(super) fn next_request(&mut self) -> Next {
        self.search = HeadSearch::default();
        self.scanner = None;
        self.early_len = 0;
        self.spool = None;
        std::mem::replace(&mut self.next, Next::Cut)
    }
}

/// The connection is to make room for others.
fn evicted() -> io::Error {
    io::ErrorKind::ConnectionAborted.into()
}

impl<S: ClientStream> Carrier for Http1<'_, S> {
    fn with_carried<T>(&mut self, then: impl FnOnce(&mut Carried, &Sending) -> T) -> Option<T> {
        let sending = self.input.io.sending()?;
        Some(then(&mut self.carried, &sending))
    }

    fn asks_for_room(&mut self, does: bool) {
        // Where the system refuses, the client says by itself that it has room.
        let _ = self.input.io.asks_for_room(does);
    }

    fn charged(&mut self, on_wire: f64, in_turns: bool) {
        match in_turns {
            true => self.carried.pays(on_wire),
            false => self.carried.forget(),
        }
    }
}

impl<S: ClientStream> Client for Http1<'_, S> {
    fn peer(&self) -> &Peer {
        &self.input.peer
    }

    fn is_sole(&self) -> bool {
        true
    }

    fn timer(&self) -> &Timer {
        &self.input.timer
    }

    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &self.upload {
            None => self.input.poll_gone(context),
            Some(upload) if upload.has_left_the_client() => self.input.poll_gone(context),
            Some(upload) if upload.is_end_held() => {
                self.input.poll_gone_unread(GLANCE_IN_QUEUE, context)
            }
            Some(upload) if upload.has_stopped() || self.spool.is_some() => {
                self.input.poll_gone_unread(GLANCE, context)
            }
            // The origin takes nothing: nobody reads what the client sends.
            Some(upload) if !upload.is_dry() || !self.unsent.is_empty() => {
                self.input.poll_reset(context)
            }
            // The client's bytes are the upload's to read.
            Some(_) => Poll::Pending,
        }
    }

    fn poll_head(&mut self, len_max: usize, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // What is there was not the whole.
        self.search.ready(self.input.received(), len_max);
        // It is no request yet: a client that sends parts of heads makes room like one that sends nothing.
        self.open.idle();
        loop {
            // One byte more than the bound, so that the parser sees that it is passed.
            self.input.make_room(len_max + 1);
            match self.input.poll_more(context) {
                Poll::Pending if self.open.poll_evicted(context) => {
                    return Poll::Ready(Err(evicted()));
                }
                polled => ready!(polled)?,
            }
            if self.search.ready(self.input.received(), len_max) {
                self.open.busy();
                return Poll::Ready(Ok(()));
            }
        }
    }

    fn head<'b>(
        &'b self,
        limits: &HeadLimits,
        fields: &mut FieldTable<'b>,
    ) -> Result<Parsed<RequestHead<'b>>, HeadError> {
        http1::parse_request(self.input.received(), fields, limits)
    }

    fn protocol(&self, head: &RequestHead<'_>) -> Protocol {
        match head.version {
            Version::Http10 => Protocol::Http10,
            Version::Http11 => Protocol::Http11,
        }
    }

    fn request_line(&self) -> (&[u8], &[u8]) {
        let bytes = self.input.received();
        let line = bytes.strip_prefix(b"\r\n").unwrap_or(bytes);
        let word = |bytes: &[u8]| memchr::memchr(b' ', bytes).unwrap_or(bytes.len());
        let (method, rest) = line.split_at(word(line));
        let rest = rest.get(1..).unwrap_or_default();
        (method, &rest[..word(rest)])
    }

    fn held_len(&self) -> usize {
        self.input.received().len()
    }

    fn received_len(&self, facts: &RequestFacts) -> u64 {
        let behind = self.input.received().len().saturating_sub(facts.head_len) as u64;
        let body = match (&self.upload, &self.scanner, facts.body) {
            (Some(upload), _, _) => upload.total(),
            (None, Some(_), _) => self.early_len as u64,
            // It was not looked at, because the request was refused at once.
            (None, None, Framing::Length(len)) => len.min(behind),
            (None, None, Framing::Chunked) => behind,
            (None, None, Framing::None | Framing::UntilClose) => 0,
        };
        facts.head_len as u64 + body
    }

    fn has_whole_body(&self, head: &RequestHead<'_>) -> Result<bool, Malformed> {
        is_whole(head.body, &self.input.received()[head.len..])
    }

    async fn invite_body(&mut self, facts: &RequestFacts, timeouts: &Timeouts) -> io::Result<()> {
        match self.input.received().len() == facts.head_len {
            true => self.input.write(CONTINUE, &[], timeouts.write, false).await,
            false => Ok(()),
        }
    }

    fn gather(
        &mut self,
        facts: &RequestFacts,
        most: usize,
        allowance: &Allowance<'_>,
    ) -> Result<Gathered, Fault> {
        let done = self.scan(facts)?;
        let len = self.early_len;
        let more = !done && len < most && self.make_room(facts.head_len + most, allowance);
        Ok(Gathered { len, more, whole: done })
    }

    fn gathers(&mut self, begins: bool) {
        if begins { self.open.has_begun() } else { self.open.busy() }
    }

    fn poll_gather(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.input.poll_more(context) {
            Poll::Pending if self.open.poll_evicted(context) => Poll::Ready(Err(evicted())),
            polled => polled,
        }
    }

    fn spool(&mut self, spool: Box<Spool>, facts: &RequestFacts, body_max: u64) {
        self.begin_spool(spool, facts, body_max);
    }

    fn poll_spool(
        &mut self,
        patience: Duration,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Fault>> {
        let upload = self.upload.as_mut().expect("made with the spool");
        let spool = self.spool.as_mut().expect("it has begun");
        let Input { io, timer, .. } = &mut self.input;
        match upload.poll_spool(io, spool, timer, patience, context) {
            Poll::Pending if self.open.poll_evicted(context) => {
                Poll::Ready(Err(Fault::Client(evicted())))
            }
            polled => polled,
        }
    }

    fn hold_body(&mut self, _: &RequestFacts, _: &Allowance<'_>) {
        self.input.request_is_here();
    }

    fn begin_body(&mut self, facts: &RequestFacts, body_max: u64) -> Result<bool, Fault> {
        if let Some(upload) = &mut self.upload {
            // It is spooled.
            upload.put_trailers(&facts.left_out);
            return Ok(false);
        }
        let done = self.scan(facts)?;
        self.put_trailers();
        let early_len = self.early_len as u64;
        if body_max > 0 && early_len > body_max {
            return Err(TOO_LARGE);
        }
        if !done {
            let scanner = self.scanner.take().expect("just used");
            self.upload = Some(Upload::new(scanner, early_len, body_max));
        }
        Ok(done)
    }

    fn poll_send(
        &mut self,
        head: &[u8],
        sent: &mut usize,
        origin: &mut OriginStream,
        timeouts: &Timeouts,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_request(head, sent, origin, timeouts, context)
    }

    fn poll_body(
        &mut self,
        origin: &mut OriginStream,
        timeouts: &Timeouts,
        context: &mut Context<'_>,
    ) -> Result<(), Fault> {
        self.poll_rest(origin, timeouts, context)
    }

    fn hold_end(&mut self, hold: bool) {
        if let Some(upload) = &mut self.upload {
            upload.holds_end = hold;
        }
    }

    fn is_end_held(&self) -> bool {
        self.upload.as_ref().is_some_and(Upload::is_end_held)
    }

    fn is_sent(&self) -> bool {
        self.unsent.is_empty()
            && self.spool.is_none()
            && self.upload.as_ref().is_none_or(Upload::is_done)
    }

    fn awaits_body(&self) -> bool {
        if let Some(spool) = &self.spool {
            return spool.awaits_bytes();
        }
        let upload = self.upload.as_ref();
        self.unsent.is_empty() && upload.is_some_and(|upload| !upload.is_done() && upload.is_dry())
    }

    fn mark(&mut self, mark: Option<Mark>) -> io::Result<bool> {
        self.label(mark)
    }

    fn sends_in_turns(&mut self, does: bool) {
        self.limit_unsent(does);
    }

    fn takes_chunks(&self, facts: &RequestFacts) -> bool {
        facts.protocol != Protocol::Http10
    }

    fn put_head(
        &mut self,
        answer: &AnswerHead<'_, '_>,
        out: &mut Vec<u8>,
    ) -> Result<(), &'static str> {
        self.write_head(answer, out);
        Ok(())
    }

    fn poll_write(
        &mut self,
        outbox: &mut Outbox,
        ends: Option<&AnswerBody>,
        time: Duration,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Fault>> {
        self.poll_answer(outbox, ends.is_some(), time, context)
    }

    fn delivered(&self) -> Option<Delivered> {
        Some(Delivered { bytes: self.input.io.delivered()?, requests: 1 })
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.input.io.socket()
    }

    async fn tunnel(
        &mut self,
        facts: &RequestFacts,
        origin: OriginStream,
        from_origin: Option<Buffer>,
        timeouts: &Timeouts,
    ) {
        self.input.use_up(facts.head_len);
        let Input { io, timer, buffer, .. } = &mut self.input;
        let early = buffer.take();
        // However a tunnel ends, nothing is left to be said.
        let _ = tunnel::relay(io, origin, early, from_origin, timer, timeouts.tunnel_idle).await;
    }

    fn finish(&mut self, facts: &RequestFacts) {
        self.answered(facts);
    }

    fn abort(&mut self, why: Abort) {
        self.next = match why {
            Abort::Unended => Next::Reset,
            Abort::ClientGone | Abort::ClientSlow | Abort::Truncated => Next::Cut,
        };
    }

    fn put_refusal(&mut self, refusal: &RefusalAnswer<'_>) -> Written {
        self.write_refusal(refusal)
    }

    fn finish_refusal(
        &mut self,
        refusal: &RefusalAnswer<'_>,
        timeouts: &Timeouts,
    ) -> impl Future<Output = ()> {
        self.send_refusal(refusal, timeouts)
    }

    fn error_len(
        &self,
        status: u16,
        why: &'static str,
        head_only: bool,
        id: Option<ToldId<'_>>,
    ) -> Written {
        let mut out = Vec::new();
        let body = respond::write_error(&mut out, status, why, id, head_only);
        Written { bytes: out.len() as u64, body: body as u64 }
    }

    fn fail(
        &mut self,
        status: u16,
        why: &'static str,
        head_only: bool,
        id: Option<ToldId<'_>>,
        timeouts: &Timeouts,
    ) -> impl Future<Output = ()> {
        self.send_error(status, why, head_only, id, timeouts)
    }
}
