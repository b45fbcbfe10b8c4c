//! What policy code sees of a request: borrowed slices, whatever the protocol it came in by.

use std::net::IpAddr;

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
}

impl<'a> RequestView<'a> {
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
