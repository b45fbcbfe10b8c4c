//! A request's way to the origin: which server, which connection, and what to do if it fails.

use crate::account::{self, Record};
use crate::body::{BodyScanner, Malformed};
use crate::buffers::{self, Buffer};
use crate::decide::Facts;
use crate::door::Held;
use crate::exchange::{Exchange, Failure};
use crate::gather::MALFORMED;
use crate::link::{Fault, TOO_LARGE};
use crate::origin::{Attempts, Lease, Place};
use crate::respond::{self, Format};
use crate::serve::{Connection, Next};
use crate::shared::{Config, Shared};
use crate::stream::ClientStream;
use crate::upload::Upload;
use std::future::{Future, poll_fn};
use std::io;
use std::task::Poll;
use tiergate_core::outcome::End;
use tiergate_core::time::Moment;

/// Forwards one request and its answer.
///
/// # Errors
/// The client's connection broke.
pub(crate) async fn forward<S: ClientStream>(
    connection: &mut Connection<S>,
    journey: &mut Journey<'_, '_>,
    head: &mut Vec<u8>,
) -> io::Result<Next> {
    let result = journey.run(connection, head).await;
    buffers::keep_text(std::mem::take(head));
    let Journey { shared, config, facts, record, held, upload, sent } = journey;
    let sent_whole = upload.as_ref().is_none_or(Upload::is_done);
    record.received_bytes += upload.as_ref().map_or(*sent as u64, Upload::total);
    let mut ended = |end, record: &mut Record| {
        // A stream has been counted as one, however its client leaves it.
        if record.end != Some(End::Upgraded) {
            record.end = Some(end);
        }
        if let Some(mut held) = held.take() {
            held.note(end);
        }
    };
    let fault = match result {
        Ok(Ended::Switched) => return Ok(Next::Cut),
        Ok(Ended::Answered(next)) => {
            account::http1(shared, config, facts, connection.received(), record);
            // Of a body that was streamed nothing is left behind the head.
            connection.use_up(facts.head_len + if upload.is_none() { *sent } else { 0 });
            if let Some(rest) = upload.take().and_then(|upload| upload.rest) {
                connection.input = Some(rest);
            }
            // A close with unread bytes would be a reset, which can overtake the answer.
            return Ok(match next {
                Next::Close if !sent_whole || connection.input.is_some() => Next::Linger,
                next => next,
            });
        }
        Err(Failure::Stale) => unreachable!("`run` tries again"),
        Err(
            Failure::Unanswered(Fault::Client(error))
            | Failure::BrokenOff(Fault::Client(error))
            | Failure::Unended(Fault::Client(error)),
        ) => {
            ended(End::Cancelled, record);
            account::http1(shared, config, facts, connection.received(), record);
            return Err(error);
        }
        // The head was sent: only closing tells the client that the rest will not come.
        Err(failure @ (Failure::BrokenOff(_) | Failure::Unended(_))) => {
            ended(End::Failed, record);
            account::http1(shared, config, facts, connection.received(), record);
            let unended = matches!(failure, Failure::Unended(_));
            return Ok(if unended { Next::Reset } else { Next::Cut });
        }
        Err(Failure::Unanswered(Fault::Preempted)) => {
            let refused = shared.door.broken_off(&facts.arrival);
            ended(End::Preempted, record);
            let format = facts.may_be_broken_off.unwrap_or(Format::Plain);
            // In a box: a connection that only waits shall not keep room for it.
            let told = connection.refuse(shared, config, facts, refused, format, *record);
            return Box::pin(told).await;
        }
        Err(Failure::Unanswered(fault)) => fault,
    };
    let (status, why) = fault.answer();
    // A client's fault says nothing about the origin.
    ended(if status < 500 { End::Cancelled } else { End::Failed }, record);
    if status < 500 {
        shared.tally().bad_request(status);
    }
    record.status = status;
    account::http1(shared, config, facts, connection.received(), record);
    let mut out = buffers::text();
    respond::write_error(&mut out, status, why, false, facts.head_only);
    connection.write(config, &out).await?;
    buffers::keep_text(out);
    Ok(Next::Linger)
}

