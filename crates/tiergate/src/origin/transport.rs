//! How the servers of a pool are spoken to, where that is not HTTP/1.1 over plain TCP.

use super::Lease;
use super::http2::connection::Connection;
use super::servers::OriginServer;
use super::stream::OriginStream;
use crate::config::meant::{self, OriginProtocol, Server};
use crate::tally::Tally;
use crate::tls::TlsError;
use crate::tls::origin::{TlsFailed, TlsFault, client_config};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, HandshakeKind};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

/// Handshakes with origin servers.
#[derive(Debug, Default)]
pub struct OriginTlsCounters {
    /// Full ones.
    pub full: Tally,
    /// Those that resumed a session.
    pub resumed: Tally,
    /// Those that failed, by [`TlsFault`].
    pub failed: [Tally; TlsFault::ALL.len()],
}

/// How the servers of a pool are spoken to. Connections of one are never used by another, not even of the same pool before a
/// reload that changed a file.
#[derive(Debug)]
pub struct Transport {
    tls: Option<Tls>,
    /// What the servers speak.
    protocol: OriginProtocol,
    /// Connections over HTTP/2 to each server, by each thread.
    pub(super) connections_max: usize,
    /// Bytes of the head of an answer, as HTTP/2 counts them.
    pub(super) head_max: u32,
    /// How long one is silent before it is asked whether the server is still there.
    pub(super) ping_interval: Duration,
    counters: Arc<OriginTlsCounters>,
}

/// A connection that a request may be sent on, in the protocol that was agreed on.
#[derive(Debug)]
pub(super) enum Dialled {
    /// HTTP/1.1.
    Http1(OriginStream),
    /// HTTP/2, not begun yet.
    Http2(OriginStream),
}

#[derive(Debug)]
struct Tls {
    config: Arc<ClientConfig>,
    /// The policy's; `None`: the host of each server.
    name: Option<ServerName<'static>>,
    /// Of all files that it was made from.
    digest: Vec<u8>,
}

impl Transport {
    /// What the policy says of a pool, with `limits` on the heads of answers; `None`: HTTP/1.1 over plain TCP. Reads files. If `former` is what comes out, and was made by
    /// the same settings, it is `former` itself.
    ///
    /// # Errors
    /// A file that cannot be used.
    pub fn new(
        settings: &meant::Origin,
        limits: &meant::Limits,
        former: Option<(&meant::Origin, &Arc<Transport>)>,
        counters: &Arc<OriginTlsCounters>,
    ) -> Result<Option<Arc<Self>>, TlsError> {
        let protocol = settings.protocol;
        let tls = settings.tls.as_ref().map(|tls| Tls::new(tls, protocol)).transpose()?;
        if tls.is_none() && protocol == OriginProtocol::Http1 {
            return Ok(None);
        }
        let transport = Transport {
            tls,
            protocol,
            connections_max: settings.http2_connections_max,
            head_max: head_max(limits),
            ping_interval: settings.ping_interval,
            counters: counters.clone(),
        };
        let same = former.filter(|(before, it)| {
            let of = |it: &meant::Origin| {
                (it.tls.clone(), it.protocol, it.http2_connections_max, it.ping_interval)
            };
            of(before) == of(settings)
                && it.head_max == transport.head_max
                && it.digest() == transport.digest()
        });
        Ok(Some(same.map_or_else(|| Arc::new(transport), |(_, it)| it.clone())))
    }

    fn digest(&self) -> Option<&[u8]> {
        self.tls.as_ref().map(|tls| &tls.digest[..])
    }

    /// Whether requests go through TLS.
    pub(super) fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether requests may be streams of one connection.
    pub(super) fn is_multiplexed(&self) -> bool {
        self.protocol != OriginProtocol::Http1
    }

    /// A connection over HTTP/1.1 to the server, which the policy calls `named`.
    ///
    /// # Errors
    /// As [`OriginServer::connect`]; [`TlsFailed`] for what comes after.
    pub(super) async fn connect(
        &self,
        server: &OriginServer,
        named: &Server,
        within: Duration,
        idle: impl FnMut() -> Option<Lease>,
    ) -> io::Result<Lease> {
        let ends = Instant::now() + within;
        let lease = server.connect(within, idle).await?;
        match &self.tls {
            Some(tls) if !lease.reused => {
                self.secure(tls, lease.stream, named, ends).await.map(Lease::fresh)
            }
            _ => Ok(lease),
        }
    }

