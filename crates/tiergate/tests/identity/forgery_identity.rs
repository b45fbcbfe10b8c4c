//! Forgery, rule by rule, by what a request says of its client and its connection: whatever it claims,
//! only what is proven or seen counts.

use crate::support;
use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, SanType, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use support::PATIENCE;
use support::answer::Answer;
use support::client::Client;
use support::dns::{DnsServer, Zone};
use support::eventually;
use support::gateway::{Gateway, Policy, Port};
use support::guarded::{Guarded, get};
use support::jwt::{self, HS256};
use support::mmdb;
use support::origin::Origin;
use tempfile::TempDir;

/// What clients say who would like to be 10.0.0.1.
const CLAIMS: [&str; 17] = [
    "X-Forwarded-For: 10.0.0.1",
    "x-forwarded-for: 10.0.0.1, 192.0.2.254",
    "X-Forwarded-For: 10.0.0.1\r\nX-Forwarded-For: 10.0.0.1",
    "Forwarded: for=10.0.0.1",
    "Forwarded: for=\"10.0.0.1:80\";by=127.0.0.1",
    "X-Real-IP: 10.0.0.1",
    "X-Client-IP: 10.0.0.1",
    "X-Cluster-Client-IP: 10.0.0.1",
    "True-Client-IP: 10.0.0.1",
    "CF-Connecting-IP: 10.0.0.1",
    "Fastly-Client-IP: 10.0.0.1",
    "X-Originating-IP: 10.0.0.1",
    "X_Forwarded_For: 10.0.0.1",
    "X-Tiergate-Client: 10.0.0.1",
    "X-Forwarded: for=10.0.0.1",
    "Via: 1.1 10.0.0.1",
    "Client-IP: 10.0.0.1",
];

fn trusting(address: &str) -> Policy {
    Policy { top: format!("trusted = [\"{address}\"]"), ..Policy::default() }
}

fn with_lines(lines: &str) -> String {
    get("/", &format!("{lines}\r\n"))
}

#[test]
fn addresses() {
    let rule = "client = \"10.0.0.0/8\"";
    for nobody in [Policy::default(), trusting("192.0.2.254")] {
        let guarded = Guarded::by(rule, nobody);
        for claim in CLAIMS {
            guarded.forged(with_lines(claim));
        }
        guarded.forged(format!("PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n{}", get("/", "")));
        guarded.forged(
            [
                &b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x0a\0\0\x01\x0a\0\0\x02\0\x01\0\x02"[..],
                get("/", "").as_bytes(),
            ]
            .concat(),
        );
        guarded.forged("GET http://10.0.0.1/ HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n");
    }
    // A proxy that is trusted says whom it got a request from; what stands before is the client's word.
    let guarded = Guarded::by(rule, trusting("127.0.0.1"));
    for line in ["X-Forwarded-For: 10.0.0.1", "Forwarded: for=\"10.0.0.1:4711\""] {
        guarded.good(with_lines(line));
    }
    for line in [
        "X-Forwarded-For: 10.0.0.1, 192.0.2.9",
        "X-Forwarded-For: 10.0.0.1,192.0.2.9, 127.0.0.1",
        "X-Forwarded-For: 10.0.0.1\r\nX-Forwarded-For: 192.0.2.9",
        "X-Forwarded-For: 192.0.2.9\r\nForwarded: for=10.0.0.1",
        "Forwarded: for=10.0.0.1\r\nX-Forwarded-For: 192.0.2.9",
        "Forwarded: for=10.0.0.1, for=192.0.2.9",
        "Forwarded: for=10.0.0.1\r\nForwarded: for=192.0.2.9",
        "Forwarded: for=192.0.2.9;host=\"10.0.0.1\"",
        "X-Forwarded-For: 10.0.0.1, unknown",
        "X-Forwarded-For: 10.0.0.1, _hidden",
        "X-Forwarded-For: 10.0.0.1x",
        "X-Forwarded-For: 010.0.0.1",
        "X-Forwarded-For: 10.0.0.1.",
        "X-Forwarded-For: 10.1",
        "X-Forwarded-For: 167772161",
        "X-Forwarded-For: \"10.0.0.1",
        "X_Forwarded_For: 10.0.0.1",
        "X-Real-IP: 10.0.0.1",
    ] {
        guarded.forged(with_lines(line));
    }
}

