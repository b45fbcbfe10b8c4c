//! A request's way to the origin: which server, which connection, and what to do if it fails.

use super::intake::Intake;
use super::parking::Parked;
use super::payload::Payload;
use super::request::Facts;
use super::stream::{Ended, send_error};
use super::upload::Upload;
use crate::account::Record;
use crate::budget::Allowance;
use crate::door::Held;
use crate::exchange::Failure;
use crate::link::Fault;
use crate::origin::{Attempts, Lease, Place};
use crate::shared::Config;
use crate::streaming::Turn;
use crate::timers::Timer;
use h2::server::SendResponse;
use h2::{Reason as Code, SendStream};
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use tiergate_core::outcome::End;

/// A request on its way.
pub(super) struct Journey<'c, 'd> {
    pub(super) config: &'c Config,
    pub(super) facts: &'c Facts,
    pub(super) record: Record,
    /// Given back when the origin is done.
    pub(super) held: Option<Held<'d>>,
    /// The request's body; `None` if there is none.
    pub(super) upload: Option<Upload>,
    /// What may be read ahead of a slow client.
    pub(super) allowance: Allowance<'c>,
    pub(super) respond: SendResponse<Payload>,
    /// The answer's body, once its head was sent.
    pub(super) sending: Option<SendStream<Payload>>,
    pub(super) timer: Timer,
    /// Its room, while the request's body goes on.
    pub(super) parked: Option<Parked<'c>>,
    /// Whether the answer is a stream by now.
    pub(super) turn: Turn,
}

impl<'c, 'd> Journey<'c, 'd> {
    pub(super) fn new(
        config: &'c Config,
        facts: &'c Facts,
        record: Record,
        held: Held<'d>,
        (intake, parked): (Intake, Option<Parked<'c>>),
        allowance: Allowance<'c>,
        respond: SendResponse<Payload>,
    ) -> Self {
        let body_max = config.policy.limits.request_body_max;
        let upload = (!facts.body.is_empty()).then(|| Upload::new(intake, facts.body, body_max));
        Journey {
            config,
            facts,
            record,
            held: Some(held),
            upload,
            allowance,
            respond,
            sending: None,
            timer: Timer::new(),
            parked,
            turn: Turn::default(),
        }
    }

    /// Ready when the client has reset the stream or the connection has ended.
    pub(super) fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.sending {
            Some(sending) => sending.poll_reset(context).map(|_| ()),
            None => self.respond.poll_reset(context).map(|_| ()),
        }
    }

    async fn run(&mut self, head: &[u8]) -> Result<(), Failure> {
        let mut attempts = Attempts::default();
        loop {
            let Some((mut place, idle)) = attempts.next(&self.config.origin) else {
                return Err(Failure::Unanswered(attempts.fault()));
            };
            let lease = match idle {
                Some(lease) => lease,
                None => match self.connect(&place).await? {
                    Ok(lease) => lease,
                    Err(error) => {
                        attempts.unreachable(&mut place, &error);
                        continue;
                    }
                },
            };
            // What has been streamed cannot be sent twice.
            let may_repeat = self.facts.idempotent && self.upload.is_none() && lease.reused;
            self.record.server = Some(place.id());
            match self.exchange(head, place, lease, may_repeat).await {
                Err(Failure::Stale) => attempts.stale(),
                result => return result,
            }
        }
    }

    /// A new connection to the server, unless the client leaves meanwhile.
    async fn connect(&mut self, place: &Place) -> Result<io::Result<Lease>, Failure> {
        let within = self.config.policy.timeouts.connect;
        let mut connecting = std::pin::pin!(place.connect(within));
        poll_fn(|context| {
            if let Poll::Ready(result) = connecting.as_mut().poll(context) {
                return Poll::Ready(Ok(result));
            }
            self.poll_gone(context).map(|()| Err(gone().into()))
        })
        .await
    }
}

/// The client has left.
pub(super) fn gone() -> Fault {
    Fault::Client(io::ErrorKind::ConnectionReset.into())
}

/// What has become of a request that was forwarded.
pub(super) enum Forwarded {
    /// It has ended.
    Ended(Ended),
    /// It was preempted by a request of a class above, and is to be told so.
    Preempted(SendResponse<Payload>),
}

/// Forwards one request and its answer; what is noted of it comes back.
pub(super) async fn forward(mut journey: Journey<'_, '_>, head: &[u8]) -> (Forwarded, Record) {
    let result = journey.run(head).await;
    let Journey { mut record, held, upload, mut respond, sending, facts, turn, .. } = journey;
    record.received_bytes += upload.as_ref().map_or(0, Upload::total);
    if turn.turned() {
        record.end = Some(End::Upgraded);
    }
    let (end, ended) = match result {
        Ok(()) => return (Forwarded::Ended(Ended::ByUs), record),
        Err(Failure::Unanswered(Fault::Preempted)) => {
            record.end = Some(End::Preempted);
            held.into_iter().for_each(|mut held| held.note(End::Preempted));
            return (Forwarded::Preempted(respond), record);
        }
        Err(Failure::Stale) => unreachable!("`run` tries again"),
        // A client that takes nothing is given up by us, but has failed nobody else.
        Err(
            Failure::Unanswered(Fault::Client(error))
            | Failure::BrokenOff(Fault::Client(error))
            | Failure::Unended(Fault::Client(error)),
        ) => {
            if let Some(mut sending) = sending {
                sending.send_reset(Code::CANCEL);
            }
            let by_us = error.kind() == io::ErrorKind::TimedOut;
            (End::Cancelled, if by_us { Ended::ByUs } else { Ended::ByClient })
        }
        // The head was sent: only a reset tells the client that the rest will not come.
        Err(Failure::BrokenOff(_) | Failure::Unended(_)) => {
            if let Some(mut sending) = sending {
                sending.send_reset(Code::INTERNAL_ERROR);
            }
            (End::Failed, Ended::ByUs)
        }
        Err(Failure::Unanswered(fault)) => {
            let (status, why) = fault.answer();
            record.status = status;
            send_error(&mut respond, status, why, facts.head_only);
            // A client's fault says nothing about the origin.
            (if status < 500 { End::Cancelled } else { End::Failed }, Ended::ByUs)
        }
    };
    if !turn.turned() {
        record.end = Some(end);
    }
    if let Some(mut held) = held {
        held.note(end);
    }
    (Forwarded::Ended(ended), record)
}
