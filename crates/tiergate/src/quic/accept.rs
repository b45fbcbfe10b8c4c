//! Takes connections from a UDP socket, and has each served.
//!
//! An address is believed only once a packet has come back from it. While few handshakes are in progress, the handshake
//! itself shows that, and QUIC sends no more than three times what has come until then (RFC 9000 §8.1). With more, or when
//! connections are at their bound, so that another would have to make room, a Retry packet asks first: a sender of forged
//! addresses then costs a few bytes each and displaces no client.

use super::group::Group;
use super::settings;
use crate::client::alt_svc::AltSvc;
use crate::client::http3;
use crate::client::peer::Peer;
use crate::clock;
use crate::connections::Connection;
use crate::listen::{InForce, Settings, class_at_accept};
use crate::request::stray;
use crate::shared::{Present, Shared};
use crate::timers::Timer;
use crate::tls;
use quinn::crypto::rustls::HandshakeData;
use quinn::{Endpoint, Incoming, TokioRuntime};
use rustls::pki_types::CertificateDer;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::UdpSocket;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use tiergate_core::request::RequestView;
use tokio::sync::watch;

/// Handshakes of a thread, of clients whose addresses are not known to be theirs, before further ones are asked for theirs.
const UNVALIDATED_MAX: usize = 64;

/// Connections of a thread that wait behind one for which there is no room yet; more are refused.
const WAITING_MAX: usize = 64;

/// What a thread is to take connections from.
#[derive(Debug)]
pub struct Listener {
    /// Its socket.
    pub socket: UdpSocket,
    /// The place of the thread among so many that have one.
    pub place: (usize, usize),
    /// The listener's settings, with those of its TCP side.
    pub settings: Settings,
    /// Tells clients of the TCP side that there is one by UDP, too.
    pub alt_svc: Arc<AltSvc>,
}

/// Serves connections until `stop` or the drain, and says what they go on with. `present` counts the socket: once it is gone, no
/// connection is accepted any more.
///
/// # Errors
/// The socket could not be used with the runtime.
pub async fn accept(
    listener: Listener,
    present: Present,
    stop: watch::Receiver<bool>,
) -> io::Result<Endpoint> {
    let Listener { socket, place: (place, count), settings, alt_svc } = listener;
    let shared = present.shared.clone();
    let server = settings.load().quic.clone().map(settings::server);
    let config = settings::endpoint(place, count);
    let endpoint = Endpoint::new(config, server.clone(), socket, Arc::new(TokioRuntime))?;
    let template = server.ok_or_else(|| io::Error::other("the listener has no TLS"))?;
    let door = Door { settings, template, unvalidated: Arc::default(), stop, shared };
    let mut ending = pin!(async {
        tokio::select! {
            () = stopped(door.stop.clone()) => {}
            () = door.shared.draining() => {}
        }
    });
    alt_svc.set(true);
    // While the first waits for room, others are asked for their address or refused.
    let mut waiting = VecDeque::new();
    let mut first: Option<Pin<Box<dyn Future<Output = ()> + Send + '_>>> = None;
    loop {
        if first.is_none()
            && let Some(incoming) = waiting.pop_front()
        {
            first = Some(Box::pin(door.admit(incoming)));
        }
        let admitted =
            poll_fn(|context| first.as_mut().map_or(Poll::Pending, |it| it.as_mut().poll(context)));
        let incoming = tokio::select! {
            biased;
            () = &mut ending => break,
            () = admitted => {
                first = None;
                continue;
            }
            incoming = endpoint.accept() => incoming,
        };
        let Some(incoming) = incoming else { break };
        match door.believed(incoming) {
            Some(incoming) if waiting.len() < WAITING_MAX => waiting.push_back(incoming),
            Some(incoming) => incoming.refuse(),
            None => {}
        }
    }
    // Dropped, they are refused.
    drop((first, waiting));
    alt_svc.set(false);
    Ok(endpoint)
}

/// Refuses new connections until those that are open have ended, of all sockets of the group. A client that is refused goes on
/// by TCP at once; one that heard nothing would wait.
pub async fn leave(endpoint: Endpoint, mut group: Group) {
    refuse_until(&endpoint, endpoint.wait_idle()).await;
    refuse_until(&endpoint, group.leave()).await;
    // If the endpoint has failed, there is none to refuse.
    group.leave().await;
}

async fn refuse_until(endpoint: &Endpoint, over: impl Future<Output = ()>) {
    let mut over = pin!(over);
    loop {
        tokio::select! {
            () = &mut over => return,
            incoming = endpoint.accept() => match incoming {
                Some(incoming) => incoming.refuse(),
                None => return,
            },
        }
    }
}

/// Returns when the listener goes.
async fn stopped(mut stop: watch::Receiver<bool>) {
    // The sender is dropped with the listener.
    let _ = stop.wait_for(|&stop| stop).await;
}

