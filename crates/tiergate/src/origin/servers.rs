//! All servers that a policy ever named, kept over reloads.

use super::connect_fault::is_full;
use super::names::Names;
use super::stream::{Lease, OriginStream};
use crate::config::meant::Server;
use crate::observe::server::ServerCounters;
use arc_swap::ArcSwap;
use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tiergate_core::origin::{ServerId, Servers};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, sleep_until, timeout_at};

/// How long until a connect to a full listen queue is retried: first, and at most.
const FULL_PAUSE: Duration = Duration::from_millis(5);
const FULL_PAUSE_MAX: Duration = Duration::from_millis(40);

/// One server of the origin.
#[derive(Debug)]
pub struct OriginServer {
    /// Its address as the policy has it.
    pub address: Server,
    /// The same as text. Kept for as long as the process lives, as servers are.
    pub name: &'static str,
    /// What is counted of it.
    pub counters: ServerCounters,
    /// What the name stands for; the address itself if it is one.
    pub(super) resolved: ArcSwap<Vec<SocketAddr>>,
    /// A connect failed since the name was last looked up.
    pub(super) stale: AtomicBool,
    /// Of the requests in progress, those that have become tunnels or streams.
    pub(super) lasting: AtomicU32,
}

/// All servers that a policy ever named.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// By id. Only a reload takes this lock.
    servers: Mutex<Vec<Option<Arc<OriginServer>>>>,
    /// Which server is next and which are well, and how many retries there may be. Held shortly; never
    /// across an await.
    state: Mutex<Servers>,
    /// What the names stand for. Held shortly, by reloads and look-ups.
    names: Mutex<Names>,
}

impl Known {
    pub(super) fn state(&self) -> MutexGuard<'_, Servers> {
        self.state.lock().expect("no code panics while it holds the servers")
    }

    pub(super) fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().expect("no code panics while it holds the names")
    }

    /// The server of that id, which is new or known.
    pub(super) fn server(&self, id: ServerId, address: &Server) -> Arc<OriginServer> {
        let mut servers = self.servers.lock().expect("no code panics while it holds the list");
        let count = servers.len().max(id.index() + 1);
        servers.resize(count, None);
        servers[id.index()].get_or_insert_with(|| Arc::new(OriginServer::new(address))).clone()
    }
}

/// The text, for as long as the process lives: once, however often a server comes and goes.
fn interned(name: String) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().expect("no code panics while it holds the names");
    if let Some(known) = names.get(name.as_str()) {
        return known;
    }
    let name = name.leak();
    names.insert(name);
    name
}

impl OriginServer {
    fn new(address: &Server) -> Self {
        let resolved = literal(address);
        OriginServer {
            address: address.clone(),
            name: interned(address.to_string()),
            counters: ServerCounters::default(),
            stale: AtomicBool::new(resolved.is_empty()),
            resolved: ArcSwap::from_pointee(resolved),
            lasting: AtomicU32::new(0),
        }
    }

    /// Opens a connection. Over TCP, to the first of its addresses that takes one, each of which has its part of the time; that
    /// one is the first from then on. Over a UNIX socket, waits for room in the listen queue, or for `idle` to give a connection.
    ///
    /// # Errors
    /// What the system says; `TimedOut` after `within`, or `WouldBlock` if the server served others meanwhile.
    pub(super) async fn connect(
        &self,
        within: Duration,
        idle: impl FnMut() -> Option<Lease>,
    ) -> io::Result<Lease> {
        let ends = Instant::now() + within;
        #[cfg(feature = "memory")]
        if let Some(connected) = crate::memory::connect() {
            return connected.map(OriginStream::Memory).map(Lease::fresh);
        }
        if let Server::Unix(path) = &self.address {
            return self.connect_unix(path, ends, idle).await;
        }
        let addresses = self.resolved.load_full();
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name is not resolved");
        for (place, &address) in addresses.iter().enumerate() {
            let left = ends.saturating_duration_since(Instant::now());
            let until = Instant::now() + left / (addresses.len() - place) as u32;
            match timeout_at(until, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    stream.set_nodelay(true)?;
                    if place > 0 {
                        self.prefer(&addresses, place);
                    }
                    return Ok(Lease::fresh(OriginStream::tcp(stream, address)));
                }
                Ok(Err(error)) => last = error,
                Err(_) => last = io::ErrorKind::TimedOut.into(),
            }
        }
        Err(last)
    }

    /// A non-blocking connect to a UNIX socket fails at once where its listen queue is full; over TCP the system retries.
    async fn connect_unix(
        &self,
        path: &Path,
        ends: Instant,
        mut idle: impl FnMut() -> Option<Lease>,
    ) -> io::Result<Lease> {
        let served = self.counters.served();
        let mut pause = FULL_PAUSE;
        loop {
            let full = match UnixStream::connect(path).await {
                Ok(stream) => return Ok(Lease::fresh(OriginStream::Unix(stream))),
                Err(error) if is_full(&error) => error,
                Err(error) => return Err(error),
            };
            let now = Instant::now();
            if now >= ends {
                let is_alive = self.counters.served() > served;
                return Err(if is_alive { full } else { io::ErrorKind::TimedOut.into() });
            }
            sleep_until(ends.min(now + pause)).await;
            pause = FULL_PAUSE_MAX.min(2 * pause);
            if let Some(lease) = idle() {
                return Ok(lease);
            }
        }
    }

    #[cold]
    fn prefer(&self, addresses: &[SocketAddr], place: usize) {
        let mut addresses = addresses.to_vec();
        addresses.rotate_left(place);
        self.resolved.store(Arc::new(addresses));
    }
}

/// The address itself, if it is one; else none.
pub(super) fn literal(address: &Server) -> Vec<SocketAddr> {
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
