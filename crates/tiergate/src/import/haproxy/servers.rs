//! `server`, `server-template` and `default-server`: the servers of a backend, and what of their options is taken over.

use super::super::draft::{Draft, quoted};
use super::grammar::{Line, Section};
use super::options::Options;
use std::net::Ipv6Addr;

/// Most servers of a pool, and most slots of a server.
const SERVERS_MAX: usize = tiergate_core::origin::SERVERS_MAX;
const SLOTS_MAX: u32 = 1_000_000;

/// A server that gets requests.
pub(super) struct Server<'l> {
    pub(super) line: &'l Line,
    /// Its options, behind those of `default-server`.
    options: Options<'l>,
}

/// The servers that get requests: backups only where there is nothing else.
pub(super) fn servers(section: &Section) -> Vec<Server<'_>> {
    let mut defaults = Options::default();
    let mut all = Vec::new();
    for line in section.all_lines() {
        match line.word(0) {
            "default-server" => defaults = defaults.with(Options::of_server(line)),
            "server" | "server-template" => {
                let options = defaults.with(Options::of_server(line));
                all.push(Server { line, options });
            }
            _ => {}
        }
    }
    let is_live = |it: &Server<'_>| {
        !it.options.is_on("disabled", &["enabled"]) && it.options.value("weight") != Some("0")
    };
    let (backups, active): (Vec<_>, Vec<_>) =
        all.into_iter().filter(is_live).partition(Server::is_backup);
    if active.is_empty() { backups } else { active }
}

impl Server<'_> {
    fn is_backup(&self) -> bool {
        self.options.is_on("backup", &["no-backup", "non-backup"])
    }

    pub(super) fn weight(&self) -> &str {
        self.options.value("weight").unwrap_or("1")
    }

    /// Its address as policies write it. `port`: that of all listeners, if they have the same.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn address(&self, port: Option<u16>) -> Result<String, &'static str> {
        let at = if self.line.word(0) == "server" { 2 } else { 3 };
        address(self.line.word(at), port)
    }

    /// Its limit; without one, or with 0, it has none.
    fn slots(&self) -> Option<u32> {
        let slots: u32 = self.options.value("maxconn")?.parse().ok()?;
        (slots > 0).then_some(slots.min(SLOTS_MAX))
    }
}

/// The servers as TOML, each address once, and the lines that they come from. What cannot be taken over is listed.
pub(super) fn written<'s>(
    live: &[Server<'s>],
    port: Option<u16>,
    draft: &mut Draft,
) -> Vec<(String, &'s Line)> {
    let mut list: Vec<(String, Option<u32>, &Line)> = Vec::new();
    for server in live {
        let from = &server.line.from;
        let address = match server.address(port) {
            Ok(address) => address,
            Err(why) => {
                draft.note(from, &format!("{why}: the server is not written"));
                continue;
            }
        };
        if list.iter().any(|(it, ..)| *it == address) {
            draft.note(
                from,
                "another server has this address: it is written once, with the limit of the first",
            );
            continue;
        }
        if list.len() == SERVERS_MAX {
            draft.note(
                from,
                &format!("a pool has at most {SERVERS_MAX} servers: it is not written"),
            );
            continue;
        }
        list.push((address, server.slots(), server.line));
    }
    let toml = |(address, slots, line): (String, Option<u32>, _)| match slots {
        Some(slots) => (format!("{{ address = {}, slots = {slots} }}", quoted(&address)), line),
        None => (quoted(&address), line),
    };
    list.into_iter().map(toml).collect()
}

/// Lists what of a server is not taken over.
pub(super) fn server(line: &Line, is_live: bool, draft: &mut Draft) {
    let options = Options::of_server(line);
    if !is_live {
        return draft.note(&line.from, match options.has("backup") {
            true => "no backup within a pool: write a [[pool]] with this server, and fallback = its name in the other",
            false => "it is disabled: add it to `servers` when it is back",
        });
    }
    if line.word(0) == "server-template" {
        draft.note(&line.from, "one server here, with all addresses of its name; the limit of each is that of one, and of fixed addresses only the first is written");
    }
    self::options(line, &options, draft);
}

