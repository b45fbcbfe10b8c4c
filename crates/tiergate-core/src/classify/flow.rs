//! Flows: what fairness inside a class, and a policer of its own, are counted by.

use crate::request::RequestView;
use siphasher::sip::SipHasher13;
use std::fmt;
use std::hash::Hasher;
use std::net::IpAddr;

/// What tells the flows of a class apart.
///
/// Cookies and headers are what the client says they are: whoever invents a new value for each
/// request has a flow for each request. Name one only where something behind or before checks it, and
/// bound what is kept of flows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Flow {
    /// The client's address, or the network of this length around it.
    Client {
        /// Leading bits of IPv4 addresses that count, 0 to 32.
        v4: u8,
        /// Leading bits of IPv6 addresses that count, 0 to 128.
        v6: u8,
    },
    /// The value of the first cookie of this name; without it, the client.
    Cookie(Box<str>),
    /// The value of the first header field of this name; without it, the client.
    Header(Box<str>),
    /// The verified subject; without it, the client.
    Subject,
}

/// The secret that flows are hashed with. Give each process its own, and keep it over reloads, so that
/// flows stay what they are.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowKey(pub [u64; 2]);

impl fmt::Debug for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FlowKey(secret)")
    }
}

impl Flow {
    /// An IPv4 address, or an IPv6 network of the size that one customer gets (RFC 6177).
    pub const CLIENT: Flow = Flow::Client { v4: 32, v6: 64 };

    /// The request's flow, a keyed hash.
    ///
    /// SipHash-1-3, because its collisions cannot be searched for without the key, not even by whoever
    /// sees which requests share a fate; foldhash promises that only against those who see nothing.
    /// Source: Aumasson, Bernstein: SipHash (2012). Cost: some nanoseconds, and a walk over the fields
    /// for cookies and headers. Two requests of one client have the same flow, whatever rule or class
    /// asked for the client.
    pub fn of(&self, view: &RequestView<'_>, key: FlowKey) -> u64 {
        let (kind, name, value) = match self {
            Flow::Client { v4, v6 } => return of_client(view.client, *v4, *v6, key),
            Flow::Cookie(name) => (Kind::Cookie, &**name, view.cookie(name.as_bytes())),
            // HTTP/2 and HTTP/3 have no such header.
            Flow::Header(name) if name.eq_ignore_ascii_case("host") => {
                (Kind::Header, "host", Some(view.host).filter(|host| !host.is_empty()))
            }
            Flow::Header(name) => {
                let mut fields = view.fields.iter();
                let found = fields.find(|field| field.name.eq_ignore_ascii_case(name.as_bytes()));
                (Kind::Header, &**name, found.map(|field| field.value))
            }
            Flow::Subject => {
                (Kind::Subject, "", Some(view.subject).filter(|subject| !subject.is_empty()))
            }
        };
        let Some(value) = value else {
            return Flow::CLIENT.of(view, key);
        };
        let mut hasher = hasher(kind, key);
        hasher.write(name.as_bytes());
        // No name has this byte, so that name and value cannot be shifted against each other.
        hasher.write_u8(0xff);
        hasher.write(value);
        hasher.finish()
    }
}

impl fmt::Display for Flow {
    /// As it would be written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flow::Client { v4: 32, v6: 64 } => f.write_str("client"),
            Flow::Client { v4, v6: 64 } => write!(f, "client/{v4}"),
            Flow::Client { v4, v6 } => write!(f, "client/{v4}/{v6}"),
            Flow::Cookie(name) => write!(f, "cookie:{name}"),
            Flow::Header(name) => write!(f, "header:{name}"),
            Flow::Subject => f.write_str("subject"),
        }
    }
}

/// What was hashed, so that a cookie is never the same flow as a header of the same text.
#[derive(Clone, Copy)]
enum Kind {
    V4,
    V6,
    Cookie,
    Header,
    Subject,
}

