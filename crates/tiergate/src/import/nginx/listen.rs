//! `listen`: the listeners.

use super::super::draft::{Draft, Item, quoted};
use super::grammar::Directive;
use std::collections::BTreeMap;

/// The addresses of a server's listeners.
pub(super) fn listen(
    block: &Directive,
    addresses: &mut BTreeMap<String, Item>,
    draft: &mut Draft,
) -> Vec<String> {
    let find = |name: &str| block.block.iter().find(|it| it.name == name);
    let mut list = Vec::new();
    for line in block.block.iter().filter(|it| it.name == "listen") {
        let text = line.argument(0);
        if text.starts_with("unix:") {
            draft.note(&line.from, "no listener on a UNIX socket: listen on 127.0.0.1");
            continue;
        }
        let address = match text {
            _ if text.bytes().all(|it| it.is_ascii_digit()) => format!("0.0.0.0:{text}"),
            _ => match text.strip_prefix("*:").or_else(|| text.strip_prefix("localhost:")) {
                Some(port) => format!(
                    "{}:{port}",
                    if text.starts_with('*') { "0.0.0.0" } else { "127.0.0.1" }
                ),
                None if text.rsplit(']').next().is_some_and(|it| it.contains(':')) => {
                    text.to_owned()
                }
                None => format!("{text}:80"),
            },
        };
        if address.parse::<std::net::SocketAddr>().is_err() {
            draft.note(&line.from, "must be an address with a port, such as 0.0.0.0:80");
            continue;
        }
        let mut item = Item::new("[[listener]]");
        item.key("address", quoted(&address), &line.from);
        if line.arguments.iter().any(|it| it == "proxy_protocol") {
            item.key("proxy_protocol", true, &line.from);
            draft.note(&line.from, "PROXY headers count only from peers in `trusted`: write the addresses of what sends them");
        }
        if line.arguments.iter().any(|it| it == "ssl" || it == "quic") {
            match (find("ssl_certificate"), find("ssl_certificate_key")) {
                (Some(certificate), Some(key)) => {
                    let tls = format!(
                        "{{ certificate = {}, key = {} }}",
                        quoted(certificate.argument(0)),
                        quoted(key.argument(0))
                    );
                    item.key("tls", tls, &certificate.from);
                }
                _ => {
                    draft.note(
                        &line.from,
                        "TLS needs ssl_certificate and ssl_certificate_key in the same server",
                    );
                    continue;
                }
            }
        }
        list.push(address.clone());
        match addresses.contains_key(&address) {
            true if item.has("tls") => draft
                .note(&line.from, "several certificates of a listener go into tls.certificates"),
            true => {}
            false => {
                addresses.insert(address, item);
            }
        }
    }
    if list.is_empty() {
        let address = "0.0.0.0:80".to_owned();
        let mut item = Item::new("[[listener]]");
        item.key("address", quoted(&address), &block.from);
        addresses.entry(address.clone()).or_insert(item);
        list.push(address);
    }
    list.sort();
    list.dedup();
    list
}