/// Lists what of `default-server` is not taken over.
pub(super) fn default_server(line: &Line, draft: &mut Draft) {
    options(line, &Options::of_server(line), draft);
}

fn options(line: &Line, options: &Options<'_>, draft: &mut Draft) {
    const TLS: &str = "TLS to servers is not taken over, and the policy sends plain HTTP: add tls = true to [origin] or the pool";
    const PROXY: &str = "servers get no PROXY header, and so the gateway's address for each client's: see that they let nobody in by it, and that they do not wait for the header";
    for (word, value) in &options.list {
        match (*word, *value) {
            ("ssl", _) => draft.less_safe(&line.from, TLS),
            // Of TLS, of which that is said.
            _ if of_tls(word) => {}
            ("check", _) => draft.note(&line.from, "check: failures of requests take a server out; for active checks write [origin.health] with path = \"/\""),
            ("send-proxy" | "send-proxy-v2" | "send-proxy-v2-ssl" | "send-proxy-v2-ssl-cn", _) => {
                draft.less_safe(&line.from, PROXY);
            }
            ("proto", "h1") => {}
            ("proto", _) => draft.note(&line.from, "proto: servers are spoken to by HTTP/1.1: write protocol = \"h2\" in [origin] or the pool"),
            ("redir", _) => draft.note(&line.from, "redir: requests go to the server instead of being redirected to it"),
            ("maxqueue", _) => draft.note(&line.from, "maxqueue: requests wait in one queue for all servers, for as long as the deadline of their class, and go to any"),
            ("agent-check" | "track", _) => draft.note(&line.from, &format!("{word}: failures of requests take a server out; for active checks write [origin.health]")),
            ("socks4", _) => draft.note(&line.from, "socks4: servers are connected to without a proxy")
            ,
            ("source" | "usesrc" | "interface" | "namespace", _) => draft.note(&line.from, &format!("{word}: the system decides by which address and interface servers are connected to: see that they let this one in")),
            ("slowstart", _) => draft.note(&line.from, "slowstart: a server that comes back gets requests as the adaptive limit allows"),
            ("cookie", _) => draft.note(&line.from, "cookie: no stickiness to servers: keep sessions where all servers find them"),
            _ if is_harmless(word) => {}
            _ => draft.less_safe(&line.from, &format!("{word} is not known here: see whether it keeps clients out")),
        }
    }
}

/// Options of TLS to servers.
fn of_tls(word: &str) -> bool {
    matches!(
        word,
        "ca-file"
            | "crl-file"
            | "crt"
            | "ciphers"
            | "ciphersuites"
            | "curves"
            | "sigalgs"
            | "client-sigalgs"
            | "alpn"
            | "npn"
            | "sni"
            | "verify"
            | "verifyhost"
            | "ssl-min-ver"
            | "ssl-max-ver"
            | "ssl-reuse"
            | "allow-0rtt"
            | "tls-tickets"
    ) || ["no-ssl", "no-tls", "force-ssl", "force-tls", "no-verifyhost"]
        .iter()
        .any(|it| word.starts_with(it))
}