    /// A connection that is shared with no request.
    ///
    /// # Errors
    /// As [`Transport::connect`].
    pub(super) async fn connect_alone(
        &self,
        server: &OriginServer,
        named: &Server,
        within: Duration,
    ) -> io::Result<OriginStream> {
        let ends = Instant::now() + within;
        match self.dial(server, named, ends).await? {
            Dialled::Http1(stream) => Ok(stream),
            Dialled::Http2(stream) => {
                let (room, no_pings) = (Arc::default(), Duration::ZERO);
                let opening =
                    Connection::open(stream, self.is_secure(), room, self.head_max, no_pings);
                let opened = timeout_at(ends, opening).await;
                let opened = opened.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
                Ok(OriginStream::Http2(Box::new(opened.stream())))
            }
        }
    }

    /// A new connection, as far as TLS is done with.
    ///
    /// # Errors
    /// As [`Transport::connect`].
    pub(super) async fn dial(
        &self,
        server: &OriginServer,
        named: &Server,
        ends: Instant,
    ) -> io::Result<Dialled> {
        let within = ends.saturating_duration_since(Instant::now());
        let stream = server.connect(within, || None).await?.stream;
        let Some(tls) = &self.tls else {
            return Ok(match self.protocol {
                OriginProtocol::Http2 => Dialled::Http2(stream),
                _ => Dialled::Http1(stream),
            });
        };
        let stream = self.secure(tls, stream, named, ends).await?;
        match (self.protocol, stream.chose_http2()) {
            (OriginProtocol::Http2 | OriginProtocol::Auto, true) => Ok(Dialled::Http2(stream)),
            (OriginProtocol::Http1 | OriginProtocol::Auto, false) => Ok(Dialled::Http1(stream)),
            _ => Err(self.failed(TlsFault::Protocol)),
        }
    }

    async fn secure(
        &self,
        tls: &Tls,
        stream: OriginStream,
        named: &Server,
        ends: Instant,
    ) -> io::Result<OriginStream> {
        let shaken = tls.handshake(stream, named, ends).await;
        shaken.inspect(|it| self.count(it)).map_err(|error| self.failed(TlsFault::of(&error)))
    }

    fn failed(&self, fault: TlsFault) -> io::Error {
        self.counters.failed[fault as usize].one();
        TlsFailed(fault).into()
    }

    fn count(&self, stream: &OriginStream) {
        match stream.handshake_kind() {
            Some(HandshakeKind::Resumed) => self.counters.resumed.one(),
            _ => self.counters.full.one(),
        }
    }
}

/// As much as any head that the path's parser takes: HTTP/2 counts 32 bytes beside each field (RFC 9113 §6.5.2).
fn head_max(limits: &meant::Limits) -> u32 {
    let max = limits.response_head_max.saturating_add(limits.fields_max.saturating_mul(32));
    u32::try_from(max).unwrap_or(u32::MAX)
}

impl Tls {
    fn new(settings: &meant::OriginTls, protocol: OriginProtocol) -> Result<Self, TlsError> {
        let alpn: &[&[u8]] = match protocol {
            OriginProtocol::Http1 => &[b"http/1.1"],
            OriginProtocol::Http2 => &[b"h2"],
            OriginProtocol::Auto => &[b"h2", b"http/1.1"],
        };
        let (config, digest) = client_config(settings, alpn)?;
        let name = settings.server_name.clone();
        let name = name.map(|name| ServerName::try_from(name).expect("the policy was checked"));
        Ok(Tls { config, name, digest })
    }

    async fn handshake(
        &self,
        stream: OriginStream,
        named: &Server,
        ends: Instant,
    ) -> io::Result<OriginStream> {
        let OriginStream::Tcp(stream) = stream else {
            return Err(io::Error::other("TLS needs TCP"));
        };
        let name = match (&self.name, named) {
            (Some(name), _) => name.clone(),
            (None, Server::Tcp(host, _)) => {
                let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
                ServerName::try_from(host).map_err(io::Error::other)?
            }
            (None, Server::Unix(_)) => return Err(io::Error::other("TLS needs a name")),
        };
        let connecting = TlsConnector::from(self.config.clone()).connect(name, stream);
        match timeout_at(ends, connecting).await {
            Ok(connected) => Ok(OriginStream::Tls(Box::new(connected?))),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}
