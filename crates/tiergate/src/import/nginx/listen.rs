//! `listen` and `ssl_…`: the listeners.

use super::super::draft::{Draft, From, Item, quoted};
use super::grammar::Directive;
use std::collections::BTreeMap;

/// A listener in the making: what the servers of an address say together.
struct Socket {
    from: From,
    /// What says that it speaks TLS.
    tls: Option<From>,
    /// What says that it speaks HTTP/3.
    quic: Option<From>,
    /// Files of certificates and keys.
    certificates: Vec<(String, String)>,
    client: Option<Client>,
    /// How many servers share it, and how many of these ask clients for certificates.
    servers: usize,
    asking: usize,
}

/// `ssl_verify_client`.
#[derive(Clone, PartialEq, Eq)]
struct Client {
    ca: String,
    revoked: Option<String>,
    required: bool,
    from: From,
}

/// The listeners, and which of them each server has.
pub(super) struct Listeners {
    pub(super) items: Vec<Item>,
    /// For each server; without any it is not written.
    pub(super) addresses: Vec<Vec<String>>,
    /// For each server what of its TLS could not be taken over: it refuses everything.
    pub(super) closed: Vec<Option<From>>,
}

/// The listeners of all servers. `outer`: the directives of `http`, which servers inherit.
pub(super) fn listeners(
    blocks: &[&Directive],
    outer: &[Directive],
    draft: &mut Draft,
) -> Listeners {
    let mut sockets: BTreeMap<String, Socket> = BTreeMap::new();
    let (mut addresses, mut closed) = (Vec::new(), Vec::new());
    for block in blocks {
        let (list, refuses) = server(block, outer, &mut sockets, draft);
        addresses.push(list);
        closed.push(refuses);
    }
    let mut items = Vec::new();
    sockets.retain(|address, socket| match socket.item(address, draft) {
        Some(item) => {
            items.push(item);
            true
        }
        None => false,
    });
    for (list, block) in addresses.iter_mut().zip(blocks) {
        list.retain(|it| sockets.contains_key(it));
        if list.is_empty() {
            draft.stricter(
                &block.from,
                "no listener of this server could be taken over, so it is not written",
            );
        }
    }
    Listeners { items, addresses, closed }
}

impl Socket {
    /// `None` if it cannot be written.
    fn item(&self, address: &str, draft: &mut Draft) -> Option<Item> {
        let mut item = Item::new("[[listener]]");
        item.key("address", quoted(address), &self.from);
        let Some(tls) = &self.tls else { return Some(item) };
        let pair = |it: &(String, String)| {
            format!("certificate = {}, key = {}", quoted(&it.0), quoted(&it.1))
        };
        let mut keys = match &self.certificates[..] {
            [] => {
                draft.stricter(
                    tls,
                    "TLS needs ssl_certificate and ssl_certificate_key: this listener is not written",
                );
                return None;
            }
            [one] => pair(one),
            several => {
                let several: Vec<_> =
                    several.iter().map(|it| format!("{{ {} }}", pair(it))).collect();
                format!("certificates = [{}]", several.join(", "))
            }
        };
        let mut from = tls.clone();
        if let Some(client) = &self.client {
            let mode = if client.required { "required" } else { "optional" };
            keys += &format!(", client_ca = {}, client = \"{mode}\"", quoted(&client.ca));
            if let Some(list) = &client.revoked {
                keys += &format!(", client_crl = {}", quoted(list));
            }
            from.text = format!("{}; {}", from.text, client.from.text);
            if client.required && self.asking < self.servers {
                draft.stricter(&client.from, "not all servers of this address ask for certificates, but a listener asks for all: give these an address of their own, or write client = \"optional\", and certificate = true in their rules");
            }
        }
        item.key("tls", format!("{{ {keys} }}"), &from);
        if let Some(quic) = &self.quic {
            item.key("http3", "true".to_owned(), quic);
        }
        Some(item)
    }
}

/// The addresses of a server's listeners, and why it has to refuse everything.
fn server(
    block: &Directive,
    outer: &[Directive],
    sockets: &mut BTreeMap<String, Socket>,
    draft: &mut Draft,
) -> (Vec<String>, Option<From>) {
    let all = |name: &'static str| {
        let own: Vec<_> = block.block.iter().filter(|it| it.name == name).collect();
        match own.is_empty() {
            true => outer.iter().filter(|it| it.name == name).collect(),
            false => own,
        }
    };
    let last = |name: &'static str| all(name).pop();
    let is_on = |name: &'static str| last(name).filter(|it| it.argument(0) == "on");
    let certificates: Vec<(String, String)> = all("ssl_certificate")
        .iter()
        .zip(all("ssl_certificate_key"))
        .map(|(certificate, key)| (certificate.argument(0).to_owned(), key.argument(0).to_owned()))
        .collect();
    let mut closed = is_on("ssl_reject_handshake").map(|it| it.from.clone());
    let client = client(&last, &mut closed, draft);
    let mut list = Vec::new();
    let lines: Vec<_> = block.block.iter().filter(|it| it.name == "listen").collect();
    for line in &lines {
        let Some(address) = address(line, draft) else { continue };
        let has = |word: &str| line.arguments.iter().any(|it| it == word);
        let socket = sockets.entry(address.clone()).or_insert(plain(&line.from));
        // The same address is named for TCP and for QUIC.
        if has("quic") {
            socket.quic.get_or_insert(line.from.clone());
        }
        if has("ssl") || has("quic") || is_on("ssl").is_some() {
            socket.tls.get_or_insert(line.from.clone());
        }
        if list.contains(&address) {
            continue;
        }
        socket.servers += 1;
        list.push(address);
        for it in &certificates {
            if !socket.certificates.contains(it) {
                socket.certificates.push(it.clone());
            }
        }
        let Some(client) = &client else { continue };
        socket.asking += 1;
        match &mut socket.client {
            None => socket.client = Some(client.clone()),
            Some(it) if (&it.ca, &it.revoked) == (&client.ca, &client.revoked) => {
                it.required |= client.required;
            }
            Some(_) => {
                draft.stricter(&client.from, "another server of this address has other authorities of clients: this one refuses everything until it has an address of its own");
                closed = Some(client.from.clone());
            }
        }
    }
    if lines.is_empty() {
        let address = "0.0.0.0:80".to_owned();
        sockets.entry(address.clone()).or_insert(plain(&block.from)).servers += 1;
        list.push(address);
    }
    list.sort();
    (list, closed)
}

