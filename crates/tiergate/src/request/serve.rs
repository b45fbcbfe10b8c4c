//! One request, from its head to the last byte of its answer.

use super::decide::{Decision, Go, decide};
use super::gather::gather;
use super::identity::ProvenSubject;
use super::limits::allowance;
use super::meter;
use super::path::Request;
use super::record::Record;
use super::stray::Stray;
use crate::client::seam::Client;
use crate::clock;
use crate::door::{Entry, Settled};
use crate::request::answer::Abort;
use crate::request::fault::Fault;
use crate::respond::Format;
use crate::shared::{Config, Shared};
use crate::stored::StoredRequest;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use tiergate_core::time::Moment;

/// Serves one request: reads what it takes to decide, and does what was decided. What becomes of the
/// connection is for the client's side to know.
pub(crate) async fn serve<C: Client>(client: &mut C, shared: &Arc<Shared>) {
    match meter::is_due() {
        false => serve_it(client, shared).await,
        true => meter::measured(Box::pin(serve_it(client, shared))).await,
    }
}

async fn serve_it<C: Client>(client: &mut C, shared: &Arc<Shared>) {
    let mut config = shared.config.load_full();
    client.timer().arm(config.policy.timeouts.request_head);
    let mut gathered: Option<(Moment, ProvenSubject)> = None;
    loop {
        let decision = poll_fn(|context| {
            client.poll_early_body(context);
            let proven = gathered.as_ref().map(|(_, proven)| proven);
            Poll::Ready(decide(shared, &config, client, proven, context))
        });
        let decision = decision.await;
        let arrived = gathered.as_ref().map_or_else(clock::recent, |(since, _)| *since);
        // Matched where it was made: a decision is large, and each move of it a copy.
        match decision {
            Decision::Partial => match read_head(client, shared, &config).await {
                Ok(()) => {}
                Err(_) => return,
            },
            Decision::Gather(facts, proven) => {
                gathered = Some((arrived, proven));
                // In a box: a connection that only waits shall not keep room for it.
                let read = Box::pin(gather(client, shared, &config, &facts)).await;
                if let Err(fault) = read {
                    let record = Record::new(arrived);
                    return Request::new(client, shared, &config, &facts, record).fail(fault).await;
                }
                // It may have taken long: what is in force now decides.
                config = shared.config.load_full();
            }
            Decision::Bad(error) => {
                return Stray { shared, config: &config, since: arrived }
                    .fail(client, error.status, error.why)
                    .await;
            }
            Decision::Unclear(facts, status, why) => {
                let fault = Fault::Answer(status, why);
                let record = Record::new(arrived);
                return Request::new(client, shared, &config, &facts, record).fail(fault).await;
            }
            Decision::Refuse(facts, refused, format) => {
                let record = Record::new(arrived);
                let mut request = Request::new(client, shared, &config, &facts, record);
                return request.refuse(&refused, format).await;
            }
            Decision::Go(Go { facts, head, entry, format, stored }) => {
                let record = Record::new(arrived);
                let mut request = Request::new(client, shared, &config, &facts, record);
                (request.head, request.stored) = (head, stored);
                if request.enter(entry, format).await {
                    request.forward().await;
                }
                return request.put_head_away();
            }
        }
    }
}

/// Reads more of the head; a client that is too slow is told.
async fn read_head<C: Client>(client: &mut C, shared: &Shared, config: &Config) -> io::Result<()> {
    let len_max = config.policy.limits.request_head_max;
    let read = poll_fn(|context| match client.poll_head(len_max, context) {
        Poll::Pending if client.timer().poll_expired(context) => {
            Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
        }
        polled => polled,
    });
    let read = read.await;
    match &read {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            let since = clock::recent();
            let why = "the request's head took too long";
            Box::pin(Stray { shared, config, since }.fail(client, 408, why)).await;
        }
        Err(_) => {
            Stray { shared, config, since: clock::recent() }.left(client);
            client.abort(Abort::ClientGone);
        }
    }
    read
}

impl<'d, C: Client> Request<'_, 'd, C> {
    /// Waits for the slot, if there is none yet; `false`: the request was refused, got a copy, or the client left.
    async fn enter(&mut self, entry: Entry<'d>, format: Format) -> bool {
        self.client.hold_body(self.facts, &allowance(self.shared, &self.config.policy));
        let slot = match entry {
            Entry::Now(slot) => slot,
            Entry::Stored(instead) => {
                Box::pin(self.serve_copy(instead)).await;
                return false;
            }
            Entry::Later(waiting) => {
                let arrival = &self.facts.arrival;
                let stored = self.stored.as_deref();
                let has_copy = || stored.is_some_and(StoredRequest::has_copy);
                let gone = |context: &mut Context<'_>| self.client.poll_gone(context);
                let settled = waiting.wait(arrival, has_copy, gone).await;
                match settled {
                    Some(Ok(Settled::Slot(slot))) => slot,
                    Some(Ok(Settled::Stored(instead))) => {
                        self.record.waited = Some(clock::now().since(self.record.arrived));
                        Box::pin(self.serve_copy(instead)).await;
                        return false;
                    }
                    Some(Err(refused)) => {
                        self.record.waited = Some(clock::now().since(self.record.arrived));
                        self.stored = None;
                        self.refuse(&refused, format).await;
                        return false;
                    }
                    None => {
                        self.record.waited = Some(clock::now().since(self.record.arrived));
                        self.stored = None;
                        self.fail(Fault::gone()).await;
                        return false;
                    }
                }
            }
        };
        self.record.waited = Some(slot.waited());
        self.record.granted = true;
        self.record.slot_since = Some(slot.admitted());
        if let Some(observed) = &self.facts.observed {
            observed.granted();
        }
        self.slot = Some(slot);
        self.stored.iter_mut().for_each(|stored| stored.begins());
        true
    }
}
