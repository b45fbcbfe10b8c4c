//! What the origin is told of where a request came from.

use std::io::Write;
use std::net::IpAddr;

/// The longest text of an IPv6 address, as in RFC 4291 with an embedded IPv4 address.
const TEXT_LEN_MAX: usize = 45;

/// An address as text, written once per connection: formatting one costs more than copying a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerText {
    text: [u8; TEXT_LEN_MAX],
    len: u8,
    is_ipv6: bool,
}

impl PeerText {
    /// The text of `address`; an IPv4 address in IPv6 clothes is written as IPv4.
    pub fn new(address: IpAddr) -> Self {
        let address = address.to_canonical();
        let mut text = [0; TEXT_LEN_MAX];
        let mut rest = &mut text[..];
        write!(rest, "{address}").expect("no address is longer than TEXT_LEN_MAX");
        let len = (TEXT_LEN_MAX - rest.len()) as u8;
        PeerText { text, len, is_ipv6: address.is_ipv6() }
    }

    /// The text, without brackets.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.text[..self.len as usize]
    }

    /// Whether RFC 7239 wants brackets and quotes around it.
    pub(super) fn is_ipv6(&self) -> bool {
        self.is_ipv6
    }
}

/// The forwarding headers added to requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forwarding {
    /// `X-Forwarded-For`, `-Proto`, `-Host`.
    pub x_forwarded: bool,
    /// `Forwarded` (RFC 7239).
    pub forwarded: bool,
    /// `Via` (RFC 9110 §7.6.3), in requests and responses.
    pub via: bool,
}

/// What the origin is told of where a request came from. One per connection.
#[derive(Clone, Copy, Debug)]
pub struct ForwardInfo<'a> {
    /// The other end of the connection, or whom the PROXY protocol named.
    pub peer: PeerText,
    /// Whether that peer is trusted: then its forwarding fields are continued and its `X-Tiergate-…`
    /// passed on. Otherwise all of these are removed, and ours begin anew.
    pub peer_trusted: bool,
    /// The client speaks TLS to us.
    pub https: bool,
    /// Which fields to add.
    pub add: Forwarding,
    /// The level of the answer that is wanted, as `2/3`; `None`: nothing is said of it.
    pub level: Option<&'a [u8]>,
    /// The listener's host and port, for a request without a host (HTTP/1.0).
    pub listener_host: &'a [u8],
}
