//! Listening sockets, and what a connection is before its first request.
//!
//! ```text
//! accept ─▶ [PROXY header] ─▶ [TLS] ─▶ first bytes ─┬─ HTTP/2 preface ─▶ http2
//!                                                   └─ anything else  ─▶ http1
//! ```
//!
//! HTTP/3 comes by UDP ([`crate::quic`]).

use crate::buffers::Buffer;
use crate::client::alt_svc::AltSvc;
use crate::client::peer::Peer;
use crate::client::{http1, http2};
use crate::clock;
use crate::config::meant::Listener;
use crate::connections::Connection;
use crate::lanes::LanePlace;
use crate::request::stray;
use crate::saved_syn;
use crate::shared::{Present, Shared};
use crate::stream::{ClientStream, poll_fill, poll_fill_held};
use crate::timers::Timer;
use crate::tls::{self, QuicTls, TlsError};
use crate::{defer_accept, demux};
use arc_swap::ArcSwap;
use rustls::ServerConfig;
use socket2::{Domain, Protocol, Socket, Type};
use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;
use tiergate_core::classify::{Known, Scratch};
use tiergate_core::demux::Instruction;
use tiergate_core::names::ClassId;
use tiergate_core::request::RequestView;
use tiergate_wire::http1::{Parsed, PeerText};
use tiergate_wire::proxy_protocol::{self, Client};
use tokio::net::TcpStream;
use tokio::sync::watch;

/// Connections that may wait to be accepted; the system bounds it by `somaxconn`.
const BACKLOG: i32 = 4096;

/// How long accepting pauses when it failed for want of resources.
const PAUSE: Duration = Duration::from_millis(20);

/// How many idle connections make room then.
const ROOM: usize = 8;

/// How often the log says that accepting fails, however many threads and sockets it fails on.
const COMPLAINT: Duration = Duration::from_secs(5);

/// What a client that knows HTTP/2 beforehand sends first (RFC 9113 §3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A listener as it is in force.
#[derive(Debug)]
pub struct InForce {
    /// What the policy says.
    pub listener: Listener,
    /// Its certificates, read.
    pub tls: Option<Arc<ServerConfig>>,
    /// The same for HTTP/3, where it is served.
    pub quic: Option<QuicTls>,
    /// Whether that is served now.
    pub alt_svc: Option<Arc<AltSvc>>,
}

impl InForce {
    /// Reads what the policy names. Not for a thread that serves.
    ///
    /// # Errors
    /// A certificate or key cannot be used.
    pub fn new(listener: Listener) -> Result<Self, TlsError> {
        let tls = listener.tls.as_ref();
        let tls = tls.map(|tls| tls::server_config(tls, listener.http2)).transpose()?;
        let quic = tls.as_ref().filter(|_| listener.http3).map(|tls| QuicTls::new(tls));
        Ok(InForce { listener, quic: quic.transpose()?, tls, alt_svc: None })
    }
}

/// A listener's settings in force: replaced by a reload, read by each new connection.
pub type Settings = Arc<ArcSwap<InForce>>;

/// As many sockets as asked for that listen on `address` together. `share`: also with those of other
/// processes, which share the port as well; otherwise it is an error if any listens there.
///
/// # Errors
/// What the system says.
pub fn bind(address: SocketAddr, count: usize, share: bool) -> io::Result<Vec<TcpListener>> {
    (0..count).map(|place| bind_one(address, share || place > 0)).collect()
}

fn bind_one(address: SocketAddr, share: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(share)?;
    socket.set_nonblocking(true)?;
    // Accepted connections inherit it.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    // The port is ours now; the other threads may share it.
    socket.set_reuse_port(true)?;
    Ok(socket.into())
}

/// What a policy wants of a listening socket: it is the reload's to say, and the socket's task to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The code point of clients' packets.
    pub dscp: bool,
    /// Connections with their first data only, because the kernel judges first requests.
    pub deferred: bool,
}

/// What picks one of the sockets of an address for a connection; `None`: the kernel, in its own way. The reload's to say, and one socket's task to follow.
pub type Program = Option<Arc<[Instruction]>>;