/// How a journey came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The answer was passed on.
    Answered(Next),
    /// The connection was a tunnel, and is used up; it is accounted for.
    Switched,
}

/// A request on its way.
pub(crate) struct Journey<'c, 'd> {
    pub(crate) shared: &'c Shared,
    pub(crate) config: &'c Config,
    pub(crate) facts: &'c Facts,
    pub(crate) record: Record,
    /// Given back when the origin is done.
    pub(crate) held: Option<Held<'d>>,
    /// The rest of the request's body, if it did not come with the head.
    pub(crate) upload: Option<Upload>,
    /// Bytes of the body that came with the head.
    pub(crate) sent: usize,
}

impl<'c, 'd> Journey<'c, 'd> {
    /// At its beginning. It stays where it is made, and is lent on: a connection has room for it once.
    pub(crate) fn new(
        shared: &'c Shared,
        config: &'c Config,
        facts: &'c Facts,
        arrived: Moment,
        held: Held<'d>,
    ) -> Self {
        let record = Record {
            waited: Some(held.waited()),
            received_bytes: facts.head_len as u64,
            ..Record::new(arrived)
        };
        Journey { shared, config, facts, record, held: Some(held), upload: None, sent: 0 }
    }

    async fn run<S: ClientStream>(
        &mut self,
        connection: &mut Connection<S>,
        head: &mut Vec<u8>,
    ) -> Result<Ended, Failure> {
        self.look_at_body(connection).map_err(Failure::Unanswered)?;
        // What has been streamed cannot be sent twice.
        let repeatable = self.facts.idempotent && self.upload.is_none();
        let mut attempts = Attempts::default();
        loop {
            let Some((mut place, idle)) = attempts.next(&self.config.origin) else {
                return Err(Failure::Unanswered(attempts.fault()));
            };
            let lease = match idle {
                Some(lease) => lease,
                None => match self.connect(connection, &place).await? {
                    Ok(lease) => lease,
                    Err(error) => {
                        attempts.unreachable(&mut place, &error);
                        continue;
                    }
                },
            };
            let may_repeat = repeatable && lease.reused;
            self.record.server = Some(place.id());
            match Exchange::new(self, connection, place, lease).run(head, may_repeat).await {
                Err(Failure::Stale) => attempts.stale(),
                result => return result,
            }
        }
    }

    /// Finds how much of the body came with the head.
    fn look_at_body<S: ClientStream>(&mut self, connection: &Connection<S>) -> Result<(), Fault> {
        let mut body = BodyScanner::new(self.facts.body);
        if body.is_done() {
            return Ok(());
        }
        let early = connection.input.as_ref().map_or(&[][..], Buffer::content);
        let scan = body.feed(&early[self.facts.head_len..]).map_err(|Malformed| MALFORMED)?;
        self.sent = scan.consumed;
        let body_max = self.config.policy.limits.request_body_max;
        if body_max > 0 && self.sent as u64 > body_max {
            return Err(TOO_LARGE);
        }
        if !scan.done {
            self.upload = Some(Upload::new(body, self.sent as u64, body_max));
        }
        Ok(())
    }

    /// A new connection to the server, unless the client leaves meanwhile.
    async fn connect<S: ClientStream>(
        &self,
        connection: &mut Connection<S>,
        place: &Place,
    ) -> Result<io::Result<Lease>, Failure> {
        let within = self.config.policy.timeouts.connect;
        let mut connecting = std::pin::pin!(place.connect(within));
        poll_fn(|context| {
            if let Poll::Ready(result) = connecting.as_mut().poll(context) {
                return Poll::Ready(Ok(result));
            }
            if self.upload.is_none() && connection.poll_gone(context).is_ready() {
                let gone = io::ErrorKind::UnexpectedEof.into();
                return Poll::Ready(Err(Failure::Unanswered(Fault::Client(gone))));
            }
            Poll::Pending
        })
        .await
    }
}
