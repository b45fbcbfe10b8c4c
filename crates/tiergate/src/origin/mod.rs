//! The origin: its servers, the connections to them, and how well they are.

pub mod health;
pub mod pool;
pub mod stream;

use crate::clock;
use crate::config::meant::{self, Server};
use crate::observe::counters::Counters;
use crate::observe::server::ServerCounters;
use crate::tally::Tally;
use arc_swap::ArcSwap;
use pool::ServerKey;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use stream::OriginStream;
use tiergate_core::origin::{Again, Finding, HealthRules, ServerId, Servers};
use tokio::net::{TcpStream, UnixStream};

/// One server of the origin.
#[derive(Debug)]
pub struct OriginServer {
    /// Its address as the policy has it.
    pub address: Server,
    /// The same as text.
    pub name: String,
    /// What is counted of it.
    pub counters: Arc<ServerCounters>,
    key: ServerKey,
    /// What the name stands for; the address itself if it is one.
    resolved: ArcSwap<Vec<SocketAddr>>,
    /// A connect failed since the name was last looked up.
    stale: AtomicBool,
}

/// The origin that a policy names.
#[derive(Debug)]
pub struct Origin {
    /// The servers, in the policy's order.
    pub servers: Vec<OriginServer>,
    /// What the policy says.
    pub settings: meant::Origin,
    /// Which server is next and which are well, and how many retries there may be. Held shortly; never
    /// across an await.
    balance: Mutex<Servers>,
    /// Retries that there was no budget for.
    retries_denied: Arc<Tally>,
}

impl Origin {
    /// The policy's origin; what `former` knew of servers that stay is taken over.
    pub fn new(settings: meant::Origin, former: Option<&Origin>, counters: &Counters) -> Self {
        let rules = HealthRules {
            failures_max: settings.failures_max,
            retry_after: settings.retry_after,
            fall: settings.health.as_ref().map(|check| check.fall),
            rise: settings.health.as_ref().map_or(1, |check| check.rise),
        };
        let mut balance = Servers::new(settings.servers.len(), rules, settings.retries);
        if let Some(former) = former {
            balance.inherit_retries(&former.balance(), settings.retries);
        }
        let mut servers = Vec::new();
        for (place, address) in settings.servers.iter().enumerate() {
            let mut counted = Arc::<ServerCounters>::default();
            let mut resolved = literal(address);
            if let Some(former) = former
                && let Some(known) =
                    former.servers.iter().position(|server| server.address == *address)
            {
                let (id, its_id) = (ServerId(place as u16), ServerId(known as u16));
                balance.inherit(id, &former.balance(), its_id);
                resolved = former.servers[known].resolved.load_full().to_vec();
                counted = former.servers[known].counters.clone();
            }
            servers.push(OriginServer {
                address: address.clone(),
                name: address.to_string(),
                counters: counted,
                key: key_of(address),
                stale: AtomicBool::new(resolved.is_empty()),
                resolved: ArcSwap::from_pointee(resolved),
            });
        }
        let retries_denied = counters.retries_denied.clone();
        Origin { servers, settings, balance: Mutex::new(balance), retries_denied }
    }

    /// Which server is next and which are well.
    pub fn balance(&self) -> MutexGuard<'_, Servers> {
        self.balance.lock().expect("no code panics while it holds the balance")
    }

    /// Whether any server would get a request now.
    pub fn is_usable(&self) -> bool {
        self.balance().any_usable(clock::now())
    }

    /// Looks up the names whose addresses are unknown or have failed. A name that cannot be resolved
    /// keeps the addresses it had.
    pub async fn resolve(&self) {
        for server in self.servers.iter().filter(|server| server.stale.load(Ordering::Relaxed)) {
            let Server::Tcp(host, port) = &server.address else {
                continue;
            };
            let lookup = tokio::net::lookup_host((host.as_str(), *port));
            match tokio::time::timeout(RESOLVE_MAX, lookup).await {
                Ok(Ok(found)) => {
                    let found: Vec<SocketAddr> = found.take(ADDRESSES_MAX).collect();
                    if !found.is_empty() {
                        server.resolved.store(Arc::new(found));
                        server.stale.store(false, Ordering::Relaxed);
                    }
                }
                Ok(Err(error)) => tracing::warn!(%host, %error, "origin name not resolved"),
                Err(_) => tracing::warn!(%host, "origin name not resolved within {RESOLVE_MAX:?}"),
            }
        }
    }
}

const RESOLVE_MAX: Duration = Duration::from_secs(5);
/// Addresses of one name that are kept.
const ADDRESSES_MAX: usize = 16;

