//! A request's way to the origin: which server, which connection, and what becomes of it.

use super::answer::Abort;
use super::attempts::{Attempts, Next};
use super::fault::{Failure, Fault};
use super::path::Request;
use crate::buffers;
use crate::client::seam::Client;
use crate::clock;
use crate::door::SlotGuard;
use crate::origin::{Lease, Origin, Place};
use crate::respond::Format;
use arc_swap::Guard;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tiergate_core::names::ServerId;
use tiergate_core::outcome::End;
use tiergate_core::reason::Reason;

/// How an exchange with the origin came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The answer was passed on.
    Answered,
    /// The connection was a tunnel, and is used up; it is accounted for.
    Switched,
}

/// How long a request waits for a slot of another server whose class is gone from the policy.
const PATIENCE: Duration = Duration::from_secs(2);

impl<C: Client> Request<'_, '_, C> {
    /// Forwards the request and passes its answer on.
    pub(super) async fn forward(&mut self) {
        let failure = match self.attempt().await {
            Ok(Ended::Switched) => return,
            Ok(Ended::Answered) => {
                self.client.peer().history.answer();
                self.account();
                return self.client.finish(self.facts);
            }
            Err(failure) => failure,
        };
        if let Failure::Unanswered(Fault::Client(error))
        | Failure::Truncated(Fault::Client(error))
        | Failure::Unended(Fault::Client(error)) = &failure
        {
            self.leave(error);
            if let Failure::Unended(_) = &failure {
                // It may still read what was sent.
                self.client.abort(Abort::Unended);
            }
            return;
        }
        (self.place, self.origin) = (None, None);
        match failure {
            Failure::Stale | Failure::Lost => unreachable!("`attempt` tries again"),
            Failure::Replaced => {
                self.free_slot();
                Box::pin(self.serve_copy_for_failure()).await;
            }
            Failure::Truncated(fault) => self.cut(Abort::Truncated, &fault),
            Failure::Unended(fault) => self.cut(Abort::Unended, &fault),
            Failure::Unanswered(Fault::Refused(refused)) => {
                self.end(End::Preempted);
                if self.has_copy_for_failure() {
                    return Box::pin(self.serve_copy_for_failure()).await;
                }
                let format = self.facts.preemptible.unwrap_or(Format::Plain);
                // In a box: a connection that only waits shall not keep room for it.
                Box::pin(self.refuse(&refused, format)).await;
            }
            Failure::Unanswered(fault) => {
                // A fault of the client or of the gateway says nothing about the origin.
                self.end(match (&fault, fault.answer().0) {
                    (Fault::Full | Fault::Refusing, _) => End::Pushback,
                    (_, 502) => End::Failed,
                    (_, 504) => End::TimedOut,
                    _ => End::Cancelled,
                });
                if fault.answer().0 >= 500 && self.has_copy_for_failure() {
                    if self.record.cause.is_empty() {
                        self.record.cause = fault.answer().1;
                    }
                    return Box::pin(self.serve_copy_for_failure()).await;
                }
                self.fail(fault).await;
            }
        }
    }

    /// The head was sent: only the end of connection or stream tells the client that the rest will not
    /// come.
    fn cut(&mut self, why: Abort, fault: &Fault) {
        self.end(End::Failed);
        if self.record.cause.is_empty() {
            self.record.cause = fault.after_head();
        }
        self.account();
        self.client.abort(why);
    }

