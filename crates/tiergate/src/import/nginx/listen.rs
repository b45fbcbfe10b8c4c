//! `listen` and `ssl_…`: the listeners, and which connections come to which servers.
//!
//! Source: nginx.org, "How nginx processes a request": the servers of an address are those that listen at it, and of all addresses those
//! that say so; the first of them is the default one there, unless another says that it is.

use super::super::draft::{Draft, From, Item, quoted};
use super::grammar::Directive;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// A listener in the making: what the servers of its addresses say together.
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

/// What a server says of TLS.
struct Tls {
    certificates: Vec<(String, String)>,
    client: Option<Client>,
    /// What says that all of its addresses speak it.
    is_on: bool,
}

/// The connections to an address.
pub(super) struct Place {
    pub(super) address: SocketAddr,
    /// The listener that takes them: that of all addresses, if there is one.
    pub(super) listener: SocketAddr,
    /// The servers, in the order of the file.
    pub(super) servers: Vec<usize>,
    /// The server of hosts that none of them is called.
    pub(super) default: usize,
    /// What of it could not be taken over: it refuses everything.
    pub(super) closed: Option<From>,
    pub(super) from: From,
    tls: Option<From>,
    quic: Option<From>,
    proxied: Option<From>,
    is_default_said: bool,
    /// How many of the servers are for TCP, and how many for QUIC.
    by: [Vec<usize>; 2],
}

/// The listeners, and which servers each has.
pub(super) struct Listeners {
    pub(super) items: Vec<Item>,
    pub(super) places: Vec<Place>,
    /// For each server what of its TLS could not be taken over: it refuses everything.
    pub(super) closed: Vec<Option<From>>,
}

/// The listeners of all servers. `outer`: the directives of `http`, which servers inherit.
pub(super) fn listeners(
    blocks: &[&Directive],
    outer: &[Directive],
    draft: &mut Draft,
) -> Listeners {
    let (mut said, mut closed, mut places) = (Vec::new(), Vec::new(), Vec::new());
    let ports: Vec<u16> = blocks.iter().flat_map(|it| ports(it)).collect();
    for (index, block) in blocks.iter().enumerate() {
        let (tls, refuses) = tls(block, outer, draft);
        listen(index, block, tls.is_on, &mut places, &ports, draft);
        said.push(tls);
        closed.push(refuses);
    }
    let mut places = taken(places, draft);
    let mut sockets: BTreeMap<SocketAddr, Socket> = BTreeMap::new();
    // What a listener speaks says the place that has its address.
    places.sort_by_key(|it| it.address != it.listener);
    for place in &mut places {
        let socket = sockets.entry(place.listener).or_insert_with(|| Socket::new(place));
        if place.tls.is_some() != socket.tls.is_some() {
            draft.stricter(&place.from, "the listener of all addresses takes these connections, and only one of the two speaks TLS: they are refused until this address has a port of its own");
            place.closed = Some(place.from.clone());
            continue;
        }
        for index in &place.servers {
            socket.share(&said[*index], &mut closed[*index], draft);
        }
    }
    let mut items = Vec::new();
    sockets.retain(|address, socket| {
        let item = socket.item(&address.to_string(), draft);
        let is_written = item.is_some();
        items.extend(item);
        is_written
    });
    places.retain(|it| sockets.contains_key(&it.listener));
    for (index, block) in blocks.iter().enumerate() {
        if places.iter().all(|it| !it.servers.contains(&index)) {
            draft.stricter(
                &block.from,
                "no listener of this server could be taken over, so it is not written",
            );
        }
    }
    Listeners { items, places, closed }
}

/// Adds a server to the places at which it listens.
fn listen(
    index: usize,
    block: &Directive,
    has_tls: bool,
    places: &mut Vec<Place>,
    ports: &[u16],
    draft: &mut Draft,
) {
    let mut join = |address: SocketAddr, from: &From, words: &[String]| {
        let has = |word: &str| words.iter().any(|it| it == word);
        let given = |is: bool| is.then(|| from.clone());
        let place = match places.iter().position(|it| it.address == address) {
            Some(at) => &mut places[at],
            None => {
                places.push(Place::new(address, index, from));
                places.last_mut().expect("it was just put there")
            }
        };
        if !place.servers.contains(&index) {
            place.servers.push(index);
        }
        place.by[usize::from(has("quic"))].push(index);
        // The first that says so; nginx refuses a second.
        if (has("default_server") || has("default")) && !place.is_default_said {
            (place.default, place.is_default_said) = (index, true);
        }
        place.tls = place.tls.take().or(given(has("ssl") || has("quic") || has_tls));
        place.quic = place.quic.take().or(given(has("quic")));
        place.proxied = place.proxied.take().or(given(has("proxy_protocol")));
        if has("ipv6only=off") {
            draft.stricter(from, "whether it takes IPv4 clients, too, the system decides: write a listener for 0.0.0.0");
        }
    };
    let lines: Vec<_> = block.block.iter().filter(|it| it.name == "listen").collect();
    let found: Vec<_> = lines.iter().map(|line| (address(line), line)).collect();
    for (address, line) in &found {
        if let Ok(address) = address {
            join(*address, &line.from, &line.arguments);
        }
    }
    if lines.is_empty() {
        join(SocketAddr::from(([0, 0, 0, 0], 80)), &block.from, &[]);
    }
    for (address, line) in found {
        match address {
            Ok(_) => {}
            Err(NoAddress::Unix) => {
                draft.stricter(&line.from, "no listener on a UNIX socket: listen on 127.0.0.1");
            }
            Err(NoAddress::Unknown(port)) => {
                let why = "this listener is not written: it must be an address with a port, such as 0.0.0.0:80";
                // Another listener may take its connections.
                match port.is_some_and(|it| !ports.contains(&it)) {
                    true => draft.stricter(&line.from, why),
                    false => draft.less_safe(&line.from, why),
                }
            }
        }
    }
}

