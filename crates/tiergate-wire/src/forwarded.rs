//! The client's address behind trusted proxies: the right-most address of `X-Forwarded-For` or
//! `Forwarded` that is not itself a trusted proxy's.

use crate::http1::{Parsed, is_token};
use arrayvec::ArrayVec;
use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use tiergate_core::request::Field;

/// Proxies in a row that are followed back, from the nearest; further ones are ignored.
pub const HOPS_MAX: usize = 32;

/// The address of the client that `peer` speaks for, or `peer` itself if it is not `trusted`.
///
/// Every trusted proxy appends the address it got the request from. From the right, addresses are
/// skipped as long as they are trusted; the first that is not is the client's. Anything
/// further left may be written by the client. An entry that is no address (`unknown`, an
/// obfuscated name, garbage) ends the walk at the last proxy before it.
///
/// If both fields are present, `X-Forwarded-For` counts: proxies that write only `Forwarded` are
/// rare. Known limitation: behind such a proxy, a client can write its own `X-Forwarded-For`, which the
/// proxy must remove.
///
/// IPv4-mapped IPv6 addresses are compared as IPv4.
pub fn client_address(peer: IpAddr, fields: &[Field<'_>], trusted: &[IpNet]) -> IpAddr {
    let peer = peer.to_canonical();
    let is_trusted = |address: &IpAddr| trusted.iter().any(|net| net.contains(address));
    if !is_trusted(&peer) {
        return peer;
    }
    let mut client = peer;
    let mut hops = 0;
    let mut follow = |node: Option<IpAddr>| {
        hops += 1;
        match node {
            Some(address) if hops <= HOPS_MAX => client = address,
            _ => return false,
        }
        is_trusted(&client)
    };
    if named(fields, b"x-forwarded-for").next().is_some() {
        named(fields, b"x-forwarded-for")
            .rev()
            .flat_map(|value| value.rsplit(|&b| b == b','))
            .all(|entry| follow(parse_node(entry.trim_ascii())));
    } else {
        named(fields, b"forwarded")
            .rev()
            .all(|value| forwarded_nodes(value).into_iter().rev().all(&mut follow));
    }
    client
}

fn named<'f, 'b>(
    fields: &'f [Field<'b>],
    name: &'static [u8],
) -> impl DoubleEndedIterator<Item = &'b [u8]> + use<'f, 'b> {
    fields
        .iter()
        .filter(move |field| field.name.eq_ignore_ascii_case(name))
        .map(|field| field.value)
}

/// An address with or without port, an IPv6 address with or without brackets.
fn parse_node(node: &[u8]) -> Option<IpAddr> {
    let node = std::str::from_utf8(node).ok()?;
    let address = if let Some(inner) = node.strip_prefix('[').and_then(|n| n.strip_suffix(']')) {
        IpAddr::V6(Ipv6Addr::from_str(inner).ok()?)
    } else if let Ok(address) = IpAddr::from_str(node) {
        address
    } else {
        without_port(node)?
    };
    Some(address.to_canonical())
}

fn without_port(node: &str) -> Option<IpAddr> {
    if let Ok(end) = SocketAddr::from_str(node) {
        return Some(end.ip());
    }
    // RFC 7239 §6 allows a port to be obfuscated as well: an underscore and a name.
    let (address, port) = node.rsplit_once(':')?;
    if !port.starts_with('_') {
        return None;
    }
    match address.strip_prefix('[') {
        Some(rest) => Ipv6Addr::from_str(rest.strip_suffix(']')?).ok().map(IpAddr::V6),
        None => Ipv4Addr::from_str(address).ok().map(IpAddr::V4),
    }
}

type Nodes = ArrayVec<Option<IpAddr>, HOPS_MAX>;

/// The `for` of every element of a `Forwarded` value (RFC 7239 §4), the last [`HOPS_MAX`] of them;
/// `None` for one that has no address. If the value is malformed, its elements cannot be told
/// apart: it counts as one without address.
fn forwarded_nodes(value: &[u8]) -> Nodes {
    let mut nodes = Nodes::new();
    let mut rest = value;
    loop {
        let Ok(element) = parse_element(rest) else {
            nodes.clear();
            nodes.push(None);
            return nodes;
        };
        if nodes.is_full() {
            nodes.remove(0);
        }
        if !element.is_empty {
            nodes.push(element.node);
        }
        match element.rest {
            Some(after_comma) => rest = after_comma,
            None => return nodes,
        }
    }
}

