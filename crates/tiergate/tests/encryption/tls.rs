//! TLS from clients: which certificate, which protocol, and what is said of files that do not do.

use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, HandshakeKind, SignatureScheme};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tiergate::buffers::Buffer;
use tiergate::config::meant::Tls;
use tiergate::stream::Outgoing;
use tiergate::timers::{self, Timer};
use tiergate::tls;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A certificate and its key in files.
struct Pair {
    chain: PathBuf,
    key: PathBuf,
    der: CertificateDer<'static>,
}

fn pair(folder: &Path, file: &str, names: &[&str]) -> Pair {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
    let (chain, key) = (folder.join(format!("{file}.pem")), folder.join(format!("{file}.key")));
    fs::write(&chain, cert.pem()).unwrap();
    fs::write(&key, signing_key.serialize_pem()).unwrap();
    Pair { chain, key, der: cert.der().clone() }
}

fn settings(pairs: &[&Pair]) -> Tls {
    let certificates = pairs.iter().map(|pair| (pair.chain.clone(), pair.key.clone())).collect();
    Tls { certificates, client: None }
}

/// A client's look at the server: who it is does not matter here, its signature does.
#[derive(Debug)]
struct AnyName;

impl ServerCertVerifier for AnyName {
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
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let known = &provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let known = &provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::aws_lc_rs::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

fn client(alpn: &[&str]) -> Arc<ClientConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyName))
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(config)
}

/// One connection: what the client sees, and whether the server takes it for HTTP/2. Both say a byte,
/// so that tickets have arrived.
async fn meet(
    server: &Arc<rustls::ServerConfig>,
    client: &Arc<ClientConfig>,
    name: &str,
) -> io::Result<(TlsStream<TcpStream>, bool)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = server.clone();
    let serving = tokio::spawn(async move {
        let (stream, _) = listener.accept().await?;
        let timer = Timer::new();
        timer.arm(Duration::from_secs(5));
        let mut stream = tls::handshake(stream, None, server, &timer).await?;
        stream.write_all(b"!").await?;
        stream.flush().await?;
        let is_http2 = tls::is_http2(&stream);
        stream.get_ref().0.nodelay()?;
        stream.read_u8().await?;
        io::Result::Ok(is_http2)
    });
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let stream = TcpStream::connect(address).await?;
    let mut stream = TlsConnector::from(client.clone()).connect(name, stream).await?;
    assert_eq!(stream.read_u8().await?, b'!');
    stream.write_all(b"?").await?;
    let is_http2 = serving.await.unwrap()?;
    Ok((stream, is_http2))
}

async fn certificate_for(
    server: &Arc<rustls::ServerConfig>,
    name: &str,
) -> CertificateDer<'static> {
    let (stream, _) = meet(server, &client(&[]), name).await.unwrap();
    let chain = stream.get_ref().1.peer_certificates().unwrap();
    chain[0].clone().into_owned()
}

#[tokio::test]
async fn the_certificate_follows_the_name_that_the_client_asks_for() {
    let folder = TempDir::new().unwrap();
    let first = pair(folder.path(), "first", &["first.test"]);
    let exact = pair(folder.path(), "exact", &["shop.example.test", "Other.test"]);
    let wildcard = pair(folder.path(), "wildcard", &["*.example.test"]);
    // The wildcard stands before the exact name in the policy and still gives way to it.
    let server = tls::server_config(&settings(&[&first, &wildcard, &exact]), true).unwrap();
    assert_eq!(certificate_for(&server, "shop.example.test").await, exact.der);
    assert_eq!(certificate_for(&server, "other.test").await, exact.der);
    assert_eq!(certificate_for(&server, "api.example.test").await, wildcard.der);
    // A wildcard stands for one label.
    assert_eq!(certificate_for(&server, "a.b.example.test").await, first.der);
    assert_eq!(certificate_for(&server, "example.test").await, first.der);
    assert_eq!(certificate_for(&server, "nobody.test").await, first.der);
    // An address is not sent as a name.
    assert_eq!(certificate_for(&server, "127.0.0.1").await, first.der);
}

