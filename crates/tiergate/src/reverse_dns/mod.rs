//! Names of clients, by forward-confirmed reverse DNS, without ever delaying a request.
//!
//! ```text
//! request ─▶ cache ── name, or none ─▶ rules
//!              │ unknown, or about to expire; budget of the client's network
//!              ▼
//!            queue (bounded) ─▶ resolver task ─▶ PTR ─▶ A, AAAA ─▶ cache
//! ```
//!
//! A request reads the cache and continues with what is there: until its client's name is known, rules
//! see the address alone. Bounds: `entries_max` addresses, `lookups_max` concurrent lookups,
//! [`QUEUE_LEN_MAX`] waiting ones, a [`budget`] for each network, `timeout` for each lookup. When the
//! DNS servers are down, slow or lying, clients have no name and nothing else changes.
//!
//! Known limitation: the first requests of a client, until its lookup ends, have no name. A rule that
//! must match from the first request on needs the address.

mod budget;
mod cache;
mod counters;
mod resolve;
mod set;
#[cfg(test)]
mod tests;

pub use counters::{LookupCounters, LookupResult};
pub use set::Name;

use crate::clock;
use crate::config::meant;
use budget::Budget;
use cache::Cache;
use resolve::DnsClient;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use tiergate_core::time::Moment;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Addresses waiting for their lookup; when the queue is full, a later request asks again. With the
/// default settings the last of them waits for half a minute if no server answers.
pub const QUEUE_LEN_MAX: usize = 1024;

/// The cache of names, and the queue of lookups.
#[derive(Debug)]
pub struct ReverseDns {
    /// What the policy says.
    pub settings: meant::Names,
    cache: Cache,
    budget: Budget,
    queue: mpsc::Sender<IpAddr>,
    /// Taken by [`ReverseDns::resolve`] while it runs.
    queued: Mutex<Option<mpsc::Receiver<IpAddr>>>,
    counters: Arc<LookupCounters>,
}

impl ReverseDns {
    /// With an empty cache. Nothing is looked up before [`ReverseDns::resolve`] runs.
    pub fn new(settings: meant::Names, counters: Arc<LookupCounters>) -> Self {
        let (queue, queued) = mpsc::channel(QUEUE_LEN_MAX);
        ReverseDns {
            cache: Cache::new(settings.entries_max, counters.clone()),
            budget: Budget::new(),
            queue,
            queued: Mutex::new(Some(queued)),
            counters,
            settings,
        }
    }

    /// The client's name if it is cached; otherwise its lookup is queued. Waits for nothing but a lock
    /// held for a few comparisons; allocates nothing.
    pub fn name_of(&self, client: IpAddr, now: Moment) -> Option<Name> {
        let address = key(client);
        let enqueue = || {
            // A place in the queue first, so that a full queue does not use up the network's budget.
            let Ok(place) = self.queue.try_reserve() else {
                self.counters.dropped_queue.one();
                return false;
            };
            if !self.budget.take(address, now) {
                self.counters.dropped_network.one();
                return false;
            }
            place.send(client.to_canonical());
            true
        };
        self.cache.get(address, second(now), enqueue).name
    }

    /// Performs the queued lookups, `lookups_max` at a time, until it is dropped. A second call returns
    /// at once while the first one runs.
    pub async fn resolve(&self) {
        let taken = self.queued.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(queued) = taken else { return };
        // Returned when this future is dropped, so that another task may continue.
        let mut lent = Lent { to: self, queued: Some(queued) };
        let client = match DnsClient::new(&self.settings) {
            Ok(client) => Arc::new(client),
            Err(error) => {
                tracing::error!(%error, "no client has a name: set reverse_dns.servers in the policy");
                return std::future::pending().await;
            }
        };
        // Lookups are cancelled when this future is dropped.
        let mut lookups = JoinSet::new();
        loop {
            let queued = lent.queued.as_mut().expect("taken by the drop only");
            tokio::select! {
                address = queued.recv(), if lookups.len() < self.settings.lookups_max => {
                    let address = address.expect("self holds a sender");
                    let client = client.clone();
                    lookups.spawn(async move { (address, client.lookup(address).await) });
                }
                // A lookup that panicked counts as one that was never answered.
                Some(ended) = lookups.join_next() => if let Ok((address, (result, answer))) = ended {
                    self.counters.results[result as usize].one();
                    self.cache.store(key(address), answer, second(clock::now()));
                }
            }
        }
    }
}

/// The queue's receiving end, lent to the task that resolves.
struct Lent<'r> {
    to: &'r ReverseDns,
    queued: Option<mpsc::Receiver<IpAddr>>,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        *self.to.queued.lock().unwrap_or_else(PoisonError::into_inner) = self.queued.take();
    }
}

/// An IPv4 address and its IPv6-mapped form are the same client.
fn key(address: IpAddr) -> Ipv6Addr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// Seconds of the gateway's clock: 136 years.
fn second(moment: Moment) -> u32 {
    u32::try_from(moment.nanos() / 1_000_000_000).unwrap_or(u32::MAX)
}
