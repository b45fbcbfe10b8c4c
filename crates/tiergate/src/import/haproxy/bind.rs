//! `bind`: the addresses that a line binds, and what it says of TLS.

use super::super::draft::{Draft, quoted};
use super::grammar::{Line, Section};
use super::options::Options;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;

/// Folders of `global` that names of files begin at.
#[derive(Default)]
pub(super) struct Folders {
    certificates: String,
    authorities: String,
}

impl Folders {
    pub(super) fn read(sections: &[Section]) -> Self {
        let of = |word: &str| {
            let all = sections.iter().filter(|it| it.kind == "global").flat_map(|it| &it.lines);
            let mut lines = all.filter(|it| it.word(0) == word);
            lines.next_back().map_or("", |it| it.word(1)).to_owned()
        };
        Folders { certificates: of("crt-base"), authorities: of("ca-base") }
    }

    fn join(folder: &str, file: &str) -> String {
        match folder.is_empty() || file.starts_with(['/', '@']) {
            true => file.to_owned(),
            false => format!("{}/{file}", folder.trim_end_matches('/')),
        }
    }
}

/// What a listener says of TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tls {
    /// Files, each with a certificate and its key.
    pub(super) certificates: Vec<String>,
    /// What it asks of clients' certificates, as TOML.
    pub(super) client: String,
}

impl Tls {
    /// As the table of a listener.
    pub(super) fn toml(&self) -> String {
        let pair = |file: &String| format!("certificate = {0}, key = {0}", quoted(file));
        let certificates = match &self.certificates[..] {
            [one] => pair(one),
            several => {
                let several: Vec<_> =
                    several.iter().map(|it| format!("{{ {} }}", pair(it))).collect();
                format!("certificates = [{}]", several.join(", "))
            }
        };
        format!("{{ {certificates}{} }}", self.client)
    }
}

/// What a line says of TLS.
///
/// # Errors
/// Why no listener must be written.
pub(super) fn tls(
    line: &Line,
    folders: &Folders,
    draft: &mut Draft,
) -> Result<Option<Tls>, String> {
    let options = Options::of_bind(line);
    let has = |word: &str| options.has(word);
    if has("accept-proxy") || has("accept-netscaler-cip") {
        return Err("PROXY headers count only from peers in `trusted`: write the addresses of what sends them, and then this listener with proxy_protocol = true".to_owned());
    }
    if has("interface") || has("namespace") {
        return Err(
            "a listener has an address, and no interface: bind the interface's address".to_owned()
        );
    }
    for (word, value) in &options.list {
        listed(word, value, line, draft);
    }
    if !has("ssl") {
        return match has("verify") || has("ca-file") {
            true => Err("verifies clients without TLS".to_owned()),
            false => Ok(None),
        };
    }
    let mut certificates: Vec<String> = Vec::new();
    for file in options.values("crt") {
        if file.ends_with('/') {
            return Err(format!("crt {file}: name the files of the folder one by one"));
        }
        let file = Folders::join(&folders.certificates, file);
        if !certificates.contains(&file) {
            certificates.push(file);
        }
    }
    if let Some(list) = options.value("crt-list") {
        return Err(format!(
            "crt-list {list}: the list is not read; write each of its certificates as `crt FILE` and import it again, or write this listener by hand with tls.certificates: \
             each is for the names that are in it, and options of single certificates have no counterpart"
        ));
    }
    if certificates.is_empty() {
        return Err("TLS needs crt".to_owned());
    }
    let mode = match options.value("verify") {
        None | Some("none") => return Ok(Some(Tls { certificates, client: String::new() })),
        Some(mode @ ("required" | "optional")) => mode,
        Some(_) => return Err("verify must be none, optional or required".to_owned()),
    };
    let ca = options.value("ca-file").ok_or("verify needs ca-file")?;
    if ca.starts_with('@') {
        return Err("ca-file must be a file".to_owned());
    }
    let ca = Folders::join(&folders.authorities, ca);
    let mut client = format!(", client_ca = {}, client = \"{mode}\"", quoted(&ca));
    if let Some(list) = options.value("crl-file") {
        let list = Folders::join(&folders.authorities, list);
        client += &format!(", client_crl = {}", quoted(&list));
    }
    if has("ca-ignore-err") || has("crt-ignore-err") {
        draft.stricter(
            &line.from,
            "a certificate that does not verify ends the handshake, whatever the error",
        );
    }
    Ok(Some(Tls { certificates, client }))
}