    /// Tries one server after the other.
    async fn attempt(&mut self) -> Result<Ended, Failure> {
        let body_max = self.config.policy.limits.request_body_max;
        let repeatable = self.client.begin_body(self.facts, body_max)? && self.facts.idempotent;
        let mut attempts = Attempts::default();
        loop {
            let origin = self.servers();
            let next = match &self.slot {
                Some(slot) if origin.settings.slots_per_server => {
                    match attempts.next_at(&origin, slot.server()) {
                        Next::To(place, idle) => Some((place, idle)),
                        Next::Elsewhere(not_at) => match self.transfer(&not_at).await? {
                            true => continue,
                            // Its slot is lent, or the servers share a limit from now on.
                            false => attempts.next(&origin),
                        },
                        Next::Nowhere => None,
                    }
                }
                _ => attempts.next(&origin),
            };
            let Some((mut place, idle)) = next else {
                if let Some(pause) = attempts.wait(&origin) {
                    if let Some(slot) = &mut self.slot {
                        slot.is_away(pause);
                    }
                    self.unless_gone(tokio::time::sleep(pause)).await?;
                    self.slot.iter_mut().for_each(SlotGuard::goes_to_server);
                    continue;
                }
                self.record.cause = attempts.why();
                return Err(Failure::Unanswered(attempts.fault()));
            };
            let mut lease = match idle {
                Some(lease) => lease,
                None => match self.connect(&place, attempts.may_reuse()).await? {
                    Ok(lease) => lease,
                    Err(error) => {
                        attempts.unreachable(&mut place, &error)?;
                        continue;
                    }
                },
            };
            self.label_request(&mut lease.stream);
            let may_repeat = repeatable && lease.reused && self.resent == 0;
            self.record.server = Some(place.server().name);
            (self.place, self.origin) = (Some(place), Some(lease.stream));
            match self.exchange(may_repeat).await {
                Err(Failure::Stale) => {
                    self.resent += 1;
                    (self.place, self.origin) = (None, None);
                    attempts.stale();
                }
                Err(Failure::Lost) => {
                    self.resent += 1;
                    (self.place, self.origin) = (None, None);
                    attempts.lost();
                }
                result => return result,
            }
        }
    }

    /// The servers of the request's pool: those in force now, since it may have waited for long.
    fn servers(&self) -> Arc<Origin> {
        let (pool, config) = (self.facts.arrival.pool, self.shared.config.load());
        let origin = config.pools.get(pool).unwrap_or_else(|| self.config.pools.of(pool));
        Guard::into_inner(origin)
    }

    /// Gives the slot back for one of another server than these; `false`: it has none of any server.
    async fn transfer(&mut self, not_at: &[ServerId]) -> Result<bool, Failure> {
        let Some(slot) = &mut self.slot else { return Ok(false) };
        let plan = &self.config.policy.plan;
        let patience = plan.class(self.facts.arrival.class).map_or(PATIENCE, |it| it.deadline);
        let client = &mut *self.client;
        let moved = poll_fn(|context| {
            if slot.poll_transfer(not_at, context).is_ready() {
                let server = slot.server();
                return Poll::Ready(Ok(server.is_some_and(|server| !not_at.contains(&server))));
            }
            client.poll_gone(context).map(|()| Err(Fault::gone().into()))
        });
        match tokio::time::timeout(patience, moved).await {
            Ok(moved) => moved,
            Err(_) => {
                self.record.cause = "no other server had a free slot in time";
                let arrival = &self.facts.arrival;
                let reason = Reason::DeadlineExpired;
                let refused = self.shared.door.refused(clock::now(), arrival, reason);
                Err(Fault::Refused(Box::new(refused)).into())
            }
        }
    }

    /// A connection to the server as by [`Place::connect`], unless the client leaves meanwhile.
    async fn connect(
        &mut self,
        place: &Place,
        may_reuse: bool,
    ) -> Result<io::Result<Lease>, Failure> {
        self.unless_gone(place.connect(self.config.policy.timeouts.connect, may_reuse)).await
    }

    /// Waits for something, unless the client leaves meanwhile.
    async fn unless_gone<T>(&mut self, what: impl Future<Output = T>) -> Result<T, Failure> {
        let mut what = pin!(what);
        poll_fn(|context| {
            if let Poll::Ready(result) = what.as_mut().poll(context) {
                return Poll::Ready(Ok(result));
            }
            self.client.poll_gone(context).map(|()| Err(Fault::gone().into()))
        })
        .await
    }

    /// Keeps the memory of the head for another request.
    pub(super) fn put_head_away(&mut self) {
        buffers::keep_text(std::mem::take(&mut self.head));
    }
}
