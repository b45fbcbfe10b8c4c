//! The seam between a request's path and its client: what the path needs, whatever the protocol.
//!
//! A side holds what its protocol has for one request: over HTTP/1.1 the connection, over HTTP/2 a
//! stream. The path calls in this order:
//!
//! ```text
//! poll_head, head ─▶ [gather, poll_gather ─▶ [spool, poll_spool]] ─▶ [refuse] ─▶ hold_body ─▶ begin_body ─▶ poll_send
//!   ─▶ poll_body … ─▶ put_head, poll_write … ─▶ finish | abort | fail
//! ```
//!
//! Bytes are polled, so that one task waits for client and origin at once and no future is boxed. Every
//! wait on the client is bounded by [`Client::timer`], which the path arms unless it says otherwise here.

use super::peer::Peer;
use crate::budget::Allowance;
use crate::buffers::Buffer;
use crate::config::meant::Timeouts;
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
use crate::timers::Timer;
use crate::trace::ids::ToldId;
use std::io;
use std::os::fd::BorrowedFd;
use std::task::{Context, Poll};
use std::time::Duration;
use tiergate_core::gate::Delivered;
use tiergate_core::mark::Mark;
use tiergate_wire::http1::{FieldTable, HeadError, HeadLimits, Malformed, Parsed, RequestHead};

/// What was gathered of a request's body so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gathered {
    /// Bytes.
    pub(crate) len: usize,
    /// More may be read: the body has not ended, and there is memory for it.
    pub(crate) more: bool,
    /// The body has ended.
    pub(crate) whole: bool,
}

/// The client's side of one request.
pub(crate) trait Client: Carrier {
    /// How `Via` names the protocol; `None`: by the version in the head.
    const VIA: Option<&'static [u8]> = None;

    /// The other end of the connection.
    fn peer(&self) -> &Peer;

    /// Whether no other request of the connection is in progress.
    fn is_sole(&self) -> bool;

    /// The time-out of whatever the request waits for.
    fn timer(&self) -> &Timer;

    /// Ready when the client has left, as far as that can be noticed now: while its body comes, reading
    /// tells.
    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<()>;

    // The request's head.

