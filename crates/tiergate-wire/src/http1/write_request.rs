//! The request head that the origin gets.

use super::fields::FieldTable;
use super::kind::Kind;
use super::message::Framing;
use super::peer::ForwardInfo;
use super::put::{put, put_fields, put_length, put_number, put_via};
use super::request::RequestHead;
use tiergate_core::request::Field;

/// What follows the target.
const LINE_END: &[u8] = b" HTTP/1.1\r\n";

/// Bytes that our own lines need at most, about; only saves growing the buffer twice.
const OURS_LEN: usize = 384;

/// Appends to `out` the request as it goes to the origin: HTTP/1.1, the target in origin form,
/// exactly one `Host`, at most one of `Content-Length` and `Transfer-Encoding`, no field that
/// concerned only the client's connection, nothing that a client may not say, and what the origin
/// is told of the client. `extra` are fields to add.
///
/// `fields` must come from the same [`super::parse_request`] as `head`; where the head is plain, it
/// is copied in one piece.
#[inline]
pub fn write_request_head(
    out: &mut Vec<u8>,
    head: &RequestHead<'_>,
    fields: &FieldTable<'_>,
    forward: &ForwardInfo<'_>,
    extra: &[Field<'_>],
) {
    out.reserve(head.len + OURS_LEN);
    let line_is_verbatim =
        fields.lines.first().map_or(fields.fields_end, |l| l.start as usize) > fields.verbatim_from;
    let mut verbatim_from = fields.verbatim_from;
    if !line_is_verbatim {
        write_request_line(out, head);
    } else if head.path_is_rewritten {
        write_request_line(out, head);
        // A line that could be copied is written just so.
        verbatim_from += head.method.len() + 1 + head.target.len() + LINE_END.len();
    }
    put_fields(out, fields, verbatim_from, |kind| passes_on(kind, head, forward));
    write_own(out, head, fields);
    write_forwarding(out, head, fields, forward);
    for field in extra {
        put(out, field.name, field.value);
    }
    out.extend_from_slice(b"\r\n");
}

#[cold]
fn write_request_line(out: &mut Vec<u8>, head: &RequestHead<'_>) {
    out.extend_from_slice(head.method);
    out.push(b' ');
    out.extend_from_slice(head.path);
    if head.has_query {
        out.push(b'?');
        out.extend_from_slice(head.query);
    }
    out.extend_from_slice(LINE_END);
}

/// Whether a field that is not copied byte by byte goes to the origin as it is.
fn passes_on(kind: Kind, head: &RequestHead<'_>, forward: &ForwardInfo<'_>) -> bool {
    match kind {
        Kind::Verbatim | Kind::Copy | Kind::Date | Kind::Location => true,
        // Only TRACE and OPTIONS count it down; elsewhere it means nothing.
        Kind::MaxForwards => head.max_forwards.is_none(),
        Kind::Ours | Kind::XForwardedOther => forward.peer_trusted,
        Kind::Level => forward.peer_trusted && forward.level.is_none(),
        // Written by `write_own` and `write_forwarding`.
        Kind::Host
        | Kind::ContentLength
        | Kind::TransferEncoding
        | Kind::Connection
        | Kind::Te
        | Kind::Upgrade
        | Kind::XForwardedFor
        | Kind::XForwardedProto
        | Kind::XForwardedHost
        | Kind::Forwarded => false,
        // An origin that refuses may or may not read what it was told would come, and a body that it takes for a request
        // has passed no rule.
        Kind::Expect => false,
        // Only an origin says it: one that sends back what it was sent must not report what a client made up.
        Kind::Load => false,
        Kind::Hop | Kind::Imitation => false,
    }
}

/// Host, framing, and what this connection itself needs.
#[inline]
fn write_own(out: &mut Vec<u8>, head: &RequestHead<'_>, fields: &FieldTable<'_>) {
    if !fields.host_verbatim && !head.host.is_empty() {
        put(out, b"Host", head.host);
    }
    match head.body {
        Framing::Length(len) if !fields.length_verbatim => put_length(out, len),
        Framing::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        Framing::Length(_) | Framing::None | Framing::UntilClose => {}
    }
    match (head.upgrade, head.te_trailers) {
        (Some(protocols), te) => {
            put(out, b"Upgrade", protocols);
            let connection: &[u8] = if te { b"upgrade, TE" } else { b"upgrade" };
            put(out, b"Connection", connection);
        }
        (None, true) => out.extend_from_slice(b"Connection: TE\r\n"),
        (None, false) => {}
    }
    if head.te_trailers {
        out.extend_from_slice(b"TE: trailers\r\n");
    }
    if let Some(hops) = head.max_forwards {
        put_number(out, b"Max-Forwards", hops.saturating_sub(1));
    }
}

#[inline]
fn write_forwarding(
    out: &mut Vec<u8>,
    head: &RequestHead<'_>,
    fields: &FieldTable<'_>,
    forward: &ForwardInfo<'_>,
) {
    let host = if head.host.is_empty() {
        put(out, b"Host", forward.listener_host);
        forward.listener_host
    } else {
        head.host
    };
    let continued = forward.peer_trusted && fields.control.has_forwarding;
    if forward.add.x_forwarded {
        write_x_forwarded(out, host, fields, forward, continued);
    } else if continued {
        for kind in [Kind::XForwardedFor, Kind::XForwardedProto, Kind::XForwardedHost] {
            put_existing(out, fields, kind);
        }
    }
    if forward.add.forwarded {
        write_forwarded(out, host, fields, forward, continued);
    } else if continued {
        put_existing(out, fields, Kind::Forwarded);
    }
    if let Some(level) = forward.level {
        put(out, b"Tiergate-Level", level);
    }
    if forward.add.via {
        put_via(out, head.version);
    }
}

#[inline]
fn write_x_forwarded(
    out: &mut Vec<u8>,
    host: &[u8],
    fields: &FieldTable<'_>,
    forward: &ForwardInfo<'_>,
    continued: bool,
) {
    out.extend_from_slice(b"X-Forwarded-For: ");
    if continued {
        put_list(out, fields, Kind::XForwardedFor);
    }
    out.extend_from_slice(forward.peer.as_bytes());
    out.extend_from_slice(b"\r\n");
    // The first trusted proxy knows best what the client itself asked for.
    if !(continued && put_existing(out, fields, Kind::XForwardedProto)) {
        out.extend_from_slice(if forward.https {
            b"X-Forwarded-Proto: https\r\n"
        } else {
            b"X-Forwarded-Proto: http\r\n"
        });
    }
    if !(continued && put_existing(out, fields, Kind::XForwardedHost)) {
        put(out, b"X-Forwarded-Host", host);
    }
}

/// Source: RFC 7239 §4 to §6.
fn write_forwarded(
    out: &mut Vec<u8>,
    host: &[u8],
    fields: &FieldTable<'_>,
    forward: &ForwardInfo<'_>,
    continued: bool,
) {
    out.extend_from_slice(b"Forwarded: ");
    if continued {
        put_list(out, fields, Kind::Forwarded);
    }
    let (open, close): (&[u8], &[u8]) =
        if forward.peer.is_ipv6() { (b"for=\"[", b"]\"") } else { (b"for=", b"") };
    // The host is quoted because of its port; a checked host contains nothing to escape.
    for part in [
        open,
        forward.peer.as_bytes(),
        close,
        b";host=\"",
        host,
        if forward.https { b"\";proto=https\r\n" } else { b"\";proto=http\r\n" },
    ] {
        out.extend_from_slice(part);
    }
}

/// Appends every value of that kind and a comma after each, to make one line of several: many
/// programs read only one.
fn put_list(out: &mut Vec<u8>, fields: &FieldTable<'_>, kind: Kind) {
    for (field, line) in fields.fields.iter().zip(&fields.lines) {
        if line.kind == kind && !field.value.is_empty() {
            out.extend_from_slice(field.value);
            out.extend_from_slice(b", ");
        }
    }
}

/// Appends the fields of that kind as they are; says whether there are any.
fn put_existing(out: &mut Vec<u8>, fields: &FieldTable<'_>, kind: Kind) -> bool {
    let mut found = false;
    for (field, line) in fields.fields.iter().zip(&fields.lines) {
        if line.kind == kind {
            put(out, field.name, field.value);
            found = true;
        }
    }
    found
}
