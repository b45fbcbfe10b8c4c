//! A client connection over HTTP/1.1: one request after the other.
//!
//! ```text
//! idle ──bytes──▶ head ──decided──▶ refused ─────────▶ idle | close
//!                  │ ▲              ├▶ wait ─▶ forward ▶ idle | close | tunnel
//!                  │ └─── gather ◀──┘ (the body is not there)
//!                  └──bad, too slow──▶ error, close
//! ```

use crate::account::{self, Record};
use crate::buffers::{self, Buffer};
use crate::clock;
use crate::config::meant::RefusalConnection;
use crate::decide::{self, Decision, Entry, Facts, Peer};
use crate::forward::{self, Journey};
use crate::http1::{Framing, HeadSearch};
use crate::outbox::Outbox;
use crate::respond::{self, Advice, Format};
use crate::shared::{Config, Shared};
use crate::stream::{ClientStream, Outgoing, poll_fill, poll_fill_held};
use crate::timers::Timer;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tiergate_core::gate::Refused;
use tiergate_core::outcome::End;

/// A client connection between two requests.
#[derive(Debug)]
pub struct Connection<S> {
    pub(crate) io: S,
    pub(crate) peer: Box<Peer>,
    pub(crate) timer: Timer,
    /// What was received and is not used up; `None` while there is nothing.
    pub(crate) input: Option<Buffer>,
}

/// What becomes of the connection after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The next request.
    Keep,
    /// Close: all that the client sent was read, so nothing can be lost to a reset.
    Close,
    /// Close; first give the client time to read what was written.
    Linger,
    /// Close at once: there is nothing it could still read, or nothing true.
    Cut,
    /// Close so that the client sees that it was not meant to end here.
    Reset,
}

/// Bytes of a refused request's body that are read to keep the connection: less than what a new
/// connection costs.
const DRAIN_MAX: u64 = 64 * 1024;

/// How long a connection that was answered with an error is still read, so that the answer is not
/// lost to a reset (RFC 9112 §9.6).
const LINGER: Duration = Duration::from_secs(1);

/// Bytes that a lingering close reads at most.
const LINGER_BYTES_MAX: usize = 256 * 1024;

/// Serves a connection until either side ends it. `early` was read already; `timer` runs for the first
/// request.
pub async fn serve<S: ClientStream>(
    io: S,
    peer: Box<Peer>,
    early: Option<Buffer>,
    timer: Timer,
    shared: &Arc<Shared>,
) {
    let mut connection = Connection { io, peer, timer, input: early };
    let next = loop {
        match connection.turn(shared).await {
            Ok(Next::Keep) => {}
            Ok(next) => break next,
            Err(_) => break Next::Cut,
        }
        let idle = shared.config.load().policy.timeouts.idle;
        connection.timer.arm_idle(idle);
    };
    match next {
        Next::Close if connection.io.says_goodbye() => drop(connection.end().await),
        Next::Close | Next::Keep | Next::Cut => {}
        Next::Linger => drop(connection.linger().await),
        Next::Reset => {
            // Closing with a zero linger time sends a reset.
            let _ = socket2::SockRef::from(connection.io.socket()).set_linger(Some(Duration::ZERO));
        }
    }
}

