//! A stream as the client's side of one request.

use super::payload::{Held, Payload};
use super::response;
use super::tunnel::Tunnel;
use crate::budget::Allowance;
use crate::buffers::Buffer;
use crate::client::peer::Peer;
use crate::client::seam::{Client, Gathered};
use crate::client::streams::answer;
use crate::client::streams::counted::Counted;
use crate::client::streams::head::Head;
use crate::client::streams::parking::Parked;
use crate::client::streams::tally::{Ended, Tally};
use crate::client::streams::upload::Upload;
use crate::client::tunnel;
use crate::config::meant::{RefusalConnection, Timeouts};
use crate::link::{Carrier, Gone};
use crate::observe::counters::Protocol;
use crate::origin::stream::OriginStream;
use crate::request;
use crate::request::answer::{Abort, AnswerHead, RefusalAnswer};
use crate::request::body::AnswerBody;
use crate::request::facts::RequestFacts;
use crate::request::fault::Fault;
use crate::request::outbox::Outbox;
use crate::request::record::Written;
use crate::request::spool::Spool;
use crate::respond;
use crate::shared::Shared;
use crate::stream::Outgoing;
use crate::timers::Timer;
use crate::trace::ids::ToldId;
use h2::server::SendResponse;
use h2::{Reason as Code, RecvStream, SendStream};
use http::header::HeaderMap;
use http::{Request, Response, StatusCode};
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tiergate_core::gate::Delivered;
use tiergate_core::mark::Mark;
use tiergate_core::transmit::{Carried, Sending};
use tiergate_wire::http1::{FieldTable, HeadError, HeadLimits, Malformed, Parsed, RequestHead};

/// Serves one stream.
pub(super) async fn run(
    request: Request<RecvStream>,
    respond: SendResponse<Payload>,
    peer: Arc<Peer>,
    shared: Arc<Shared>,
    mut counted: Counted,
) {
    let mut side = Http2::new(request, respond, &peer, counted.tally());
    request::serve::serve(&mut side, &shared).await;
    let ended = side.ended;
    drop(side);
    counted.ended = ended;
}

/// What the caller is told where the origin's answer has no end.
const BROKEN_OFF: &str = "the origin broke off its answer";

/// A stream of a connection over HTTP/2.
pub(super) struct Http2<'t> {
    peer: &'t Peer,
    pub(super) tally: &'t Tally,
    pub(super) timer: Timer,
    head: Head,
    upload: Upload<RecvStream>,
    /// The upload's room, while it may stand still.
    parked: Option<Parked<'t>>,
    pub(super) respond: SendResponse<Payload>,
    /// The answer's head, until it is sent.
    pub(super) response: Option<Response<()>>,
    /// The answer's body, once its head was sent.
    pub(super) sending: Option<SendStream<Payload>>,
    /// What of it `h2` holds.
    pub(super) held: Arc<Held>,
    /// The last of the answer was handed over.
    pub(super) is_over: bool,
    ended: Ended,
    /// The rank of its answer, once that has begun.
    marked: Option<u16>,
    /// Whether its answer waits for turns on the link.
    is_in_turns: bool,
}

impl Drop for Http2<'_> {
    fn drop(&mut self) {
        self.sends_in_turns(false);
        if let Some(rank) = self.marked {
            self.tally.unmark(rank);
        }
    }
}

impl<'t> Http2<'t> {
    fn new(
        request: Request<RecvStream>,
        respond: SendResponse<Payload>,
        peer: &'t Peer,
        tally: &'t Tally,
    ) -> Self {
        let (parts, body) = request.into_parts();
        let head = Head::new(parts, body.is_end_stream());
        Http2 {
            peer,
            tally,
            timer: Timer::new(),
            head,
            upload: Upload::new(body),
            parked: None,
            respond,
            response: None,
            sending: None,
            held: Arc::default(),
            is_over: false,
            ended: Ended::default(),
            marked: None,
            is_in_turns: false,
        }
    }
}

impl Carrier for Http2<'_> {
    fn with_carried<T>(&mut self, then: impl FnOnce(&mut Carried, &Sending) -> T) -> Option<T> {
        self.tally.with_carried(then)
    }

    fn asks_for_room(&mut self, does: bool) {
        self.tally.asks_for_room(does);
    }

    fn charged(&mut self, on_wire: f64, _: bool) {
        self.tally.charged(on_wire);
    }

    fn poll_open(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        ready!(self.held.poll_none(context));
        // No more than a byte: what it reserves others of the connection do not have.
        self.poll_room(1, context).map(|room| room.map(|_| ()).map_err(|_| Gone))
    }
}