/// Accepts connections and serves each in a task of its own, until `stop` or the drain. `present`
/// counts the socket: once it is gone, no connection is accepted any more.
///
/// # Errors
/// The socket could not be used with the runtime.
pub async fn accept(
    listener: TcpListener,
    settings: Settings,
    present: Present,
    mut wanted: watch::Receiver<Wanted>,
    mut program: Option<watch::Receiver<Program>>,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let shared = &present.shared;
    let mut dscp = want(&listener, *wanted.borrow_and_update());
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let mut ending = std::pin::pin!(async {
        tokio::select! {
            () = stop => {}
            () = shared.draining() => {}
        }
    });
    loop {
        let accepted = tokio::select! {
            biased;
            Some(program) = next(&mut program) => {
                demultiplex(&listener, program.as_deref());
                continue;
            }
            accepted = listener.accept() => accepted,
            () = &mut ending => break,
            Ok(()) = wanted.changed() => {
                dscp = want(&listener, *wanted.borrow_and_update());
                continue;
            }
        };
        admit(accepted, dscp, &settings, shared).await;
    }
    // Those that listen on, in this process or another, are not to get connections by places that are no more.
    // A successor has the same sockets, and has put its own program there.
    if program.is_some() && !shared.has_succeeded() {
        demux::detach(&listener);
    }
    // Whoever is in the listen queue now would be reset when it closes. The system is asked, not the
    // runtime, which may not have heard of the last ones yet. More than the queue holds can come only
    // while another process listens on the same socket, and those it takes.
    let listener = listener.into_std()?;
    for _ in 0..BACKLOG {
        let Ok((stream, from)) = listener.accept() else {
            break;
        };
        stream.set_nonblocking(true)?;
        let stream = TcpStream::from_std(stream)?;
        admit(Ok((stream, from)), dscp, &settings, shared).await;
    }
    Ok(())
}

/// The next program of this socket's address, if it is the socket whose task is to follow.
async fn next(program: &mut Option<watch::Receiver<Program>>) -> Option<Program> {
    let program = program.as_mut()?;
    program.changed().await.ok()?;
    Some(program.borrow_and_update().clone())
}

/// Has the kernel pick the socket of a connection by a program, or in its own way.
pub fn demultiplex(listener: &impl AsFd, program: Option<&[Instruction]>) {
    let Some(program) = program else { return demux::detach(listener) };
    if let Err(error) = demux::attach(listener, program) {
        // Rather none than one of a former policy.
        demux::detach(listener);
        tracing::warn!(
            %error,
            "connections of lanes are accepted by all threads and handed over: the kernel takes no program that picks the thread (net.core.optmem_max bounds its length)"
        );
    }
}

/// Sets a listening socket as it is wanted, whatever it was before: whether the system keeps SYNs.
fn want(listener: &impl AsFd, wanted: Wanted) -> bool {
    if let Err(error) = defer_accept::set(listener, wanted.deferred) {
        // Connections are accepted and judged all the same.
        tracing::debug!(%error, "TCP_DEFER_ACCEPT");
    }
    keep_syns(listener, wanted.dscp)
}

/// Has the system keep SYNs if their code points are wanted, and else not: whether it does.
fn keep_syns(listener: &impl AsFd, wanted: bool) -> bool {
    match saved_syn::keep(listener, wanted) {
        Ok(()) => wanted,
        Err(error) => {
            if wanted {
                tracing::warn!(%error, "code points of clients' packets stay unknown");
            }
            false
        }
    }
}

async fn admit(
    accepted: io::Result<(TcpStream, SocketAddr)>,
    dscp: bool,
    settings: &Settings,
    shared: &Arc<Shared>,
) {
    let (stream, from) = match accepted {
        Ok(accepted) => accepted,
        // It was reset in the queue.
        Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => return,
        Err(error) => {
            // There are too many open files, or no memory is left.
            shared.tally().connections_not_accepted.one();
            let evicted = shared.connections.evict(ROOM, shared.config.load().bounds.last());
            shared.tally().connections_evicted.add(evicted as u64);
            if shared.complaint.is_due(clock::now(), COMPLAINT) {
                tracing::warn!(%error, "connections cannot be accepted: see limits.connections_max and ulimit -n");
            }
            tokio::time::sleep(PAUSE).await;
            return;
        }
    };
    let dscp = code_point(&stream, dscp);
    let (settings, shared) = (settings.load_full(), shared.clone());
    let Some(lanes) = shared.lanes.get() else {
        return enter(stream, from, dscp, settings, shared, None).await;
    };
    let local = || stream.local_addr().ok().map(|local| local.ip());
    let class = class_at_accept(local, from, dscp, &settings.listener, &shared);
    // Before others make room for it.
    let Some(place) = lanes.place(class) else { return };
    let mut entering = Box::pin(enter(stream, from, dscp, settings, shared.clone(), Some(place)));
    tokio::select! {
        biased;
        () = &mut entering => return,
        () = std::future::ready(()) => {}
    }
    match lanes.may_wait() {
        None => entering.await,
        // Those behind it, for which others may make room, are not to wait for it.
        Some(waits) => {
            // Until it is counted, the drain waits for it as for a socket.
            let present = Present::listener(&shared);
            tokio::spawn(async move {
                entering.await;
                drop((waits, present));
            });
        }
    }
}

