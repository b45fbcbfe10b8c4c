//! A listener's settings in force.

use crate::client::alt_svc::AltSvc;
use crate::config::meant::Listener;
use crate::tls::{self, QuicTls, TlsError};
use arc_swap::ArcSwap;
use rustls::ServerConfig;
use std::sync::Arc;

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