#[test]
fn addresses_by_the_proxy_protocol() {
    let rule = "client = \"10.0.0.0/8\"";
    let of = |trusted: &str| {
        let listener = "proxy_protocol = true".into();
        Guarded::by(rule, Policy { listener, ..trusting(trusted) })
    };
    let header = "PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n";
    let request = get("/", "");
    let guarded = of("192.0.2.254");
    guarded.forged(format!("{header}{request}"));
    guarded.forged(&request);
    let guarded = of("127.0.0.1");
    guarded.good(format!("{header}{request}"));
    // A client behind it can send what looks like a header, but not first.
    let other = "PROXY TCP4 192.0.2.9 10.0.0.2 1 2\r\n";
    guarded.forged(format!("{other}{header}{request}"));
    guarded.forged(format!("{other}{}", with_lines("X-Forwarded-For: 10.0.0.1")));
    guarded.forged(format!("{other}{}", with_lines("Forwarded: for=10.0.0.1")));
    for malformed in [
        "PROXY TCP4 10.0.0.1\r\n",
        "PROXY UNKNOWN 10.0.0.1 10.0.0.2 1 2\r\n",
        "proxy TCP4 10.0.0.1 10.0.0.2 1 2\r\n",
    ] {
        guarded.forged(format!("{malformed}{request}"));
    }
}

#[test]
fn countries_and_systems() {
    let folder = TempDir::new().expect("a folder");
    let write = |name: &str, value: mmdb::Value| {
        let file = folder.path().join(name);
        let bytes = mmdb::database(4, &[(mmdb::v4(10, 0, 0, 0), 8, value)]);
        std::fs::write(&file, bytes).expect("our own folder");
        file.display().to_string()
    };
    let files = [write("countries", mmdb::country("DE")), write("systems", mmdb::system(64_500))];
    let tables = format!("[geo]\ndatabase = {files:?}\n");
    for rule in ["country = \"DE\"", "asn = 64500"] {
        let guarded = Guarded::by(rule, Policy { tables: tables.clone(), ..Policy::default() });
        for claim in CLAIMS {
            guarded.forged(with_lines(claim));
        }
        for claim in
            ["CF-IPCountry: DE", "X-Country-Code: DE", "X-ASN: 64500", "Accept-Language: de-DE"]
        {
            guarded.forged(with_lines(claim));
        }
        let guarded = Guarded::by(rule, Policy { tables: tables.clone(), ..trusting("127.0.0.1") });
        guarded.good(with_lines("X-Forwarded-For: 10.0.0.1"));
        guarded.forged(with_lines("X-Forwarded-For: 10.0.0.1, 192.0.2.9"));
        guarded.forged(get("/", ""));
    }
}

#[test]
fn names_and_the_scores_that_hang_on_them() {
    let zone = Zone::default()
        .says("192.0.2.1", "a.bots.test.", 300)
        .has("a.bots.test.", "192.0.2.1", 300)
        // Says so, and the name knows nothing of it.
        .says("192.0.2.5", "a.bots.test.", 300);
    let dns = DnsServer::start(zone);
    let names = format!("[reverse_dns]\nservers = [\"{}\"]\n", dns.address);
    let by_rule = "[[rule]]\ndomain = \"bots.test\"\nclass = \"high\"\n";
    let by_score =
        "[score.client]\n\"bots.test\" = 10\n[[score.band]]\nfrom = 10\nclass = \"high\"\n";
    for tables in [by_rule, by_score] {
        let policy = Policy { tables: names.clone(), ..trusting("127.0.0.1") };
        let guarded = Guarded::with(tables, policy);
        let claims = ["192.0.2.5", "192.0.2.6"].map(|address| {
            [
                format!("X-Forwarded-For: {address}"),
                format!("X-Forwarded-For: {address}\r\nX-Forwarded-Host: a.bots.test"),
                format!("X-Forwarded-For: {address}\r\nFrom: a@a.bots.test\r\nX-Client-Name: a.bots.test"),
                format!("X-Forwarded-For: a.bots.test, {address}"),
                format!("X-Forwarded-For: {address}\r\nForwarded: for=\"a.bots.test\""),
                format!("X-Forwarded-For: 192.0.2.1, {address}"),
            ]
        });
        let known = with_lines("X-Forwarded-For: 192.0.2.1");
        guarded.forged(&known);
        // Before anything is looked up, and after.
        for _ in 0..2 {
            for claim in claims.iter().flatten() {
                guarded.forged(with_lines(claim));
                guarded.forged(format!(
                    "GET http://a.bots.test/ HTTP/1.1\r\nHost: a.bots.test\r\n{claim}\r\n\r\n"
                ));
            }
            eventually("three addresses are looked up", || {
                let page = Client::connect(guarded.gateway.admin).get_local("/metrics").text();
                ["confirmed", "no_name", "unconfirmed"].iter().all(|result| {
                    page.contains(&format!(
                        "tiergate_reverse_dns_lookups_total{{result=\"{result}\"}} 1\n"
                    ))
                })
            });
        }
        guarded.good(&known);
    }
}

