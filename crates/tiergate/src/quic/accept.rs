//! Takes connections from a UDP socket, and has each served.
//!
//! An address is believed only once a packet has come back from it. While few handshakes are in progress, the handshake
//! itself shows that, and QUIC sends no more than three times what has come until then (RFC 9000 §8.1). With more, or when
//! connections are at their bound, so that another would have to make room, a Retry packet asks first: a sender of forged
//! addresses then costs a few bytes each and displaces no client.

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
use std::io;
use std::net::UdpSocket;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tiergate_core::request::RequestView;

/// Handshakes of a thread, of clients whose addresses are not known to be theirs, before further ones are asked for theirs.
const UNVALIDATED_MAX: usize = 64;

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

/// Serves connections until `stop` or the drain; then refuses new ones until those that are open have ended. `present` counts the
/// socket: once it is gone, no connection is accepted any more.
///
/// # Errors
/// The socket could not be used with the runtime.
pub async fn accept(
    listener: Listener,
    present: Present,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let Listener { socket, place: (place, count), settings, alt_svc } = listener;
    let shared = present.shared.clone();
    let server = settings.load().quic.clone().map(settings::server);
    let config = settings::endpoint(place, count);
    let endpoint = Endpoint::new(config, server.clone(), socket, Arc::new(TokioRuntime))?;
    let template = server.ok_or_else(|| io::Error::other("the listener has no TLS"))?;
    let unvalidated = Arc::new(AtomicUsize::new(0));
    let mut ending = pin!(async {
        tokio::select! {
            () = stop => {}
            () = shared.draining() => {}
        }
    });
    alt_svc.set(true);
    loop {
        let incoming = tokio::select! {
            biased;
            () = &mut ending => break,
            incoming = endpoint.accept() => incoming,
        };
        let Some(incoming) = incoming else { break };
        let settings = settings.load_full();
        admit(incoming, settings, &template, &unvalidated, &shared).await;
    }
    alt_svc.set(false);
    drop(present);
    // A client that is refused goes on by TCP at once; one that heard nothing would wait.
    let mut idle = pin!(endpoint.wait_idle());
    loop {
        tokio::select! {
            () = &mut idle => return Ok(()),
            incoming = endpoint.accept() => match incoming {
                Some(incoming) => incoming.refuse(),
                None => return Ok(()),
            },
        }
    }
}

/// Has a connection served that there is room for.
async fn admit(
    incoming: Incoming,
    settings: Arc<InForce>,
    template: &quinn::ServerConfig,
    unvalidated: &Arc<AtomicUsize>,
    shared: &Arc<Shared>,
) {
    let bounds = shared.config.load().bounds;
    let is_validated = incoming.remote_address_validated();
    let is_pressed = || {
        unvalidated.load(Ordering::Relaxed) >= UNVALIDATED_MAX
            || shared.connections.open() >= bounds.max
    };
    if !is_validated && is_pressed() {
        match incoming.retry() {
            Ok(()) => shared.tally().quic_retries.one(),
            Err(error) => error.into_incoming().refuse(),
        }
        return;
    }
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
    let mut config = template.clone();
    config.crypto = crypto.0;
    config.transport_config(settings::transport(&shared.config.load().policy));
    let handshakes = (!is_validated).then(|| Counted::one(unvalidated));
    tokio::spawn(connection(incoming, config, handshakes, settings, open, shared.clone()));
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

async fn connection(
    incoming: Incoming,
    config: quinn::ServerConfig,
    handshakes: Option<Counted>,
    settings: Arc<InForce>,
    open: Connection,
    shared: Arc<Shared>,
) {
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
            stray::connection_failed(shared, from.ip(), since, "QUIC handshake", &error);
            return;
        }
    };
    drop(handshakes);
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
    http3::serve(quic, peer, timer, &open, shared).await;
}

/// Counts the end of a connection.
struct Closed<'s>(&'s Shared);

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.tally().connections_closed.one();
    }
}
