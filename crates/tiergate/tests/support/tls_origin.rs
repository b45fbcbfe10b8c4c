//! Origins that speak TLS, with authorities and certificates of the test's own.

use super::origin::{Origin, ok, parse};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{HandshakeKind, RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// An authority, whose certificate is in a file.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// PEM file of its certificate.
    pub file: PathBuf,
    folder: PathBuf,
}

/// A certificate and its key, in PEM files.
#[derive(Clone, Debug)]
pub struct Pair {
    pub chain: PathBuf,
    pub key: PathBuf,
}

impl Authority {
    pub fn new(folder: &Path, name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("signed");
        let file = folder.join(format!("{name}.ca.pem"));
        std::fs::write(&file, certificate.pem()).expect("our own folder");
        Authority { issuer: Issuer::new(params, key), file, folder: folder.to_owned() }
    }

    /// A certificate for a name or address.
    pub fn sign(&self, name: &str, host: &str) -> Pair {
        self.sign_until(name, host, 4096)
    }

    /// The same, valid until a year.
    pub fn sign_until(&self, name: &str, host: &str, year: i32) -> Pair {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.subject_alt_names = vec![match host.parse() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => SanType::DnsName(host.try_into().expect("a name")),
        }];
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        let path = |end: &str| self.folder.join(format!("{name}.{end}"));
        let pair = Pair { chain: path("pem"), key: path("key") };
        std::fs::write(&pair.chain, certificate.pem()).expect("our own folder");
        std::fs::write(&pair.key, key.serialize_pem()).expect("our own folder");
        pair
    }
}

/// What a server that has this certificate offers; `clients`: who signs those of its clients, which must have one.
pub fn server_config(pair: &Pair, alpn: &[&str], clients: Option<&Authority>) -> Arc<ServerConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("there are suites");
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            for it in CertificateDer::pem_file_iter(&authority.file).expect("a file") {
                roots.add(it.expect("a certificate")).expect("an authority");
            }
            let roots = Arc::new(roots);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
            builder.with_client_cert_verifier(verifier.expect("roots"))
        }
    };
    let chain = CertificateDer::pem_file_iter(&pair.chain).expect("a file");
    let chain = chain.collect::<Result<_, _>>().expect("certificates");
    let key = PrivateKeyDer::from_pem_file(&pair.key).expect("a key");
    let mut config = builder.with_single_cert(chain, key).expect("they fit");
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(config)
}

/// What a TLS origin saw of its connections.
#[derive(Debug, Default)]
pub struct Seen {
    pub resumed: AtomicUsize,
    pub full: AtomicUsize,
    /// Names asked for.
    pub names: Mutex<Vec<String>>,
    /// Requests.
    pub requests: AtomicUsize,
}

/// An origin that answers each request over TLS with its target; `closes`: and closes the connection.
pub fn answering(config: Arc<ServerConfig>, closes: bool) -> (Origin, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let noted = seen.clone();
    let origin = Origin::start(move |accepted| {
        let session = ServerConnection::new(config.clone()).expect("a good configuration");
        let mut stream = StreamOwned::new(session, accepted.stream);
        let mut received = Vec::new();
        let mut piece = [0; 16 * 1024];
        let mut is_first = true;
        loop {
            let Ok(count @ 1..) = stream.read(&mut piece) else { return };
            if std::mem::take(&mut is_first) {
                match stream.conn.handshake_kind() {
                    Some(HandshakeKind::Resumed) => noted.resumed.fetch_add(1, Ordering::SeqCst),
                    _ => noted.full.fetch_add(1, Ordering::SeqCst),
                };
                let name = stream.conn.server_name().unwrap_or_default().to_owned();
                noted.names.lock().expect("no panic").push(name);
            }
            received.extend_from_slice(&piece[..count]);
            while let Some((request, len)) = parse(&received) {
                received.drain(..len);
                noted.requests.fetch_add(1, Ordering::SeqCst);
                let body = match request.body.is_empty() {
                    true => request.target.into_bytes(),
                    false => request.body,
                };
                if stream.write_all(&ok(body)).is_err() {
                    return;
                }
                if closes {
                    stream.conn.send_close_notify();
                    let _ = stream.flush();
                    return;
                }
            }
        }
    });
    (origin, seen)
}