fn literal(address: &Server) -> Vec<SocketAddr> {
    match address {
        Server::Tcp(host, port) => host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .parse()
            .map(|ip| vec![SocketAddr::new(ip, *port)])
            .unwrap_or_default(),
        Server::Unix(_) => Vec::new(),
    }
}

/// The same number for the same address, so that idle connections outlive reloads, also those by which
/// the server goes and comes back: with a new number each time, what it left behind had no bound. Of
/// 64 servers, two share one of 2⁶⁴ numbers once in 10¹⁶ policies.
fn key_of(address: &Server) -> ServerKey {
    let mut hasher = DefaultHasher::new();
    address.hash(&mut hasher);
    ServerKey(hasher.finish())
}

/// A connection to a server, held by one request. Dropped, it is closed; see [`Lease::give_back`].
#[derive(Debug)]
pub struct Lease {
    /// The connection.
    pub stream: OriginStream,
    /// Whether an earlier request has used it: it may have been closed at the other end meanwhile.
    pub reused: bool,
}

/// A request's place at a server: counted as outstanding there until it is dropped.
#[derive(Debug)]
pub struct Place {
    origin: Arc<Origin>,
    server: ServerId,
    finding: Finding,
}

impl Place {
    /// A place at the best server, for a request's first attempt; `None` if none is usable.
    pub fn pick(origin: &Arc<Origin>) -> Option<Self> {
        let server = origin.balance().pick(clock::recent())?;
        Some(Place::at(origin, server))
    }

    /// A place for another attempt, at the best server that is not in `tried` (one bit each); `None` if
    /// no other is usable, or the retry budget is used up.
    pub fn pick_again(origin: &Arc<Origin>, tried: u64) -> Option<Self> {
        let again = origin.balance().pick_again(clock::recent(), tried);
        match again {
            Again::To(server) => Some(Place::at(origin, server)),
            Again::Nowhere => None,
            Again::Denied => {
                origin.retries_denied.one();
                None
            }
        }
    }

    fn at(origin: &Arc<Origin>, server: ServerId) -> Self {
        Place { origin: origin.clone(), server, finding: Finding::Nothing }
    }

    /// The server's bit among those tried.
    pub fn bit(&self) -> u64 {
        1 << self.server.0
    }

    /// The server.
    pub fn server(&self) -> &OriginServer {
        &self.origin.servers[self.server.index()]
    }

    /// The server's place in the policy's list.
    pub fn id(&self) -> ServerId {
        self.server
    }

    /// It answered.
    pub fn alive(&mut self) {
        self.finding = Finding::Alive;
    }

    /// It could not be reached, or broke off.
    pub fn broken(&mut self) {
        self.finding = Finding::Broken;
        self.server().counters.failures.one();
        self.server().stale.store(true, Ordering::Relaxed);
    }

    /// An idle connection to the server, if there is one.
    pub fn idle(&self) -> Option<Lease> {
        let stream = pool::take(self.server().key)?;
        self.server().counters.reuses.one();
        Some(Lease { stream, reused: true })
    }

    /// A new connection to the server.
    ///
    /// # Errors
    /// What the system says; `TimedOut` after `within`; `NotFound` while its name is not resolved.
    pub async fn connect(&self, within: Duration) -> io::Result<Lease> {
        let stream = tokio::time::timeout(within, self.server().connect())
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        self.server().counters.connects.one();
        Ok(Lease { stream, reused: false })
    }

    /// Keeps the connection for the next request. Only where the whole answer was read.
    pub fn give_back(&self, lease: Lease) {
        let kept_max = self.origin.settings.idle_connections_max;
        pool::give(self.server().key, lease.stream, clock::recent(), kept_max);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.origin.balance().done(clock::recent(), self.server, self.finding);
    }
}

impl OriginServer {
    async fn connect(&self) -> io::Result<OriginStream> {
        if let Server::Unix(path) = &self.address {
            return Ok(OriginStream::Unix(UnixStream::connect(path).await?));
        }
        let addresses = self.resolved.load_full();
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name is not resolved");
        for &address in addresses.iter() {
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(OriginStream::Tcp(stream));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_keeps_its_counts_over_a_reload() {
        let settings = |servers: &str| {
            let text = format!("[origin]\nservers = [{servers}]\n");
            crate::config::parse(&text, "policy").expect("a policy").origin
        };
        let counters = Counters::new(1);
        let before = Origin::new(settings("\"10.0.0.1:1\", \"10.0.0.2:1\""), None, &counters);
        before.servers[1].counters.connects.add(7);
        let servers = settings("\"10.0.0.2:1\", \"10.0.0.3:1\"");
        let after = Origin::new(servers, Some(&before), &counters);
        assert_eq!(after.servers[0].counters.connects.total(), 7);
        assert_eq!(after.servers[1].counters.connects.total(), 0);
    }
}
