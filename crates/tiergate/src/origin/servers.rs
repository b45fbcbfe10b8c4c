//! All servers that a policy ever named, kept over reloads.

use super::stream::OriginStream;
use crate::config::meant::Server;
use crate::observe::server::ServerCounters;
use arc_swap::ArcSwap;
use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};
use tiergate_core::origin::{ServerId, Servers};
use tokio::net::{TcpStream, UnixStream};

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
}

/// All servers that a policy ever named.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// By id. Only a reload takes this lock.
    servers: Mutex<Vec<Option<Arc<OriginServer>>>>,
    /// Which server is next and which are well, and how many retries there may be. Held shortly; never
    /// across an await.
    state: Mutex<Servers>,
}

impl Known {
    pub(super) fn state(&self) -> MutexGuard<'_, Servers> {
        self.state.lock().expect("no code panics while it holds the servers")
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
        }
    }

    /// Opens a connection, to the first of its addresses that takes one.
    pub(super) async fn connect(&self) -> io::Result<OriginStream> {
        #[cfg(feature = "memory")]
        if let Some(connected) = crate::memory::connect() {
            return connected.map(OriginStream::Memory);
        }
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