#[tokio::test]
async fn http2_is_chosen_where_both_offer_it() {
    let folder = TempDir::new().unwrap();
    let one = pair(folder.path(), "one", &["a.test"]);
    let both = tls::server_config(&settings(&[&one]), true).unwrap();
    let old = tls::server_config(&settings(&[&one]), false).unwrap();
    let spoken = async |server, alpn: &[&str]| {
        let (stream, is_http2) = meet(server, &client(alpn), "a.test").await?;
        let chosen = stream.get_ref().1.alpn_protocol();
        let chosen = chosen.map(|name| String::from_utf8(name.to_vec()).unwrap());
        assert_eq!(is_http2, chosen.as_deref() == Some("h2"));
        io::Result::Ok(chosen)
    };
    let offers = ["http/1.1", "h2"];
    assert_eq!(spoken(&both, &offers).await.unwrap().as_deref(), Some("h2"));
    assert_eq!(spoken(&old, &offers).await.unwrap().as_deref(), Some("http/1.1"));
    assert_eq!(spoken(&both, &["http/1.1"]).await.unwrap().as_deref(), Some("http/1.1"));
    assert_eq!(spoken(&both, &[]).await.unwrap(), None);
    // RFC 7301 §3.2: a client that speaks only what we do not gets an alert.
    assert!(spoken(&old, &["h2"]).await.is_err());
}

#[tokio::test]
async fn a_session_is_resumed_even_across_a_reload() {
    let folder = TempDir::new().unwrap();
    let one = pair(folder.path(), "one", &["a.test"]);
    let before = tls::server_config(&settings(&[&one]), true).unwrap();
    let after = tls::server_config(&settings(&[&one]), true).unwrap();
    let client = client(&[]);
    let kind = async |server| {
        let (stream, _) = meet(server, &client, "a.test").await.unwrap();
        stream.get_ref().1.handshake_kind().unwrap()
    };
    assert_ne!(kind(&before).await, HandshakeKind::Resumed);
    assert_eq!(kind(&before).await, HandshakeKind::Resumed);
    assert_eq!(kind(&after).await, HandshakeKind::Resumed);
}

#[tokio::test]
async fn a_reload_changes_new_connections_and_a_failed_one_none() {
    let folder = TempDir::new().unwrap();
    let old = pair(folder.path(), "site", &["a.test"]);
    let before = tls::server_config(&settings(&[&old]), true).unwrap();
    let (mut open, _) = meet(&before, &client(&[]), "a.test").await.unwrap();
    let new = pair(folder.path(), "site", &["a.test"]);
    assert_ne!(old.der, new.der);
    let after = tls::server_config(&settings(&[&new]), true).unwrap();
    assert_eq!(certificate_for(&after, "a.test").await, new.der);
    // What was loaded no longer depends on the files.
    fs::write(&new.key, "rubbish").unwrap();
    assert!(tls::server_config(&settings(&[&new]), true).is_err());
    assert_eq!(certificate_for(&after, "a.test").await, new.der);
    assert_eq!(open.read(&mut [0; 8]).await.unwrap_or(0), 0, "the peer ended it");
}

#[tokio::test]
async fn a_silent_client_is_given_up() {
    let folder = TempDir::new().unwrap();
    let one = pair(folder.path(), "one", &["a.test"]);
    let config = tls::server_config(&settings(&[&one]), true).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let _silent = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let sweeper = tokio::spawn(timers::run(|| false));
    let timer = Timer::new();
    timer.arm(Duration::from_millis(200));
    let error = tls::handshake(stream, None, config, &timer).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    sweeper.abort();
}

#[tokio::test]
async fn a_client_that_speaks_no_tls_is_told_apart() {
    let folder = TempDir::new().unwrap();
    let one = pair(folder.path(), "one", &["a.test"]);
    let config = tls::server_config(&settings(&[&one]), true).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut plain = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let error = tls::handshake(stream, None, config, &Timer::new()).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
}

/// Behind a PROXY header, the client's first words may have been read with it.
#[tokio::test]
async fn what_was_read_before_counts() {
    let folder = TempDir::new().unwrap();
    let one = pair(folder.path(), "one", &["a.test"]);
    let config = tls::server_config(&settings(&[&one]), true).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        let mut early = Buffer::large();
        let count = stream.read(early.room()).await?;
        early.filled(count);
        let mut stream = tls::handshake(stream, Some(early), config, &Timer::new()).await?;
        stream.write_all(b"!").await?;
        stream.flush().await
    });
    let name = ServerName::try_from("a.test").unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let mut stream = TlsConnector::from(client(&[])).connect(name, stream).await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), b'!');
    serving.await.unwrap().unwrap();
}

