//! A stream as the client's side of one request.

use super::body::Body;
use super::line::{Line, Stopped};
use super::transport::Sender;
use crate::budget::Allowance;
use crate::buffers::Buffer;
use crate::client::peer::Peer;
use crate::client::seam::{Client, Gathered};
use crate::client::streams::answer;
use crate::client::streams::head::Head;
use crate::client::streams::parking::Parked;
use crate::client::streams::tally::{Ended, Tally};
use crate::client::streams::upload::Upload;
use crate::config::meant::{RefusalConnection, Timeouts};
use crate::link::Carrier;
use crate::observe::counters::Protocol;
use crate::origin::stream::OriginStream;
use crate::request::answer::{Abort, AnswerHead, RefusalAnswer};
use crate::request::body::AnswerBody;
use crate::request::facts::RequestFacts;
use crate::request::fault::Fault;
use crate::request::outbox::Outbox;
use crate::request::record::Written;
use crate::request::spool::Spool;
use crate::respond;
use crate::stream::Outgoing;
use crate::timers::Timer;
use crate::trace::ids::ToldId;
use bytes::Bytes;
use h3::error::Code;
use h3::server::RequestStream;
use http::header::HeaderMap;
use http::{Response, StatusCode};
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tiergate_core::gate::Delivered;
use tiergate_core::mark::Mark;
use tiergate_wire::http1::{FieldTable, HeadError, HeadLimits, Malformed, Parsed, RequestHead};

/// Bytes of a body that are copied behind the head of their frame: cheaper than two visits to QUIC.
const COPIED_MAX: usize = 4096;

/// What the caller is told where the origin's answer has no end.
const BROKEN_OFF: &str = "the origin broke off its answer";

/// A stream of a connection over HTTP/3.
pub(super) struct Http3<'t, 's> {
    pub(super) peer: &'t Peer,
    pub(super) tally: &'t Tally,
    pub(super) timer: Timer,
    pub(super) head: Head,
    pub(super) upload: Upload<Body>,
    /// The upload's room, while it may stand still.
    pub(super) parked: Option<Parked<'t>>,
    /// Encodes heads and trailers into the line.
    pub(super) respond: RequestStream<Sender, Bytes>,
    pub(super) line: &'t Line,
    pub(super) stopped: &'t mut Stopped<'s>,
    /// The answer's head, until it is sent.
    pub(super) response: Option<Response<()>>,
    /// The payload of the frame that was begun.
    pub(super) writing: Option<Buffer>,
    /// The last of the answer was handed over.
    pub(super) is_over: bool,
    pub(super) ended: Ended,
}

impl Http3<'_, '_> {
    /// Puts the answer's head into the line.
    fn put_response(&mut self, response: Response<()>) -> Result<(), Fault> {
        // One that is larger than the client says it takes is not sent.
        now(self.respond.send_response(response)).map_err(|_| Fault::gone())
    }

    /// Puts an answer of ours into the line. What fails here fails because the stream is gone.
    fn put_answer(&mut self, status: u16, headers: HeaderMap, body: Arc<str>) {
        let status = StatusCode::from_u16(status).expect("ours are statuses");
        if self.put_response(answer::response(status, headers)).is_ok() && !body.is_empty() {
            self.line.put_page(body);
        }
    }

    /// Hands over what was begun of a body: ready when QUIC has it.
    fn poll_begun(&mut self, time: Duration, context: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        ready!(self.line.poll_flush(context)).map_err(|_| Fault::gone())?;
        if let Some(buffer) = &mut self.writing {
            while !buffer.is_empty() {
                let sent = ready!(self.line.poll_write(buffer.content(), context));
                buffer.consume(sent.map_err(|_| Fault::gone())?);
            }
            self.writing = None;
            self.timer.arm(time);
        }
        Poll::Ready(Ok(()))
    }
}

/// What leaves by QUIC is charged as it is written.
impl Carrier for Http3<'_, '_> {}

