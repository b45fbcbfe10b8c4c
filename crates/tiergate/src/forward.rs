//! A request's way to the origin: which server, which connection, and what to do if it fails.

use crate::body::BodyScanner;
use crate::buffers::{self, Buffer};
use crate::decide::Facts;
use crate::door::Held;
use crate::exchange::{Exchange, Failure};
use crate::link::{Fault, TOO_LARGE};
use crate::origin::{Lease, Place};
use crate::respond;
use crate::serve::{Connection, Next};
use crate::shared::{Config, Shared};
use crate::stream::ClientStream;
use crate::upload::Upload;
use std::future::{Future, poll_fn};
use std::io;
use std::task::Poll;
use tiergate_core::outcome::End;

/// Forwards one request and its answer.
///
/// # Errors
/// The client's connection broke.
pub async fn forward<S: ClientStream>(
    connection: &mut Connection<S>,
    shared: &Shared,
    config: &Config,
    facts: &Facts,
    mut head: Vec<u8>,
    held: Held<'_>,
) -> io::Result<Next> {
    let mut journey = Journey {
        shared,
        config,
        facts,
        held: Some(held),
        upload: None,
        sent: 0,
    };
    let result = journey.run(connection, &mut head).await;
    buffers::keep_text(head);
    let Journey {
        held, upload, sent, ..
    } = journey;
    let ended = |end| {
        if let Some(mut held) = held {
            held.note(end);
        }
    };
    match result {
        Ok(next) => {
            connection.use_up(facts.head_len + sent);
            if let Some(rest) = upload.and_then(|upload| upload.rest) {
                connection.input = Some(rest);
            }
            Ok(next)
        }
        Err(Failure::Unanswered(Fault::Client(error))) => Err(error),
        Err(Failure::Unanswered(fault)) => {
            let (status, why) = match fault {
                Fault::Answer(status, why) => (status, why),
                Fault::OriginSlow => (504, "the origin did not answer in time"),
                _ => (502, "the origin closed the connection without an answer"),
            };
            // A client's fault says nothing about the origin.
            ended(if status < 500 {
                End::Cancelled
            } else {
                End::Failed
            });
            let mut out = buffers::text();
            respond::write_error(&mut out, status, why, false, facts.head_only);
            connection.write(config, &out).await?;
            buffers::keep_text(out);
            Ok(Next::Linger)
        }
        // The head was sent: only closing tells the client that the rest will not come.
        Err(Failure::BrokenOff(Fault::Client(error))) => Err(error),
        Err(Failure::BrokenOff(_)) => {
            ended(End::Failed);
            Ok(Next::Cut)
        }
        Err(Failure::Stale) => unreachable!("`run` tries again"),
    }
}

/// A request on its way.
pub(crate) struct Journey<'c, 'd> {
    pub(crate) shared: &'c Shared,
    pub(crate) config: &'c Config,
    pub(crate) facts: &'c Facts,
    /// Given back when the origin is done.
    pub(crate) held: Option<Held<'d>>,
    /// The rest of the request's body, if it did not come with the head.
    pub(crate) upload: Option<Upload>,
    /// Bytes of the body that came with the head.
    pub(crate) sent: usize,
}

impl Journey<'_, '_> {
    async fn run<S: ClientStream>(
        &mut self,
        connection: &mut Connection<S>,
        head: &mut Vec<u8>,
    ) -> Result<Next, Failure> {
        self.look_at_body(connection).map_err(Failure::Unanswered)?;
        // What has been streamed cannot be sent twice.
        let repeatable = self.facts.idempotent && self.upload.is_none();
        let mut tried = 0;
        let mut timed_out = false;
        let mut stale = false;
        loop {
            let Some(mut place) = Place::pick(&self.config.origin, tried) else {
                return Err(Failure::Unanswered(match timed_out {
                    true => Fault::Answer(504, "connecting to the origin timed out"),
                    false => Fault::Answer(502, "no origin server could be reached"),
                }));
            };
            let lease = match place.idle().filter(|_| !stale) {
                Some(lease) => lease,
                None => match self.connect(connection, &place).await? {
                    Ok(lease) => lease,
                    Err(error) => {
                        timed_out = error.kind() == io::ErrorKind::TimedOut;
                        tried |= place.bit();
                        place.broken();
                        continue;
                    }
                },
            };
            let may_repeat = repeatable && lease.reused;
            match Exchange::new(self, connection, place, lease)
                .run(head, may_repeat)
                .await
            {
                // Closed while it was idle. Once more on a fresh connection, and then no more.
                Err(Failure::Stale) => stale = true,
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
        let scan = body
            .feed(&early[self.facts.head_len..])
            .map_err(|_| Fault::Answer(400, "the body is malformed"))?;
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
