//! A connection from its first byte to its protocol: PROXY header, TLS, HTTP/2 or HTTP/1.1.

use super::in_force::InForce;
use crate::buffers::Buffer;
use crate::client::peer::Peer;
use crate::client::{http1, http2};
use crate::clock;
use crate::connections::Connection;
use crate::request::stray;
use crate::shared::Shared;
use crate::stream::{ClientStream, poll_fill, poll_fill_held};
use crate::timers::Timer;
use crate::tls;
use rustls::ServerConfig;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tiergate_core::request::RequestView;
use tiergate_wire::http1::{Parsed, PeerText};
use tiergate_wire::proxy_protocol::{self, Client};
use tokio::net::TcpStream;

/// What a client that knows HTTP/2 beforehand sends first (RFC 9113 §3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Serves a connection that was accepted.
pub(super) async fn connection(
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
