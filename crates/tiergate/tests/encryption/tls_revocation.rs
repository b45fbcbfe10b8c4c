//! Certificates of clients that were revoked: who is on a list in force is not let in, and a list that
//! cannot be relied on is no configuration.

use crate::support;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer,
    KeyIdMethod, KeyPair, KeyUsagePurpose, RevocationReason, RevokedCertParams, SerialNumber,
    date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use support::PATIENCE;
use support::gateway::{Gateway, Policy};
use support::origin::Origin;
use tempfile::TempDir;

/// Somebody who signs certificates and says which of them count no more.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A chain, the owner's first, and the key of the first, all PEM.
#[derive(Clone)]
struct Identity {
    chain: Vec<String>,
    key: String,
}

impl Authority {
    fn new(name: &str) -> Self {
        let (params, key) = Self::params(name);
        let pem = params.self_signed(&key).expect("a good name").pem();
        Authority { issuer: Issuer::new(params, key), pem }
    }

    /// One whose own certificate another has signed, with this serial number.
    fn below(name: &str, above: &Authority, serial: u64) -> Self {
        let (mut params, key) = Self::params(name);
        params.serial_number = Some(serial.into());
        let pem = params.signed_by(&key, &above.issuer).expect("a good name").pem();
        Authority { issuer: Issuer::new(params, key), pem }
    }

    fn params(name: &str) -> (CertificateParams, KeyPair) {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, name);
        (params, KeyPair::generate().expect("a key"))
    }

    fn sign(&self, name: &str, serial: u64) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a good name");
        params.serial_number = Some(serial.into());
        let certificate = params.signed_by(&key, &self.issuer).expect("a good certificate");
        Identity { chain: vec![certificate.pem()], key: key.serialize_pem() }
    }

    /// The list of these serial numbers, good until the begin of that year.
    fn revokes(&self, serials: &[u64], until: i32) -> String {
        let revoked = |serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: date_time_ymd(2019, 6, 1),
            reason_code: Some(RevocationReason::KeyCompromise),
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2019, 6, 2),
            next_update: date_time_ymd(until, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).expect("one who may sign lists").pem().expect("a good list")
    }
}

/// A gateway that lets in whoever `ours` vouches for and `lists`, files in its folder, do not name.
struct Site {
    gateway: Gateway,
    folder: TempDir,
    authority: Authority,
    _origin: Origin,
}

/// Far enough.
const LATER: i32 = 2900;

fn policy(folder: &Path, origin: &Origin, lists: &str) -> Policy {
    let at = |name: &str| folder.join(name).display().to_string();
    let lists = lists.replace('@', &format!("{}/", folder.display()));
    Policy {
        listener: format!(
            "tls = {{ certificate = {:?}, key = {:?}, client_ca = {:?}, client = \"required\"{lists} }}",
            at("server.pem"),
            at("server.key"),
            at("ca.pem"),
        ),
        ..Policy::of(&[origin.server()])
    }
}

impl Site {
    /// `lists`: more of the listener's table, with `@` for the folder; `files`: their names and texts.
    fn start(authority: Authority, lists: &str, files: &[(&str, String)]) -> Self {
        let (folder, origin) = (TempDir::new().expect("a folder"), Origin::echo());
        let server = authority.sign("server.test", 1);
        let more = [
            ("server.pem", server.chain[0].clone()),
            ("server.key", server.key),
            ("ca.pem", authority.pem.clone()),
        ];
        for (name, text) in files.iter().chain(&more) {
            std::fs::write(folder.path().join(name), text).expect("our own folder");
        }
        let gateway = Gateway::start(&policy(folder.path(), &origin, lists));
        Site { gateway, folder, authority, _origin: origin }
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).expect("our own folder");
    }

    /// Whether a request of this client's is answered.
    fn lets_in(&self, identity: &Identity) -> bool {
        self.answers(&self.client(identity))
    }

    fn client(&self, identity: &Identity) -> Arc<ClientConfig> {
        let der = |pem: &String| CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM");
        let mut roots = RootCertStore::empty();
        roots.add(der(&self.authority.pem)).expect("an authority");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).expect("a key");
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions that the provider knows")
            .with_root_certificates(roots)
            .with_client_auth_cert(identity.chain.iter().map(der).collect(), key)
            .expect("they fit");
        Arc::new(config)
    }

    /// Whether a client, who may have tickets, is answered.
    fn answers(&self, client: &Arc<ClientConfig>) -> bool {
        let name = ServerName::try_from("server.test").expect("a name");
        let connection = ClientConnection::new(client.clone(), name).expect("a good configuration");
        let socket =
            TcpStream::connect_timeout(&self.gateway.address, PATIENCE).expect("it listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("not zero");
        let mut stream = StreamOwned::new(connection, socket);
        let request = "GET / HTTP/1.1\r\nHost: server.test\r\nConnection: close\r\n\r\n";
        let mut answer = Vec::new();
        // Until it closes, however it does.
        let _ = stream.write_all(request.as_bytes());
        let _ = stream.read_to_end(&mut answer);
        answer.starts_with(b"HTTP/1.1 200")
    }
}

