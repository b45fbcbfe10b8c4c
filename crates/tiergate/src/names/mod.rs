//! Names of clients, by forward-confirmed reverse DNS, without ever delaying a request.
//!
//! ```text
//! request ─▶ cache ── name, or none ─▶ rules
//!              │ not known, or soon to end; budget of its network
//!              ▼
//!            queue (bounded) ─▶ resolver task ─▶ PTR ─▶ A, AAAA ─▶ cache
//! ```
//!
//! A request looks into the cache and goes on with what is there: until its client's name is known,
//! the address alone decides. What is bounded, and by what: addresses by `entries_max`, look-ups at once
//! by `lookups_max`, those that wait by [`QUEUE_LEN_MAX`], those of one network by [`budget`], the time
//! of each by `timeout`. When the servers are dead, slow or lying, nobody has a name and nothing else
//! changes.
//!
//! Known weakness: a client's first request is always without its name, and so is each until the answer
//! is there. Give what must be known from the first on by address.

mod budget;
mod cache;
mod resolve;
mod set;
#[cfg(test)]
mod tests;

pub use resolve::Ended;

use crate::clock;
use crate::config::meant;
use crate::observe::counters::Tally;
use budget::Budget;
use cache::Cache;
use resolve::Asker;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tiergate_core::time::Moment;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

/// A confirmed name: lower case, without a final dot.
pub type Name = Arc<str>;

/// Addresses that wait for their look-up; further ones are asked for again by their next request. With
/// the default settings the last of them waits for half a minute if no server answers.
pub const QUEUE_LEN_MAX: usize = 1024;

/// What is counted of look-ups; of the process, whatever is reloaded.
#[derive(Debug, Default)]
pub struct NameCounters {
    ended: [Tally; Ended::ALL.len()],
    known: AtomicU64,
    /// Look-ups that were not filed because the queue was full.
    pub dropped_queue: Tally,
    /// Look-ups that were not filed because the client's network had had its share.
    pub dropped_network: Tally,
}

impl NameCounters {
    /// Addresses that are known or looked up now.
    pub fn known(&self) -> u64 {
        self.known.load(Ordering::Relaxed)
    }

    /// Look-ups by [`Ended::ALL`].
    pub fn ended(&self) -> [u64; Ended::ALL.len()] {
        std::array::from_fn(|place| self.ended[place].total())
    }
}

/// The names that are known, and the way to those that are not.
#[derive(Debug)]
pub struct Names {
    /// What the policy says.
    pub settings: meant::Names,
    cache: Cache,
    budget: Budget,
    queue: mpsc::Sender<IpAddr>,
    /// Taken by [`Names::resolve`] while it runs.
    waiting: Mutex<Option<mpsc::Receiver<IpAddr>>>,
    counters: Arc<NameCounters>,
}

impl Names {
    /// With an empty cache. Nothing is looked up before [`Names::resolve`] runs.
    pub fn new(settings: meant::Names, counters: Arc<NameCounters>) -> Self {
        let (queue, waiting) = mpsc::channel(QUEUE_LEN_MAX);
        Names {
            cache: Cache::new(settings.entries_max, counters.clone()),
            budget: Budget::new(),
            queue,
            waiting: Mutex::new(Some(waiting)),
            counters,
            settings,
        }
    }

    /// The client's name, if it is known; else its look-up is filed. Never waits for anything but a
    /// lock that is held for a few comparisons; allocates nothing.
    pub fn of(&self, client: IpAddr, now: Moment) -> Option<Name> {
        let address = key(client);
        let file = || {
            // Room in the queue first, so that a full one costs the network nothing.
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
        self.cache.look(address, second(now), file).name
    }

    /// Addresses that are known or looked up.
    pub fn known(&self) -> usize {
        self.cache.len()
    }

    /// Looks up what is filed, at most `lookups_max` at once, until it is dropped. Only one may run.
    pub async fn resolve(&self) {
        let taken = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(waiting) = taken else { return };
        // Given back when this is dropped, so that another task may go on.
        let mut waiting = Lent { to: self, waiting: Some(waiting) };
        let asker = match Asker::new(&self.settings) {
            Ok(asker) => Arc::new(asker),
            Err(error) => {
                tracing::error!(%error, "no client has a name: set reverse_dns.servers in the policy");
                return std::future::pending().await;
            }
        };
        let places = Arc::new(Semaphore::new(self.settings.lookups_max));
        // What is asked ends with this.
        let mut asked = JoinSet::new();
        loop {
            let place = places.clone().acquire_owned();
            let place = place.await.expect("nobody closes the semaphore");
            let address = loop {
                let orders = waiting.waiting.as_mut().expect("only taken by the drop");
                tokio::select! {
                    address = orders.recv() => break address.expect("we hold a sender"),
                    Some(ended) = asked.join_next() => self.settle(ended),
                }
            };
            while let Some(ended) = asked.try_join_next() {
                self.settle(ended);
            }
            let asker = asker.clone();
            asked.spawn(async move {
                let answer = asker.ask(address).await;
                drop(place);
                (address, answer)
            });
        }
    }

    fn settle(&self, ended: Result<(IpAddr, (Ended, set::Said)), tokio::task::JoinError>) {
        // A look-up that panicked is one that was never answered.
        let Ok((address, (how, said))) = ended else { return };
        self.counters.ended[how as usize].one();
        self.cache.settle(key(address), said, second(clock::now()));
    }
}

/// The queue's end, lent to the task that resolves.
struct Lent<'n> {
    to: &'n Names,
    waiting: Option<mpsc::Receiver<IpAddr>>,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        *self.to.waiting.lock().unwrap_or_else(PoisonError::into_inner) = self.waiting.take();
    }
}

/// IPv4 written as IPv6 is the same client.
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
