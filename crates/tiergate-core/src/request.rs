//! What policy code sees of a request: borrowed slices, whatever the protocol it came in by.

use std::net::{IpAddr, Ipv4Addr};

/// One header field, as received. Names compare without case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Field<'a> {
    /// The name as sent (HTTP/2: lower case).
    pub name: &'a [u8],
    /// The value without surrounding white space.
    pub value: &'a [u8],
}

/// A request as classification sees it. Borrowed from the connection's buffer; copies nothing.
#[derive(Clone, Copy, Debug)]
pub struct RequestView<'a> {
    /// The method, case as sent.
    pub method: &'a [u8],
    /// Host from the request target or `Host`/`:authority`, without port, case as sent.
    pub host: &'a [u8],
    /// The path, normalised by [`crate::classify::path::normalise`], without query.
    pub path: &'a [u8],
    /// What follows the first `?`, without it; empty if there is none.
    pub query: &'a [u8],
    /// Header fields in the order received, pseudo-header fields left out.
    pub fields: &'a [Field<'a>],
    /// The client's address, after PROXY protocol and trusted forwarded headers.
    pub client: IpAddr,
    /// Where the client connected to: the listener's place in the policy.
    pub listener: u16,
    /// Where the client connected to: the destination address, after PROXY protocol.
    pub local: IpAddr,
    /// The server name that the client asked for in its TLS handshake; empty: none, or no TLS.
    pub sni: &'a [u8],
    /// The client's name by reverse DNS, forward-confirmed, in lower case; empty: not known.
    pub client_name: &'a [u8],
    /// The client's country (ISO 3166-1, upper case); zeros: not known.
    pub country: [u8; 2],
    /// The client's autonomous system; 0: not known.
    pub asn: u32,
    /// The name in the verified certificate of the client; empty: none.
    pub certificate: &'a [u8],
    /// The subject of a verified token or key; empty: none.
    pub subject: &'a [u8],
    /// The code point of the client's packets, 0 to 63; [`RequestView::DSCP_UNKNOWN`]: not known.
    pub dscp: u8,
}

impl<'a> RequestView<'a> {
    /// No code point is this large.
    pub const DSCP_UNKNOWN: u8 = 255;

    /// A request of which nothing is known, from nowhere: to be filled in.
    pub const EMPTY: RequestView<'static> = RequestView {
        method: b"",
        host: b"",
        path: b"",
        query: b"",
        fields: &[],
        client: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        listener: 0,
        local: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        sni: b"",
        client_name: b"",
        country: [0; 2],
        asn: 0,
        certificate: b"",
        subject: b"",
        dscp: Self::DSCP_UNKNOWN,
    };

    /// The values of every field called `name`, in the order received.
    pub fn values(&self, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.fields
            .iter()
            .filter(move |field| field.name.eq_ignore_ascii_case(name))
            .map(|field| field.value)
    }

    /// The value of the first cookie called `name` (case matters), if there is one.
    pub fn cookie(&self, name: &[u8]) -> Option<&'a [u8]> {
        let pairs = self.values(b"cookie").flat_map(crate::classify::cookie::pairs);
        pairs.filter(|(other, _)| *other == name).map(|(_, value)| value).next()
    }
}