const ONE: &str = ", client_crl = \"@ours.crl\"";

#[test]
fn who_is_revoked_is_not_let_in_and_a_reload_reads_the_list_again() {
    let ours = Authority::new("ours");
    let (alice, bob) = (ours.sign("alice.test", 11), ours.sign("bob.test", 12));
    let list = ours.revokes(&[12], LATER);
    let site = Site::start(ours, ONE, &[("ours.crl", list)]);
    // She has a ticket for the next time.
    let known = site.client(&alice);
    assert!(site.answers(&known));
    assert!(!site.lets_in(&bob));
    // The policy is the same; only the list has changed.
    site.write("ours.crl", &site.authority.revokes(&[11], LATER));
    assert!(site.lets_in(&alice), "nothing is read before the reload");
    assert_eq!(site.gateway.reload().0, 200);
    assert!(!site.lets_in(&alice));
    assert!(!site.answers(&known), "nor by a ticket from before");
    assert!(site.lets_in(&bob));
}

#[test]
fn a_list_that_cannot_be_relied_on_is_told_and_the_old_one_stays() {
    let ours = Authority::new("ours");
    let (alice, bob) = (ours.sign("alice.test", 11), ours.sign("bob.test", 12));
    let good = ours.revokes(&[12], LATER);
    let expired = ours.revokes(&[], 2020);
    let site = Site::start(ours, ONE, &[("ours.crl", good.clone())]);
    let broken = "-----BEGIN X509 CRL-----\nMAA=\n-----END X509 CRL-----\n";
    let both = format!("{good}{expired}");
    for (text, expected) in [
        (expired.as_str(), "ours.crl: this revocation list has expired (Jan  1 00:00:00 2020"),
        (&both, "ours.crl: this revocation list has expired"),
        (broken, "ours.crl: this revocation list cannot be used"),
        ("-----BEGIN X509 CRL-----\n%\n-----END X509 CRL-----\n", "ours.crl: not a PEM file"),
        (&site.authority.pem.clone(), "ours.crl: no revocation list in it"),
        ("", "ours.crl: no revocation list in it"),
    ] {
        site.write("ours.crl", text);
        let (status, said) = site.gateway.reload();
        assert_ne!(status, 200, "{text}");
        assert!(said.contains(expected), "{said}");
        assert!(site.lets_in(&alice) && !site.lets_in(&bob), "{text}");
    }
    std::fs::remove_file(site.folder.path().join("ours.crl")).expect("it was there");
    let (status, said) = site.gateway.reload();
    assert!(status != 200 && said.contains("ours.crl: not found"), "{said}");
}

#[test]
fn each_authority_of_a_chain_needs_its_list() {
    let ours = Authority::new("ours");
    let below = Authority::below("below", &ours, 20);
    let theirs = Authority::new("ours");
    let of = |authority: &Authority, serial| {
        let mut identity = authority.sign("alice.test", serial);
        identity.chain.push(below.pem.clone());
        identity
    };
    let direct = ours.sign("alice.test", 11);
    let (good, revoked) = (of(&below, 11), of(&below, 12));
    let lists = ", client_crl = [\"@ours.crl\", \"@below.crl\"]";
    let (of_ours, of_below) = (ours.revokes(&[], LATER), below.revokes(&[12], LATER));
    let files = [("ours.crl", of_ours.clone()), ("below.crl", of_below.clone())];
    let site = Site::start(ours, lists, &files);
    let seen = || [&direct, &good, &revoked].map(|identity| site.lets_in(identity));
    assert_eq!(seen(), [true, true, false]);
    let reload = |name: &str, text: &str| {
        site.write(name, text);
        assert_eq!(site.gateway.reload().0, 200);
    };
    // Both in one file, and the intermediate authority itself revoked.
    reload("ours.crl", &format!("{of_below}{}", site.authority.revokes(&[20], LATER)));
    assert_eq!(seen(), [true, false, false]);
    // The same name, and somebody else's signature.
    reload("ours.crl", &theirs.revokes(&[], LATER));
    assert_eq!(seen(), [false, false, false]);
    // What nobody says of a certificate is not good.
    reload("ours.crl", &of_ours);
    reload("below.crl", &of_ours);
    assert_eq!(seen(), [true, false, false]);
}
