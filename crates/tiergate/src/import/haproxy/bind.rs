//! `bind`: the listeners of a section.

use super::super::draft::{Draft, Item, quoted};
use super::grammar::{Line, Section};
use super::made::Made;

/// The addresses that a section listens on, and those of them that speak TLS.
pub(super) fn binds(
    section: &Section,
    made: &mut Made,
    draft: &mut Draft,
) -> (Vec<String>, Vec<String>) {
    let (mut addresses, mut secure) = (Vec::new(), Vec::new());
    for line in section.lines.iter().filter(|it| it.word(0) == "bind") {
        let tls = match bound(line, draft) {
            Ok(tls) => tls,
            Err(why) => {
                draft.stricter(&line.from, &format!("{why}: this listener is not written"));
                continue;
            }
        };
        for text in line.word(1).split(',') {
            let text = text.trim_start_matches("ipv4@").trim_start_matches("ipv6@");
            let address = match text.rsplit_once(':') {
                Some(("" | "*", port)) => format!("0.0.0.0:{port}"),
                Some(("::", port)) => format!("[::]:{port}"),
                _ => text.to_owned(),
            };
            if address.parse::<std::net::SocketAddr>().is_err() {
                draft.stricter(&line.from, "must be an address with a port, such as 0.0.0.0:80; no UNIX socket and no range of ports");
                continue;
            }
            if made.listeners.iter().any(|(known, _)| *known == address) {
                draft.less_safe(
                    &line.from,
                    "is bound already: what comes there gets the rules of the first section",
                );
                continue;
            }
            let mut item = Item::new("[[listener]]");
            item.key("address", quoted(&address), &line.from);
            if let Some(tls) = &tls {
                item.key("tls", tls, &line.from);
                secure.push(address.clone());
            }
            made.listeners.push((address.clone(), item));
            addresses.push(address);
        }
    }
    (addresses, secure)
}

/// The table `tls` of a `bind`.
///
/// # Errors
/// Why no listener must be written.
fn bound(line: &Line, draft: &mut Draft) -> Result<Option<String>, String> {
    let has = |word: &str| line.words.iter().skip(2).any(|it| it == word);
    if has("accept-proxy") || has("accept-netscaler-cip") {
        return Err("PROXY headers count only from peers in `trusted`: write the addresses of what sends them, and then this listener with proxy_protocol = true".to_owned());
    }
    if has("interface") || has("namespace") {
        return Err(
            "a listener has an address, and no interface: bind the interface's address".to_owned()
        );
    }
    let mut words = line.words.iter().skip(2).map(String::as_str);
    while let Some(word) = words.next() {
        let why = match word {
            // With a word behind it, which says nothing of who is served.
            "crt" | "ca-file" | "crl-file" | "verify" | "alpn" | "npn" | "proto" | "name"
            | "id" | "backlog" | "mss" | "nice" | "process" | "thread" | "shards" | "maxconn"
            | "tls-ticket-keys" | "ca-ignore-err" | "crt-ignore-err" | "tcp-ut" => {
                words.next();
                continue;
            }
            "ssl"
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
            | "prefer-client-ciphers" => continue,
            "ssl-min-ver" => match words.next() {
                Some("SSLv3" | "TLSv1.0" | "TLSv1.1" | "TLSv1.2") => continue,
                _ => "TLS 1.2 is spoken beside 1.3",
            },
            "force-tlsv13" => "TLS 1.2 is spoken beside 1.3",
            "strict-sni" => "clients that ask for no name of a certificate get the first",
            _ => "has what is not known here: see whether it keeps clients out",
        };
        draft.less_safe(&line.from, why);
    }
    if !has("ssl") {
        return match has("verify") || has("ca-file") {
            true => Err("verifies clients without TLS".to_owned()),
            false => Ok(None),
        };
    }
    let file = line.after("crt").ok_or("TLS needs crt")?;
    // One file has the certificate and its key.
    let mut tls = format!("certificate = {0}, key = {0}", quoted(file));
    let mode = match line.after("verify") {
        None | Some("none") => return Ok(Some(format!("{{ {tls} }}"))),
        Some(mode @ ("required" | "optional")) => mode,
        Some(_) => return Err("verify must be none, optional or required".to_owned()),
    };
    let ca = line.after("ca-file").ok_or("verify needs ca-file")?;
    if ca.starts_with('@') {
        return Err("ca-file must be a file".to_owned());
    }
    tls += &format!(", client_ca = {}, client = \"{mode}\"", quoted(ca));
    if let Some(list) = line.after("crl-file") {
        tls += &format!(", client_crl = {}", quoted(list));
    }
    if has("ca-ignore-err") || has("crt-ignore-err") {
        draft.stricter(
            &line.from,
            "a certificate that does not verify ends the handshake, whatever the error",
        );
    }
    Ok(Some(format!("{{ {tls} }}")))
}
