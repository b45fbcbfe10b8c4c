//! The listeners that are open: one socket for each thread that accepts and each address. A reload opens and closes them.

use super::kept;
use super::orders::{Listen, Order};
use super::quic_listeners::{self, Bound, Quic};
use crate::config::meant::{Listener, Policy};
use crate::kernel;
use crate::lanes::Lanes;
use crate::listen::{self, InForce, Program, Settings, Wanted};
use crate::shared::{Present, Shared};
use crate::startable::{self, Protocol, Subject};
use arc_swap::ArcSwap;
use std::collections::{HashMap, HashSet};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tiergate_core::demux::{self, Demux};
use tokio::sync::{mpsc, watch};

/// A listener in force.
#[derive(Debug)]
struct Open {
    settings: Settings,
    wanted: watch::Sender<Wanted>,
    program: watch::Sender<Program>,
    /// Whether its sockets are all and only ours, one for each thread, so that the kernel can pick one by its place.
    is_own: bool,
    stop: watch::Sender<bool>,
    /// The same sockets once more, for a successor.
    sockets: Vec<TcpListener>,
    /// Its UDP side, while it has one.
    quic: Option<Quic>,
}

/// The listeners of a policy with all done that can fail: by address, with certificates read, and the
/// sockets of those that are not open yet, one for each thread, with whether they are all and only ours.
pub(super) struct Prepared {
    in_force: HashMap<SocketAddr, InForce>,
    fresh: HashMap<SocketAddr, (Vec<TcpListener>, bool)>,
    /// The UDP sockets of those that are to have them and do not yet.
    quic: HashMap<SocketAddr, Bound>,
    /// Those at which the kernel judges first requests.
    deferred: Vec<SocketAddr>,
}

/// Reads the certificates of a policy's listeners.
///
/// # Errors
/// A certificate cannot be used; with its line.
pub(super) fn in_force(policy: &Policy) -> Result<HashMap<SocketAddr, InForce>, String> {
    let read = |(index, listener): (usize, &Listener)| {
        let settings = InForce::new(listener.clone()).map_err(|fault| {
            startable::wrong(&policy.sources, Subject::ListenerTls(index), fault.to_string())
        });
        Ok((listener.address, settings?))
    };
    policy.listeners.iter().enumerate().map(read).collect()
}

/// The open listeners.
#[derive(Debug)]
pub(super) struct Listeners {
    shared: Arc<Shared>,
    threads: Vec<mpsc::UnboundedSender<Order>>,
    open: HashMap<SocketAddr, Open>,
    /// Sockets passed on by systemd or by a former process (LISTEN_FDS) that no policy has named yet.
    inherited: Vec<TcpListener>,
    /// Where HTTP/3 has been served: connections that still go on may hold the address.
    had_quic: HashSet<SocketAddr>,
    /// Another process serves until this one does, and has UDP ports of its own until it has gone.
    has_predecessor: bool,
}

impl Listeners {
    /// None yet. `inherited`: the sockets that were passed on; `has_predecessor`: by a process that serves until this one does.
    pub(super) fn new(
        shared: Arc<Shared>,
        threads: Vec<mpsc::UnboundedSender<Order>>,
        inherited: Vec<TcpListener>,
        has_predecessor: bool,
    ) -> Listeners {
        let (open, had_quic) = (HashMap::new(), HashSet::new());
        Listeners { shared, threads, open, inherited, had_quic, has_predecessor }
    }

    /// Binds the listeners of a policy that are not open yet. `in_force`: as [`in_force`] has read them.
    ///
    /// # Errors
    /// An address cannot be bound; with its line.
    pub(super) fn prepare(
        &mut self,
        policy: &Policy,
        in_force: HashMap<SocketAddr, InForce>,
    ) -> Result<Prepared, String> {
        let (mut fresh, mut quic) = (HashMap::new(), HashMap::new());
        for (index, listener) in policy.listeners.iter().enumerate() {
            let address = listener.address;
            let wrong =
                |message| startable::wrong(&policy.sources, Subject::Listener(index), message);
            if !self.open.contains_key(&address) {
                let sockets = self.sockets(listener);
                let sockets = sockets.map_err(|fault| {
                    let held = self.held_by_both_versions(address, policy);
                    let words = || startable::cannot_listen(address, Protocol::Tcp, &fault);
                    wrong(held.unwrap_or_else(words))
                })?;
                fresh.insert(address, sockets);
            }
            let known = self.open.get(&address);
            if listener.http3 && known.is_none_or(|known| known.quic.is_none()) {
                let may_wait = self.had_quic.contains(&address) || self.has_predecessor;
                let bound = quic_listeners::bind(listener, self.threads.len(), may_wait);
                let bound = bound.map_err(|fault| {
                    wrong(startable::cannot_listen(address, Protocol::Udp, &fault))
                })?;
                quic.insert(address, bound);
            }
        }
        Ok(Prepared { in_force, fresh, quic, deferred: kernel::deferred(policy) })
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
        for (address, mut settings) in prepared.in_force {
            let quic = prepared.quic.remove(&address).map(|bound| (Quic::new(address), bound));
            let old = self.open.get_mut(&address).and_then(|open| open.quic.take());
            // Dropped, it stops.
            let quic = match settings.listener.http3 {
                true => quic.map(|(quic, bound)| (quic, Some(bound))).or(old.map(|it| (it, None))),
                false => None,
            };
            settings.alt_svc = quic.as_ref().map(|(quic, _)| quic.alt_svc.clone());
            let wanted = Wanted { dscp, deferred: prepared.deferred.contains(&address) };
            match self.open.get(&address) {
                Some(known) => {
                    let program = self.program(&settings.listener, known.is_own);
                    known.settings.store(Arc::new(settings));
                    change(&known.wanted, wanted);
                    change(&known.program, program);
                }
                None => {
                    let (sockets, is_own) = prepared.fresh.remove(&address).expect("bound before");
                    let open = self.start(settings, sockets, is_own, wanted);
                    self.open.insert(address, open);
                }
            }
            if let Some((quic, bound)) = quic {
                let open = self.open.get_mut(&address).expect("just opened");
                if let Some(bound) = bound {
                    self.had_quic.insert(address);
                    quic.start(bound, &open.settings, &self.threads, &self.shared);
                }
                open.quic = Some(quic);
            }
        }
    }

