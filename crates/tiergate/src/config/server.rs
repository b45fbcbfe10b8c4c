//! Servers as policies name them.

use super::kind::{Parsed, Text};
use super::place::At;
use serde_json::json;
use std::path::PathBuf;

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

/// The servers; reports duplicates.
pub(super) fn servers(servers: Vec<At<Server>>) -> Vec<Server> {
    for (index, server) in servers.iter().enumerate() {
        if servers[..index].iter().any(|other| other.value == server.value) {
            server.place.fault(format!("duplicate: {}", server.value));
        }
    }
    servers.into_iter().map(|server| server.value).collect()
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
        return fault("must not be https, because origins are spoken to in plain HTTP");
    }
    let (rest, default_port) = match text.strip_prefix("http://") {
        Some(rest) => (rest.strip_suffix('/').unwrap_or(rest), Some(80)),
        None => (text, None),
    };
    if rest.contains('/') {
        return fault("must not have a path");
    }
    // The last colon, unless it is inside the brackets of an IPv6 address.
    let (host, port) = match rest.rfind(':').filter(|colon| rest[*colon..].find(']').is_none()) {
        Some(colon) => (&rest[..colon], rest[colon + 1..].parse::<u16>().ok()),
        None => (rest, default_port),
    };
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = match inner {
        Some(address) => address.parse::<std::net::Ipv6Addr>().ok().map(|_| address),
        None => {
            let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            (!host.is_empty() && host.len() <= 253 && host.bytes().all(letter)).then_some(host)
        }
    };
    let port = port.filter(|port| *port > 0);
    host.zip(port).map(|(host, port)| Server::Tcp(host.to_owned(), port)).ok_or(None)
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
        ] {
            assert!(server(wrong).is_err(), "{wrong}");
        }
    }
}
