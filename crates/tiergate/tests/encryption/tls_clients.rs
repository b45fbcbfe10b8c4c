//! Certificates of clients: who is let in, and by which name.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType, string::Ia5String,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, HandshakeKind, RootCertStore};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tiergate::config::meant::{ClientAuthority, ClientCertificate, Tls};
use tiergate::timers::Timer;
use tiergate::tls;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

/// Somebody who signs certificates, in a folder of the test's.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    file: PathBuf,
    der: CertificateDer<'static>,
}

impl Authority {
    fn new(folder: &TempDir, name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.self_signed(&key).unwrap();
        let file = folder.path().join(format!("{name}.pem"));
        fs::write(&file, certificate.pem()).unwrap();
        let der = certificate.der().clone();
        Authority { issuer: Issuer::new(params, key), file, der }
    }

    /// A certificate and its key, both PEM.
    fn sign(&self, common: Option<&str>, names: Vec<SanType>) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        if let Some(common) = common {
            params.distinguished_name.push(DnType::CommonName, common);
        }
        params.subject_alt_names = names;
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// A server of this authority's that believes clients of `clients`.
    fn server(
        &self,
        folder: &TempDir,
        clients: Option<(&Authority, ClientCertificate)>,
    ) -> Arc<rustls::ServerConfig> {
        let (certificate, key) = self.sign(None, vec![dns("server.test")]);
        let paths = ["server.pem", "server.key"].map(|name| folder.path().join(name));
        fs::write(&paths[0], certificate).unwrap();
        fs::write(&paths[1], key).unwrap();
        let client = clients.map(|(authority, certificate)| ClientAuthority {
            ca: authority.file.clone(),
            revoked: vec![],
            certificate,
        });
        let [certificate, key] = paths;
        tls::server_config(&Tls { certificates: vec![(certificate, key)], client }, true).unwrap()
    }

    /// A client that believes this authority, with or without a certificate.
    fn client(&self, own: Option<(String, String)>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        Arc::new(match own {
            Some((certificate, key)) => {
                let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![certificate], key).unwrap()
            }
            None => builder.with_no_client_auth(),
        })
    }
}

fn dns(name: &str) -> SanType {
    SanType::DnsName(Ia5String::try_from(name).unwrap())
}

fn email(name: &str) -> SanType {
    SanType::Rfc822Name(Ia5String::try_from(name).unwrap())
}

fn uri(name: &str) -> SanType {
    SanType::URI(Ia5String::try_from(name).unwrap())
}

/// One connection: the name that the server sees, whether it sees a certificate, and whether the session was resumed.
async fn meet_seen(
    server: &Arc<rustls::ServerConfig>,
    client: &Arc<ClientConfig>,
) -> io::Result<(Option<String>, bool, bool)> {
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
        stream.read_u8().await?;
        let name = tls::client_name(&stream).map(|name| name.to_string());
        io::Result::Ok((name, tls::has_client_certificate(&stream)))
    });
    let name = ServerName::try_from("server.test").unwrap();
    let stream = TcpStream::connect(address).await?;
    let mut stream = TlsConnector::from(client.clone()).connect(name, stream).await?;
    // Whether it was let in, a client of TLS 1.3 learns here.
    stream.read_u8().await?;
    stream.write_all(b"?").await?;
    let resumed = stream.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed);
    let (name, has_certificate) = serving.await.unwrap()?;
    Ok((name, has_certificate, resumed))
}

/// The same without whether it has a certificate, which a name says already.
async fn meet(
    server: &Arc<rustls::ServerConfig>,
    client: &Arc<ClientConfig>,
) -> io::Result<(Option<String>, bool)> {
    let (name, has_certificate, resumed) = meet_seen(server, client).await?;
    assert!(has_certificate || name.is_none());
    Ok((name, resumed))
}