impl Client for Http2<'_> {
    const VIA: Option<&'static [u8]> = Some(b"2.0 tiergate");

    fn peer(&self) -> &Peer {
        self.peer
    }

    fn is_sole(&self) -> bool {
        self.tally.live() == 1
    }

    fn timer(&self) -> &Timer {
        &self.timer
    }

    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.sending {
            Some(sending) => sending.poll_reset(context).map(|_| ()),
            None => self.respond.poll_reset(context).map(|_| ()),
        }
    }

    fn poll_head(&mut self, _len_max: usize, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        unreachable!("a stream begins with its whole head")
    }

    fn poll_early_body(&mut self, context: &mut Context<'_>) {
        self.upload.poll_early(context);
    }

    fn head<'b>(
        &'b self,
        limits: &HeadLimits,
        fields: &mut FieldTable<'b>,
    ) -> Result<Parsed<RequestHead<'b>>, HeadError> {
        let mut head = self.head.read(limits, fields)?;
        // A client that has sent all waits for nothing.
        head.expect_continue &= !self.upload.is_read();
        Ok(Parsed::Complete(head))
    }

    fn carrier(&self) -> Option<Protocol> {
        Some(Protocol::Http2)
    }

    fn protocol(&self, _: &RequestHead<'_>) -> Protocol {
        Protocol::Http2
    }

    fn request_line(&self) -> (&[u8], &[u8]) {
        self.head.request_line()
    }

    fn held_len(&self) -> usize {
        self.head.len() + self.upload.gathered_len()
    }

    fn head_memory(&self) -> usize {
        self.head.memory()
    }

    fn received_len(&self, facts: &RequestFacts) -> u64 {
        facts.head_len as u64 + self.upload.total()
    }

    fn has_whole_body(&self, _: &RequestHead<'_>) -> Result<bool, Malformed> {
        Ok(self.upload.is_read())
    }

    async fn invite_body(&mut self, _: &RequestFacts, _: &Timeouts) -> io::Result<()> {
        if self.upload.gathered_len() == 0 {
            let response = answer::response(StatusCode::CONTINUE, HeaderMap::new());
            // It fails if the stream is gone, which reading tells.
            let _ = self.respond.send_informational(response);
        }
        Ok(())
    }

    fn gather(
        &mut self,
        _: &RequestFacts,
        most: usize,
        allowance: &Allowance<'_>,
    ) -> Result<Gathered, Fault> {
        let whole = self.upload.is_read();
        let more = self.upload.gather(most, allowance) && !whole;
        Ok(Gathered { len: self.upload.gathered_len(), more, whole })
    }

    fn gathers(&mut self, begins: bool) {
        self.tally.gathers(begins);
    }

    fn poll_gather(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.upload.poll_more(context)
    }

    fn spool(&mut self, spool: Box<Spool>, facts: &RequestFacts, body_max: u64) {
        self.upload.begin(facts, body_max);
        self.upload.begin_spool(spool);
    }

    fn poll_spool(
        &mut self,
        patience: Duration,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Fault>> {
        self.upload.poll_spool(&self.timer, patience, context)
    }

    fn hold_body(&mut self, facts: &RequestFacts, allowance: &Allowance<'_>) {
        if !facts.body.is_empty() && !self.upload.is_read() {
            self.parked = Some(self.tally.parking.park(allowance));
        }
    }

    fn begin_body(&mut self, facts: &RequestFacts, body_max: u64) -> Result<bool, Fault> {
        self.upload.begin(facts, body_max);
        Ok(facts.body.is_empty())
    }

    fn poll_send(
        &mut self,
        head: &[u8],
        sent: &mut usize,
        origin: &mut OriginStream,
        timeouts: &Timeouts,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.upload.is_over() && !self.upload.is_spooled() {
            // They leave together.
            self.upload.put_head(head);
            self.timer.arm(timeouts.request_body);
            return Poll::Ready(Ok(()));
        }
        let mut outgoing = Outgoing::new(&head[*sent..], &[]);
        let polled = outgoing.poll(origin, context);
        *sent = head.len() - outgoing.left();
        if polled.is_ready() {
            self.timer.arm(match self.upload.is_spooled() {
                true => timeouts.request_body,
                false => timeouts.response_head,
            });
        }
        polled
    }

    fn poll_body(
        &mut self,
        origin: &mut OriginStream,
        timeouts: &Timeouts,
        context: &mut Context<'_>,
    ) -> Result<(), Fault> {
        if self.upload.is_over() {
            return Ok(());
        }
        if self.upload.poll(origin, &self.timer, timeouts.request_body, context)?.is_ready() {
            self.parked = None;
            self.timer.arm(timeouts.response_head);
        }
        Ok(())
    }

    fn hold_end(&mut self, hold: bool) {
        self.upload.holds_end = hold;
    }

    fn is_end_held(&self) -> bool {
        self.upload.is_end_held()
    }

    fn is_sent(&self) -> bool {
        self.upload.is_done()
    }

    fn awaits_body(&self) -> bool {
        !self.upload.is_over() && self.upload.is_dry()
    }

    fn mark(&mut self, mark: Option<Mark>) -> io::Result<bool> {
        match mark {
            // Interim answers come before.
            Some(mark) if self.marked.is_none() => {
                self.marked = Some(mark.rank);
                self.tally.mark(mark)
            }
            _ => Ok(false),
        }
    }

    fn sends_in_turns(&mut self, does: bool) {
        if std::mem::replace(&mut self.is_in_turns, does) != does {
            self.tally.sends_in_turns(does);
        }
    }

    fn takes_chunks(&self, _: &RequestFacts) -> bool {
        false
    }

    fn put_head(&mut self, head: &AnswerHead<'_, '_>, _: &mut Vec<u8>) -> Result<(), &'static str> {
        if let Some(key) = self.head.websocket_key() {
            answer::check_websocket(head, key)?;
        }
        let response = answer::translate(head, self.peer.alt_svc.as_deref());
        let response = response.ok_or("head that HTTP/2 cannot express")?;
        match head.is_final() || head.head.upgrade {
            true => self.response = Some(response),
            false => {
                // It fails if the stream is gone, which reading tells.
                let _ = self.respond.send_informational(response);
            }
        }
        Ok(())
    }

    fn poll_write(
        &mut self,
        outbox: &mut Outbox,
        ends: Option<&AnswerBody>,
        time: Duration,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Fault>> {
        self.poll_answer(outbox, ends, time, context)
    }

    fn unsent_head(&self) -> u64 {
        self.response.as_ref().map_or(0, answer::head_len)
    }

    fn unsent_len(&self) -> usize {
        self.held.bytes()
    }

    fn delivered(&self) -> Option<Delivered> {
        self.tally.delivered()
    }

    async fn tunnel(
        &mut self,
        _: &RequestFacts,
        origin: OriginStream,
        from_origin: Option<Buffer>,
        timeouts: &Timeouts,
    ) {
        self.ended = Ended::Answered;
        let sending = self.sending.take().expect("the head was sent");
        let mut stream = Tunnel::new(self.upload.tunnel(), sending, self.held.clone());
        let idle_max = timeouts.tunnel_idle;
        let relayed = tunnel::relay(&mut stream, origin, None, from_origin, &self.timer, idle_max);
        if relayed.await.is_err() {
            stream.reset();
        }
    }

    fn finish(&mut self, _: &RequestFacts) {
        self.ended = Ended::Answered;
    }

    fn abort(&mut self, why: Abort) {
        let code = match why {
            Abort::ClientGone | Abort::ClientSlow => Code::CANCEL,
            Abort::Truncated | Abort::Unended => Code::INTERNAL_ERROR,
        };
        if let Some(sending) = &mut self.sending {
            // A call has room for words behind what was sent of its answer.
            let told = matches!(why, Abort::Truncated | Abort::Unended)
                && self.head.is_call()
                && sending.send_trailers(answer::call_status(502, BROKEN_OFF)).is_ok();
            if !told {
                sending.send_reset(code);
            }
        }
        // A client that takes nothing is given up by us.
        if why == Abort::ClientGone {
            self.ended = Ended::Reset;
        }
    }

    fn put_refusal(&mut self, refusal: &RefusalAnswer<'_>) -> Written {
        if refusal.connection == RefusalConnection::Reset {
            // The client may repeat such a request, whatever its method (RFC 9113 §8.7).
            self.respond.send_reset(Code::REFUSED_STREAM);
            return Written::default();
        }
        let (fields, body) = refusal.template.parts(&refusal.advice);
        let head_only = refusal.facts.head_only;
        let len = if head_only { 0 } else { body.len() as u64 };
        response::send(&mut self.respond, refusal.template.status, fields, body, head_only);
        Written { bytes: len, body: len }
    }

    async fn finish_refusal(&mut self, refusal: &RefusalAnswer<'_>, _: &Timeouts) {
        // A stream alone would be begun again at once.
        if refusal.ends_connection || refusal.connection == RefusalConnection::Close {
            self.tally.close();
        }
    }

    fn error_len(&self, status: u16, why: &'static str, _: bool, _: Option<ToldId<'_>>) -> Written {
        let has_body = !self.head.is_call() && !self.head.is_head_method();
        let len = if has_body { respond::error_body(status, why).len() as u64 } else { 0 };
        Written { bytes: len, body: len }
    }

    async fn fail(
        &mut self,
        status: u16,
        why: &'static str,
        _: bool,
        id: Option<ToldId<'_>>,
        _: &Timeouts,
    ) {
        let is_head = self.head.is_head_method();
        match self.head.is_call() {
            true => response::send_call_error(&mut self.respond, status, why, id),
            false => response::send_error(&mut self.respond, status, why, id, is_head),
        }
    }
}