/// Options that are read elsewhere, or have no part in which requests a server gets.
fn is_harmless(word: &str) -> bool {
    matches!(
        word,
        "addr"
            | "agent-addr"
            | "agent-inter"
            | "agent-port"
            | "agent-send"
            | "backup"
            | "disabled"
            | "enabled"
            | "error-limit"
            | "downinter"
            | "fastinter"
            | "inter"
            | "fall"
            | "rise"
            | "port"
            | "observe"
            | "on-error"
            | "on-marked-down"
            | "on-marked-up"
            | "id"
            | "guid"
            | "hash-key"
            | "idle-ping"
            | "init-addr"
            | "init-state"
            | "log-bufsize"
            | "log-proto"
            | "max-reuse"
            | "maxconn"
            | "minconn"
            | "pool-conn-name"
            | "pool-low-conn"
            | "pool-max-conn"
            | "pool-purge-delay"
            | "proxy-v2-options"
            | "resolve-net"
            | "resolve-opts"
            | "resolve-prefer"
            | "resolvers"
            | "shard"
            | "stick"
            | "non-stick"
            | "non-backup"
            | "tcp-ut"
            | "tfo"
            | "weight"
            | "ws"
    ) || word.starts_with("check-")
        || word.starts_with("no-")
}

/// A server's address as policies write it; without a port of its own, HAProxy takes the one that the client connected to.
fn address(text: &str, clients: Option<u16>) -> Result<String, &'static str> {
    let text = text.strip_prefix("ipv4@").or_else(|| text.strip_prefix("ipv6@")).unwrap_or(text);
    let path = text.strip_prefix("unix@").or(text.starts_with('/').then_some(text));
    if let Some(path) = path {
        let is_usable = path.starts_with('/') && path.len() < 108;
        return match is_usable {
            true => Ok(format!("unix:{path}")),
            false => Err("must be an absolute path of a UNIX socket, below 108 bytes"),
        };
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (text, ""),
    };
    let inner = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let host = match inner.parse::<Ipv6Addr>() {
        Ok(ip) if !ip.is_unspecified() => format!("[{ip}]"),
        Err(_) if !host.is_empty() && host.len() < 254 && host.bytes().all(is_letter) => {
            host.to_owned()
        }
        _ => return Err("must be an address or a name, with a port"),
    };
    if host == "0.0.0.0" {
        return Err("HAProxy takes the address that the client connected to: name the server's");
    }
    let unknown =
        "HAProxy takes the port that the client connected to, of several: write the server's";
    let port = match port {
        "" => Some(clients.ok_or(unknown)?),
        // `+1000` is behind the port that the client connected to, and `-1000` before it.
        it if it.starts_with(['+', '-']) => {
            let clients = i64::from(clients.ok_or(unknown)?);
            let moved = it.parse::<i64>().ok().and_then(|by| clients.checked_add(by));
            moved.and_then(|it| u16::try_from(it).ok())
        }
        it => it.parse().ok(),
    };
    let port = port.filter(|it| *it > 0).ok_or("must have a port of 1 to 65535")?;
    Ok(format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let of = |text| address(text, Some(8000)).ok();
        for (text, is) in [
            ("10.0.0.1:80", Some("10.0.0.1:80")),
            ("ipv4@app.internal:80", Some("app.internal:80")),
            ("2001:db8::1:8080", Some("[2001:db8::1]:8080")),
            ("[2001:db8::1]:8080", Some("[2001:db8::1]:8080")),
            ("[2001:db8::1]", Some("[2001:db8::1]:8000")),
            ("10.0.0.1", Some("10.0.0.1:8000")),
            ("10.0.0.1:", Some("10.0.0.1:8000")),
            ("10.0.0.1:+1000", Some("10.0.0.1:9000")),
            ("10.0.0.1:-7999", Some("10.0.0.1:1")),
            ("10.0.0.1:-8000", None),
            ("10.0.0.1:+9223372036854775807", None),
            ("unix@/run/x", Some("unix:/run/x")),
            ("/run/x", Some("unix:/run/x")),
            ("unix@x", None),
            (":80", None),
            ("0.0.0.0:80", None),
            ("*:80", None),
            ("[::]:80", None),
            ("abns@x", None),
            ("a b:80", None),
            ("10.0.0.1:0", None),
            ("10.0.0.1:99999", None),
        ] {
            assert_eq!(of(text).as_deref(), is, "{text}");
        }
        assert!(address("10.0.0.1", None).is_err() && address("10.0.0.1:+1", None).is_err());
    }
}