struct Element<'b> {
    node: Option<IpAddr>,
    /// Nothing stands between two commas: allowed in any list.
    is_empty: bool,
    /// What follows the comma, if there is one.
    rest: Option<&'b [u8]>,
}

struct Malformed;

/// Parses the pairs up to the next comma outside quotes.
fn parse_element(mut rest: &[u8]) -> Result<Element<'_>, Malformed> {
    let mut node = Parsed::Partial;
    let mut is_empty = true;
    loop {
        rest = rest.trim_ascii_start();
        if let Some(equals) = rest.iter().position(|b| matches!(b, b'=' | b';' | b','))
            && rest[equals] == b'='
        {
            let name = &rest[..equals];
            let (text, after) = parse_value(&rest[equals + 1..])?;
            if !is_token(name) {
                return Err(Malformed);
            }
            if name.eq_ignore_ascii_case(b"for") {
                if node != Parsed::Partial {
                    return Err(Malformed);
                }
                node = Parsed::Complete(parse_node(text));
            }
            is_empty = false;
            rest = after.trim_ascii_start();
        }
        let node = match node {
            Parsed::Complete(node) => node,
            Parsed::Partial => None,
        };
        rest = match rest {
            [b';', after @ ..] => after,
            [b',', after @ ..] => {
                return Ok(Element { node, is_empty, rest: Some(after) });
            }
            [] => {
                return Ok(Element { node, is_empty, rest: None });
            }
            _ => return Err(Malformed),
        };
    }
}