/// Where a thread's connections come in.
struct Door {
    settings: Settings,
    template: quinn::ServerConfig,
    /// Handshakes in progress of clients whose addresses are not known to be theirs.
    unvalidated: Arc<AtomicUsize>,
    stop: watch::Receiver<bool>,
    shared: Arc<Shared>,
}

impl Door {
    /// One whose address is the client's, as far as that matters now; another is asked for it.
    fn believed(&self, incoming: Incoming) -> Option<Incoming> {
        let is_pressed = || {
            self.unvalidated.load(Ordering::Relaxed) >= UNVALIDATED_MAX
                || self.shared.connections.open() >= self.shared.config.load().bounds.max
        };
        if incoming.remote_address_validated() || !is_pressed() {
            return Some(incoming);
        }
        match incoming.retry() {
            Ok(()) => self.shared.tally().quic_retries.one(),
            Err(error) => error.into_incoming().refuse(),
        }
        None
    }

    /// Has a connection served once there is room for it.
    async fn admit(&self, incoming: Incoming) {
        let (shared, settings) = (&self.shared, self.settings.load_full());
        let bounds = shared.config.load().bounds;
        // A reload may have taken TLS away, and the socket is about to go.
        let Some(crypto) = settings.quic.clone() else { return incoming.refuse() };
        let from = incoming.remote_address();
        let local = || incoming.local_ip();
        let class = || {
            let listener = &settings.listener;
            class_at_accept(local, from, RequestView::DSCP_UNKNOWN, listener, shared)
        };
        let level = || class().map(|class| shared.config.load().level_of(class));
        let entered = shared.connections.enter(from.ip(), bounds, level).await;
        if entered.evicted > 0 {
            shared.tally().connections_evicted.add(entered.evicted as u64);
            shared.connections_report.closed(clock::now(), bounds, entered.evicted);
        }
        let Some(open) = entered.connection else {
            shared.tally().connections_turned_away.one();
            shared.connections_report.turned_away(clock::now(), bounds);
            return incoming.refuse();
        };
        let mut config = self.template.clone();
        config.crypto = crypto.0;
        config.transport_config(settings::transport(&shared.config.load().policy));
        let is_validated = incoming.remote_address_validated();
        let handshake = (!is_validated).then(|| Counted::one(&self.unvalidated));
        let stop = self.stop.clone();
        let begun = Begun { incoming, config, handshake, settings, open, stop };
        tokio::spawn(connection(begun, shared.clone()));
    }
}

/// A connection that there is room for.
struct Begun {
    incoming: Incoming,
    config: quinn::ServerConfig,
    handshake: Option<Counted>,
    settings: Arc<InForce>,
    open: Connection,
    stop: watch::Receiver<bool>,
}

/// One of those that are counted, while it lives.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn one(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Counted(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn connection(begun: Begun, shared: Arc<Shared>) {
    let Begun { incoming, config, handshake, settings, open, stop } = begun;
    let shared = &shared;
    shared.tally().connections_accepted.one();
    let _closed = Closed(shared);
    let since = clock::now();
    let from = incoming.remote_address();
    let timer = Timer::armed(shared.config.load().policy.timeouts.handshake);
    let Ok(connecting) = incoming.accept_with(Arc::new(config)) else { return };
    let mut connecting = pin!(connecting);
    let shaken = timer.bound(|context| connecting.as_mut().poll(context).map_err(io::Error::other));
    let quic = match open.unless_evicted(shaken).await {
        Some(Ok(quic)) => quic,
        None => return,
        Some(Err(error)) => {
            shared.tally().tls_failed.one();
            tracing::debug!(client = %from, %error, "QUIC handshake failed");
            // Of an address that was only claimed the log says nothing: somebody would be banned for it.
            if handshake.is_none() {
                stray::connection_failed(shared, from.ip(), since, "QUIC handshake", &error);
            }
            return;
        }
    };
    drop(handshake);
    let listener = settings.listener.address;
    let mut local = listener;
    if let Some(ip) = quic.local_ip().filter(|_| local.ip().is_unspecified()) {
        local.set_ip(ip);
    }
    let mut peer = Box::new(Peer::new(from, local, listener, true));
    peer.standing = Some(open.standing());
    let data = quic.handshake_data().and_then(|data| data.downcast::<HandshakeData>().ok());
    peer.sni = data.and_then(|data| data.server_name).map(Into::into);
    let chain = quic.peer_identity().and_then(|it| it.downcast::<Vec<CertificateDer<'_>>>().ok());
    let chain = chain.map(|it| *it).unwrap_or_default();
    peer.certificate = chain.first().and_then(tls::certificate_name);
    peer.has_certificate = !chain.is_empty();
    timer.arm(shared.config.load().policy.timeouts.request_head);
    http3::serve(quic, peer, timer, &open, stopped(stop), shared).await;
}

/// Counts the end of a connection.
struct Closed<'s>(&'s Shared);

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.tally().connections_closed.one();
    }
}
