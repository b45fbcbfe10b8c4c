//! `[[listener]]`: the sockets that clients connect to.

use super::kind::{Choice, list, one_or_many};
use super::place::{At, Place};
use super::section::{Kind, section, table};
use super::values::{ADDRESS, FLAG, FileName, Name, check_unique};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// Loopback: no network is served unless the policy names it.
pub(super) const DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);
/// Most listeners: each thread has a socket for each.
pub(super) const COUNT_MAX: usize = 64;
/// Most files of revocation lists for a listener: one of each authority, and few sites trust more.
const CRLS_MAX: usize = 64;

section! {
    /// A socket that clients connect to.
    pub(super) struct ListenerKeys {
        /// Address and port, `"0.0.0.0:80"`, `"[::]:443"`. `[::]` takes connections over IPv4, too, unless the system has it otherwise or another
        /// listener, or `admin`, has that port of IPv4. An open `[::]` stays as it was opened until a restart.
        address: Option<SocketAddr> = ADDRESS.required("write address = \"0.0.0.0:80\"");
        /// The name by which rules refer to it.
        name: Option<String> = Name.optional("only its address");
        /// Certificates, for HTTPS.
        tls: Option<At<TlsKeys>> = table().placed().optional("plain HTTP");
        /// Whether HTTP/2 is offered: by ALPN under TLS, by prior knowledge without.
        http2: bool = FLAG.or(true);
        /// Whether HTTP/3 is served too: by QUIC, on the UDP port with the same number. Needs `tls`. Answers over TCP
        /// announce it (`Alt-Svc`), and clients that know it come by it next time. Not together with `proxy_protocol`,
        /// `share_port` or lanes.
        /// Why: the UDP port must be open in firewalls, and a request costs more processor time than over HTTP/2; see
        /// [HTTP/3](#http3).
        http3: bool = FLAG.or(false);
        /// Whether connections must begin with a PROXY protocol header, v1 or v2; those from peers that are
        /// not `trusted`, or without the header, are closed.
        /// Why: any client that can connect could forge it; hence only peers in `trusted` may send it.
        proxy_protocol: bool = FLAG.or(false);
        /// Whether another process may listen on the same address (`SO_REUSEPORT`), such as the successor of
        /// this one. Each gets a part of the connections. Takes effect when the listener is opened.
        /// Why: two gateways by mistake would each have all the slots; a start beside a process that listens
        /// fails instead.
        share_port: bool = FLAG.or(false);
    }
}

section! {
    /// Certificates of a listener: one by `certificate` and `key`, or several by `certificates`.
    pub(super) struct TlsKeys {
        /// PEM file of the certificate and its chain.
        certificate: Option<PathBuf> = FileName.optional("`certificates`");
        /// PEM file of the private key.
        key: Option<PathBuf> = FileName.optional("`certificates`");
        /// Several certificates `{ certificate, key }`, chosen by the server name that the client asks for
        /// (SNI), else the first.
        certificates: Vec<Certificate> =
            list(table(), usize::MAX, "certificates").or_else("must not be empty").plain().or_none("none");
        /// PEM file of the authorities that sign clients' certificates; each client is then asked for a
        /// certificate.
        client_ca: Option<PathBuf> = FileName.optional("clients are not asked");
        /// PEM file of certificate revocation lists, or several files: one list of each authority that
        /// signs clients' certificates. Needs `client_ca`.
        client_crl: Vec<PathBuf> =
            one_or_many(FileName, CRLS_MAX, "files").plain().or_none("no certificate is revoked");
        /// Whether clients must have a certificate: `"optional"` or `"required"`. One that does not verify
        /// ends the handshake either way. Needs `client_ca`.
        client: Option<ClientCertificate> = Choice(&[
            ("optional", ClientCertificate::Optional),
            ("required", ClientCertificate::Required),
        ]).optional("`\"optional\"`");
    }
}