#[test]
fn scores_by_address_and_path() {
    let tables = "[score.client]\n\"10.0.0.0/8\" = 10\n[score.path]\n\"/vip/\" = 10\n\
                  [[score.band]]\nfrom = 20\nclass = \"high\"\n";
    let guarded = Guarded::with(tables, Policy::default());
    for claim in CLAIMS {
        guarded.forged(get("/vip/x", &format!("{claim}\r\n")));
    }
    guarded.forged(get(
        "/vip/x?score=1000",
        "X-Score: 1000\r\nX-Tiergate-Score: 1000\r\nCookie: score=1000\r\n",
    ));
    let guarded = Guarded::with(tables, trusting("127.0.0.1"));
    let from = "X-Forwarded-For: 10.0.0.1\r\n";
    guarded.good(get("/vip/x", from));
    for path in ["/vip", "/vip/../x", "/vip/%2e%2e/x", "/x%2fvip/", "/VIP/x", "/x?/vip/"] {
        guarded.forged(get(path, from));
    }
}

/// Somebody who signs certificates, in a folder of the test's.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A chain and the key of its first certificate, all PEM.
struct Identity {
    chain: Vec<String>,
    key: String,
}

impl Authority {
    fn new(name: &str) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let pem = params.self_signed(&key).expect("a good name").pem();
        Authority { issuer: Issuer::new(params, key), pem }
    }

    fn sign(&self, params: &CertificateParams) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a good certificate");
        Identity { chain: vec![certificate.pem()], key: key.serialize_pem() }
    }
}

/// What a certificate says: common name and DNS names.
fn naming(common: &str, names: &[&str]) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common);
    let dns = |name: &&str| SanType::DnsName((*name).try_into().expect("a good name"));
    params.subject_alt_names = names.iter().map(dns).collect();
    params
}

/// A listener's keys for TLS, with a certificate of this authority for all names of these tests.
fn tls(folder: &TempDir, authority: &Authority, more: &str) -> String {
    let identity = authority.sign(&naming("server", &["vip.test", "a.test"]));
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("our own folder");
        path.display().to_string()
    };
    let (certificate, key) =
        (write("server.pem", &identity.chain[0]), write("server.key", &identity.key));
    let ca = write("ca.pem", &authority.pem);
    let more = more.replace("CA", &format!("{ca:?}"));
    format!("tls = {{ certificate = {certificate:?}, key = {key:?}{more} }}")
}

/// How a request by TLS is answered; `None`: it is not.
fn by_tls(
    address: SocketAddr,
    authority: &Authority,
    identity: Option<&Identity>,
    sni: &str,
    request: &str,
) -> Option<u16> {
    let der = |pem: &String| CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate");
    let mut roots = RootCertStore::empty();
    roots.add(der(&authority.pem)).expect("an authority");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions that the provider knows")
        .with_root_certificates(roots);
    let config = match identity {
        None => builder.with_no_client_auth(),
        Some(Identity { chain, key }) => {
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
            let chain = chain.iter().map(der).collect();
            builder.with_client_auth_cert(chain, key).expect("they fit")
        }
    };
    let name = ServerName::try_from(sni.to_owned()).expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).expect("a good configuration");
    let socket = TcpStream::connect_timeout(&address, PATIENCE).expect("somebody listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("not zero");
    let mut stream = StreamOwned::new(connection, socket);
    stream.write_all(request.as_bytes()).ok()?;
    // Until it closes, however it does.
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let status = answer.strip_prefix(b"HTTP/1.1 ")?.get(..3)?;
    std::str::from_utf8(status).ok()?.parse().ok()
}