#[tokio::test]
async fn the_name_is_the_certificates() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new(&folder, "ours");
    let server = authority.server(&folder, Some((&authority, ClientCertificate::Required)));
    let long = "x".repeat(300);
    for (common, names, expected) in [
        (Some("Alice"), vec![], Some("Alice")),
        (Some("Alice"), vec![uri("spiffe://test/a")], Some("spiffe://test/a")),
        (None, vec![uri("spiffe://test/a"), email("a@test")], Some("a@test")),
        (Some("x"), vec![email("a@test"), dns("App.Test"), dns("b.test")], Some("app.test")),
        (Some("a\nb"), vec![], None),
        (Some(&*long), vec![], None),
        (None, vec![], None),
    ] {
        let client = authority.client(Some(authority.sign(common, names)));
        let (name, has_certificate, _) = meet_seen(&server, &client).await.unwrap();
        assert_eq!(name.as_deref(), expected);
        assert!(has_certificate, "with or without a name");
    }
}

#[tokio::test]
async fn who_has_no_certificate_of_ours_has_no_name() {
    let folder = TempDir::new().unwrap();
    let (ours, theirs) = (Authority::new(&folder, "ours"), Authority::new(&folder, "theirs"));
    let optional = ours.server(&folder, Some((&ours, ClientCertificate::Optional)));
    let required = ours.server(&folder, Some((&ours, ClientCertificate::Required)));
    let unasked = ours.server(&folder, None);
    let (none, good) = (ours.client(None), ours.client(Some(ours.sign(Some("alice"), vec![]))));
    let forged = ours.client(Some(theirs.sign(Some("alice"), vec![])));
    let seen = async |server, client| meet(server, client).await.map(|(name, _)| name);
    assert_eq!(seen(&optional, &none).await.unwrap(), None);
    assert!(!meet_seen(&optional, &none).await.unwrap().1);
    assert_eq!(seen(&optional, &good).await.unwrap().as_deref(), Some("alice"));
    assert!(seen(&optional, &forged).await.is_err());
    assert!(seen(&required, &none).await.is_err());
    assert_eq!(seen(&required, &good).await.unwrap().as_deref(), Some("alice"));
    assert!(seen(&required, &forged).await.is_err());
    // A certificate that nobody asked for says nothing.
    assert_eq!(seen(&unasked, &good).await.unwrap(), None);
    assert_eq!(seen(&unasked, &forged).await.unwrap(), None);
}

#[tokio::test]
async fn a_ticket_counts_only_where_it_was_given() {
    let folder = TempDir::new().unwrap();
    let (ours, theirs) = (Authority::new(&folder, "ours"), Authority::new(&folder, "theirs"));
    let unasked = ours.server(&folder, None);
    let required = ours.server(&folder, Some((&ours, ClientCertificate::Required)));
    let others = ours.server(&folder, Some((&theirs, ClientCertificate::Optional)));
    let none = ours.client(None);
    meet(&unasked, &none).await.unwrap();
    assert!(meet(&unasked, &none).await.unwrap().1, "tickets are given");
    assert!(meet(&required, &none).await.is_err(), "and count nowhere else");
    let good = ours.client(Some(ours.sign(Some("alice"), vec![])));
    assert_eq!(meet(&required, &good).await.unwrap(), (Some("alice".into()), false));
    assert_eq!(meet(&required, &good).await.unwrap(), (Some("alice".into()), true));
    // Somewhere else "alice" would have to be vouched for by others.
    let seen = meet(&others, &good).await;
    assert!(seen.is_err() || seen.is_ok_and(|seen| seen == (None, false)));
}

#[test]
fn authorities_that_are_none_are_told() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new(&folder, "ours");
    let (certificate, key) = authority.sign(None, vec![dns("server.test")]);
    let at = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let pair = (at("one.pem", &certificate), at("one.key", &key));
    let says = |ca: PathBuf| {
        let client =
            Some(ClientAuthority { ca, revoked: vec![], certificate: ClientCertificate::Optional });
        let settings = Tls { certificates: vec![pair.clone()], client };
        tls::server_config(&settings, true).unwrap_err().to_string()
    };
    assert!(says(folder.path().join("none")).contains("none: not found"));
    assert!(says(at("empty", "")).contains("empty: no certificate"));
    let rubbish = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert!(says(at("rubbish", rubbish)).contains("rubbish: an authority for clients"));
}