section! {
    /// A certificate and its key.
    pub(super) struct Certificate {
        /// PEM file of the certificate and its chain.
        certificate: Option<PathBuf> = FileName.required(CERTIFICATE);
        /// PEM file of the private key.
        key: Option<PathBuf> = FileName.required(KEY);
    }
}

const CERTIFICATE: &str = "name the PEM file of the certificate and its chain";
const KEY: &str = "name the PEM file of the private key";

/// A socket that clients connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Address and port.
    pub address: SocketAddr,
    /// The name by which rules refer to it.
    pub name: Option<String>,
    /// Certificates, for HTTPS.
    pub tls: Option<Tls>,
    /// Whether connections must begin with a PROXY protocol header, v1 or v2, from a trusted peer; others
    /// are closed.
    pub proxy_protocol: bool,
    /// Whether another process may listen on the same address.
    pub share_port: bool,
    /// Whether HTTP/2 is offered (ALPN under TLS, prior knowledge without).
    pub http2: bool,
    /// Whether HTTP/3 is served on the UDP port with the same number.
    pub http3: bool,
    /// Whether it is of IPv6 alone: it has all addresses, and another listener of the policy has the port of IPv4.
    pub only_v6: bool,
}

/// Certificate and key files in PEM; the first whose name matches the client's SNI is used,
/// otherwise the first of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Pairs of certificate chain and private key.
    pub certificates: Vec<(PathBuf, PathBuf)>,
    /// Certificates of clients; `None`: they are not asked for one.
    pub client: Option<ClientAuthority>,
}

/// The authorities that sign clients' certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAuthority {
    /// PEM file of the authorities.
    pub ca: PathBuf,
    /// PEM files of their revocation lists; without any, no certificate is revoked.
    pub revoked: Vec<PathBuf>,
    /// Whether clients without a certificate are served.
    pub certificate: ClientCertificate,
}

/// Whether a client must have a certificate. One that does not verify ends the handshake either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificate {
    /// Clients without are served.
    Optional,
    /// Clients without are not.
    Required,
}

/// The listeners; one with every default if none is given. `trusts`: whether any peer is trusted.
pub(super) fn listeners(
    raw: Vec<At<ListenerKeys>>,
    trusts: bool,
    admin: Option<SocketAddr>,
) -> Vec<Listener> {
    if raw.is_empty() {
        return vec![Listener::plain(DEFAULT)];
    }
    let mut listeners: Vec<Listener> = Vec::new();
    for At { value: raw, place } in raw {
        let Some(address) = raw.address else { continue };
        if listeners.iter().any(|other| other.address == address && address.port() != 0) {
            place.fault_at("address", format!("another listener has {address} already"));
        }
        if let Some(name) = &raw.name {
            let before = listeners.iter().filter_map(|other| other.name.as_deref());
            check_unique("listener", name, before, &place.key("name"));
        }
        if raw.proxy_protocol && !trusts {
            let message = "needs `trusted` to name the proxies, or every connection is closed";
            place.fault_at("proxy_protocol", message);
        }
        if raw.http3 {
            check_http3(&raw, &place);
        }
        listeners.push(Listener {
            address,
            name: raw.name,
            tls: raw.tls.map(tls),
            proxy_protocol: raw.proxy_protocol,
            share_port: raw.share_port,
            http2: raw.http2,
            http3: raw.http3,
            only_v6: false,
        });
    }
    leave_v4_to_others(&mut listeners, admin);
    listeners
}

/// Has a listener of all addresses leave those of IPv4 to another one that has them at the same port, as the system would not let both have them.
fn leave_v4_to_others(listeners: &mut [Listener], admin: Option<SocketAddr>) {
    let all = listeners.iter().map(|it| it.address).chain(admin);
    let is_v4 = |it: &SocketAddr| it.ip().to_canonical().is_ipv4();
    let ports: Vec<u16> = all.filter(is_v4).map(|it| it.port()).collect();
    for it in listeners.iter_mut().filter(|it| it.address.is_ipv6()) {
        let (ip, port) = (it.address.ip(), it.address.port());
        it.only_v6 = ip.is_unspecified() && port != 0 && ports.contains(&port);
    }
}