/// The ports at which a server listens, as far as they are known.
fn ports(block: &Directive) -> Vec<u16> {
    let lines: Vec<_> = block.block.iter().filter(|it| it.name == "listen").collect();
    match lines[..] {
        [] => vec![80],
        _ => lines.iter().filter_map(|it| Some(address(it).ok()?.port())).collect(),
    }
}

/// The places whose connections come, with the listener that takes them.
fn taken(mut places: Vec<Place>, draft: &mut Draft) -> Vec<Place> {
    let proxied = "PROXY headers count only from peers in `trusted`: write the addresses of what sends them, and then this listener with proxy_protocol = true";
    let all: Vec<SocketAddr> = places
        .iter()
        .filter(|it| it.address.ip().is_unspecified() && it.proxied.is_none())
        .map(|it| it.address)
        .collect();
    for place in &mut places {
        let takes = |it: &&SocketAddr| {
            it.port() == place.address.port() && it.is_ipv4() == place.address.is_ipv4()
        };
        place.listener = all.iter().find(takes).copied().unwrap_or(place.address);
        if let Some(from) = &place.proxied {
            draft.stricter(from, proxied);
            place.closed = Some(from.clone());
            // The listener of all addresses takes them; as far as that is known, what it speaks is not to blame.
            place.tls = None;
        }
        let [tcp, quic] = &place.by;
        let all = |some: &[usize], of: &[usize]| some.iter().all(|it| of.contains(it));
        let is_alike = quic.is_empty() || (all(tcp, quic) && all(quic, tcp));
        if !tcp.is_empty() && !is_alike {
            draft.less_safe(&place.from, "not all servers of this address have both TCP and QUIC: in the policy all have, and the names of all count for both");
        }
    }
    // One that has its address to itself is not written.
    places.retain(|it| it.proxied.is_none() || it.listener != it.address);
    places
}

impl Place {
    fn new(address: SocketAddr, first: usize, from: &From) -> Self {
        Place {
            address,
            listener: address,
            servers: Vec::new(),
            default: first,
            closed: None,
            from: from.clone(),
            tls: None,
            quic: None,
            proxied: None,
            is_default_said: false,
            by: [Vec::new(), Vec::new()],
        }
    }
}

impl Socket {
    fn new(place: &Place) -> Self {
        Socket {
            from: place.from.clone(),
            tls: place.tls.clone(),
            quic: place.quic.clone(),
            certificates: Vec::new(),
            client: None,
            servers: 0,
            asking: 0,
        }
    }

    /// Adds a server; `closed`: why it refuses everything.
    fn share(&mut self, tls: &Tls, closed: &mut Option<From>, draft: &mut Draft) {
        self.servers += 1;
        for it in &tls.certificates {
            if !self.certificates.contains(it) {
                self.certificates.push(it.clone());
            }
        }
        let Some(client) = &tls.client else { return };
        self.asking += 1;
        match &mut self.client {
            None => self.client = Some(client.clone()),
            Some(it) if (&it.ca, &it.revoked) == (&client.ca, &client.revoked) => {
                it.required |= client.required;
            }
            Some(_) => {
                draft.stricter(&client.from, "another server of this address has other authorities of clients: this one refuses everything until it has an address of its own");
                *closed = Some(client.from.clone());
            }
        }
    }

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

/// What a server says of TLS, and why it has to refuse everything.
fn tls(block: &Directive, outer: &[Directive], draft: &mut Draft) -> (Tls, Option<From>) {
    let all = |name: &'static str| {
        let own: Vec<_> = block.block.iter().filter(|it| it.name == name).collect();
        match own.is_empty() {
            true => outer.iter().filter(|it| it.name == name).collect(),
            false => own,
        }
    };
    let last = |name: &'static str| all(name).pop();
    let is_on = |name: &'static str| last(name).filter(|it| it.argument(0) == "on");
    let certificates = all("ssl_certificate")
        .iter()
        .zip(all("ssl_certificate_key"))
        .map(|(certificate, key)| (certificate.argument(0).to_owned(), key.argument(0).to_owned()))
        .collect();
    let mut closed = is_on("ssl_reject_handshake").map(|it| it.from.clone());
    let client = client(&last, &mut closed, draft);
    (Tls { certificates, client, is_on: is_on("ssl").is_some() }, closed)
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

/// Why a `listen` is no address.
enum NoAddress {
    Unix,
    /// The port, if it is known.
    Unknown(Option<u16>),
}

/// The address of a `listen`.
fn address(line: &Directive) -> Result<SocketAddr, NoAddress> {
    let text = line.argument(0);
    if text.starts_with("unix:") {
        return Err(NoAddress::Unix);
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
    let port = address.rsplit(':').next().and_then(|it| it.parse().ok());
    address.parse().map_err(|_| NoAddress::Unknown(port))
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