impl Client for Http3<'_, '_> {
    const VIA: Option<&'static [u8]> = Some(b"3.0 tiergate");

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
        self.stopped.poll(context)
    }

    fn poll_head(&mut self, _len_max: usize, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        unreachable!("a request begins with its whole head")
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
        Some(Protocol::Http3)
    }

    fn protocol(&self, _: &RequestHead<'_>) -> Protocol {
        Protocol::Http3
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
            let _ = self.put_response(answer::response(StatusCode::CONTINUE, HeaderMap::new()));
            // What does not go at once goes with the answer.
            poll_fn(|context| {
                let _ = self.line.poll_flush(context);
                Poll::Ready(())
            })
            .await;
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

    /// The packets of all connections leave by one socket: they bear no marks of their own.
    fn mark(&mut self, _: Option<Mark>) -> io::Result<bool> {
        Ok(false)
    }

    fn takes_chunks(&self, _: &RequestFacts) -> bool {
        false
    }

    fn put_head(&mut self, head: &AnswerHead<'_, '_>, _: &mut Vec<u8>) -> Result<(), &'static str> {
        let response = answer::translate(head, None);
        let response = response.ok_or("head that HTTP/3 cannot express")?;
        match head.is_final() {
            true => self.response = Some(response),
            // It fails if the stream is gone, which reading tells.
            false => drop(self.put_response(response)),
        }
        Ok(())
    }

    /// Hands QUIC what its send window and the client's windows let through, a buffer at a time: what waits for them waits
    /// in the outbox, and a client that widens them byte by byte has the time for a buffer all the same.
    fn poll_write(
        &mut self,
        outbox: &mut Outbox,
        ends: Option<&AnswerBody>,
        time: Duration,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Fault>> {
        if let Some(response) = self.response.take() {
            self.put_response(response)?;
            outbox.begin();
        }
        loop {
            ready!(self.poll_begun(time, context))?;
            if self.is_over {
                self.line.finish();
                return Poll::Ready(Ok(()));
            }
            let Some(len) = outbox.next_len() else {
                let Some(body) = ends else { return Poll::Ready(Ok(())) };
                self.is_over = true;
                if let Some(trailers) = answer::trailers(body) {
                    now(self.respond.send_trailers(trailers)).map_err(|_| Fault::gone())?;
                }
                continue;
            };
            let allowed = outbox.allowed().map(|it| usize::try_from(it).unwrap_or(usize::MAX));
            let most = allowed.map_or(len, |allowed| len.min(allowed));
            if most == 0 {
                outbox.await_turn();
                return Poll::Pending;
            }
            let buffer = match most < len {
                true => outbox.pop_part(most),
                false => outbox.pop().expect("just looked"),
            };
            let content = buffer.content();
            self.line.put_data_head(content.len());
            match content.len() <= COPIED_MAX {
                true => {
                    self.line.put(content);
                    self.timer.arm(time);
                }
                false => self.writing = Some(buffer),
            }
        }
    }

    fn unsent_head(&self) -> u64 {
        self.response.as_ref().map_or(0, answer::head_len)
    }

    fn unsent_len(&self) -> usize {
        self.writing.as_ref().map_or(0, |buffer| buffer.content().len())
    }

    fn delivered(&self) -> Option<Delivered> {
        self.tally.delivered()
    }

    async fn tunnel(&mut self, _: &RequestFacts, _: OriginStream, _: Option<Buffer>, _: &Timeouts) {
        unreachable!(
            "no request over HTTP/3 asks for another protocol: extended CONNECT is not offered"
        )
    }

    fn finish(&mut self, _: &RequestFacts) {
        self.ended = Ended::Answered;
    }

    fn abort(&mut self, why: Abort) {
        let code = match why {
            Abort::ClientGone | Abort::ClientSlow => Code::H3_REQUEST_CANCELLED,
            Abort::Truncated | Abort::Unended => Code::H3_INTERNAL_ERROR,
        };
        // A call has room for words behind what was sent of its answer, unless a frame was begun.
        let told = matches!(why, Abort::Truncated | Abort::Unended)
            && self.head.is_call()
            && self.response.is_none()
            && self.writing.is_none()
            && now(self.respond.send_trailers(answer::call_status(502, BROKEN_OFF))).is_ok();
        if !told {
            self.line.reset(code.value());
        }
        // A client that takes nothing is given up by us.
        if why == Abort::ClientGone {
            self.ended = Ended::Reset;
        }
    }

    fn put_refusal(&mut self, refusal: &RefusalAnswer<'_>) -> Written {
        if refusal.connection == RefusalConnection::Reset {
            // The client may repeat such a request, whatever its method (RFC 9114 §4.1.1).
            self.line.reset(Code::H3_REQUEST_REJECTED.value());
            return Written::default();
        }
        let (fields, body) = refusal.template.parts(&refusal.advice);
        let body = if refusal.facts.head_only { Arc::default() } else { body };
        let len = body.len() as u64;
        self.put_answer(refusal.template.status, fields, body);
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
        if self.head.is_call() {
            return self.put_answer(200, answer::call_error(status, why, id), Arc::default());
        }
        let (headers, body) = answer::error(status, why, id);
        let body = if self.head.is_head_method() { Arc::default() } else { body.into() };
        self.put_answer(status, headers, body);
    }
}

/// What comes of encoding into the line, which waits for nothing.
fn now<T>(encoding: impl Future<Output = T>) -> T {
    match pin!(encoding).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => unreachable!("the line takes all"),
    }
}