/// Reports what HTTP/3 cannot be together with.
fn check_http3(raw: &ListenerKeys, place: &Place) {
    let fault = |why: &str| place.fault_at("http3", why.to_owned());
    if raw.tls.is_none() {
        fault("needs TLS: add tls = { certificate = \"...\", key = \"...\" }, or leave out http3");
    }
    if raw.proxy_protocol {
        fault(
            "cannot be together with proxy_protocol: QUIC has no place for the header; leave out one of them",
        );
    }
    if raw.share_port {
        fault(
            "cannot be together with share_port: packets of one QUIC connection would reach both processes; leave out one of them",
        );
    }
}

/// Reports HTTP/3 where there are lanes. `has_lanes`: whether there are.
pub(super) fn check_lanes(listeners: &[At<ListenerKeys>], has_lanes: bool) {
    for At { place, .. } in listeners.iter().filter(|it| has_lanes && it.value.http3) {
        let why = "cannot be together with lanes: which thread serves a QUIC connection is decided before its class is known; leave out http3 or the lanes";
        place.fault_at("http3", why.to_owned());
    }
}

fn tls(At { value: raw, place }: At<TlsKeys>) -> Tls {
    let alone = place.has("certificate") || place.has("key");
    if alone || !place.has("certificates") {
        for (key, how) in [("certificate", CERTIFICATE), ("key", KEY)] {
            if !place.has(key) {
                place.missing(key, how);
            }
        }
    }
    let several = raw.certificates.into_iter().filter_map(|pair| pair.certificate.zip(pair.key));
    let certificates = raw.certificate.zip(raw.key).into_iter().chain(several).collect();
    if raw.client_ca.is_none() {
        for key in ["client", "client_crl"].into_iter().filter(|key| place.has(key)) {
            let message = "needs client_ca, the PEM file of the authorities that sign clients";
            place.fault_at(key, message);
        }
    }
    let client = raw.client_ca.map(|ca| ClientAuthority {
        ca,
        revoked: raw.client_crl,
        certificate: raw.client.unwrap_or(ClientCertificate::Optional),
    });
    Tls { certificates, client }
}

impl Listener {
    /// A listener with every default.
    pub fn plain(address: SocketAddr) -> Self {
        let (name, tls) = (None, None);
        Listener {
            address,
            name,
            tls,
            proxy_protocol: false,
            share_port: false,
            http2: true,
            http3: false,
            only_v6: false,
        }
    }

    /// Whether rules may refer to it by this name or address.
    pub(crate) fn is_called(&self, text: &str) -> bool {
        self.name.as_deref() == Some(text) || self.address.to_string() == text
    }

    /// Its name, or else its address.
    pub(crate) fn shown(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.address.to_string())
    }

    /// For `tiergate check`.
    pub(crate) fn words(&self) -> String {
        let mut scheme = match &self.tls {
            Some(tls) if tls.certificates.len() == 1 => "https, 1 certificate".to_owned(),
            Some(tls) => format!("https, {} certificates", tls.certificates.len()),
            None => "http".to_owned(),
        };
        if let Some(client) = self.tls.as_ref().and_then(|tls| tls.client.as_ref()) {
            let must = match client.certificate {
                ClientCertificate::Optional => "may",
                ClientCertificate::Required => "must",
            };
            let revoked = if client.revoked.is_empty() { "" } else { " that are not revoked" };
            scheme += &format!(", clients {must} have certificates{revoked}");
        }
        let protocols = match (self.http2, self.http3) {
            (true, false) => "HTTP/1.1 and HTTP/2",
            (false, false) => "HTTP/1.1 only",
            (true, true) => "HTTP/1.1, HTTP/2 and HTTP/3",
            (false, true) => "HTTP/1.1 and HTTP/3",
        };
        let proxied = if self.proxy_protocol { ", PROXY protocol required" } else { "" };
        let shared = if self.share_port { ", port shared with other processes" } else { "" };
        format!("{}  {scheme}, {protocols}{proxied}{shared}", self.address)
    }
}
