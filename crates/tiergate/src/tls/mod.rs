//! TLS from clients, by rustls over AWS-LC; and to the origin ([`origin`]).
//!
//! AWS-LC rather than ring: rustls' default, and the one of the two with the hybrid key exchange
//! (X25519MLKEM768) that browsers offer; measured at 0.5 to 0.7 of the CPU time of haproxy with
//! OpenSSL 3.0 (kept connections, 64 KiB and 1 KiB).
//!
//! A configuration is immutable. A reload makes a new one with [`server_config`]: new connections
//! use it, open ones keep theirs, and if it cannot be made the old one stays in force. Tickets
//! outlive it, so that clients resume across a reload, but not where clients have certificates.

pub(crate) mod chains;
mod client;
mod dates;
mod error;
mod expiry;
mod files;
mod names;
pub mod origin;
mod quic;
mod revocation;

pub use dates::Dates;
pub use error::TlsError;
pub(crate) use expiry::expiries;
pub use quic::QuicTls;

use crate::buffers::Buffer;
use crate::config::meant;
use crate::stream::ClientStream;
use crate::timers::Timer;
use names::ByName;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::server::{ProducesTickets, ServerSessionMemoryCache, WebPkiClientVerifier};
use rustls::{InvalidMessage, ServerConfig, ServerConnection};
use std::io;
use std::os::fd::BorrowedFd;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use tiergate_core::mark::Label;
use tiergate_core::transmit::Sending;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Sessions kept for clients of TLS 1.2 without tickets: rare, and about 1 KiB each.
const SESSIONS_MAX: usize = 1024;

/// Tickets given after a full handshake of TLS 1.3. Browsers open several connections at once and use
/// each ticket once (RFC 8446 §C.4); OpenSSL and rustls give two as well.
const TICKETS: usize = 2;

/// The ticketer of the process, whose keys change every six hours: tickets outlive the configuration that
/// they were given under. rustls accepts a ticket only for the name that it was given for.
static TICKETER: OnceLock<Arc<dyn ProducesTickets>> = OnceLock::new();

/// The configuration of a TLS 1.2 and 1.3 listener, from the files that the policy names. `http2`: it is
/// offered by ALPN, before HTTP/1.1. Blocks on files: not for a serving thread.
///
/// # Errors
/// The first file that is missing, unreadable or does not fit, and what to do about it.
pub fn server_config(settings: &meant::Tls, http2: bool) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut certificates = Vec::with_capacity(settings.certificates.len());
    for (chain, key) in &settings.certificates {
        certificates.push(Arc::new(files::load(chain, key, &provider)?));
    }
    let resolver = ByName::new(certificates)
        .ok_or_else(|| TlsError::new("name at least one certificate and its key"))?;
    let verifier = match &settings.client {
        Some(authority) => client::verifier(authority, &provider)?,
        None => WebPkiClientVerifier::no_client_auth(),
    };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has suites for TLS 1.2 and 1.3")
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = match http2 {
        true => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        false => vec![b"http/1.1".to_vec()],
    };
    config.ticketer = match settings.client {
        // A resumed connection presents no certificate again: a ticket of a listener with other (or no)
        // authorities, also before a reload, must not be valid here.
        Some(_) => new_ticketer()?,
        None => ticketer()?,
    };
    config.send_tls13_tickets = TICKETS;
    config.session_storage = ServerSessionMemoryCache::new(SESSIONS_MAX);
    Ok(Arc::new(config))
}

fn ticketer() -> Result<Arc<dyn ProducesTickets>, TlsError> {
    match TICKETER.get() {
        Some(ticketer) => Ok(ticketer.clone()),
        None => new_ticketer().map(|fresh| TICKETER.get_or_init(|| fresh).clone()),
    }
}

fn new_ticketer() -> Result<Arc<dyn ProducesTickets>, TlsError> {
    aws_lc_rs::Ticketer::new()
        .map_err(|error| TlsError::new(format!("no keys for session tickets: {error}")))
}

/// The server's part of the handshake, bounded by `timer`, which the caller has armed. `early` was read
/// already, behind a PROXY header.
///
/// # Errors
/// `TimedOut`; `UnexpectedEof` when the client left; `InvalidData` with rustls' message for a failed
/// handshake (the client got an alert); otherwise the error of the socket.
pub async fn handshake(
    stream: TcpStream,
    early: Option<Buffer>,
    config: Arc<ServerConfig>,
    timer: &Timer,
) -> io::Result<TlsStream<TcpStream>> {
    let feed = |session: &mut ServerConnection| {
        let mut rest = early.as_ref().map_or(&[][..], Buffer::content);
        // What is wrong with the bytes is said again, and to the client, when more are asked for.
        while !rest.is_empty() && matches!(session.read_tls(&mut rest), Ok(1..)) {
            if session.process_new_packets().is_err() {
                break;
            }
        }
    };
    let mut accept = pin!(TlsAcceptor::from(config).accept_with(stream, feed));
    timer.bound(|context| accept.as_mut().poll(context)).await
}

/// Why a handshake, or what comes before it, failed, in words.
pub fn reason(error: &io::Error) -> String {
    let fault = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match (fault, error.kind()) {
        (Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)), _) => {
            "what the client sent is not TLS".to_owned()
        }
        (Some(fault), _) => fault.to_string(),
        (None, io::ErrorKind::TimedOut) => "the client took too long".to_owned(),
        (None, _) => error.to_string(),
    }
}

/// Whether the client chose HTTP/2 in the handshake.
pub fn is_http2(stream: &TlsStream<TcpStream>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(b"h2")
}

/// The name in a client's verified certificate, as [`client_name`] has it.
pub fn certificate_name(certificate: &CertificateDer<'_>) -> Option<Arc<str>> {
    client::name(certificate).map(Into::into)
}

/// The server name that the client asked for.
pub fn server_name(stream: &TlsStream<TcpStream>) -> Option<&str> {
    stream.get_ref().1.server_name()
}

/// Whether the client has a certificate, which was verified.
pub fn has_client_certificate(stream: &TlsStream<TcpStream>) -> bool {
    stream.get_ref().1.peer_certificates().is_some_and(|chain| !chain.is_empty())
}

/// The name in the client's verified certificate; `None`: it has no certificate, or there is no name in
/// it. Not free: once a connection.
pub fn client_name(stream: &TlsStream<TcpStream>) -> Option<Arc<str>> {
    let chain = stream.get_ref().1.peer_certificates()?;
    certificate_name(chain.first()?)
}

impl ClientStream for TlsStream<TcpStream> {
    fn is_ended(&self) -> bool {
        self.get_ref().0.is_ended()
    }

    fn is_reset(&self) -> bool {
        self.get_ref().0.is_reset()
    }

    fn delivered(&self) -> Option<u64> {
        self.get_ref().0.delivered()
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.get_ref().0.socket()
    }

    fn sending(&self) -> Option<Sending> {
        self.get_ref().0.sending()
    }

    fn set_label(&self, label: Label, by_v6: bool) -> io::Result<()> {
        self.get_ref().0.set_label(label, by_v6)
    }

    fn limit_unsent(&self, bytes: u32) -> io::Result<()> {
        self.get_ref().0.limit_unsent(bytes)
    }

    fn asks_for_room(&self, does: bool) -> io::Result<()> {
        self.get_ref().0.asks_for_room(does)
    }

    fn is_unsettled(&self) -> bool {
        self.get_ref().0.is_unsettled()
    }

    fn reset_at_close(&self) {
        self.get_ref().0.reset_at_close();
    }
}