/// Parses a token or quoted string; gives what follows too. A string with escapes is given with
/// them: no address needs any.
fn parse_value(bytes: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    if let [b'"', quoted @ ..] = bytes {
        let mut at = 0;
        loop {
            match quoted.get(at) {
                Some(b'"') => return Ok((&quoted[..at], &quoted[at + 1..])),
                Some(b'\\') => at += 2,
                Some(_) => at += 1,
                None => return Err(Malformed),
            }
        }
    }
    let len =
        bytes.iter().position(|b| matches!(b, b';' | b',' | b' ' | b'\t')).unwrap_or(bytes.len());
    let (token, rest) = bytes.split_at(len);
    if is_token(token) { Ok((token, rest)) } else { Err(Malformed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, fields: &[(&str, &str)]) -> String {
        let trusted: Vec<IpNet> =
            ["10.0.0.0/8", "2001:db8:f::/48"].iter().map(|net| net.parse().unwrap()).collect();
        let fields: Vec<Field<'_>> = fields
            .iter()
            .map(|(name, value)| Field { name: name.as_bytes(), value: value.as_bytes() })
            .collect();
        client_address(peer.parse().unwrap(), &fields, &trusted).to_string()
    }

    fn x(value: &str) -> String {
        client("10.0.0.1", &[("X-Forwarded-For", value)])
    }

    fn rfc(value: &str) -> String {
        client("10.0.0.1", &[("Forwarded", value)])
    }

    #[test]
    fn strangers_are_not_believed() {
        let fields = [("X-Forwarded-For", "192.0.2.9"), ("Forwarded", "for=192.0.2.9")];
        assert_eq!(client("192.0.2.1", &fields), "192.0.2.1");
        assert_eq!(client("10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(client("::ffff:10.0.0.1", &fields[..1]), "192.0.2.9");
    }

    #[test]
    fn the_rightmost_stranger_is_the_client() {
        assert_eq!(x("192.0.2.9"), "192.0.2.9");
        assert_eq!(x("1.1.1.1, 192.0.2.9, 10.9.9.9,10.0.0.2"), "192.0.2.9");
        assert_eq!(x("10.0.0.3, 10.0.0.2"), "10.0.0.3");
        assert_eq!(x("::ffff:192.0.2.9, ::ffff:10.0.0.2"), "192.0.2.9");
        assert_eq!(x("2001:db8::1, 2001:db8:f::2"), "2001:db8::1");
        let lines = [("x-forwarded-for", "192.0.2.9"), ("X-FORWARDED-FOR", "10.0.0.2")];
        assert_eq!(client("10.0.0.1", &lines), "192.0.2.9");
    }

    #[test]
    fn ports_and_brackets() {
        assert_eq!(x("192.0.2.9:4711"), "192.0.2.9");
        assert_eq!(x("[2001:db8::1]"), "2001:db8::1");
        assert_eq!(x("[2001:db8::1]:4711"), "2001:db8::1");
        assert_eq!(rfc("for=\"[2001:db8::1]:_port\""), "2001:db8::1");
        assert_eq!(rfc("for=\"192.0.2.9:80\""), "192.0.2.9");
    }

    #[test]
    fn what_is_no_address_ends_the_walk() {
        for entry in ["unknown", "_hidden", "", "1.2.3", "1.2.3.4.5", "a b", "[::1", "[1.2.3.4]"] {
            assert_eq!(x(&format!("192.0.2.9, {entry}, 10.0.0.2")), "10.0.0.2", "{entry}");
            assert_eq!(x(&format!("192.0.2.9, {entry}")), "10.0.0.1", "{entry}");
        }
        assert_eq!(rfc("for=192.0.2.9, for=unknown, for=10.0.0.2"), "10.0.0.2");
        assert_eq!(rfc("for=192.0.2.9, proto=http"), "10.0.0.1");
    }

    #[test]
    fn forwarded_as_rfc_7239_writes_it() {
        assert_eq!(rfc("for=192.0.2.9;proto=https;by=10.0.0.2"), "192.0.2.9");
        assert_eq!(rfc("proto=http; FOR=\"192.0.2.9\" ;host=\"a,b;c=\\\"d\""), "192.0.2.9");
        assert_eq!(rfc("for=1.1.1.1, ,for=192.0.2.9 , for=10.0.0.2"), "192.0.2.9");
        assert_eq!(rfc("host=\"for=1.1.1.1, for=2.2.2.2\";for=192.0.2.9"), "192.0.2.9");
        let lines = [("Forwarded", "for=1.1.1.1,for=192.0.2.9"), ("Forwarded", "for=10.0.0.2")];
        assert_eq!(client("10.0.0.1", &lines), "192.0.2.9");
    }

    #[test]
    fn a_malformed_forwarded_is_not_guessed_at() {
        for value in [
            "for=192.0.2.9:80",
            "for=\"192.0.2.9",
            "for=\"192.0.2.9\\",
            "for=192.0.2.9;for=1.1.1.1",
            "for =192.0.2.9",
            "for= 192.0.2.9",
            "for",
            "for=",
            "192.0.2.9",
            "for=192.0.2.9 x",
            "a=\";for=192.0.2.9",
        ] {
            assert_eq!(rfc(value), "10.0.0.1", "{value}");
        }
    }

    #[test]
    fn x_forwarded_for_counts_if_both_are_there() {
        let both = [("Forwarded", "for=1.1.1.1"), ("X-Forwarded-For", "192.0.2.9")];
        assert_eq!(client("10.0.0.1", &both), "192.0.2.9");
    }

    #[test]
    fn no_more_than_so_many_hops_are_followed() {
        let chain = |len: usize| {
            let mut hops = vec!["192.0.2.9"];
            hops.resize(len, "10.0.0.2");
            hops
        };
        assert_eq!(x(&chain(HOPS_MAX).join(",")), "192.0.2.9");
        assert_eq!(x(&chain(HOPS_MAX + 1).join(",")), "10.0.0.2");
        let elements = |len| {
            let elements: Vec<_> = chain(len).iter().map(|hop| format!("for={hop}")).collect();
            elements.join(",")
        };
        assert_eq!(rfc(&elements(HOPS_MAX)), "192.0.2.9");
        assert_eq!(rfc(&elements(HOPS_MAX + 1)), "10.0.0.2");
    }
}
