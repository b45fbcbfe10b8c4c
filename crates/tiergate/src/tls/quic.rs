//! A listener's TLS as QUIC has it.

use super::TlsError;
use quinn::crypto::rustls::QuicServerConfig;
use std::fmt;
use std::sync::Arc;

/// The protocol that clients must ask for.
const ALPN: &[u8] = b"h3";

/// A listener's TLS as QUIC has it.
#[derive(Clone)]
pub struct QuicTls(pub(crate) Arc<QuicServerConfig>);

impl QuicTls {
    /// That of a listener's TCP side, but TLS 1.3 only, and with nothing before the handshake has ended (no 0-RTT).
    ///
    /// # Errors
    /// None that the TCP side has not found.
    pub fn new(tls: &rustls::ServerConfig) -> Result<Self, TlsError> {
        let mut tls = tls.clone();
        tls.alpn_protocols = vec![ALPN.to_vec()];
        tls.max_early_data_size = 0;
        let crypto = QuicServerConfig::try_from(Arc::new(tls));
        let crypto = crypto.map(|crypto| QuicTls(Arc::new(crypto)));
        crypto.map_err(|error| TlsError::new(format!("http3 cannot use it: {error}")))
    }
}

impl fmt::Debug for QuicTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QuicTls")
    }
}
