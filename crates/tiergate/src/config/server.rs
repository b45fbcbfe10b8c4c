//! Servers as policies name them.

use super::kind::{Parsed, Text};
use super::place::{At, Place, wrong};
use super::section::{Definitions, Kind, section, table};
use super::values::whole;
use serde_json::{Value as Json, json};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use toml::de::DeValue;

/// One address of the origin.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Server {
    /// Host name or address, and port. Names are looked up at the start, when connects fail, and every ten seconds
    /// ([`crate::origin`]).
    Tcp(String, u16),
    /// A UNIX socket.
    Unix(PathBuf),
}

/// `http://host:port`, `host:port`, `unix:/path`.
pub(super) const SERVER: Text<Server> = Text {
    expected: "a server such as \"127.0.0.1:8080\", \"http://app.internal:8080\" or \"unix:/run/app.sock\"",
    schema: || json!({ "examples": ["127.0.0.1:8080", "http://app.internal", "unix:/run/app.sock"] }),
    parse: server,
};

section! {
    /// A server with a concurrency limit of its own.
    pub(super) struct ServerKeys {
        /// Its address, as one that stands in `servers` alone.
        address: Option<Server> = SERVER.required("write address = \"host:port\"");
        /// Concurrency limit of this server, instead of what `slots` says. Each server of the pool has a limit of its own then,
        /// as by `slots_per_server`. Of a name with several addresses, each has as many.
        slots: Option<u32> = whole(1..=SLOTS_MAX).optional("what `slots` says, at each server without a number");
    }
}

/// Most slots that a policy may give.
pub(super) const SLOTS_MAX: u64 = 1_000_000;

/// A server as it is written: its address, and a number of slots of its own if it has one.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub(super) address: Server,
    pub(super) slots: Option<u32>,
}

/// An address, or a table with an address.
pub(super) struct ServerKind;

impl Kind for ServerKind {
    type Value = Written;

    fn read(&self, value: &DeValue<'_>, place: &Place) -> Option<Written> {
        match value {
            DeValue::Table(_) => {
                let ServerKeys { address, slots } = table().read(value, place)?;
                Some(Written { address: address?, slots })
            }
            DeValue::String(_) => {
                Some(Written { address: SERVER.read(value, place)?, slots: None })
            }
            _ => {
                let expected = "a server such as \"127.0.0.1:8080\" or { address = \"127.0.0.1:8080\", slots = 4 }";
                wrong(value, place, expected)
            }
        }
    }

    fn schema(&self, definitions: &mut Definitions) -> Json {
        json!({ "anyOf": [SERVER.schema(definitions), table::<ServerKeys>().schema(definitions)] })
    }
}

/// The servers of a pool.
#[derive(Debug, Default)]
pub(super) struct Servers {
    /// Their addresses.
    pub(super) addresses: Vec<Server>,
    /// Those that have a number of slots of their own.
    pub(super) numbers: Vec<(Server, u32)>,
}

/// The servers; reports duplicates.
pub(super) fn servers(written: &[At<Written>]) -> Servers {
    let mut servers = Servers::default();
    for At { value: Written { address, slots }, place } in written {
        if servers.addresses.contains(address) {
            place.fault(format!("duplicate: {address}"));
        }
        servers.addresses.push(address.clone());
        servers.numbers.extend(slots.map(|slots| (address.clone(), slots)));
    }
    servers
}

impl std::fmt::Display for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Server::Tcp(host, port) if host.contains(':') && !host.starts_with('[') => {
                write!(f, "[{host}]:{port}")
            }
            Server::Tcp(host, port) => write!(f, "{host}:{port}"),
            Server::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Reads the address of an origin server.
pub(super) fn server(text: &str) -> Parsed<Server> {
    let fault = |message: &str| Err(Some(message.to_owned()));
    if let Some(path) = text.strip_prefix("unix:") {
        // The kernel's bound on the name of a UNIX socket, with its final NUL.
        let usable = path.starts_with('/') && path.len() < 108 && !path.contains('\0');
        return match usable {
            true => Ok(Server::Unix(path.into())),
            false => fault("must be \"unix:\" and an absolute path below 108 bytes"),
        };
    }
    if text.starts_with("https://") {
        return fault("must not be https; write \"host:port\" and tls = true beside `servers`");
    }
    let (rest, default_port) = match text.strip_prefix("http://") {
        Some(rest) => (rest.strip_suffix('/').unwrap_or(rest), Some(80)),
        None => (text, None),
    };
    if rest.contains("://") {
        return fault("must begin with http://, or have no scheme");
    }
    if rest.contains('/') {
        return fault("must not have a path");
    }
    // The last colon, unless it is inside the brackets of an IPv6 address.
    let (host, port) = match rest.rfind(':').filter(|colon| rest[*colon..].find(']').is_none()) {
        Some(colon) => (&rest[..colon], port(&rest[colon + 1..])),
        None => (rest, default_port),
    };
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    if inner.is_none() && is_no_address(host) {
        return fault("must have an address of four decimal numbers from 0 to 255, or a name");
    }
    if let Some(why) = no_machine(inner.unwrap_or(host)) {
        return Err(Some(why));
    }
    let host = match inner {
        Some(address) => address.parse::<std::net::Ipv6Addr>().ok().map(|_| address),
        None => {
            let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            // A dot at its end says that nothing is to be added to it.
            let mut labels = host.strip_suffix('.').unwrap_or(host).split('.');
            let is_name =
                host.len() <= 253 && labels.all(|label| (1..=LABEL_LEN_MAX).contains(&label.len()));
            (is_name && host.bytes().all(letter)).then_some(host)
        }
    };
    let port = port.filter(|port| *port > 0);
    host.zip(port).map(|(host, port)| Server::Tcp(host.to_owned(), port)).ok_or(None)
}