fn closing(target: &str, host: &str, lines: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{lines}\r\n")
}

#[test]
fn certificates() {
    let folder = TempDir::new().expect("a folder");
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let listener = tls(&folder, &ours, ", client_ca = CA");
    let policy = Policy { listener, ..Policy::default() };
    let guarded = Guarded::by("certificate = \"vip.test\"", policy);
    let ask = |identity: Option<&Identity>, lines: &str| {
        let before = guarded.high();
        let status = by_tls(
            guarded.gateway.address,
            &ours,
            identity,
            "a.test",
            &closing("/", "a.test", lines),
        );
        (status, guarded.high() - before)
    };
    let vip = naming("x", &["vip.test"]);
    assert_eq!(ask(Some(&ours.sign(&vip)), ""), (Some(200), 1));
    assert_eq!(ask(Some(&ours.sign(&naming("vip.test", &[]))), ""), (Some(200), 1));
    // Ours, and somebody else's.
    for (common, names) in [
        ("vip.test", &["a.test"][..]),
        ("x", &["a.test", "vip.test"]),
        ("x", &["vip.test.evil.test"]),
        ("x", &["sub.vip.test"]),
        ("x", &["*.test"]),
        ("vip.test\u{0}.evil.test", &[]),
        ("vip.test ", &[]),
    ] {
        let status = ask(Some(&ours.sign(&naming(common, names))), "X-Client-Cert: vip.test\r\n");
        assert_eq!(status, (Some(200), 0), "{common:?} {names:?}");
    }
    // Without one, whatever is said.
    for line in [
        "X-SSL-Client-CN: vip.test",
        "X-SSL-Client-S-DN: CN=vip.test",
        "X-SSL-Client-Verify: SUCCESS",
        "X-Client-Cert: vip.test",
        "Client-Cert: :dmlwLnRlc3Q=:",
        "X-Forwarded-Client-Cert: Subject=\"CN=vip.test\";DNS=vip.test",
        "SSL_CLIENT_S_DN_CN: vip.test",
        "X-Tiergate-Certificate: vip.test",
    ] {
        assert_eq!(ask(None, &format!("{line}\r\n")), (Some(200), 0), "{line}");
    }
    // Of nobody that we believe: no handshake, no request.
    let mut expired = vip.clone();
    (expired.not_before, expired.not_after) =
        (date_time_ymd(2019, 1, 1), date_time_ymd(2020, 1, 1));
    let mut future = vip.clone();
    (future.not_before, future.not_after) = (date_time_ymd(2900, 1, 1), date_time_ymd(2901, 1, 1));
    let mut of_server = vip.clone();
    of_server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let own = {
        let key = KeyPair::generate().expect("a key");
        let certificate = vip.self_signed(&key).expect("a good certificate");
        Identity { chain: vec![certificate.pem()], key: key.serialize_pem() }
    };
    // Signed by a good certificate that may sign nothing.
    let signed_by_alice = {
        let key = KeyPair::generate().expect("a key");
        let alice = naming("alice", &["alice.test"]);
        let certificate = alice.signed_by(&key, &ours.issuer).expect("a good certificate").pem();
        let alice = Authority { issuer: Issuer::new(alice, key), pem: certificate.clone() };
        let mut forged = alice.sign(&vip);
        forged.chain.push(certificate);
        forged
    };
    for (what, identity) in [
        ("another authority's", theirs.sign(&vip)),
        ("expired", ours.sign(&expired)),
        ("of the future", ours.sign(&future)),
        ("a server's", ours.sign(&of_server)),
        ("signed by itself", own),
        ("signed by a client", signed_by_alice),
    ] {
        assert_eq!(ask(Some(&identity), ""), (None, 0), "{what}");
    }
}

