//! An answer on its way from the origin to a client of HTTP/1.1.
//!
//! ```text
//! read ─▶ outbox ─▶ write ─┬─ the client takes it: read on
//!                          └─ it does not: read ahead, as long as there is an allowance
//! origin done: its connection and the slot go back, then the rest is written
//! ```

use crate::account::Record;
use crate::body::{AnswerBody, Malformed};
use crate::budget::Allowance;
use crate::buffers::Buffer;
use crate::door::Held;
use crate::exchange::Failure;
use crate::link::{Fault, Link};
use crate::origin::{Lease, Place};
use crate::outbox::Outbox;
use crate::stream::ClientStream;
use crate::streaming::Turn;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use tiergate_core::outcome::End;

/// Passes an answer on: its head, and the body as it comes. When the origin is done, the slot and its
/// connection are given back, however much the client has still to take.
pub(crate) async fn deliver<S: ClientStream>(
    held: &mut Option<Held<'_>>,
    record: &mut Record,
    link: Link<'_, S>,
    place: Place,
    head: &[u8],
    mut body: AnswerBody,
    answer: Option<Buffer>,
) -> Result<(), Failure> {
    let mut outbox = Outbox::new(head);
    let mut turn = Turn::default();
    if !body.is_done() {
        turn.begin(body.streaming, held);
    }
    let holding = (held, &mut turn);
    let result = bring(holding, link, place, &mut outbox, &mut body, answer).await;
    record.sent_bytes += outbox.sent();
    if turn.turned() {
        record.end = Some(End::Upgraded);
    }
    result.map_err(|fault| match fault {
        // Nothing of it was written yet: the client can still be told.
        Fault::Origin if outbox.sent() == 0 => {
            Failure::Unanswered(Fault::Answer(502, "the origin's answer is malformed"))
        }
        fault if body.ends_with_connection() => Failure::Unended(fault),
        fault => Failure::BrokenOff(fault),
    })
}

async fn bring<S: ClientStream>(
    (held, turn): (&mut Option<Held<'_>>, &mut Turn),
    mut link: Link<'_, S>,
    mut place: Place,
    outbox: &mut Outbox<'_>,
    body: &mut AnswerBody,
    answer: Option<Buffer>,
) -> Result<(), Fault> {
    let passed = pass_on((held, turn), &mut link, outbox, body, answer).await;
    match passed {
        Ok(()) => {
            *held = None;
            if !link.is_sent() {
                // A client may take nothing before it has sent all.
                drop(place);
                return link.flush(outbox).await;
            }
            let Link { connection, origin, timeouts, .. } = link;
            match body.reusable {
                true => place.give_back(Lease { stream: origin, reused: true }),
                false => drop(origin),
            }
            drop(place);
            if outbox.is_empty() {
                return Ok(());
            }
            connection.flush(timeouts.write, outbox).await.map_err(Fault::Client)
        }
        Err(fault @ (Fault::Origin | Fault::OriginSlow)) => {
            place.broken();
            drop(place);
            if outbox.sent() > 0 && !outbox.is_empty() {
                if let Some(mut held) = held.take() {
                    held.note(End::Failed);
                }
                // What did come is the client's.
                link.flush(outbox).await?;
            }
            Err(fault)
        }
        Err(fault) => Err(fault),
    }
}

/// Passes on what comes until the origin is done; the last of it stays in the outbox.
async fn pass_on<S: ClientStream>(
    (held, turn): (&mut Option<Held<'_>>, &mut Turn),
    link: &mut Link<'_, S>,
    outbox: &mut Outbox<'_>,
    body: &mut AnswerBody,
    mut answer: Option<Buffer>,
) -> Result<(), Fault> {
    if body.is_done() {
        body.reusable &= answer.is_none();
        return Ok(());
    }
    loop {
        if let Some(buffer) = answer.take() {
            let piece = body.take(buffer).map_err(|Malformed| Fault::Origin)?;
            if let Some(data) = piece.data {
                held.iter_mut().for_each(|held| held.brought(data.content().len()));
                outbox.push(data);
            }
            if piece.done {
                return Ok(());
            }
        }
        if link.carry(outbox, &mut answer, (held, turn)).await? == 0 {
            if !body.ends_with_connection() {
                return Err(Fault::Origin);
            }
            body.reusable = false;
            return Ok(());
        }
    }
}

impl<S: ClientStream> Link<'_, S> {
    /// Writes the outbox to the client, then reads from the origin into `held`; 0 is the end. If the
    /// client does not take it all, reads ahead; the connection's timer is then the client's.
    ///
    /// # Errors
    /// See [`Fault`].
    async fn carry(
        &mut self,
        outbox: &mut Outbox<'_>,
        held: &mut Option<Buffer>,
        (slot, turn): (&mut Option<Held<'_>>, &mut Turn),
    ) -> Result<usize, Fault> {
        let mut written = false;
        if !outbox.stalled {
            self.connection.timer.arm(self.timeouts.write);
        }
        poll_fn(|context| {
            turn.poll(slot, context);
            if !written {
                self.poll_upload(context)?;
                written = self.poll_outbox(outbox, context)?.is_ready();
                if !written {
                    let Link { origin, allowance, timeouts, .. } = self;
                    let time = timeouts.response_body;
                    return outbox.poll_ahead(origin, held, allowance, time, context);
                }
                self.connection.timer.arm(self.timeouts.response_body);
            }
            // An event stream may be silent for long: its client's leaving is noticed at once.
            self.poll_read(held, context)
        })
        .await
    }

    /// Writes what the client takes; it has the time for writing for each buffer.
    fn poll_outbox(
        &mut self,
        outbox: &mut Outbox<'_>,
        context: &mut Context<'_>,
    ) -> Result<Poll<()>, Fault> {
        let (io, timer) = (&mut self.connection.io, &self.connection.timer);
        let time = self.timeouts.write;
        let written = outbox.poll(io, || timer.arm(time), context);
        outbox.stalled = written.is_pending();
        match written {
            Poll::Ready(Ok(())) => Ok(Poll::Ready(())),
            Poll::Ready(Err(error)) => Err(Fault::Client(error)),
            Poll::Pending if timer.poll_expired(context) => {
                Err(Fault::Client(io::ErrorKind::TimedOut.into()))
            }
            Poll::Pending => Ok(Poll::Pending),
        }
    }

    /// Writes the rest of an answer.
    async fn flush(&mut self, outbox: &mut Outbox<'_>) -> Result<(), Fault> {
        if !outbox.stalled {
            self.connection.timer.arm(self.timeouts.write);
        }
        poll_fn(|context| {
            self.poll_upload(context)?;
            self.poll_outbox(outbox, context)?.map(Ok)
        })
        .await
    }
}

/// What an answer may take of the memory for slow clients.
pub(crate) fn allowance<'c>(
    shared: &'c crate::shared::Shared,
    policy: &crate::config::meant::Policy,
) -> Allowance<'c> {
    Allowance {
        budget: &shared.counters.buffered,
        total_max: policy.limits.buffers_max,
        own_max: policy.buffering.response_max,
    }
}
