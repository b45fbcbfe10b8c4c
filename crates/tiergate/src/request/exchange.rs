//! One request and its answer on one connection to the origin.
//!
//! ```text
//! send ─▶ head ─┬─ 1xx: pass on, head again
//!               ├─ 101: pass on, tunnel
//!               ├─ an error, and there is a copy: serve that
//!               └─ final: pass on with the body's beginning ─▶ body ─▶ end
//! ```

use super::fault::{Failure, Fault, SLOWER_THAN_OTHERS, TOO_SLOW};
use super::forward::Ended;
use super::look::Seen;
use super::outbox::Outbox;
use super::path::Request;
use super::rest::Rest;
use super::slow::Way;
use crate::buffers::Buffer;
use crate::client::seam::Client;
use crate::clock;
use crate::door::SlotGuard;
use crate::origin::Place;
use crate::origin::stream::OriginStream;
use crate::shared::Counted;
use crate::stream::{Outgoing, poll_fill_held};
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use tiergate_core::gate::Progress;
use tiergate_core::origin::unprocessed::{Resend, Unprocessed};
use tiergate_core::outcome::End;
use tiergate_core::reason::Reason;
use tiergate_wire::http1::Framing;

/// Interim answers (1xx) to one request that are passed on; an origin that sends more is broken. One every few seconds (102)
/// while it works for an hour is not.
const INTERIM_MAX: u32 = 1000;

/// Bytes from a client after which it is looked again what their acknowledgement took of the link.
const ACKNOWLEDGED: u64 = 64 << 10;

impl<C: Client> Request<'_, '_, C> {
    /// Sends the request, passes the answer on. The head is written over once an answer is there.
    pub(super) async fn exchange(&mut self, may_repeat: bool) -> Result<Ended, Failure> {
        // What went wrong with an attempt before this one is over.
        self.record.cause = "";
        self.send(may_repeat).await?;
        self.invite_body().await?;
        if let Some(slot) = self.slot.as_mut().filter(|_| self.facts.preemptible.is_some()) {
            poll_fn(|context| slot.poll_permit_preemption(context)).await;
        }
        let mut answer: Option<Buffer> = None;
        let mut interims = 0;
        loop {
            let bytes = answer.as_ref().map_or(&[][..], Buffer::content);
            match self.look(bytes) {
                Seen::Partial => {
                    let may_repeat = may_repeat && answer.is_none() && interims == 0;
                    self.read_head(&mut answer, may_repeat).await?;
                }
                Seen::Bad(why) => return Err(self.broken(why)),
                Seen::Interim { len } => {
                    interims += 1;
                    if interims > INTERIM_MAX {
                        return Err(self.broken("the origin sent too many interim answers"));
                    }
                    self.slot.iter_mut().for_each(SlotGuard::keep);
                    consume(&mut answer, len);
                    self.pass_interim(&mut answer).await?;
                }
                Seen::Switch { len } => {
                    self.answered(101, End::Served, len);
                    consume(&mut answer, len);
                    return self.switch(answer).await;
                }
                Seen::Failed { len, status } => {
                    self.answered(status, End::of_status(status), len);
                    return Err(Failure::Replaced);
                }
                Seen::Final { len, status, end, body } => {
                    self.answered(status, end, len);
                    consume(&mut answer, len);
                    self.deliver(body, answer).await?;
                    return Ok(Ended::Answered);
                }
            }
        }
    }