    /// Reads more of a head that is not whole; one that passes `len_max` need not be read on.
    ///
    /// # Errors
    /// The client has left.
    fn poll_head(&mut self, len_max: usize, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Takes in what came of the body together with the head, if that is not done by reading the head.
    fn poll_early_body(&mut self, _context: &mut Context<'_>) {}

    /// The head, of which `fields` gets the fields.
    ///
    /// # Errors
    /// What to answer.
    fn head<'b>(
        &'b self,
        limits: &HeadLimits,
        fields: &mut FieldTable<'b>,
    ) -> Result<Parsed<RequestHead<'b>>, HeadError>;

    /// The protocol of a head that cannot be understood, as far as it is known.
    fn carrier(&self) -> Option<Protocol> {
        None
    }

    /// The protocol, to be counted.
    fn protocol(&self, head: &RequestHead<'_>) -> Protocol;

    /// Method and target of a head that is whole.
    fn request_line(&self) -> (&[u8], &[u8]);

    /// Bytes that are held for the request.
    fn held_len(&self) -> usize;

    /// Bytes of memory that the head takes where a connection holds many; 0: it holds one.
    fn head_memory(&self) -> usize {
        0
    }

    /// Bytes that the client sent for the request: of the head as far as its length is known, and of the
    /// body those that were read.
    fn received_len(&self, facts: &RequestFacts) -> u64;

    // The request's body.

    /// Whether all of the body is there.
    ///
    /// # Errors
    /// It is not framed as it says.
    fn has_whole_body(&self, head: &RequestHead<'_>) -> Result<bool, Malformed>;

    /// Tells a client that waits for it to send the body, unless it has begun to.
    ///
    /// # Errors
    /// The client has left.
    fn invite_body(
        &mut self,
        facts: &RequestFacts,
        timeouts: &Timeouts,
    ) -> impl Future<Output = io::Result<()>>;

    /// The body begins to be read before the request asks for its slot, or that is over: meanwhile the connection
    /// makes room for others like one without a request, and reading fails.
    fn gathers(&mut self, begins: bool);

    /// Looks at what was read of such a body, and makes room for more, of at most `most` bytes in all.
    ///
    /// # Errors
    /// What to answer.
    fn gather(
        &mut self,
        facts: &RequestFacts,
        most: usize,
        allowance: &Allowance<'_>,
    ) -> Result<Gathered, Fault>;

    /// Reads more of it.
    ///
    /// # Errors
    /// The client has left.
    fn poll_gather(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// What was gathered of the body, and the rest of it, goes to `spool` before the request asks for its slot.
    /// `body_max`: bytes of the longest body that is taken; 0: of any length.
    fn spool(&mut self, spool: Box<Spool>, facts: &RequestFacts, body_max: u64);

    /// Moves the body there. Ready when it has ended, or no more is taken. The timer is armed with `patience` at
    /// each step; [`Client::awaits_body`] says whose turn it is.
    ///
    /// # Errors
    /// What to answer.
    fn poll_spool(
        &mut self,
        patience: Duration,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Fault>>;

    /// The rest of the body may stay where it is for a while: the request waits for its slot, or for an
    /// origin that does not read.
    fn hold_body(&mut self, _facts: &RequestFacts, _allowance: &Allowance<'_>) {}

    /// The body is next to go to the origin. Says whether the request can be sent twice as far as the
    /// body is concerned. `body_max`: bytes of the longest body that is taken; 0: of any length.
    ///
    /// # Errors
    /// What to answer.
    fn begin_body(&mut self, facts: &RequestFacts, body_max: u64) -> Result<bool, Fault>;

    /// Sends the request to the origin: the head, and as much of the body as goes at once. `sent`, first
    /// 0, counts bytes from one poll to the next. When ready, the timer is armed for what comes next.
    ///
    /// # Errors
    /// The origin's connection.
    fn poll_send(
        &mut self,
        head: &[u8],
        sent: &mut usize,
        origin: &mut OriginStream,
        timeouts: &Timeouts,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>>;

    /// Moves the rest of the body on, as far as client and origin let it; arms the timer at each step.
    ///
    /// # Errors
    /// The client's faults. The origin's failures are found by reading its answer.
    fn poll_body(
        &mut self,
        origin: &mut OriginStream,
        timeouts: &Timeouts,
        context: &mut Context<'_>,
    ) -> Result<(), Fault>;

    /// The end of the body, the last bytes that are read of it, stays here from now on; with `false`, it goes with the
    /// rest.
    fn hold_end(&mut self, hold: bool);

    /// Whether all but the end has been sent, and that is held.
    fn is_end_held(&self) -> bool;

    /// Whether all of the request has been sent.
    fn is_sent(&self) -> bool;

    /// Whether it is the client's turn to send more of the body.
    fn awaits_body(&self) -> bool;

    // The origin's answer.

    /// An answer of this mark is about to be written: sees to it that the connection's packets bear it. Says whether that
    /// had to be changed. A comparison where not, else a system call. `None`: no class's answers are marked.
    ///
    /// # Errors
    /// What the system says; the answer goes out all the same.
    fn mark(&mut self, mark: Option<Mark>) -> io::Result<bool>;

    /// Whether the answer that is about to be written waits for turns on the link: the system then holds little of it that has not
    /// been sent. A comparison where nothing changes, else a system call.
    fn sends_in_turns(&mut self, _does: bool) {}

    /// Whether the client takes chunks as they come from the origin.
    fn takes_chunks(&self, facts: &RequestFacts) -> bool;

    /// Takes the head of an answer, in the client's terms. `out` is empty: what a side writes there goes
    /// to the client before the body.
    ///
    /// # Errors
    /// What is wrong with the head.
    fn put_head(
        &mut self,
        answer: &AnswerHead<'_, '_>,
        out: &mut Vec<u8>,
    ) -> Result<(), &'static str>;

    /// Hands the client what it takes of the outbox. `ends` is a body of which nothing follows. Ready
    /// when all is handed over, and after the last of it when nothing of it is held here any more; the timer
    /// is armed with `time` whenever a buffer is handed over whole.
    ///
    /// # Errors
    /// The client's.
    fn poll_write(
        &mut self,
        outbox: &mut Outbox,
        ends: Option<&AnswerBody>,
        time: Duration,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Fault>>;

    /// The origin has agreed to another protocol and the client was told so: passes bytes both ways until
    /// the end. Only where [`RequestFacts::upgrade`] was set.
    fn tunnel(
        &mut self,
        facts: &RequestFacts,
        origin: OriginStream,
        from_origin: Option<Buffer>,
        timeouts: &Timeouts,
    ) -> impl Future<Output = ()>;

    /// About how many bytes an answer's head has that was taken, and waits to be framed; 0: there is none, or it is in the outbox. O(its fields).
    fn unsent_head(&self) -> u64 {
        0
    }

    /// Bytes of the answer that were taken, and are held here until the client takes them.
    fn unsent_len(&self) -> usize {
        0
    }

    /// What the connection has delivered, if the system tells: asked while the request waits for its client, not
    /// on the fast path.
    fn delivered(&self) -> Option<Delivered>;

    /// The socket that what is written goes to at once; `None`: it goes there later, with that of others.
    fn socket(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    // The end.

    /// The answer was passed on whole.
    fn finish(&mut self, facts: &RequestFacts);

    /// The answer, or its rest, will not come.
    fn abort(&mut self, why: Abort);

    /// Takes a refusal; gives how long it is.
    fn put_refusal(&mut self, refusal: &RefusalAnswer<'_>) -> Written;

    /// Sends the refusal that was taken, and does with the connection what it says.
    fn finish_refusal(
        &mut self,
        refusal: &RefusalAnswer<'_>,
        timeouts: &Timeouts,
    ) -> impl Future<Output = ()>;

    /// How long the answer of [`fail`](Self::fail) is.
    fn error_len(
        &self,
        status: u16,
        why: &'static str,
        head_only: bool,
        id: Option<ToldId<'_>>,
    ) -> Written;

    /// Answers with an error of ours; `why` says what was wrong, without repeating what the client sent. `id`: what the request is known by.
    fn fail(
        &mut self,
        status: u16,
        why: &'static str,
        head_only: bool,
        id: Option<ToldId<'_>>,
        timeouts: &Timeouts,
    ) -> impl Future<Output = ()>;
}