#[test]
fn server_names() {
    let folder = TempDir::new().expect("a folder");
    let authority = Authority::new("ours");
    let listener = tls(&folder, &authority, "");
    // Conditions, and whether (name in the handshake, host) have them.
    for (rule, both, only_sni, only_host) in [
        ("sni = \"vip.test\"", 1, 1, 0),
        ("host = \"vip.test\"", 1, 0, 1),
        ("sni = \"vip.test\"\nhost = \"vip.test\"", 1, 0, 0),
    ] {
        let guarded = Guarded::by(rule, Policy { listener: listener.clone(), ..Policy::default() });
        let ask = |sni: &str, request: &str| {
            let before = guarded.high();
            let status = by_tls(guarded.gateway.address, &authority, None, sni, request);
            assert_eq!(status, Some(200), "{rule}: {sni}, {request}");
            guarded.high() - before
        };
        assert_eq!(ask("vip.test", &closing("/", "vip.test", "")), both, "{rule}");
        assert_eq!(ask("VIP.test", &closing("/", "vip.test.", "")), both, "{rule}");
        assert_eq!(ask("vip.test", &closing("/", "a.test", "")), only_sni, "{rule}");
        assert_eq!(ask("vip.test", &closing("https://a.test/", "a.test", "")), only_sni, "{rule}");
        assert_eq!(ask("a.test", &closing("/", "vip.test", "")), only_host, "{rule}");
        assert_eq!(
            ask("a.test", &closing("https://vip.test/", "vip.test", "")),
            only_host,
            "{rule}"
        );
        for (target, host) in [("https://vip.test/", "a.test"), ("https://a.test/", "vip.test")] {
            let request = closing(target, host, "");
            let status = by_tls(guarded.gateway.address, &authority, None, "a.test", &request);
            assert_eq!(status, Some(400), "{rule}: {target}, {host}");
        }
        assert_eq!(
            ask("a.test", &closing("/", "a.test", "X-Forwarded-Host: vip.test\r\n")),
            0,
            "{rule}"
        );
    }
    // Without TLS there is no such name.
    let mut policy = Policy::default();
    let port = Port::reserve();
    policy.tables = format!("[[listener]]\naddress = \"{}\"\n{listener}\n", port.address);
    let guarded = Guarded::by("sni = \"*.test\"", policy);
    for line in ["X-SNI: vip.test", "X-SSL-Server-Name: vip.test", "X-Forwarded-Proto: https"] {
        guarded.forged(closing("/", "vip.test", &format!("{line}\r\n")));
    }
}

#[test]
fn listeners_and_destinations() {
    let other = Port::reserve_on(Ipv4Addr::new(127, 0, 0, 2).into());
    let tables = format!("[[listener]]\nname = \"internal\"\naddress = \"{}\"\n", other.address);
    for rule in ["listener = \"internal\"", "destination = \"127.0.0.2\""] {
        let guarded = Guarded::by(rule, Policy { tables: tables.clone(), ..Policy::default() });
        let (to, request) = (other.address, get("/", ""));
        guarded.forged(format!("GET http://{to}/ HTTP/1.1\r\nHost: {to}\r\n\r\n"));
        guarded.forged(format!("GET / HTTP/1.1\r\nHost: {to}\r\n\r\n"));
        guarded.forged(format!("PROXY TCP4 127.0.0.1 127.0.0.2 1 {}\r\n{request}", to.port()));
        for line in [
            format!("X-Forwarded-Host: {to}\r\nX-Forwarded-Port: {}", to.port()),
            "Forwarded: for=127.0.0.1;by=127.0.0.2;host=internal".to_owned(),
            "X-Tiergate-Listener: internal".to_owned(),
            "X-Forwarded-Server: 127.0.0.2".to_owned(),
        ] {
            guarded.forged(with_lines(&line));
        }
        let mut client = Client::connect(to);
        client.send(request);
        assert_eq!((client.answer().status, guarded.high()), (200, 1));
    }
}