/// A small head and body leave in one record, so in one packet.
#[tokio::test]
async fn head_and_body_share_a_record() {
    let folder = TempDir::new().unwrap();
    let one = pair(folder.path(), "one", &["a.test"]);
    let config = tls::server_config(&settings(&[&one]), true).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        let (stream, _) = listener.accept().await?;
        let mut stream = tls::handshake(stream, None, config, &Timer::new()).await?;
        // What the client waits for comes behind the tickets.
        stream.write_all(b"!").await?;
        stream.read_u8().await?;
        let (head, body) = ([1; 200], [2; 1024]);
        let mut outgoing = Outgoing::new(&head, &body);
        std::future::poll_fn(|context| outgoing.poll(&mut stream, context)).await
    });
    let name = ServerName::try_from("a.test").unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let mut stream = TlsConnector::from(client(&[])).connect(name, stream).await.unwrap();
    stream.read_u8().await.unwrap();
    stream.write_all(b"?").await.unwrap();
    let (mut socket, _) = stream.into_inner();
    let mut wire = Vec::new();
    socket.read_to_end(&mut wire).await.unwrap();
    serving.await.unwrap().unwrap();
    // A record: 5 bytes of header, then the content, 1 byte of type, 16 of tag.
    assert_eq!(wire[..5], [0x17, 3, 3, 0x04, 0xd9]);
    assert_eq!(wire.len(), 5 + 1224 + 17);
}

#[track_caller]
fn complaint(chain: &Path, key: &Path) -> String {
    let settings = Tls { certificates: vec![(chain.to_owned(), key.to_owned())], client: None };
    tls::server_config(&settings, true).unwrap_err().to_string()
}

#[test]
fn errors_name_the_file_and_what_to_do() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    let one = pair(folder.path(), "one", &["a.test"]);
    let two = pair(folder.path(), "two", &["b.test"]);
    let says = |text: String, words: &[&str]| {
        for word in words {
            assert!(text.contains(word), "{text:?} does not say {word:?}");
        }
    };
    says(complaint(&at("none"), &one.key), &["none: not found"]);
    says(complaint(&one.chain, &at("none")), &["none: not found"]);
    says(complaint(&one.chain, &two.key), &["two.key", "not the key", "one.pem"]);
    says(complaint(&one.key, &one.chain), &["one.key", "swapped"]);
    says(complaint(&one.chain, &two.chain), &["two.pem", "swapped"]);
    fs::write(at("empty"), "").unwrap();
    says(complaint(&at("empty"), &one.key), &["empty: no certificate"]);
    says(complaint(&one.chain, &at("empty")), &["empty: no private key"]);
    fs::write(at("cut"), "-----BEGIN CERTIFICATE-----\nAAAA\n").unwrap();
    says(complaint(&at("cut"), &one.key), &["cut: not whole", "END"]);
    let rubbish = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    fs::write(at("rubbish"), rubbish).unwrap();
    says(complaint(&at("rubbish"), &one.key), &["rubbish", "cannot be used"]);
    let rubbish = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    fs::write(at("badkey"), rubbish).unwrap();
    says(complaint(&one.chain, &at("badkey")), &["badkey", "cannot be used"]);
    let locked =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    fs::write(at("locked"), locked).unwrap();
    says(complaint(&one.chain, &at("locked")), &["locked", "encrypted", "openssl pkey"]);
    let locked = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\
                  \nAAAA\n-----END RSA PRIVATE KEY-----\n";
    fs::write(at("locked-old"), locked).unwrap();
    says(complaint(&one.chain, &at("locked-old")), &["locked-old", "encrypted"]);
    let none = Tls { certificates: vec![], client: None };
    says(tls::server_config(&none, true).unwrap_err().to_string(), &["at least one"]);
    let other = KeyPair::generate().unwrap().serialize_pem();
    fs::write(&one.key, other).unwrap();
    says(complaint(&one.chain, &one.key), &["one.key: not the key"]);
}