/// Lists an option that has a meaning here only in part, or none.
fn listed(word: &str, value: &str, line: &Line, draft: &mut Draft) {
    let why = match (word, value) {
        // Read elsewhere, or without a part in who is served.
        (
            "crt"
            | "crt-list"
            | "ca-file"
            | "ca-sign-file"
            | "ca-sign-pass"
            | "crl-file"
            | "verify"
            | "alpn"
            | "npn"
            | "proto"
            | "name"
            | "id"
            | "backlog"
            | "mss"
            | "nice"
            | "process"
            | "thread"
            | "shards"
            | "tls-ticket-keys"
            | "ca-ignore-err"
            | "crt-ignore-err"
            | "tcp-ut"
            | "user"
            | "group"
            | "uid"
            | "gid"
            | "mode"
            | "level"
            | "severity-output"
            | "expose-fd"
            | "ssl"
            | "defer-accept"
            | "tfo"
            | "transparent"
            | "v4v6"
            | "v6only"
            | "allow-0rtt"
            | "no-sslv3"
            | "no-tlsv10"
            | "no-tlsv11"
            | "no-tls-tickets"
            | "no-ca-names"
            | "prefer-client-ciphers"
            | "idle-ping",
            _,
        )
        | ("ssl-min-ver", "SSLv3" | "TLSv1.0" | "TLSv1.1" | "TLSv1.2") => return,
        ("maxconn", _) => {
            return draft.note(
                &line.from,
                "maxconn of one listener: limits.connections_max holds for all listeners",
            );
        }
        ("ssl-min-ver" | "force-tlsv13" | "no-tlsv12", _) => "TLS 1.2 is spoken beside 1.3",
        ("ssl-max-ver" | "force-tlsv12" | "no-tlsv13", _) => "TLS 1.3 is spoken beside 1.2",
        ("ciphers" | "ciphersuites" | "curves" | "ecdhe" | "sigalgs" | "client-sigalgs", _) => {
            "ciphers and curves are those of rustls"
        }
        ("strict-sni", _) => "clients that ask for no name of a certificate get the first",
        ("ca-verify-file", _) => {
            "its authorities are not among those that verify clients: add them to ca-file"
        }
        _ => "has what is not known here: see whether it keeps clients out",
    };
    draft.less_safe(&line.from, why);
}

/// One address of a line.
///
/// # Errors
/// The ports, if they are known, of what is no address with one port.
pub(super) fn address(text: &str) -> Result<SocketAddr, Option<RangeInclusive<u16>>> {
    let (is_v6, text) = match text.split_once('@') {
        Some(("ipv4", text)) => (false, text),
        Some(("ipv6", text)) => (true, text),
        Some(_) => return Err(None),
        None => (false, text),
    };
    let (host, port) = text.rsplit_once(':').ok_or(None)?;
    let ip = match host {
        "" | "*" if is_v6 => Some(IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
        "" | "*" => Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        host => {
            let inner = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
            inner.unwrap_or(host).parse().ok()
        }
    };
    let (first, last) = port.split_once('-').unwrap_or((port, port));
    let (first, last): (u16, u16) = match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) => (first, last),
        _ => return Err(None),
    };
    match ip {
        Some(ip) if first == last && first > 0 => Ok(SocketAddr::new(ip, first)),
        _ => Err(Some(first..=last)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let of = |text: &str| address(text).map(|it| it.to_string());
        for (text, is) in [
            (":80", "0.0.0.0:80"),
            ("*:80", "0.0.0.0:80"),
            (":::80", "[::]:80"),
            ("[::]:80", "[::]:80"),
            ("ipv6@:80", "[::]:80"),
            ("ipv6@*:80", "[::]:80"),
            ("ipv4@127.0.0.1:80", "127.0.0.1:80"),
            ("2001:db8::1:80", "[2001:db8::1]:80"),
        ] {
            assert_eq!(of(text).as_deref(), Ok(is), "{text}");
        }
        assert_eq!(of("127.0.0.1:80-90"), Err(Some(80..=90)));
        assert_eq!(of("localhost:80"), Err(Some(80..=80)));
        for text in ["/run/x", "unix@/run/x:1", "10.0.0.1", "fd@3", ":x"] {
            assert_eq!(of(text), Err(None), "{text}");
        }
    }
}