    /// Sends the head, and what goes with it of the body.
    async fn send(&mut self, may_repeat: bool) -> Result<(), Failure> {
        if let Some(replay) = self.replay.take() {
            return self.send_again(replay).await;
        }
        let timeouts = &self.config.policy.timeouts;
        let mut sent = 0;
        self.client.timer().arm(timeouts.write);
        let sending = poll_fn(|context| {
            let origin = self.origin.as_mut().expect("the exchange has just begun");
            match self.client.poll_send(&self.head, &mut sent, origin, timeouts, context) {
                Poll::Pending if self.client.timer().poll_expired(context) => {
                    Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
                }
                polled => polled,
            }
        });
        match sending.await {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                Err(self.origin_failed(Fault::OriginSlow))
            }
            Err(_)
                if may_repeat && self.origin.as_ref().is_some_and(OriginStream::may_be_stale) =>
            {
                Err(Failure::Stale)
            }
            // It may have answered before it closed: reading tells.
            Err(_) | Ok(()) => Ok(()),
        }
    }

    /// Sends what went to a server that has not looked at it. The rest of the body follows as it comes.
    #[cold]
    async fn send_again(&mut self, sent: Vec<u8>) -> Result<(), Failure> {
        let timeouts = &self.config.policy.timeouts;
        self.client.timer().arm(timeouts.write);
        let mut outgoing = Outgoing::new(&sent, &[]);
        let sending = poll_fn(|context| {
            let origin = self.origin.as_mut().expect("the exchange has just begun");
            match outgoing.poll(origin, context) {
                Poll::Pending if self.client.timer().poll_expired(context) => {
                    Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
                }
                polled => polled,
            }
        });
        let sent = sending.await;
        self.client.timer().arm(match self.client.is_sent() {
            true => timeouts.response_head,
            false => timeouts.request_body,
        });
        match sent {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                Err(self.origin_failed(Fault::OriginSlow))
            }
            // Reading tells.
            Err(_) | Ok(()) => Ok(()),
        }
    }

    /// What becomes of a request that its server says it has not looked at; `None`: it does not say so.
    fn unprocessed(&mut self) -> Option<Failure> {
        let (unprocessed, replay) = self.origin.as_mut()?.unprocessed()?;
        let resent = self.resent;
        Some(match (Unprocessed { resent, ..unprocessed }).resend() {
            Resend::Again => {
                self.replay = replay;
                Failure::Stale
            }
            Resend::Pushback => Fault::Refusing.into(),
            Resend::Fails => self.origin_failed(Fault::Answer(
                502,
                "the origin ended the connection before it looked at the request",
            )),
        })
    }

    /// Tells a client that waits for it that its body is wanted: the request has its slot, and the origin has the head.
    async fn invite_body(&mut self) -> Result<(), Failure> {
        if !std::mem::take(&mut self.awaits_100) {
            return Ok(());
        }
        let invited = self.client.invite_body(self.facts, &self.config.policy.timeouts).await;
        invited.map_err(|error| Fault::Client(error).into())
    }

    /// Reads from the origin until there is more of a head.
    async fn read_head(
        &mut self,
        answer: &mut Option<Buffer>,
        may_repeat: bool,
    ) -> Result<(), Failure> {
        if let Some(buffer) = answer {
            buffer.make_room(self.config.policy.limits.response_head_max + 1);
        }
        let read = poll_fn(|context| match &self.slot {
            Some(slot) if slot.is_preempted() => {
                let arrival = &self.facts.arrival;
                let refused = self.shared.door.refused(clock::now(), arrival, Reason::Preempted);
                Poll::Ready(Err(Fault::Refused(Box::new(refused))))
            }
            _ => self.poll_read(answer, context),
        });
        let fault = match read.await {
            Ok(count) if count > 0 => return Ok(()),
            Ok(_) => Fault::Origin,
            Err(fault) => fault,
        };
        if let Fault::Client(_) = fault {
            self.rest = Some(Box::new(Rest { held: answer.take(), body: None }));
        }
        if let Fault::Origin = fault
            && let Some(failure) = self.unprocessed()
        {
            return Err(failure);
        }
        let origin = self.origin.as_ref().filter(|_| may_repeat);
        let is_stale = origin.is_some_and(OriginStream::may_be_stale);
        let is_lost = origin.is_some_and(OriginStream::has_lost_connection);
        Err(match fault {
            Fault::Origin if is_stale => Failure::Stale,
            Fault::Origin if is_lost => {
                let _ = self.origin_failed(fault);
                Failure::Lost
            }
            Fault::Origin | Fault::OriginSlow => self.origin_failed(fault),
            fault => fault.into(),
        })
    }

    /// Passes an interim answer on; `answer` is what came behind it. The origin's time begins anew.
    async fn pass_interim(&mut self, answer: &mut Option<Buffer>) -> Result<(), Failure> {
        let mut outbox = Outbox::new(std::mem::take(&mut self.head));
        let passed = self.flush(&mut outbox, None).await;
        self.record.sent += outbox.written();
        let is_cut = outbox.sent() > 0 && !outbox.is_empty();
        self.head = outbox.into_head();
        if let Err(Fault::Client(_)) = passed {
            self.rest = Some(Box::new(Rest { held: answer.take(), body: None }));
        }
        let timeouts = &self.config.policy.timeouts;
        self.client.timer().arm(match self.client.is_sent() {
            true => timeouts.response_head,
            false => timeouts.request_body,
        });
        // Behind a part of a head, an error page would be read as the rest of it.
        passed.map_err(|fault| match is_cut {
            true => Failure::Truncated(fault),
            false => Failure::Unanswered(fault),
        })
    }

    /// Notes that the final answer has begun.
    fn answered(&mut self, status: u16, end: End, head_len: usize) {
        let now = clock::now();
        self.place.as_mut().expect("held until the origin is done").answered(now, status);
        let slot = self.slot.as_mut().expect("held until the origin is done");
        slot.keep();
        // An origin that answers before it has all of the request works on it already.
        self.client.hold_end(false);
        slot.answered(now, head_len);
        slot.note(end);
        (self.record.status, self.record.origin_status) = (status, status);
        self.record.first_byte = slot.outcome().first_byte;
        self.record.end = Some(slot.outcome().end);
    }

    /// The origin has agreed to another protocol: the client is told, and the bytes go both ways.
    async fn switch(&mut self, answer: Option<Buffer>) -> Result<Ended, Failure> {
        let (shared, policy) = (self.shared, &self.config.policy);
        let counted = Counted::below(&shared.tunnels, policy.limits.tunnels_max);
        let Some(_counted) = counted else {
            return Err(Fault::Answer(503, "too many upgraded connections").into());
        };
        // The slot is free: what a tunnel costs the origin is not known.
        self.end(End::Upgraded);
        self.place.iter_mut().for_each(Place::lasts);
        self.origin.iter_mut().for_each(OriginStream::lasts);
        let mut outbox = Outbox::new(std::mem::take(&mut self.head));
        let flushed = self.flush(&mut outbox, None).await;
        self.head = outbox.into_head();
        flushed.map_err(Failure::Truncated)?;
        self.account();
        shared.tally().tunnels_opened.one();
        let origin = self.origin.take().expect("the exchange has not ended");
        self.client.sends_in_turns(false);
        self.client.tunnel(self.facts, origin, answer, &policy.timeouts).await;
        shared.tally().tunnels_closed.one();
        Ok(Ended::Switched)
    }

    /// The answer cannot be passed on.
    fn broken(&mut self, why: &'static str) -> Failure {
        self.origin_failed(Fault::Answer(502, why))
    }

    fn origin_failed(&mut self, fault: Fault) -> Failure {
        let (_, why) = fault.answer();
        self.place.as_mut().expect("held until the origin is done").broken(why);
        fault.into()
    }

    /// Moves the request's body on.
    pub(super) fn poll_body(&mut self, context: &mut Context<'_>) -> Result<(), Fault> {
        match &mut self.origin {
            Some(origin) => self.client.poll_body(origin, &self.config.policy.timeouts, context)?,
            None => return Ok(()),
        }
        if self.shared.link.is_known() {
            self.charge_acknowledgements();
        }
        Ok(())
    }

    /// What the client sends is acknowledged, by the link that answers leave by.
    fn charge_acknowledgements(&mut self) {
        let received = self.client.received_len(self.facts);
        if received >= self.acknowledged + ACKNOWLEDGED {
            self.acknowledged = received;
            let heads = self.heads();
            self.shared.link.looks(self.client, heads);
        }
    }

    /// Sends the end of a body that was held back, if the request has a slot again.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Result<(), Fault> {
        let Some(slot) = self.slot.as_mut().filter(|_| self.client.is_end_held()) else {
            return Ok(());
        };
        match slot.poll_comes_back(&self.facts.arrival, context) {
            Poll::Pending => return Ok(()),
            Poll::Ready(Err(refused)) => return Err(Fault::Refused(Box::new(refused))),
            Poll::Ready(Ok(())) => {}
        }
        self.slow.is_back();
        self.client.hold_end(false);
        self.poll_body(context)
    }

    /// Reads from the origin into `answer`; 0 is the end. Moves the request's body on meanwhile; the
    /// client's leaving ends the wait, at once, also where an answer is silent for long.
    pub(super) fn poll_read(
        &mut self,
        answer: &mut Option<Buffer>,
        context: &mut Context<'_>,
    ) -> Poll<Result<usize, Fault>> {
        self.poll_body(context)?;
        self.poll_end(context)?;
        let origin = self.origin.as_mut().expect("held until the origin is done");
        if let Poll::Ready(read) = poll_fill_held(origin, answer, Buffer::large, context) {
            return Poll::Ready(read.map_err(|error| {
                self.record.cause = broken_off(&error, self.record.end.is_some());
                Fault::Origin
            }));
        }
        if self.client.poll_gone(context).is_ready() {
            return Poll::Ready(Err(Fault::gone()));
        }
        let rate_min = self.config.policy.limits.client_rate_min;
        let (client, facts) = (&*self.client, self.facts);
        let received = || Progress { bytes: client.received_len(facts), delivered: None };
        // Over HTTP/2 the origin may have all of a body before the client says that this is its end.
        let has_come = matches!(facts.body, Framing::Length(len)
            if client.received_len(facts) >= facts.head_len as u64 + len);
        if !client.awaits_body() || has_come {
            self.slow.goes_on(&mut self.slot, context);
            if client.is_end_held() {
                // The time of the client and that of the origin are over; it is the gate's.
                return Poll::Pending;
            }
        } else if self.slow.poll_waits(Way::Sends, received, rate_min, &mut self.slot, context) {
            return Poll::Ready(Err(SLOWER_THAN_OTHERS));
        } else if self.record.end.is_none() && self.slow.is_lent_to_send() {
            self.client.hold_end(true);
        }
        if self.client.timer().poll_expired(context) {
            return Poll::Ready(Err(match self.client.awaits_body() {
                true => TOO_SLOW,
                false => Fault::OriginSlow,
            }));
        }
        Poll::Pending
    }
}

/// What the log says of a connection to the origin that was lost; empty: no more than that it was.
fn broken_off(error: &io::Error, in_answer: bool) -> &'static str {
    match (error.kind(), in_answer) {
        (io::ErrorKind::ConnectionReset, false) => {
            "the origin reset the connection without an answer"
        }
        (io::ErrorKind::ConnectionReset, true) => "the origin reset the connection in its answer",
        (io::ErrorKind::TimedOut, _) => "the connection to the origin was lost",
        _ => "",
    }
}

/// Forgets the head's bytes; gives the buffer back if no others came with it.
fn consume(answer: &mut Option<Buffer>, count: usize) {
    if let Some(buffer) = answer {
        buffer.consume(count);
        if buffer.is_empty() {
            *answer = None;
        }
    }
}
