//! The response head that the client gets.

use super::fields::FieldTable;
use super::kind::Kind;
use super::message::{Framing, Version};
use super::put::{put, put_fields, put_length, put_via};
use super::response::ResponseHead;
use tiergate_core::request::Field;

/// How a response's body must be passed to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// There is none.
    Empty,
    /// The bytes as they come; chunks stay chunks.
    Raw,
    /// The data without the chunks around them; then the connection closes. For HTTP/1.0.
    Dechunked,
    /// The bytes as they come; then the connection closes, because nothing else ends the body.
    UntilClose,
}

/// How the body of `head` goes to a client of version `client`.
#[inline]
pub fn delivery(head: &ResponseHead<'_>, client: Version) -> Delivery {
    match head.body {
        Framing::None | Framing::Length(0) => Delivery::Empty,
        Framing::Length(_) => Delivery::Raw,
        Framing::Chunked if client == Version::Http10 => Delivery::Dechunked,
        Framing::Chunked => Delivery::Raw,
        Framing::UntilClose => Delivery::UntilClose,
    }
}

/// What the response head depends on besides the origin's.
#[derive(Clone, Copy, Debug)]
pub struct ResponseInfo<'a> {
    /// The client's version.
    pub client: Version,
    /// Whether the client's connection stays open. [`write_response_head`] may decide otherwise.
    pub keep_alive: bool,
    /// Whether to add `Via`.
    pub via: bool,
    /// A line for a response without `Date`, as `Date: … CRLF`; empty: none is added.
    pub date_line: &'a [u8],
    /// What stands in `Location` instead of what the origin says; `None`: what it says.
    pub location: Option<&'a [u8]>,
    /// Fields to add.
    pub extra: &'a [Field<'a>],
}

/// Appends to `out` the response as it goes to the client, and gives whether the client's connection
/// stays open after it: not if only its close ends the body.
///
/// `fields` must come from the same [`super::parse_response`] as `head`. Interim responses carry
/// neither `Connection` nor `Date`; a caller sends none to an HTTP/1.0 client (RFC 9110 §15.2).
#[inline]
pub fn write_response_head(
    out: &mut Vec<u8>,
    head: &ResponseHead<'_>,
    fields: &FieldTable<'_>,
    info: &ResponseInfo<'_>,
) -> bool {
    out.reserve(head.len + 128);
    if fields.verbatim_from != 0 || fields.head.is_empty() {
        write_status_line(out, head);
    }
    let keeps_location = info.location.is_none();
    let passes = |kind| passes_on(kind) && (keeps_location || kind != Kind::Location);
    put_fields(out, fields, fields.verbatim_from, passes);
    if let Some(location) = info.location {
        put(out, b"Location", location);
    }
    let keep_alive = write_own(out, head, fields, info);
    if info.via {
        put_via(out, head.version);
    }
    for field in info.extra {
        put(out, field.name, field.value);
    }
    out.extend_from_slice(b"\r\n");
    keep_alive
}

#[cold]
fn write_status_line(out: &mut Vec<u8>, head: &ResponseHead<'_>) {
    let digit = |n: u16| b'0' + (n % 10) as u8;
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(&[digit(head.status / 100), digit(head.status / 10), digit(head.status)]);
    out.push(b' ');
    out.extend_from_slice(head.reason);
    out.extend_from_slice(b"\r\n");
}

/// Whether a field that is not copied byte by byte goes to the client as it is. The names that only
/// concern requests mean nothing here and pass.
fn passes_on(kind: Kind) -> bool {
    !matches!(
        kind,
        Kind::ContentLength
            | Kind::TransferEncoding
            | Kind::Connection
            | Kind::Hop
            | Kind::Te
            | Kind::Upgrade
            // How busy a server is helps those who attack it, and nobody else.
            | Kind::Load
    )
}

/// Framing and connection.
#[inline]
fn write_own(
    out: &mut Vec<u8>,
    head: &ResponseHead<'_>,
    fields: &FieldTable<'_>,
    info: &ResponseInfo<'_>,
) -> bool {
    let bodiless = head.status < 200 || head.status == 204;
    if let Some(len) = head.content_length
        && !fields.length_verbatim
        && !bodiless
    {
        put_length(out, len);
    }
    let delivery = delivery(head, info.client);
    if head.body == Framing::Chunked && delivery == Delivery::Raw {
        out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    }
    if let Some(protocols) = head.protocols {
        put(out, b"Upgrade", protocols);
    }
    if head.is_interim() {
        return info.keep_alive;
    }
    if !head.has_date {
        out.extend_from_slice(info.date_line);
    }
    let keep_alive =
        info.keep_alive && !matches!(delivery, Delivery::Dechunked | Delivery::UntilClose);
    let options: &[u8] = match (head.protocols.is_some(), keep_alive, info.client) {
        (true, false, _) if !head.upgrade => b"upgrade, close",
        (true, _, _) => b"upgrade",
        (false, false, _) => b"close",
        (false, true, Version::Http10) => b"keep-alive",
        (false, true, Version::Http11) => return true,
    };
    put(out, b"Connection", options);
    keep_alive
}