#[inline]
fn of_client(client: IpAddr, v4: u8, v6: u8, key: FlowKey) -> u64 {
    match client.to_canonical() {
        IpAddr::V4(address) => {
            let kept = u32::MAX.checked_shl(32 - u32::from(v4)).unwrap_or(0);
            let mut hasher = hasher(Kind::V4, key);
            hasher.write_u32(address.to_bits() & kept);
            hasher.finish()
        }
        IpAddr::V6(address) => {
            let kept = u128::MAX.checked_shl(128 - u32::from(v6)).unwrap_or(0);
            let mut hasher = hasher(Kind::V6, key);
            hasher.write_u128(address.to_bits() & kept);
            hasher.finish()
        }
    }
}

/// A hasher for flows of a kind, which is mixed into the key: cheaper than one more byte of input.
#[inline]
fn hasher(kind: Kind, FlowKey([first, second]): FlowKey) -> SipHasher13 {
    SipHasher13::new_with_keys(first, second ^ kind as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Field;

    const KEY: FlowKey = FlowKey([7, 11]);

    fn from(client: &str) -> RequestView<'_> {
        RequestView { client: client.parse().unwrap(), ..RequestView::EMPTY }
    }

    #[test]
    fn clients_are_told_apart_by_address_and_by_the_network_asked_for() {
        let of = |flow: &Flow, client| flow.of(&from(client), KEY);
        let same = |flow: &Flow, one, other| of(flow, one) == of(flow, other);
        assert!(!same(&Flow::CLIENT, "192.0.2.1", "192.0.2.2"));
        assert!(same(&Flow::CLIENT, "192.0.2.1", "::ffff:192.0.2.1"));
        assert!(same(&Flow::CLIENT, "2001:db8::1", "2001:db8::2"));
        assert!(!same(&Flow::CLIENT, "2001:db8::1", "2001:db8:0:1::1"));
        let wide = Flow::Client { v4: 24, v6: 48 };
        assert!(same(&wide, "192.0.2.1", "192.0.2.255"));
        assert!(!same(&wide, "192.0.2.1", "192.0.3.1"));
        assert!(same(&wide, "2001:db8:0:1::1", "2001:db8::1"));
        let all = Flow::Client { v4: 0, v6: 0 };
        assert!(same(&all, "192.0.2.1", "10.0.0.1") && same(&all, "::1", "2001:db8::1"));
        let exact = Flow::Client { v4: 32, v6: 128 };
        assert!(!same(&exact, "2001:db8::1", "2001:db8::2"));
    }

    #[test]
    fn cookies_headers_and_subjects_are_flows_and_the_client_where_they_are_missing() {
        let fields = [
            Field { name: b"Cookie", value: b"a=1; session=xyz" },
            Field { name: b"X-Key", value: b"xyz" },
        ];
        let with = RequestView { fields: &fields, subject: b"xyz", ..from("192.0.2.1") };
        let cookie = Flow::Cookie("session".into());
        let header = Flow::Header("x-key".into());
        let flows = [cookie.of(&with, KEY), header.of(&with, KEY), Flow::Subject.of(&with, KEY)];
        let client = Flow::CLIENT.of(&with, KEY);
        let mut all = [&flows[..], &[client]].concat();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 4, "one text in three places is three flows");
        let at_host = RequestView { host: b"a.example", ..with };
        let by_host = Flow::Header("Host".into());
        assert_ne!(by_host.of(&at_host, KEY), client);
        assert_eq!(by_host.of(&with, KEY), client, "it has none");
        let elsewhere = RequestView { client: "198.51.100.1".parse().unwrap(), ..with };
        assert_eq!(cookie.of(&elsewhere, KEY), flows[0]);
        for flow in [cookie, header, Flow::Subject] {
            assert_eq!(flow.of(&from("192.0.2.1"), KEY), client);
        }
    }

    #[test]
    fn another_key_is_another_numbering() {
        let view = from("192.0.2.1");
        assert_ne!(Flow::CLIENT.of(&view, KEY), Flow::CLIENT.of(&view, FlowKey([7, 12])));
    }
}
