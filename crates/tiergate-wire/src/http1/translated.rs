//! Messages that came, or go, by HTTP/2: the same fields, another framing.

use super::fields::FieldTable;
use super::kind::Kind;
use super::message::{Framing, HeadError, Version};
use super::request::{METHOD_LEN_MAX, RequestHead, finish};
use super::response::ResponseHead;
use super::scan::target_end;
use super::target::{Target, check_host, is_same_authority};
use tiergate_core::request::Field;

/// A request's head from its parts; the caller has pushed its fields into `fields`. The authority comes with its scheme. `ends`: no body
/// follows.
///
/// Source: RFC 9113 §8.3.1. What HTTP/1.1 could not say without ambiguity is refused, as in
/// [`super::parse_request`].
///
/// # Errors
/// 400, 417 or 501, as [`super::parse_request`].
pub fn request_from_parts<'b>(
    method: &'b [u8],
    target: &'b [u8],
    (scheme, authority): (&[u8], Option<&'b [u8]>),
    ends: bool,
    fields: &FieldTable<'b>,
) -> Result<RequestHead<'b>, HeadError> {
    if method == b"CONNECT" {
        return Err(HeadError::new(501, "CONNECT is not supported"));
    }
    if method.len() > METHOD_LEN_MAX {
        return Err(HeadError::new(501, "method too long"));
    }
    if target_end(target) < target.len() {
        return Err(HeadError::bad("byte in the target that is not allowed"));
    }
    let parts = Target::parse(method, target)?;
    if parts.authority.is_some() {
        return Err(HeadError::bad("target is not a path"));
    }
    let control = &fields.control;
    let is_of_connection = control.close || control.keep_alive || control.upgrade_option;
    if control.chunked || is_of_connection || control.upgrade_seen {
        return Err(HeadError::bad("field that concerns the connection"));
    }
    let head = RequestHead {
        method,
        target,
        path: parts.path,
        path_is_rewritten: false,
        query: parts.query.unwrap_or_default(),
        has_query: parts.query.is_some(),
        host: host(scheme, authority, control.host)?,
        version: Version::Http11,
        body: framing(method, ends, control.content_length),
        keep_alive: true,
        expect_continue: false,
        upgrade: None,
        te_trailers: control.te_trailers,
        max_forwards: None,
        len: 0,
    };
    finish(head, fields)
}

fn host<'b>(
    scheme: &[u8],
    authority: Option<&'b [u8]>,
    field: Option<&'b [u8]>,
) -> Result<&'b [u8], HeadError> {
    let host = match (authority, field) {
        (Some(authority), Some(field))
            if authority != field && !is_same_authority(field, scheme, authority) =>
        {
            return Err(HeadError::bad("host and :authority differ"));
        }
        (Some(host), _) | (None, Some(host)) => host,
        (None, None) => return Err(HeadError::bad("neither :authority nor host")),
    };
    check_host(host)?;
    Ok(host)
}

fn framing(method: &[u8], ends: bool, length: Option<u64>) -> Framing {
    match (ends, length) {
        (_, Some(len)) => Framing::Length(len),
        (false, None) => Framing::Chunked,
        // Some servers want a length where a body is usual (RFC 9110 §8.6).
        (true, None) if matches!(method, b"POST" | b"PUT" | b"PATCH") => Framing::Length(0),
        (true, None) => Framing::None,
    }
}

/// The fields of a response that go on to a client by HTTP/2: all but its framing and what concerned
/// only the origin's connection. The length is [`response_length`].
pub fn response_fields<'t, 'b>(
    fields: &'t FieldTable<'b>,
) -> impl Iterator<Item = &'t Field<'b>> + use<'t, 'b> {
    let pairs = fields.fields.iter().zip(&fields.lines);
    pairs
        .filter(|(field, line)| match line.kind {
            Kind::TransferEncoding
            | Kind::Connection
            | Kind::Hop
            | Kind::Te
            | Kind::Upgrade
            | Kind::Load => false,
            Kind::Verbatim | Kind::ContentLength => {
                !field.name.eq_ignore_ascii_case(b"content-length")
            }
            _ => true,
        })
        .map(|(field, _)| field)
}

/// The `Content-Length` that a response carries by HTTP/2.
pub fn response_length(head: &ResponseHead<'_>) -> Option<u64> {
    head.content_length.filter(|_| head.status >= 200 && head.status != 204)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9113 §8.3.1: compared as the scheme has it, by which a port may be said or not.
    #[test]
    fn a_host_field_is_compared_with_the_authority_by_the_scheme() {
        for (scheme, authority, host, expected) in [
            ("https", "a.example", "a.example", true),
            ("https", "a.example", "A.example:443", true),
            ("https", "a.example:443", "a.example", true),
            ("http", "a.example", "a.example:80", true),
            ("http", "a.example", "a.example:443", false),
            ("https", "a.example", "a.example:80", false),
            ("https", "a.example", "b.example", false),
            ("https", "a.example", "", false),
            ("https", "", "", false),
        ] {
            let mut table = FieldTable::new();
            table.push(Field { name: b"host", value: host.as_bytes() }).expect("a field");
            let of = (scheme.as_bytes(), Some(authority.as_bytes()));
            let head = request_from_parts(b"GET", b"/", of, true, &table);
            assert_eq!(
                head.map(|it| it.host).ok(),
                expected.then_some(authority.as_bytes()),
                "{scheme} {authority} {host}"
            );
        }
    }
}
