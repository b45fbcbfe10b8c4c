//! How the servers of a pool are spoken to: TLS, and the protocol.

use super::kind::Text;
use super::place::{At, Place, wrong};
use super::section::{Definitions, Kind, section, table};
use super::server::{Server, Written};
use super::values::{FLAG, FileName};
use rustls::pki_types::ServerName;
use serde_json::{Value as Json, json};
use std::path::PathBuf;
use toml::de::DeValue;

section! {
    /// TLS to the servers of a pool.
    pub(super) struct OriginTlsKeys {
        /// The name that servers are asked for (SNI) and that their certificates must have.
        server_name: Option<String> = SERVER_NAME.optional("the host of each server in `servers`");
        /// PEM file of the authorities that sign the servers' certificates.
        ca: Option<PathBuf> = FileName.optional("the system's authorities");
        /// PEM file of the gateway's own certificate and its chain, for servers that ask for one. Needs `key`.
        certificate: Option<PathBuf> = FileName.optional("none");
        /// PEM file of its private key.
        key: Option<PathBuf> = FileName.optional("none");
        /// Whether the servers' certificates are verified. `false`: any certificate will do, also that of an attacker who
        /// is between gateway and server; `check` warns.
        /// Why: without it TLS hides requests from those who only listen, and from no one else.
        verify: bool = FLAG.or(true);
    }
}

/// TLS to the servers of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginTls {
    /// The name that servers are asked for, and that their certificates must have; `None`: the host of each.
    pub server_name: Option<String>,
    /// PEM file of the authorities; `None`: the system's.
    pub ca: Option<PathBuf>,
    /// PEM files of the gateway's own certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Whether certificates are verified.
    pub verify: bool,
}

/// What the servers of a pool speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OriginProtocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2, in cleartext by prior knowledge.
    Http2,
    /// HTTP/2 or HTTP/1.1, as each server chooses in the TLS handshake.
    Auto,
}

pub(super) const PROTOCOLS: [(&str, OriginProtocol); 3] = [
    ("http1", OriginProtocol::Http1),
    ("h2", OriginProtocol::Http2),
    ("auto", OriginProtocol::Auto),
];

/// A table, `true` for one with every default, or `false` for none.
pub(super) struct TlsOrFlag;

impl Kind for TlsOrFlag {
    type Value = Option<At<OriginTlsKeys>>;

    fn read(&self, value: &DeValue<'_>, place: &Place) -> Option<Self::Value> {
        let defaults = || DeValue::Table(Default::default());
        match value {
            DeValue::Boolean(false) => Some(None),
            DeValue::Boolean(true) => table().placed().read(&defaults(), place).map(Some),
            DeValue::Table(_) => table().placed().read(value, place).map(Some),
            _ => wrong(value, place, "true, false or a table"),
        }
    }

    fn schema(&self, definitions: &mut Definitions) -> Json {
        json!({ "oneOf": [{ "type": "boolean" }, table::<OriginTlsKeys>().schema(definitions)] })
    }
}

/// A host name or an address.
const SERVER_NAME: Text<String> = Text {
    expected: "a host name such as \"app.internal\"",
    schema: || json!({ "examples": ["app.internal"] }),
    parse: |text| match ServerName::try_from(text.to_owned()) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err(Some("must be a host name or an address, without a port".to_owned())),
    },
};

/// Reports keys that need others.
fn check_keys(At { value: raw, place }: &At<OriginTlsKeys>) {
    match (&raw.certificate, &raw.key) {
        (Some(_), None) => place.missing("key", "name the PEM file of the private key"),
        (None, Some(_)) => {
            place.missing("certificate", "name the PEM file of the certificate and its chain");
        }
        _ => {}
    }
    if !raw.verify && raw.ca.is_some() {
        place.fault_at("ca", "has no effect with verify = false; leave one of them out");
    }
}

/// Reports a protocol and servers that do not go with what is said of TLS.
pub(super) fn check(transport: &TransportKeys<'_>, servers: &[At<Written>]) {
    let TransportKeys { tls, protocol } = *transport;
    if let Some(tls) = tls {
        check_keys(tls);
    }
    if let Some(At { value: OriginProtocol::Auto, place }) = protocol
        && tls.is_none()
    {
        place.fault("\"auto\" needs `tls`, in whose handshake servers choose; without it write \"http1\" or \"h2\"");
    }
    let is_unix = |server: &&At<Written>| matches!(server.value.address, Server::Unix(_));
    if let Some(server) = servers.iter().find(is_unix).filter(|_| tls.is_some()) {
        server.place.fault("is a UNIX socket, to which there is no TLS; leave `tls` out, or name a host and a port");
    }
}

/// What a table says of TLS and protocol.
#[derive(Clone, Copy)]
pub(super) struct TransportKeys<'k> {
    pub(super) tls: Option<&'k At<OriginTlsKeys>>,
    pub(super) protocol: Option<&'k At<OriginProtocol>>,
}

impl TransportKeys<'_> {
    /// TLS, as it is meant.
    pub(super) fn tls(&self) -> Option<OriginTls> {
        let raw = &self.tls?.value;
        Some(OriginTls {
            server_name: raw.server_name.clone(),
            ca: raw.ca.clone(),
            identity: raw.certificate.clone().zip(raw.key.clone()),
            verify: raw.verify,
        })
    }

    /// The protocol, as it is meant.
    pub(super) fn protocol(&self) -> OriginProtocol {
        self.protocol.map_or(OriginProtocol::Http1, |it| it.value)
    }
}

impl OriginTls {
    /// For `tiergate check`.
    pub(super) fn words(&self) -> String {
        let mut words = "TLS".to_owned();
        if let Some(name) = &self.server_name {
            words += &format!(" as {name}");
        }
        words += &match (&self.ca, self.verify) {
            (_, false) => ", certificates NOT verified".to_owned(),
            (None, true) => ", verified by the system's authorities".to_owned(),
            (Some(ca), true) => format!(", verified by {}", ca.display()),
        };
        if self.identity.is_some() {
            words += ", with a certificate of the gateway's own";
        }
        words
    }
}

impl OriginProtocol {
    /// For `tiergate check`.
    pub(super) fn words(self) -> &'static str {
        match self {
            OriginProtocol::Http1 => "HTTP/1.1",
            OriginProtocol::Http2 => "HTTP/2",
            OriginProtocol::Auto => "HTTP/2 or HTTP/1.1",
        }
    }
}