#[test]
fn code_points() {
    let guarded = Guarded::by("dscp = \"1..63\"", Policy::default());
    for line in ["X-DSCP: 46", "DSCP: 46", "TOS: 184", "X-Tiergate-Dscp: 46", "Priority: u=0"] {
        guarded.forged(with_lines(line));
    }
}

const KEY: &str = "the-right-key-of-alice-0123";
const SECRET: &str = "0123456789abcdef0123456789ABCDEF";

/// Claims of alice's that hold, with `more` of them.
fn alice(more: &str) -> String {
    format!(r#"{{"sub":"alice","exp":{},"iss":"us","aud":"shop"{more}}}"#, jwt::at(3600))
}

fn bearer(token: &str) -> String {
    with_lines(&format!("Authorization: Bearer {token}"))
}

/// A gateway whose rule asks for alice, by her key or a token.
fn asking_for_alice(folder: &TempDir) -> Guarded {
    use std::os::unix::fs::PermissionsExt;
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("our own folder");
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&path, mode).expect("our own file");
        path.display().to_string()
    };
    let keys = write("keys", &format!("alice:{KEY}\nmallory:mallory-has-one-of-her-own\n"));
    let secrets = write("secrets", SECRET);
    let tables = format!(
        "[[key]]\nname = \"k\"\nsecret_file = {keys:?}\n\
         [token]\nsecret_file = {secrets:?}\nissuer = \"us\"\naudience = \"shop\"\n"
    );
    Guarded::by("subject = \"alice\"", Policy { tables, ..Policy::default() })
}

#[test]
fn keys() {
    let folder = TempDir::new().expect("a folder");
    let guarded = asking_for_alice(&folder);
    guarded.good(with_lines(&format!("X-Api-Key: {KEY}")));
    guarded.good(with_lines(&format!("x-api-key: bearer {KEY}")));
    let mut near: Vec<String> = (0..KEY.len())
        .map(|place| {
            let mut bytes = KEY.as_bytes().to_vec();
            bytes[place] ^= 1;
            String::from_utf8(bytes).expect("still ASCII")
        })
        .collect();
    near.extend((1..KEY.len()).step_by(7).map(|len| KEY[..len].to_owned()));
    let hash = HEXLOWER
        .encode(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, KEY.as_bytes()).as_ref());
    near.extend([
        format!("{KEY}0"),
        format!("{KEY} x"),
        format!("{KEY},{KEY}"),
        format!("\"{KEY}\""),
        KEY.to_uppercase(),
        format!("alice:{KEY}"),
        format!("Basic {KEY}"),
        "alice".into(),
        "mallory-has-one-of-her-own".into(),
        format!("sha256:{hash}"),
        hash,
        String::new(),
        "*".into(),
        KEY.repeat(100),
    ]);
    for key in near {
        guarded.forged(with_lines(&format!("X-Api-Key: {key}")));
    }
    for lines in [
        format!("X-Api-Key: {KEY}\r\nX-Api-Key: {KEY}"),
        format!("X-Api-Key: x\r\nX-Api-Key: {KEY}"),
        format!("X-Api-Key: x\r\n {KEY}"),
        format!("X-Api-Key : {KEY}"),
        format!("X_Api_Key: {KEY}"),
        format!("Authorization: {KEY}"),
        format!("Authorization: Bearer {KEY}"),
        format!("Cookie: x-api-key={KEY}"),
        "X-Subject: alice\r\nX-Tiergate-Subject: alice\r\nX-Remote-User: alice\r\nRemote-User: alice".into(),
    ] {
        guarded.forged(with_lines(&lines));
    }
    guarded.forged(get(&format!("/?x-api-key={KEY}&subject=alice"), ""));
    guarded.forged(format!("GET http://alice:{KEY}@a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n"));
}

