//! TLS to the origin: the gateway as a client of its servers.
//!
//! The authorities are the system's (rustls-native-certs) rather than a list that is compiled in (webpki-roots): an origin is
//! mostly signed by an authority of its operator's own, which stands in the system's store, and that store is renewed without a
//! new gateway.

use super::error::TlsError;
use super::files;
use crate::config::meant::OriginTls;
use aws_lc_rs::digest;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::verify_tls13_signature;
use rustls::crypto::{CryptoProvider, aws_lc_rs as provider, verify_tls12_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use std::io;
use std::sync::Arc;

/// Names of servers of which sessions are kept: as many as a pool may have.
const SESSIONS_MAX: usize = 64;

/// A configuration of a TLS 1.2 and 1.3 client, and a digest of all that it was made from: the same if nothing in the files has
/// changed. `alpn`: the protocols that are offered. Blocks on files: not for a serving thread.
///
/// # Errors
/// The first file that is missing, unreadable or does not fit, and what to do about it.
pub fn client_config(
    settings: &OriginTls,
    alpn: &[&[u8]],
) -> Result<(Arc<ClientConfig>, Vec<u8>), TlsError> {
    let provider = Arc::new(provider::default_provider());
    let mut digest = digest::Context::new(&digest::SHA256);
    let verifier: Arc<dyn ServerCertVerifier> = match settings.verify {
        true => verifier(settings, &provider, &mut digest)?,
        false => Arc::new(AnyCertificate(provider.clone())),
    };
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("the provider has suites for TLS 1.2 and 1.3")
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match &settings.identity {
        Some((chain, key)) => {
            let own = files::load(chain, key, &provider)?;
            own.cert.iter().for_each(|it| digest.update(it));
            files::contents(key)?.iter().for_each(|it| digest.update(&[*it]));
            builder.with_client_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(own)))
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    config.resumption = Resumption::in_memory_sessions(SESSIONS_MAX);
    Ok((Arc::new(config), digest.finish().as_ref().to_vec()))
}

fn verifier(
    settings: &OriginTls,
    provider: &Arc<CryptoProvider>,
    digest: &mut digest::Context,
) -> Result<Arc<WebPkiServerVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    match &settings.ca {
        Some(ca) => {
            for certificate in files::certificates(ca)? {
                digest.update(&certificate);
                roots.add(certificate).map_err(|error| {
                    let what = format!(
                        "an authority for servers cannot be used ({error}); expected the certificates that sign \
                         those of the servers"
                    );
                    TlsError::of(ca, what)
                })?;
            }
        }
        None => {
            for certificate in rustls_native_certs::load_native_certs().certs {
                digest.update(&certificate);
                // Stores have a few that no one can use any more.
                let _ = roots.add(certificate);
            }
        }
    }
    if roots.is_empty() {
        return Err(TlsError::new(
            "this system has no certificates of authorities; install ca-certificates, or name a file by `ca`",
        ));
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(|error| TlsError::new(format!("the authorities cannot be used: {error}")))
}

/// Takes any certificate whose key the server has, as the policy says.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Why there is no TLS connection to a server that took the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TlsFault {
    /// Its certificate has expired, or is not valid yet.
    Expired,
    /// No authority that is trusted has signed its certificate.
    UnknownAuthority,
    /// Its certificate is for another name.
    WrongName,
    /// Its certificate does not do for another reason.
    BadCertificate,
    /// It ended the handshake by an alert; often because it wants another certificate of the gateway, or none of its versions is
    /// known here.
    Alert,
    /// It did not finish the handshake in time.
    TimedOut,
    /// It closed the connection in the middle of it.
    Closed,
    /// What it says is not TLS, or not as it should be.
    Malformed,
    /// It chose no protocol that the policy wants.
    Protocol,
}

impl TlsFault {
    /// All of them, in the order of their indices.
    pub const ALL: [TlsFault; 9] = [
        TlsFault::Expired,
        TlsFault::UnknownAuthority,
        TlsFault::WrongName,
        TlsFault::BadCertificate,
        TlsFault::Alert,
        TlsFault::TimedOut,
        TlsFault::Closed,
        TlsFault::Malformed,
        TlsFault::Protocol,
    ];

    /// The name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            TlsFault::Expired => "expired",
            TlsFault::UnknownAuthority => "unknown_authority",
            TlsFault::WrongName => "wrong_name",
            TlsFault::BadCertificate => "bad_certificate",
            TlsFault::Alert => "alert",
            TlsFault::TimedOut => "timeout",
            TlsFault::Closed => "closed",
            TlsFault::Malformed => "malformed",
            TlsFault::Protocol => "protocol",
        }
    }

    /// In words, for the log.
    pub const fn why(self) -> &'static str {
        match self {
            TlsFault::Expired => "the server's certificate has expired or is not valid yet",
            TlsFault::UnknownAuthority => {
                "the server's certificate is signed by an authority that is not trusted"
            }
            TlsFault::WrongName => "the server's certificate is for another name",
            TlsFault::BadCertificate => "the server's certificate cannot be used",
            TlsFault::Alert => "the server refused the TLS handshake",
            TlsFault::TimedOut => "the TLS handshake timed out",
            TlsFault::Closed => "the server closed the connection during the TLS handshake",
            TlsFault::Malformed => "the server does not speak TLS as it should",
            TlsFault::Protocol => "the server does not offer the protocol that the policy wants",
        }
    }

    /// What a failed handshake means.
    pub(crate) fn of(error: &io::Error) -> Self {
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
        match (tls, error.kind()) {
            (Some(Error::InvalidCertificate(certificate)), _) => Self::of_certificate(certificate),
            (Some(Error::AlertReceived(_)), _) => TlsFault::Alert,
            (Some(Error::NoApplicationProtocol), _) => TlsFault::Protocol,
            (None, io::ErrorKind::TimedOut) => TlsFault::TimedOut,
            (Some(_), _) => TlsFault::Malformed,
            (None, _) => TlsFault::Closed,
        }
    }

    fn of_certificate(error: &CertificateError) -> Self {
        use CertificateError as C;
        match error {
            C::Expired
            | C::ExpiredContext { .. }
            | C::NotValidYet
            | C::NotValidYetContext { .. } => TlsFault::Expired,
            C::UnknownIssuer => TlsFault::UnknownAuthority,
            C::NotValidForName | C::NotValidForNameContext { .. } => TlsFault::WrongName,
            _ => TlsFault::BadCertificate,
        }
    }
}

/// A fault as an error of I/O, for those who connect.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("{}", .0.why())]
pub(crate) struct TlsFailed(pub(crate) TlsFault);

impl From<TlsFailed> for io::Error {
    fn from(fault: TlsFailed) -> Self {
        io::Error::new(io::ErrorKind::InvalidData, fault)
    }
}