/// Longest part of a name between dots (RFC 1035 §2.3.4).
const LABEL_LEN_MAX: usize = 63;

fn port(text: &str) -> Option<u16> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Why an address is not that of one machine which can be connected to, as far as it says so itself.
fn no_machine(host: &str) -> Option<String> {
    let ip = address_of(host)?.to_canonical();
    match ip {
        _ if ip.is_multicast() || ip == IpAddr::V4(Ipv4Addr::BROADCAST) => {
            Some(format!("must be the address of one machine: {ip} is of many"))
        }
        IpAddr::V6(ip) if ip.is_unicast_link_local() => Some(format!(
            "must be an address that does not depend on the interface: {ip} is on each; name another one of that server"
        )),
        _ => None,
    }
}

/// Whether a host is all numbers, and yet no address of IPv4: no name is so (RFC 3696 §2). Systems read 0x7f as a number, too (`inet_aton`(3)).
fn is_no_address(host: &str) -> bool {
    let is_hex = |it: &str| {
        let digits = it.strip_prefix("0x").or_else(|| it.strip_prefix("0X"));
        digits.is_some_and(|it| it.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    let is_decimal = |it: &str| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit());
    let is_number = |it: &str| is_decimal(it) || is_hex(it);
    let is_address = host.parse::<std::net::Ipv4Addr>().is_ok() || short_address(host).is_some();
    host.split('.').all(is_number) && !is_address
}

/// The address that a host is, if it is none that must be looked up.
pub(crate) fn address_of(host: &str) -> Option<IpAddr> {
    host.parse().ok().or_else(|| short_address(host).map(IpAddr::V4))
}

/// An address of IPv4 of fewer than four numbers, as systems read it: `127.1` is 127.0.0.1. None where a number has a leading
/// zero, which makes it octal to them.
///
/// Source: `inet_aton`(3).
pub(crate) fn short_address(host: &str) -> Option<std::net::Ipv4Addr> {
    let number = |part: &str| {
        let is_decimal = part.bytes().all(|byte| byte.is_ascii_digit());
        let is_octal = part.len() > 1 && part.starts_with('0');
        part.parse::<u32>().ok().filter(|_| is_decimal && !is_octal)
    };
    let parts: Vec<u32> = host.split('.').map(number).collect::<Option<_>>()?;
    let (last, before) = parts.split_last()?;
    if before.len() > 2 || before.iter().any(|part| *part > 255) {
        return None;
    }
    let begin =
        before.iter().enumerate().map(|(place, part)| part << (24 - 8 * place)).sum::<u32>();
    let is_in = u64::from(*last) < 1 << (32 - 8 * before.len());
    is_in.then(|| std::net::Ipv4Addr::from_bits(begin | last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers() {
        let tcp = |host: &str, port| Ok(Server::Tcp(host.to_owned(), port));
        assert_eq!(server("10.0.0.5:8080"), tcp("10.0.0.5", 8080));
        assert_eq!(server("http://app.internal:81/"), tcp("app.internal", 81));
        assert_eq!(server("http://app"), tcp("app", 80));
        assert_eq!(server("[::1]:9000"), tcp("::1", 9000));
        assert_eq!(server("http://[::1]"), tcp("::1", 80));
        assert_eq!(server("127.1:80"), tcp("127.1", 80));
        assert_eq!(server("app.1:80"), tcp("app.1", 80));
        assert_eq!(server("2130706433:80"), tcp("2130706433", 80));
        assert_eq!(server("app.:80"), tcp("app.", 80));
        assert_eq!(server("0xa.example:80"), tcp("0xa.example", 80));
        for (wrong, expected) in [
            ("224.0.0.1:80", "one machine: 224.0.0.1 is of many"),
            ("255.255.255.255:80", "machine: 255.255.255.255 is of many"),
            ("4294967295:80", "machine: 255.255.255.255 is of many"),
            ("[ff02::1]:80", "machine: ff02::1 is of many"),
            ("[::ffff:224.0.0.1]:80", "machine: 224.0.0.1 is of many"),
            ("http://[fe80::1]", "interface: fe80::1 is on each; name another"),
            ("0x7f.1:80", "four decimal numbers"),
            ("0x7F000001:80", "four decimal numbers"),
            ("0177.0.0.1:80", "four decimal numbers"),
        ] {
            let said = server(wrong).expect_err("no server").unwrap_or_default();
            assert!(said.contains(expected), "{wrong}: {said}");
        }
        assert!(server(&format!("{}.example:80", "a".repeat(64))).is_err());
        assert_eq!(server("unix:/run/a.sock"), Ok(Server::Unix("/run/a.sock".into())));
        for wrong in [
            "",
            "app",
            "app:",
            "app:0",
            "app:99999",
            ":80",
            "::1:80",
            "[::1]",
            "http://a/b",
            "https://a",
            "unix:a.sock",
            "a b:80",
            "[x]:80",
            "ftp://a:1",
            "HTTP://a:1",
            "a:+80",
            "256.1.1.1:80",
            "10.0.0.1.2:80",
            "a..b:80",
            ".a:80",
            "a..:80",
            ".:80",
        ] {
            assert!(server(wrong).is_err(), "{wrong}");
        }
    }
}
