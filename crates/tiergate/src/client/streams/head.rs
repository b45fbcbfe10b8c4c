//! A request's head as it came by HTTP/2.

use crate::grpc;
use data_encoding::BASE64;
use h2::ext::Protocol;
use http::header::{COOKIE, HeaderMap, SEC_WEBSOCKET_KEY};
use http::request::Parts;
use tiergate_core::request::Field;
use tiergate_wire::http1::{self, FieldTable, HeadError, HeadLimits, RequestHead};

/// Bytes of memory that a field takes beside its text: its place among the others.
const FIELD_MEMORY: usize = 128;

/// A request's head as it came by HTTP/2.
#[derive(Debug)]
pub(in crate::client) struct Head {
    parts: Parts,
    /// Several cookie fields as the one that HTTP/1.1 has (RFC 9113 §8.2.3); `None` if there is at most
    /// one.
    cookies: Option<Vec<u8>>,
    /// `Sec-WebSocket-Key` for the origin, of a request that asks for a WebSocket (RFC 8441), which has none over HTTP/2.
    websocket_key: Option<String>,
    /// No body follows.
    ends: bool,
    /// Bytes, about as HTTP/1.1 would write them: how they came compressed is not known.
    len: usize,
}

impl Head {
    pub(in crate::client) fn new(parts: Parts, ends: bool) -> Self {
        let fields = parts.headers.iter();
        let fields = fields.map(|(name, value)| name.as_str().len() + value.len() + 4);
        let target = parts.uri.path_and_query().map_or(0, |target| target.as_str().len());
        let host = parts.uri.authority().map_or(0, |host| host.as_str().len() + 8);
        let line = parts.method.as_str().len() + target + 12;
        let len = line + host + fields.sum::<usize>() + 2;
        let is_websocket = protocol(&parts) == Some(WEBSOCKET);
        let websocket_key = is_websocket.then(|| BASE64.encode(&fastrand::u128(..).to_ne_bytes()));
        Head { cookies: joined_cookies(&parts.headers), parts, websocket_key, ends, len }
    }

    pub(in crate::client) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory that it takes, about.
    pub(in crate::client) fn memory(&self) -> usize {
        let joined = self.cookies.as_ref().map_or(0, Vec::len);
        self.len + joined + self.parts.headers.len() * FIELD_MEMORY
    }

    /// Whether it is a call by gRPC.
    pub(in crate::client) fn is_call(&self) -> bool {
        let kind = self.parts.headers.get(http::header::CONTENT_TYPE);
        kind.is_some_and(|kind| grpc::is_type(kind.as_bytes()))
    }

    /// The key by which the origin shows that it has understood, of a request that asks for a WebSocket.
    pub(in crate::client) fn websocket_key(&self) -> Option<&str> {
        self.websocket_key.as_deref()
    }

    pub(in crate::client) fn is_head_method(&self) -> bool {
        self.parts.method == http::Method::HEAD
    }

    /// Method and target.
    pub(in crate::client) fn request_line(&self) -> (&[u8], &[u8]) {
        (self.parts.method.as_str().as_bytes(), self.target())
    }

    fn target(&self) -> &[u8] {
        self.parts.uri.path_and_query().map_or(b"", |target| target.as_str().as_bytes())
    }

    /// Fills `table` from the request's fields, which stay where they are, and checks all.
    ///
    /// # Errors
    /// What to answer.
    pub(in crate::client) fn read<'b>(
        &'b self,
        limits: &HeadLimits,
        table: &mut FieldTable<'b>,
    ) -> Result<RequestHead<'b>, HeadError> {
        let mut cookies = self.cookies.as_deref();
        for (name, value) in &self.parts.headers {
            if name == SEC_WEBSOCKET_KEY && self.websocket_key.is_some() {
                continue;
            }
            let mut value = value.as_bytes();
            if name == COOKIE && self.cookies.is_some() {
                // All at once, in the place of the first.
                let Some(all) = cookies.take() else { continue };
                value = all;
            }
            if table.fields().len() == limits.fields_max {
                return Err(HeadError { status: 431, why: "too many fields" });
            }
            table.push(Field { name: name.as_str().as_bytes(), value: value.trim_ascii() })?;
        }
        let target = self.target();
        if target.len() > limits.target_len_max {
            return Err(HeadError { status: 414, why: "target too long" });
        }
        let uri = &self.parts.uri;
        let scheme = uri.scheme_str().unwrap_or_default().as_bytes();
        let authority = (scheme, uri.authority().map(|host| host.as_str().as_bytes()));
        let Some(key) = &self.websocket_key else {
            if protocol(&self.parts).is_some() {
                let why = "only websocket is known as :protocol";
                return Err(HeadError { status: 501, why });
            }
            let method = self.parts.method.as_str().as_bytes();
            let head = http1::request_from_parts(method, target, authority, self.ends, table)?;
            return Ok(RequestHead { len: self.len, ..head });
        };
        // As it is asked for over HTTP/1.1: what follows is the tunnel's, and no body.
        table.push(Field { name: b"Sec-WebSocket-Key", value: key.as_bytes() })?;
        let head = http1::request_from_parts(b"GET", target, authority, true, table)?;
        if !head.body.is_empty() {
            return Err(HeadError { status: 400, why: "CONNECT with a content-length" });
        }
        // For rules, which are the same for all protocols; no stream has these fields of its own.
        table.push(Field { name: b"Upgrade", value: WEBSOCKET.as_bytes() })?;
        table.push(Field { name: b"Connection", value: b"Upgrade" })?;
        Ok(RequestHead { len: self.len, upgrade: Some(WEBSOCKET.as_bytes()), ..head })
    }
}

/// The only protocol that streams may change to.
const WEBSOCKET: &str = "websocket";

/// What an extended CONNECT asks for (RFC 8441).
fn protocol(parts: &Parts) -> Option<&str> {
    parts.extensions.get::<Protocol>().map(Protocol::as_str)
}

fn joined_cookies(headers: &HeaderMap) -> Option<Vec<u8>> {
    let mut crumbs = headers.get_all(COOKIE).iter();
    let (first, second) = (crumbs.next()?, crumbs.next()?);
    let mut joined = first.as_bytes().to_vec();
    for crumb in [second].into_iter().chain(crumbs) {
        joined.extend_from_slice(b"; ");
        joined.extend_from_slice(crumb.as_bytes());
    }
    Some(joined)
}