/// Waits for room for a connection, and has it served: here, or in the place that it has with lanes.
async fn enter(
    stream: TcpStream,
    from: SocketAddr,
    dscp: u8,
    settings: Arc<InForce>,
    shared: Arc<Shared>,
    place: Option<LanePlace>,
) {
    let bounds = shared.config.load().bounds;
    let local = || stream.local_addr().ok().map(|local| local.ip());
    let class = || class_at_accept(local, from, dscp, &settings.listener, &shared);
    let level = || class().map(|class| shared.config.load().level_of(class));
    let entered = shared.connections.enter(from.ip(), bounds, level).await;
    if entered.evicted > 0 {
        shared.tally().connections_evicted.add(entered.evicted as u64);
        shared.connections_report.closed(clock::now(), bounds, entered.evicted);
    }
    let Some(open) = entered.connection else {
        shared.tally().connections_turned_away.one();
        shared.connections_report.turned_away(clock::now(), bounds);
        return;
    };
    let Some((lanes, place)) = shared.lanes.get().zip(place) else {
        tokio::spawn(connection(stream, from, dscp, settings, open, shared));
        return;
    };
    let place = match lanes.stays(place) {
        Err(place) => place,
        Ok(in_lane) => {
            tokio::spawn(async move {
                let _in_lane = in_lane;
                connection(stream, from, dscp, settings, open, shared).await;
            });
            return;
        }
    };
    // It leaves this thread's runtime; fails only if the client has gone already.
    let Ok(stream) = stream.into_std() else { return };
    let serving = shared.clone();
    let is_handed_over = lanes.hand_over(place, move |in_lane| {
        let Ok(stream) = TcpStream::from_std(stream) else { return };
        tokio::spawn(async move {
            let _in_lane = in_lane;
            connection(stream, from, dscp, settings, open, serving).await;
        });
    });
    if !is_handed_over {
        shared.tally().connections_turned_away.one();
    }
}

/// The code point of the connection's SYN, if the system kept that.
fn code_point(stream: &TcpStream, kept: bool) -> u8 {
    let dscp = kept.then(|| saved_syn::dscp_of(stream)).flatten();
    dscp.unwrap_or(RequestView::DSCP_UNKNOWN)
}