impl<S: ClientStream> Connection<S> {
    /// One request: from its first byte to the last of its answer.
    ///
    /// # Errors
    /// The client's connection broke, was closed between two requests or idle for too long.
    async fn turn(&mut self, shared: &Arc<Shared>) -> io::Result<Next> {
        if self.input.is_none() {
            self.await_bytes().await?;
        }
        let mut config = shared.config.load_full();
        self.timer.arm(config.policy.timeouts.request_head);
        let mut arrived = None;
        let mut search = HeadSearch::default();
        let decision = loop {
            let decision = poll_fn(|context| {
                let bytes = self.input.as_ref().map_or(&[][..], Buffer::content);
                // Once it has arrived, its head was whole.
                if arrived.is_none() && !search.ready(bytes, config.policy.limits.request_head_max)
                {
                    return Poll::Ready(Decision::Partial);
                }
                Poll::Ready(decide::decide(
                    shared,
                    &config,
                    &self.peer,
                    bytes,
                    arrived.is_some(),
                    context,
                ))
            })
            .await;
            match decision {
                Decision::Partial => {}
                Decision::Gather(facts) => {
                    let record = Record::new(*arrived.insert(clock::recent()));
                    // In a box: a connection that only waits shall not keep room for it.
                    let gathered = Box::pin(self.gather(shared, &config, &facts)).await;
                    if let Err(fault) = gathered {
                        return self.give_up(shared, &config, &facts, record, fault).await;
                    }
                    // It may have taken long: what is in force now decides.
                    config = shared.config.load_full();
                    continue;
                }
                decision => break decision,
            }
            match self.read_more(config.policy.limits.request_head_max).await {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    shared.tally().bad_request(408);
                    return self.fail(&config, 408, "the request's head took too long").await;
                }
                Err(error) => return Err(error),
            }
        };
        let arrived = arrived.unwrap_or_else(clock::recent);
        match decision {
            Decision::Partial | Decision::Gather(_) => {
                unreachable!("the loop above ends with a decision")
            }
            Decision::Bad { status, why } => {
                shared.tally().bad_request(status);
                self.fail(&config, status, why).await
            }
            Decision::Refuse(facts, refused, format) => {
                self.refuse(shared, &config, &facts, refused, format, Record::new(arrived)).await
            }
            Decision::Go { facts, mut head, entry, format } => {
                let held = match entry {
                    Entry::Now(held) => held,
                    Entry::Later(waiting) => {
                        let settled =
                            waiting.wait(&facts.arrival, |context| self.poll_gone(context)).await;
                        match settled {
                            None => {
                                buffers::keep_text(head);
                                let waited = Some(clock::now().since(arrived));
                                let end = Some(End::Cancelled);
                                let record = Record { waited, end, ..Record::new(arrived) };
                                account::http1(shared, &config, &facts, self.received(), &record);
                                return Ok(Next::Cut);
                            }
                            Some(Err(refused)) => {
                                buffers::keep_text(head);
                                let waited = Some(clock::now().since(arrived));
                                let record = Record { waited, ..Record::new(arrived) };
                                return self
                                    .refuse(shared, &config, &facts, refused, format, record)
                                    .await;
                            }
                            Some(Ok(held)) => held,
                        }
                    }
                };
                let mut journey = Journey::new(shared, &config, &facts, arrived, held);
                let next = forward::forward(self, &mut journey, &mut head).await?;
                if next == Next::Keep {
                    self.peer.standing.answer();
                }
                Ok(next)
            }
        }
    }

    /// Waits for the first byte of a request; holds no buffer meanwhile.
    async fn await_bytes(&mut self) -> io::Result<()> {
        let Connection { io, timer, input, .. } = self;
        let count =
            timer.bound(|context| poll_fill_held(io, input, Buffer::small, context)).await?;
        if count == 0 {
            *input = None;
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    async fn read_more(&mut self, len_max: usize) -> io::Result<()> {
        let Connection { io, timer, input, .. } = self;
        let buffer = input.get_or_insert_with(Buffer::small);
        // One byte more than the bound, so that the parser sees that it is passed.
        buffer.make_room(len_max + 1);
        match timer.bound(|context| poll_fill(io, buffer, context)).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Ready when the client has gone away. Bytes of a further request are kept; when there is no room
    /// for more, nothing is noticed until there is. The head and a body's beginning may fill the
    /// buffer: there is room for as much again.
    pub(crate) fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let buffer = self.input.get_or_insert_with(Buffer::small);
            if buffer.is_full() {
                buffer.make_room(2 * buffers::SMALL);
            }
            if buffer.is_full() {
                return Poll::Pending;
            }
            match poll_fill(&mut self.io, buffer, context) {
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(_)) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Answers with a refusal; keeps the connection if the policy does and the body is no trouble.
    pub(crate) async fn refuse(
        &mut self,
        shared: &Shared,
        config: &Config,
        facts: &Facts,
        refused: Refused,
        format: Format,
        mut record: Record,
    ) -> io::Result<Next> {
        record.reason = Some(refused.reason);
        record.policer = refused.policer.map(|(policer, _)| policer);
        if let Some(visit) = &facts.visit {
            visit.refused();
        }
        let connection = decide::connection_after(config, &self.peer, refused.reason);
        if connection == RefusalConnection::Reset {
            account::http1(shared, config, facts, self.received(), &record);
            return Ok(Next::Reset);
        }
        let body = match facts.body {
            Framing::None => Some(0),
            // A client that expects 100 may send the body or not: only closing is safe.
            Framing::Length(len) if len <= DRAIN_MAX && !facts.expects => Some(len),
            _ => None,
        };
        let keep = facts.keep
            && body.is_some()
            && connection == RefusalConnection::Keep
            && facts.version == crate::http1::Version::Http11
            && !shared.is_draining();
        let template = config.refusals.template(refused.reason, format);
        let told = Advice::of(&config.policy, &refused);
        let mut out = buffers::text();
        let rest = template.write(&mut out, &told, keep, facts.head_only);
        record.status = template.status;
        record.sent_bytes = (out.len() + rest.len()) as u64;
        account::http1(shared, config, facts, self.received(), &record);
        self.write_both(config, &out, rest).await?;
        buffers::keep_text(out);
        self.use_up(facts.head_len);
        match body {
            Some(len) if keep => {
                self.timer.arm(config.policy.timeouts.request_body);
                self.skip(len).await?;
                Ok(Next::Keep)
            }
            Some(0) if self.input.is_none() => Ok(Next::Close),
            _ => Ok(Next::Linger),
        }
    }

    /// Answers with an error of ours, then closes.
    pub(crate) async fn fail(
        &mut self,
        config: &Config,
        status: u16,
        why: &'static str,
    ) -> io::Result<Next> {
        let mut out = buffers::text();
        respond::write_error(&mut out, status, why, false, false);
        self.write(config, &out).await?;
        buffers::keep_text(out);
        Ok(Next::Linger)
    }

    /// Writes the rest of an answer; the client has `time` for each buffer.
    pub(crate) async fn flush(
        &mut self,
        time: Duration,
        outbox: &mut Outbox<'_>,
    ) -> io::Result<()> {
        let Connection { io, timer, .. } = self;
        if !outbox.stalled {
            timer.arm(time);
        }
        timer.bound(|context| outbox.poll(io, || timer.arm(time), context)).await
    }

    pub(crate) async fn write(&mut self, config: &Config, bytes: &[u8]) -> io::Result<()> {
        self.write_both(config, bytes, &[]).await
    }

    async fn write_both(&mut self, config: &Config, first: &[u8], second: &[u8]) -> io::Result<()> {
        self.timer.arm(config.policy.timeouts.write);
        let mut outgoing = Outgoing::new(first, second);
        let Connection { io, timer, .. } = self;
        timer.bound(|context| outgoing.poll(io, context)).await
    }

    /// What was received and is not used up.
    pub(crate) fn received(&self) -> &[u8] {
        self.input.as_ref().map_or(&[], Buffer::content)
    }

    /// Forgets bytes of the input; gives the buffer back if none are left.
    pub(crate) fn use_up(&mut self, count: usize) {
        if let Some(buffer) = &mut self.input {
            buffer.consume(count);
            if buffer.is_empty() {
                self.input = None;
            } else {
                buffer.settle();
            }
        }
    }

    /// Reads and forgets `len` bytes.
    async fn skip(&mut self, mut len: u64) -> io::Result<()> {
        loop {
            let there = self.input.as_ref().map_or(0, |buffer| buffer.content().len());
            let skipped = len.min(there as u64);
            self.use_up(skipped as usize);
            len -= skipped;
            if len == 0 {
                return Ok(());
            }
            self.await_bytes().await?;
        }
    }

    /// Ends our side.
    async fn end(&mut self) -> io::Result<()> {
        self.timer.arm(LINGER);
        let Connection { io, timer, .. } = self;
        timer.bound(|context| Pin::new(&mut *io).poll_shutdown(context)).await
    }

    /// Ends our side and reads what the client still sends, bounded in time and bytes.
    async fn linger(&mut self) -> io::Result<()> {
        self.end().await?;
        let Connection { io, timer, input, .. } = self;
        let mut left = LINGER_BYTES_MAX;
        while left > 0 {
            *input = None;
            let read = timer.bound(|context| poll_fill_held(io, input, Buffer::small, context));
            match read.await? {
                0 => break,
                count => left = left.saturating_sub(count),
            }
        }
        Ok(())
    }
}
