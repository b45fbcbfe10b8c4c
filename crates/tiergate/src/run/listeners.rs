//! The listeners that are open: one socket for each thread that accepts and each address. A reload opens and closes them.

use crate::config::meant::Policy;
use crate::listen::{self, DscpWanted, InForce, Settings};
use crate::shared::{Present, Shared};
use anyhow::Context;
use arc_swap::ArcSwap;
use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// Asks a thread to accept connections from a socket.
#[derive(Debug)]
pub(super) struct Listen {
    pub(super) socket: TcpListener,
    pub(super) settings: Settings,
    pub(super) present: Present,
    pub(super) dscp_wanted: DscpWanted,
    pub(super) stop: watch::Receiver<bool>,
}

/// A listener in force.
#[derive(Debug)]
struct Open {
    settings: Settings,
    dscp_wanted: watch::Sender<bool>,
    stop: watch::Sender<bool>,
}

/// The listeners of a policy with all done that can fail: by address, with certificates read, and the
/// sockets of those that are not open yet, one for each thread.
pub(super) struct Prepared {
    in_force: HashMap<SocketAddr, InForce>,
    fresh: HashMap<SocketAddr, Vec<TcpListener>>,
}

/// The open listeners.
#[derive(Debug)]
pub(super) struct Listeners {
    shared: Arc<Shared>,
    threads: Vec<mpsc::UnboundedSender<Listen>>,
    open: HashMap<SocketAddr, Open>,
    /// Sockets passed on by systemd or by a former process (LISTEN_FDS) that no policy has named yet.
    inherited: Vec<TcpListener>,
}

impl Listeners {
    /// None yet. Takes the sockets that were passed on.
    pub(super) fn new(
        shared: Arc<Shared>,
        threads: Vec<mpsc::UnboundedSender<Listen>>,
    ) -> Listeners {
        let mut passed = listenfd::ListenFd::from_env();
        let places = 0..passed.len();
        let taken = places.filter_map(|place| passed.take_tcp_listener(place).ok().flatten());
        let inherited = taken.collect();
        Listeners { shared, threads, open: HashMap::new(), inherited }
    }

    /// Reads the certificates of a policy's listeners, and binds those that are not open yet.
    ///
    /// # Errors
    /// A certificate cannot be used, or an address cannot be bound.
    pub(super) fn prepare(&mut self, policy: &Policy) -> anyhow::Result<Prepared> {
        let (mut in_force, mut fresh) = (HashMap::new(), HashMap::new());
        for listener in &policy.listeners {
            let address = listener.address;
            let settings = InForce::new(listener.clone());
            in_force.insert(address, settings.with_context(|| format!("TLS on {address}"))?);
        }
        for listener in &policy.listeners {
            let address = listener.address;
            if !self.open.contains_key(&address) {
                let sockets = self.sockets(address, listener.share_port);
                let sockets = sockets.with_context(|| format!("cannot listen on {address}"))?;
                fresh.insert(address, sockets);
            }
        }
        Ok(Prepared { in_force, fresh })
    }

    /// Closes the listeners that the policy in force no longer has, gives each other one its new settings,
    /// and opens those that have new sockets.
    pub(super) fn apply(&mut self, mut prepared: Prepared) {
        let dscp = self.shared.config.load().policy.wanted.dscp;
        self.open.retain(|address, old| {
            let stays = prepared.in_force.contains_key(address);
            if !stays {
                let _ = old.stop.send(true);
            }
            stays
        });
        for (address, settings) in prepared.in_force {
            match self.open.get(&address) {
                Some(known) => {
                    known.settings.store(Arc::new(settings));
                    let changes = |wanted: &mut bool| std::mem::replace(wanted, dscp) != dscp;
                    known.dscp_wanted.send_if_modified(changes);
                }
                None => {
                    let sockets = prepared.fresh.remove(&address).expect("bound before");
                    let open = self.start(settings, sockets, dscp);
                    self.open.insert(address, open);
                }
            }
        }
    }

    fn sockets(&mut self, address: SocketAddr, share: bool) -> std::io::Result<Vec<TcpListener>> {
        let is = |socket: &TcpListener| socket.local_addr().is_ok_and(|local| local == address);
        if let Some(known) = self.inherited.iter().position(is) {
            // One socket for all threads: the process that passed it on keeps it open, so that no connection
            // in its queue is lost between two processes.
            let socket = self.inherited.swap_remove(known);
            socket.set_nonblocking(true)?;
            socket2::SockRef::from(&socket).set_tcp_nodelay(true)?;
            return self.threads.iter().map(|_| socket.try_clone()).collect();
        }
        listen::bind(address, self.threads.len(), share)
    }

    fn start(&self, settings: InForce, sockets: Vec<TcpListener>, dscp: bool) -> Open {
        tracing::info!(address = %settings.listener.address, "listening");
        let settings: Settings = Arc::new(ArcSwap::from_pointee(settings));
        let (dscp_wanted, stop) = (watch::Sender::new(dscp), watch::Sender::new(false));
        for (thread, socket) in self.threads.iter().zip(sockets) {
            // A thread is gone only when the process ends.
            let _ = thread.send(Listen {
                socket,
                settings: settings.clone(),
                present: Present::listener(&self.shared),
                dscp_wanted: dscp_wanted.subscribe(),
                stop: stop.subscribe(),
            });
        }
        Open { settings, dscp_wanted, stop }
    }
}
