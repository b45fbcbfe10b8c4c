//! What policy code sees of a request, and the parts of it that conditions look at.

use super::{cookie, grammar};
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
        let pairs = self.values(b"cookie").flat_map(cookie::pairs);
        pairs.filter(|(other, _)| *other == name).map(|(_, value)| value).next()
    }
}

/// A part of a request that a condition of a rule may look at.
///
/// Of several values (fields, cookies, parameters of one name) one that matches is enough. What a
/// request does not have, or what is not known of it, matches nothing. In the order in which the parts of a
/// rule are shown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The client's address; IPv4 written as IPv6 counts as IPv4.
    Client,
    /// The client's verified name.
    ClientName,
    /// The client's country, two letters.
    Country,
    /// The client's autonomous system.
    Asn,
    /// The name in the client's verified certificate.
    Certificate,
    /// The verified subject.
    Subject,
    /// The code point of the client's packets.
    Dscp,
    /// The listener's place in the policy.
    Listener,
    /// The address that the client connected to.
    Destination,
    /// The server name that the client asked for in its TLS handshake.
    Sni,
    /// The host, without port.
    Host,
    /// The method.
    Method,
    /// The normalised path.
    Path,
    /// The extension of the path's last segment.
    Extension,
    /// The parameters of the query of this name (case matters), both decoded.
    Query(Box<str>),
    /// The media type of the body, without parameters, in lower case.
    ContentType,
    /// Bytes of the body by `Content-Length`.
    ContentLength,
    /// That the client fetches ahead of need: `Sec-Purpose`, `Purpose` or `X-Moz` says `prefetch`.
    Prefetch,
    /// The urgency of RFC 9218: 0 the most urgent, 7 the least; 3 for requests that do not say.
    Urgency,
    /// The header fields of this name, in lower case; each value is taken whole, not split at commas.
    Header(Box<str>),
    /// The cookies of this name; case matters.
    Cookie(Box<str>),
}

/// What a request has of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'r> {
    /// A text.
    Text(&'r [u8]),
    /// An address.
    Address(IpAddr),
    /// A number.
    Number(u64),
}

impl Part {
    /// What the request has of a part that does not come from header fields or the query; `None`:
    /// nothing, or it is not known.
    #[inline(always)]
    pub(crate) fn of<'v>(&self, view: &'v RequestView<'_>) -> Option<Value<'v>> {
        let text = |text: &'v [u8]| (!text.is_empty()).then_some(Value::Text(text));
        let number = |known: bool, number: u64| known.then_some(Value::Number(number));
        match self {
            Part::Path => Some(Value::Text(view.path)),
            Part::Extension => grammar::extension(view.path).map(Value::Text),
            Part::Host => text(view.host),
            Part::Method => text(view.method),
            Part::Client => Some(Value::Address(view.client)),
            Part::ClientName => text(view.client_name),
            Part::Country if view.country == [0; 2] => None,
            Part::Country => Some(Value::Text(&view.country)),
            Part::Asn => number(view.asn != 0, view.asn.into()),
            Part::Certificate => text(view.certificate),
            Part::Subject => text(view.subject),
            Part::Dscp => number(view.dscp != RequestView::DSCP_UNKNOWN, view.dscp.into()),
            Part::Listener => Some(Value::Number(view.listener.into())),
            Part::Destination => Some(Value::Address(view.local)),
            Part::Sni => text(view.sni),
            Part::Query(_) | Part::Header(_) | Part::Cookie(_) => None,
            Part::ContentType | Part::ContentLength | Part::Prefetch | Part::Urgency => None,
        }
    }

    /// The header fields, in lower case, that a part is read from by a grammar of its own.
    pub(crate) fn fields(&self) -> &'static [&'static str] {
        match self {
            Part::ContentType => &["content-type"],
            Part::ContentLength => &["content-length"],
            Part::Prefetch => &["sec-purpose", "purpose", "x-moz"],
            Part::Urgency => &["priority"],
            _ => &[],
        }
    }

    /// What one of these fields says of the part. `buffer` is for what is not written as it is read.
    #[inline]
    pub(crate) fn read<'f>(&self, field: &'f [u8], buffer: &'f mut Vec<u8>) -> Option<Value<'f>> {
        match self {
            Part::ContentType => grammar::media_type(field, buffer).map(Value::Text),
            Part::ContentLength => grammar::content_length(field).map(Value::Number),
            Part::Prefetch => grammar::is_prefetch(field).then_some(Value::Text(field)),
            Part::Urgency => grammar::urgency(field).map(Value::Number),
            _ => None,
        }
    }

    /// The number that counts of those that fields say one after the other.
    #[inline]
    pub(crate) fn settle(&self, before: Option<u64>, said: u64) -> Option<u64> {
        match self {
            // As in any dictionary, the last counts (RFC 9218 §4, RFC 8941 §3.2).
            Part::Urgency => Some(said),
            _ => before.or(Some(said)),
        }
    }

    /// The number of a request no field of which says one.
    #[inline]
    pub(crate) fn unsaid(&self) -> Option<u64> {
        matches!(self, Part::Urgency).then_some(grammar::URGENCY_DEFAULT)
    }

    /// Calls `found` with each value that the request has of the part. Looks at the request for this part
    /// alone, and may allocate: for explanations, and as the measure of the compiled rules.
    pub fn each(&self, view: &RequestView<'_>, mut found: impl FnMut(Value<'_>)) {
        match self {
            Part::Header(name) => {
                view.values(name.as_bytes()).for_each(|value| found(Value::Text(value)));
            }
            Part::Cookie(name) => {
                let pairs = view.values(b"cookie").flat_map(cookie::pairs);
                let mine = pairs.filter(|(other, _)| *other == name.as_bytes());
                mine.for_each(|(_, value)| found(Value::Text(value)));
            }
            Part::Query(name) => {
                grammar::parameters(view.query, &mut Vec::new(), |other, value| {
                    if other == name.as_bytes() {
                        found(Value::Text(value));
                    }
                })
            }
            _ if self.fields().is_empty() => self.of(view).into_iter().for_each(found),
            _ => {
                let mut number = None;
                let names = self.fields().iter();
                for field in names.flat_map(|name| view.values(name.as_bytes())) {
                    match self.read(field, &mut Vec::new()) {
                        Some(Value::Number(said)) => number = self.settle(number, said),
                        said => said.into_iter().for_each(&mut found),
                    }
                }
                number
                    .or(self.unsaid())
                    .into_iter()
                    .for_each(|number| found(Value::Number(number)));
            }
        }
    }
}