#[test]
fn tokens() {
    let folder = TempDir::new().expect("a folder");
    let guarded = asking_for_alice(&folder);
    let good = jwt::sign(SECRET, HS256, &alice(""));
    guarded.good(bearer(&good));
    guarded.good(bearer(&jwt::sign(SECRET, r#"{"alg":"HS256"}"#, &alice(r#","nbf":0"#))));

    // Other algorithms, or none; headers that say more than we know.
    for header in [
        r#"{"alg":"none"}"#,
        r#"{"alg":"None"}"#,
        r#"{"alg":"hs256"}"#,
        r#"{"alg":"HS512"}"#,
        r#"{"alg":"RS256"}"#,
        r#"{"alg":""}"#,
        r#"{"alg":null}"#,
        r#"{"alg":["HS256"]}"#,
        r#"{"typ":"JWT"}"#,
        r#"{"alg":"HS256","crit":["exp"]}"#,
        "{}",
        "",
    ] {
        let token = jwt::sign(SECRET, header, &alice(""));
        guarded.forged(bearer(&token));
        let unsigned = &token[..=token.rfind('.').expect("two dots")];
        guarded.forged(bearer(unsigned));
        guarded.forged(bearer(unsigned.trim_end_matches('.')));
    }
    // Other secrets.
    for secret in
        ["", "secret", "0123456789abcdef0123456789abcdef", &SECRET[..31], &format!("{SECRET}\n")]
    {
        guarded.forged(bearer(&jwt::sign(secret, HS256, &alice(""))));
    }
    let keys = r#"{"alg":"HS256","jwk":{"kty":"oct","k":"c2VjcmV0"},"kid":"../../dev/null"}"#;
    guarded.forged(bearer(&jwt::sign("secret", keys, &alice(""))));
    // Claims that do not hold.
    let (past, future) = (jwt::at(-3600), jwt::at(3600));
    for claims in [
        format!(r#"{{"sub":"alice","exp":{past},"iss":"us","aud":"shop"}}"#),
        r#"{"sub":"alice","iss":"us","aud":"shop"}"#.to_owned(),
        format!(r#"{{"sub":"alice","exp":"{future}","iss":"us","aud":"shop"}}"#),
        r#"{"sub":"alice","exp":null,"iss":"us","aud":"shop"}"#.to_owned(),
        alice(&format!(r#","nbf":{future}"#)),
        alice(r#","sub":"alice""#),
        format!(r#"{{"sub":"alice","exp":{future},"aud":"shop"}}"#),
        format!(r#"{{"sub":"alice","exp":{future},"iss":"them","aud":"shop"}}"#),
        format!(r#"{{"sub":"alice","exp":{future},"iss":"us"}}"#),
        format!(r#"{{"sub":"alice","exp":{future},"iss":"us","aud":["blog"]}}"#),
        format!(r#"{{"sub":"alice","exp":{future},"iss":"us","aud":"shop.evil.test"}}"#),
        alice("").replace("\"alice\"", "\"Alice\""),
        alice("").replace("\"alice\"", "\"alice \""),
        alice("").replace("\"alice\"", "\"alice\\u0000\""),
        alice("").replace("\"alice\"", "[\"alice\"]"),
        alice("").replace("\"alice\"", "\"\""),
        alice("").replace("\"alice\"", "\"mallory\",\"name\":\"alice\""),
        alice("").replace("\"sub\"", "\"SUB\""),
        format!("[{}]", alice("")),
        String::new(),
    ] {
        guarded.forged(bearer(&jwt::sign(SECRET, HS256, &claims)));
    }
    // Another's token with alice's content, and the other way round.
    let mallory = jwt::sign(SECRET, HS256, &alice("").replace("\"alice\"", "\"mallory\""));
    let parts = |token: &str| token.split('.').map(str::to_owned).collect::<Vec<_>>();
    let (hers, theirs) = (parts(&good), parts(&mallory));
    guarded.forged(bearer(&format!("{}.{}.{}", theirs[0], hers[1], theirs[2])));
    guarded.forged(bearer(&format!("{}.{}.{}", hers[0], theirs[1], hers[2])));
    guarded.forged(bearer(&mallory));
    // Cut, lengthened, spelt otherwise.
    for len in (0..good.len()).step_by(5).chain([good.len() - 1]) {
        guarded.forged(bearer(&good[..len]));
    }
    for token in [
        format!("{good}A"),
        format!("{good}="),
        format!("{good}."),
        format!(".{good}"),
        format!("{good}.{}", hers[2]),
        good.replacen('.', "..", 1),
        format!("\"{good}\""),
        format!("{good},{good}"),
        format!("{good} x"),
    ] {
        guarded.forged(bearer(&token));
    }
    for lines in [
        format!("Authorization: {good}"),
        format!("Authorization: Basic {good}"),
        format!("Authorization: Bearer{good}"),
        format!("Authorization: Bearer {good}\r\nAuthorization: Bearer {good}"),
        format!("Authorization: Bearer x\r\n {good}"),
        format!("Proxy-Authorization: Bearer {good}"),
        format!("X-Authorization: Bearer {good}"),
        format!("X-Api-Key: {good}"),
        format!("Cookie: authorization={good}; token={good}"),
    ] {
        guarded.forged(with_lines(&lines));
    }
    guarded.forged(get(&format!("/?access_token={good}"), ""));
}

#[test]
fn every_bit_of_a_token_s_signature_counts() {
    let folder = TempDir::new().expect("a folder");
    let guarded = asking_for_alice(&folder);
    let good = jwt::sign(SECRET, HS256, &alice(""));
    guarded.good(bearer(&good));
    let (signed, signature) = good.rsplit_once('.').expect("two dots");
    let signature = BASE64URL_NOPAD.decode(signature.as_bytes()).expect("ours");
    let mut client = guarded.gateway.client();
    for bit in 0..signature.len() * 8 {
        let mut altered = signature.clone();
        altered[bit / 8] ^= 1 << (bit % 8);
        client.send(bearer(&format!("{signed}.{}", BASE64URL_NOPAD.encode(&altered))));
        assert_eq!(client.answer().status, 200);
    }
    assert_eq!(guarded.high(), 1);
}

/// Our own session cookie that an answer sets.
fn set(answer: &Answer) -> Option<&str> {
    answer.field("set-cookie")?.strip_prefix("tiergate_session=")?.split(';').next()
}

#[test]
fn every_bit_of_a_session_cookie_counts() {
    let origin = Origin::echo();
    let gateway = Gateway::start(&Policy {
        tables: "[session]\nown = true\n".into(),
        ..Policy::of(&[origin.server()])
    });
    let mut client = gateway.client();
    let mut ask = |lines: &str| {
        client.send(with_lines(lines));
        let answer = client.answer();
        assert_eq!(answer.status, 200, "{lines}");
        // A session that runs gets no new cookie, any other request begins one.
        set(&answer).map(str::to_owned)
    };
    let good = ask("X: y").expect("a session begins");
    assert_eq!(ask(&format!("Cookie: tiergate_session={good}")), None, "it runs");
    let bytes = BASE64URL_NOPAD.decode(good.as_bytes()).expect("ours");
    for bit in 0..bytes.len() * 8 {
        let mut altered = bytes.clone();
        altered[bit / 8] ^= 1 << (bit % 8);
        let altered = BASE64URL_NOPAD.encode(&altered);
        let begun = ask(&format!("Cookie: tiergate_session={altered}"));
        assert!(begun.is_some_and(|begun| begun != altered && begun != good), "bit {bit}");
    }
    for lines in [
        format!("Cookie: tiergate_session={}", &good[..47]),
        format!("Cookie: tiergate_session={good}A"),
        format!("Cookie: tiergate_session=\"{good}\""),
        format!("Cookie: Tiergate_Session={good}"),
        format!("Cookie: tiergate-session={good}"),
        format!("Cookie: xtiergate_session={good}"),
        format!("Cookie: tiergate_session=x; tiergate_session={good}"),
        format!("Cookie: a=tiergate_session={good}"),
        format!("Set-Cookie: tiergate_session={good}"),
        format!("X-Tiergate-Session: {good}"),
        format!("Authorization: Bearer {good}"),
        format!("Cookie2: tiergate_session={good}"),
    ] {
        assert!(ask(&lines).is_some(), "{lines}");
    }
    // It is another site's.
    let other =
        format!("GET / HTTP/1.1\r\nHost: b.test\r\nCookie: tiergate_session={good}\r\n\r\n");
    client.send(other);
    assert!(set(&client.answer()).is_some());
    client.send(with_lines(&format!("Cookie: tiergate_session={good}")));
    assert_eq!(set(&client.answer()), None, "the good one still runs");
}