    /// What picks the sockets of a listener of the policy in force; `is_own`: as in [`Open`].
    fn program(&self, listener: &Listener, is_own: bool) -> Program {
        let config = self.shared.config.load();
        let policy = &config.policy;
        let program = |lanes: &Lanes| {
            let demux = Demux {
                listener: policy.listener_at(listener.address),
                is_proxied: listener.proxy_protocol,
                trusted: &policy.trusted,
                others: lanes.others(),
            };
            demux::program(&policy.classifier, demux, |class| lanes.sockets(class)).into()
        };
        // One that shares the port picks by places that are not ours alone.
        self.shared.lanes.get().filter(|_| is_own && !listener.share_port).map(program)
    }

    /// The sockets of a listener, and whether they are all and only ours.
    fn sockets(&mut self, listener: &Listener) -> std::io::Result<(Vec<TcpListener>, bool)> {
        let (address, share) = (listener.address, listener.share_port);
        let is = |socket: &TcpListener| socket.local_addr().is_ok_and(|local| local == address);
        let inherited = std::mem::take(&mut self.inherited);
        let (known, others): (Vec<_>, Vec<_>) = inherited.into_iter().partition(is);
        self.inherited = others;
        if !known.is_empty() {
            for socket in &known {
                socket.set_nonblocking(true)?;
                socket2::SockRef::from(socket).set_tcp_nodelay(true)?;
            }
            // Each has a queue of its own: there is a thread for each, which may have several, and a socket for each thread, which may share it. The
            // process that passed them on keeps them open until it has gone, so that no connection in a queue is lost.
            let threads = self.threads.len();
            let count = threads.max(known.len());
            let sockets = known.iter().cycle().take(count).map(TcpListener::try_clone);
            let is_own = known.len() == threads && !share;
            return Ok((sockets.collect::<std::io::Result<_>>()?, is_own));
        }
        Ok((listen::bind(listener, self.threads.len())?, !share))
    }

    /// Why there are none, if one of our own sockets is in the way.
    fn held_by_both_versions(&self, address: SocketAddr, policy: &Policy) -> Option<String> {
        let wanted = policy.listeners.iter().map(|it| (it.address, it.only_v6));
        let open = self.open.values().map(|it| it.settings.load());
        let open = open.map(|it| (it.listener.address, it.listener.only_v6));
        kept::held_by_both_versions(address, wanted.chain(open))
    }

    /// All sockets once more, those of an address in the order of its threads.
    pub(super) fn copies(&self) -> std::io::Result<Vec<OwnedFd>> {
        let sockets = self.open.values().flat_map(|it| &it.sockets);
        sockets.map(|it| it.try_clone().map(OwnedFd::from)).collect()
    }

    /// Closes the sockets that were passed on and that no policy has named.
    pub(super) fn forget_inherited(&mut self) {
        self.inherited.clear();
    }

    /// They are kept for no successor any more: once the threads close theirs, nobody listens.
    pub(super) fn let_go(&mut self) {
        self.open.values_mut().for_each(|it| it.sockets.clear());
    }

    fn start(
        &self,
        settings: InForce,
        sockets: Vec<TcpListener>,
        is_own: bool,
        wanted: Wanted,
    ) -> Open {
        tracing::info!(address = %settings.listener.address, "listening");
        let program = self.program(&settings.listener, is_own);
        // Before any thread accepts. A former process may have left a program to those that share its port or have its sockets.
        if program.is_some() || !is_own {
            sockets.first().into_iter().for_each(|it| listen::demultiplex(it, program.as_deref()));
        }
        let settings: Settings = Arc::new(ArcSwap::from_pointee(settings));
        let (wanted, stop) = (watch::Sender::new(wanted), watch::Sender::new(false));
        let program = watch::Sender::new(program);
        // Without lanes there never is one.
        let mut of_first = self.shared.lanes.get().is_some().then(|| program.subscribe());
        let kept = sockets.iter().filter_map(|it| it.try_clone().ok()).collect();
        for (thread, socket) in self.threads.iter().cycle().zip(sockets) {
            // A thread is gone only when the process ends.
            let _ = thread.send(Order::Listen(Box::new(Listen {
                socket,
                settings: settings.clone(),
                present: Present::listener(&self.shared),
                wanted: wanted.subscribe(),
                program: of_first.take(),
                stop: stop.subscribe(),
            })));
        }
        Open { settings, wanted, program, is_own, stop, sockets: kept, quic: None }
    }
}

/// Sends what is new.
fn change<T: PartialEq>(to: &watch::Sender<T>, new: T) {
    to.send_if_modified(|known| {
        let is_new = *known != new;
        *known = new;
        is_new
    });
}