fn plain(from: &From) -> Socket {
    Socket {
        from: from.clone(),
        tls: None,
        quic: None,
        certificates: Vec::new(),
        client: None,
        servers: 0,
        asking: 0,
    }
}

/// What a server asks of clients' certificates.
fn client<'d>(
    last: &dyn Fn(&'static str) -> Option<&'d Directive>,
    closed: &mut Option<From>,
    draft: &mut Draft,
) -> Option<Client> {
    let verify = last("ssl_verify_client")?;
    let required = match verify.argument(0) {
        "off" => return None,
        "on" => true,
        "optional" => false,
        _ => {
            draft.less_safe(&verify.from, "clients are not asked for certificates that are not verified: let what checks them ask, or write client_ca");
            return None;
        }
    };
    let Some(ca) = last("ssl_client_certificate").or_else(|| last("ssl_trusted_certificate"))
    else {
        draft.stricter(
            &verify.from,
            "needs ssl_client_certificate: the server refuses everything until tls has client_ca",
        );
        *closed = Some(verify.from.clone());
        return None;
    };
    Some(Client {
        ca: ca.argument(0).to_owned(),
        revoked: last("ssl_crl").map(|it| it.argument(0).to_owned()),
        required,
        from: From {
            text: format!("{}; {}", ca.from.text, verify.from.text),
            ..verify.from.clone()
        },
    })
}

/// The address of a `listen`.
fn address(line: &Directive, draft: &mut Draft) -> Option<String> {
    let text = line.argument(0);
    if text.starts_with("unix:") {
        draft.stricter(&line.from, "no listener on a UNIX socket: listen on 127.0.0.1");
        return None;
    }
    if line.arguments.iter().any(|it| it == "proxy_protocol") {
        draft.stricter(&line.from, "PROXY headers count only from peers in `trusted`: write the addresses of what sends them, and then this listener with proxy_protocol = true");
        return None;
    }
    let host = |it: &str| match it {
        "*" => "0.0.0.0".to_owned(),
        "localhost" => "127.0.0.1".to_owned(),
        it => it.to_owned(),
    };
    let address = match text.rsplit_once(':') {
        _ if !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit()) => {
            format!("0.0.0.0:{text}")
        }
        Some((before, port)) if !port.ends_with(']') => format!("{}:{port}", host(before)),
        _ => format!("{}:80", host(text)),
    };
    match address.parse::<std::net::SocketAddr>() {
        Ok(_) => Some(address),
        Err(_) => {
            draft.stricter(&line.from, "this listener is not written: it must be an address with a port, such as 0.0.0.0:80");
            None
        }
    }
}

/// Lists what a policy does not say of TLS.
pub(super) fn tls_notes(it: &Directive, draft: &mut Draft) {
    match it.name.as_str() {
        // Taken over, or without a meaning for what is refused; protocols and ciphers are none that are broken.
        "ssl_certificate"
        | "ssl_certificate_key"
        | "ssl_client_certificate"
        | "ssl_trusted_certificate"
        | "ssl_verify_client"
        | "ssl_crl"
        | "ssl_reject_handshake"
        | "ssl_session_cache"
        | "ssl_session_timeout"
        | "ssl_session_tickets"
        | "ssl_session_ticket_key"
        | "ssl_prefer_server_ciphers"
        | "ssl_ciphers"
        | "ssl_dhparam"
        | "ssl_ecdh_curve"
        | "ssl_buffer_size"
        | "ssl_early_data"
        | "ssl_stapling"
        | "ssl_stapling_file"
        | "ssl_stapling_responder"
        | "ssl_stapling_verify" => {}
        "ssl_protocols" if it.arguments.iter().any(|it| it == "TLSv1.2") => {}
        "ssl_protocols" => draft.less_safe(&it.from, "TLS 1.2 is spoken beside 1.3"),
        "ssl_ocsp" if it.argument(0) == "off" => {}
        "ssl_ocsp" => draft.less_safe(
            &it.from,
            "clients' certificates are not looked up by OCSP: write client_crl in tls",
        ),
        "ssl_verify_depth" => {
            draft.less_safe(&it.from, "chains of clients' certificates may be of any length")
        }
        "ssl_password_file" => draft.note(&it.from, "keys have no password: decrypt the key"),
        _ => draft
            .less_safe(&it.from, "this of TLS is not taken over: see whether it keeps clients out"),
    }
}