thread_local! {
    /// What classification remembers of a connection while it looks at it.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// The class that the requests of a connection have by what is known of it before it has sent anything; `None`: that does
/// not decide. `local` says where it connected to.
pub(crate) fn class_at_accept(
    local: impl FnOnce() -> Option<IpAddr>,
    from: SocketAddr,
    dscp: u8,
    listener: &Listener,
    shared: &Shared,
) -> Option<ClassId> {
    let config = shared.config.load();
    let trusted = config.policy.trusted.iter().any(|net| net.contains(&from.ip().to_canonical()));
    let place = config.policy.listener_at(listener.address);
    // Whose requests a trusted peer sends is not known yet.
    let (view, known) = if trusted || listener.proxy_protocol {
        (RequestView { listener: place, ..RequestView::EMPTY }, Known::Listener)
    } else {
        let local = local()?;
        let view =
            RequestView { client: from.ip(), listener: place, local, dscp, ..RequestView::EMPTY };
        (view, Known::Addresses)
    };
    let classifier = &config.policy.classifier;
    SCRATCH.with_borrow_mut(|scratch| classifier.class_at_accept(&view, known, scratch))
}

async fn connection(
    mut stream: TcpStream,
    from: SocketAddr,
    dscp: u8,
    settings: Arc<InForce>,
    mut open: Connection,
    shared: Arc<Shared>,
) {
    let shared = &shared;
    shared.tally().connections_accepted.one();
    let _closed = OnDrop(|| shared.tally().connections_closed.one());
    let since = clock::now();
    let local = match settings.listener.address {
        // Fails only if the client has gone already.
        any if any.ip().is_unspecified() => match stream.local_addr() {
            Ok(local) => local,
            Err(_) => return,
        },
        one => one,
    };
    // In a box: it passes through several futures, each of which would keep room for it.
    let listener = settings.listener.address;
    let mut peer = Box::new(Peer::new(from, local, listener, settings.tls.is_some()));
    peer.dscp = dscp;
    peer.alt_svc = settings.alt_svc.clone();
    let timer = Timer::new();
    let mut early = None;
    if settings.listener.proxy_protocol {
        timer.arm(shared.config.load().policy.timeouts.handshake);
        let proxied = proxied(&mut stream, &mut peer, &mut early, &timer, shared);
        match open.unless_evicted(proxied).await {
            Some(Ok(())) => open.belongs_to(peer.address.ip()),
            None => return,
            Some(Err(error)) => {
                shared.tally().proxy_failed.one();
                stray::connection_failed(shared, from.ip(), since, "no PROXY header", &error);
                tracing::debug!(client = %from, %error, "no PROXY header");
                return;
            }
        }
    }
    peer.standing = Some(open.standing());
    match &settings.tls {
        // Boxed: a plain connection, which there may be thousands of, need not be as large.
        Some(tls) => {
            Box::pin(secure(stream, peer, early, timer, tls.clone(), (&open, shared))).await
        }
        None => {
            plain(stream, peer, early, timer, settings.listener.http2, (&open, shared)).await;
        }
    }
}

/// Does something however its scope is left.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Serves a connection through TLS: HTTP/2 if the client chose it, else HTTP/1.1.
async fn secure(
    stream: TcpStream,
    mut peer: Box<Peer>,
    early: Option<Buffer>,
    timer: Timer,
    tls: Arc<ServerConfig>,
    (open, shared): (&Connection, &Arc<Shared>),
) {
    let since = clock::now();
    timer.arm(shared.config.load().policy.timeouts.handshake);
    let handshake = tls::handshake(stream, early, tls, &timer);
    let stream = match open.unless_evicted(handshake).await {
        Some(Ok(stream)) => stream,
        None => return,
        Some(Err(error)) => {
            shared.tally().tls_failed.one();
            stray::connection_failed(
                shared,
                peer.address.ip(),
                since,
                "TLS handshake failed",
                &error,
            );
            tracing::debug!(client = %peer.address, %error, "TLS handshake failed");
            return;
        }
    };
    peer.sni = tls::server_name(&stream).map(Into::into);
    peer.certificate = tls::client_name(&stream);
    peer.has_certificate = tls::has_client_certificate(&stream);
    timer.arm(shared.config.load().policy.timeouts.request_head);
    match tls::is_http2(&stream) {
        true => http2::serve(stream, peer, None, timer, open, shared).await,
        false => http1::serve(stream, peer, None, timer, open, shared).await,
    }
}

/// Serves a connection without TLS: HTTP/2 if that is allowed and it begins so, else HTTP/1.1. `early` was
/// read already.
pub async fn plain<S: ClientStream + 'static>(
    mut stream: S,
    peer: Box<Peer>,
    mut early: Option<Buffer>,
    timer: Timer,
    http2: bool,
    (open, shared): (&Connection, &Arc<Shared>),
) {
    // A browser connects before it has anything to ask: a drain does not wait for that.
    timer.arm_idle(shared.config.load().policy.timeouts.request_head);
    if http2 {
        let begins_http2 = begins_http2(&mut stream, &mut early, &timer);
        match open.unless_evicted(begins_http2).await {
            Some(Ok(true)) => {
                return Box::pin(http2::serve(stream, peer, early, timer, open, shared)).await;
            }
            Some(Ok(false)) => {}
            Some(Err(_)) | None => return,
        }
    }
    http1::serve(stream, peer, early, timer, open, shared).await;
}

/// Whether the connection begins with HTTP/2's preface; what was read meanwhile is in `early`.
async fn begins_http2<S: ClientStream>(
    stream: &mut S,
    early: &mut Option<Buffer>,
    timer: &Timer,
) -> io::Result<bool> {
    loop {
        let bytes = early.as_ref().map_or(&[][..], Buffer::content);
        let len = bytes.len().min(PREFACE.len());
        if bytes[..len] != PREFACE[..len] {
            return Ok(false);
        }
        if len == PREFACE.len() {
            return Ok(true);
        }
        let read = timer.bound(|context| poll_fill_held(stream, early, Buffer::small, context));
        if read.await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Reads the PROXY header that a trusted peer sends first, and takes its word for who the client is.
async fn proxied(
    stream: &mut TcpStream,
    peer: &mut Peer,
    early: &mut Option<Buffer>,
    timer: &Timer,
    shared: &Shared,
) -> io::Result<()> {
    if !peer.is_trusted(&shared.config.load()) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the peer is not trusted"));
    }
    let buffer = early.get_or_insert_with(Buffer::small);
    loop {
        match proxy_protocol::parse(buffer.content()) {
            Ok(Parsed::Partial) => {}
            Ok(Parsed::Complete(header)) => {
                buffer.consume(header.len);
                if header.client != Client::Sender {
                    // The SYN was the peer's own.
                    peer.dscp = RequestView::DSCP_UNKNOWN;
                }
                match header.client {
                    Client::Sender => {}
                    Client::Unknown => peer.is_stranger = true,
                    Client::Known(addresses) => {
                        peer.address = addresses.client;
                        peer.text = PeerText::new(addresses.client.ip());
                        peer.local = addresses.destination;
                    }
                }
                break;
            }
            Err(error) => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
        if timer.bound(|context| poll_fill(stream, buffer, context)).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    if buffer.is_empty() {
        *early = None;
    }
    Ok(())
}
