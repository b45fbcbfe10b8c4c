//! The head of an answer over HTTP/2 as HTTP/1.1 has it, for the path's parser, which judges it.

use crate::respond::accept;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, TRAILER};
use http::{Response, StatusCode};
use tiergate_wire::http1::may_be_trailer;

/// How the body of an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// There is none.
    None,
    /// As it comes: so many bytes are still to come.
    Length(u64),
    /// In chunks.
    Chunked,
    /// As it comes, to the end of the stream.
    Tunnel,
}

/// What of the request decides how an answer ends.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) is_head: bool,
    /// The stream was to become a tunnel.
    pub(super) is_tunnel: bool,
    pub(super) websocket_key: Option<Bytes>,
}

/// Writes the head of a final answer; `ends`: nothing follows.
///
/// # Errors
/// What is wrong with it.
pub(super) fn write_final<B>(
    out: &mut Vec<u8>,
    response: &Response<B>,
    ends: bool,
    asked: &Asked,
) -> Result<Framing, &'static str> {
    let (status, headers) = (response.status(), response.headers());
    if asked.is_tunnel && status.is_success() {
        write_line(out, StatusCode::SWITCHING_PROTOCOLS);
        out.extend_from_slice(b"connection: upgrade\r\nupgrade: websocket\r\n");
        if let Some(key) = &asked.websocket_key {
            put(out, b"sec-websocket-accept", accept(key).as_bytes());
        }
        write_fields(out, headers, |name| *name != CONTENT_LENGTH);
        out.extend_from_slice(b"\r\n");
        return Ok(Framing::Tunnel);
    }
    write_line(out, status);
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let length = lengths
        .next()
        .map(|it| it.to_str().ok()?.parse().ok())
        .map(|it: Option<u64>| it.ok_or(LENGTH));
    let length = length.transpose()?;
    if lengths.next().is_some() {
        return Err(LENGTH);
    }
    let bodiless =
        asked.is_head || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let framing = match length {
        _ if bodiless => Framing::None,
        Some(0) if !has_trailers(headers) => Framing::None,
        // Behind a body of known length there is no room for trailers.
        Some(length) if !has_trailers(headers) => Framing::Length(length),
        // An answer that ends with its head says no length in HTTP/2 either; but HTTP/1.1 must have an end.
        None if ends && !is_grpc(headers) => Framing::None,
        _ => Framing::Chunked,
    };
    let keeps_length = framing != Framing::Chunked;
    write_fields(out, headers, |name| keeps_length || *name != CONTENT_LENGTH);
    match framing {
        Framing::Chunked => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
        Framing::None if length.is_none() && !bodiless => {
            out.extend_from_slice(b"content-length: 0\r\n")
        }
        _ => {}
    }
    out.extend_from_slice(b"\r\n");
    Ok(framing)
}

const LENGTH: &str = "the origin's content-length is malformed";

/// Writes an interim answer.
///
/// # Errors
/// HTTP/2 has no 101.
pub(super) fn write_interim(
    out: &mut Vec<u8>,
    response: &Response<()>,
) -> Result<(), &'static str> {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Err("the origin answered 101 over HTTP/2");
    }
    write_line(out, response.status());
    write_fields(out, response.headers(), |name| *name != CONTENT_LENGTH);
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// Writes the last chunk, with the trailers that may stand there.
pub(super) fn write_trailers(out: &mut Vec<u8>, trailers: Option<&HeaderMap>) {
    out.extend_from_slice(b"0\r\n");
    for (name, value) in trailers.into_iter().flatten() {
        if may_be_trailer(name.as_str().as_bytes()) {
            put(out, name.as_str().as_bytes(), value.as_bytes());
        }
    }
    out.extend_from_slice(b"\r\n");
}

fn write_line(out: &mut Vec<u8>, status: StatusCode) {
    let reason = status.canonical_reason().unwrap_or_default();
    out.extend_from_slice(b"HTTP/1.1 ");
    for part in [status.as_str(), " ", reason, "\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
}

fn write_fields(out: &mut Vec<u8>, headers: &HeaderMap, passes: impl Fn(&HeaderName) -> bool) {
    for (name, value) in headers {
        // `h2` refuses most of these already (RFC 9113 §8.2.2).
        let concerns_connection = matches!(
            name.as_str(),
            "connection"
                | "keep-alive"
                | "proxy-connection"
                | "transfer-encoding"
                | "upgrade"
                | "te"
        );
        if !concerns_connection && passes(name) {
            put(out, name.as_str().as_bytes(), value.as_bytes());
        }
    }
}

fn put(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [name, b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

fn has_trailers(headers: &HeaderMap) -> bool {
    headers.contains_key(TRAILER) || is_grpc(headers)
}

fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    kind.is_some_and(|kind| kind.starts_with(b"application/grpc"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(
        status: u16,
        fields: &[(&str, &str)],
        ends: bool,
        asked: &Asked,
    ) -> Result<(Framing, String), &'static str> {
        let mut response = Response::builder().status(status);
        for (name, value) in fields {
            response = response.header(*name, *value);
        }
        let mut out = Vec::new();
        let framing = write_final(&mut out, &response.body(()).expect("good"), ends, asked)?;
        Ok((framing, String::from_utf8(out).expect("ASCII")))
    }

    const GET: Asked = Asked { is_head: false, is_tunnel: false, websocket_key: None };

    #[test]
    fn answers_end_as_http1_can_say() {
        let head = Asked { is_head: true, ..GET };
        for (status, fields, ends, asked, framing, last) in [
            (
                200,
                &[("content-length", "5")][..],
                false,
                &GET,
                Framing::Length(5),
                "content-length: 5",
            ),
            (200, &[], false, &GET, Framing::Chunked, "transfer-encoding: chunked"),
            (200, &[], true, &GET, Framing::None, "content-length: 0"),
            (204, &[], true, &GET, Framing::None, "HTTP/1.1 204 No Content"),
            (200, &[("content-length", "5")], true, &head, Framing::None, "content-length: 5"),
            (
                200,
                &[("content-type", "application/grpc")],
                true,
                &GET,
                Framing::Chunked,
                "transfer-encoding: chunked",
            ),
            (
                200,
                &[("content-length", "0"), ("content-type", "application/grpc")],
                false,
                &GET,
                Framing::Chunked,
                "transfer-encoding: chunked",
            ),
            (200, &[("content-length", "0")], true, &GET, Framing::None, "content-length: 0"),
            (
                200,
                &[("content-length", "5"), ("trailer", "x")],
                false,
                &GET,
                Framing::Chunked,
                "transfer-encoding: chunked",
            ),
        ] {
            let (found, text) = written(status, fields, ends, asked).expect("good");
            let line = text.trim_end().rsplit("\r\n").next().map(str::to_owned);
            assert_eq!((found, line.as_deref()), (framing, Some(last)), "{text}");
        }
        assert!(
            written(200, &[("content-length", "1"), ("content-length", "2")], false, &GET).is_err()
        );
        assert!(written(200, &[("content-length", "-1")], false, &GET).is_err());
    }

    #[test]
    fn a_tunnel_is_agreed_to_as_http1_does_it() {
        let key = Some(Bytes::from_static(b"dGhlIHNhbXBsZSBub25jZQ=="));
        let asked = Asked { is_tunnel: true, websocket_key: key, ..GET };
        let (framing, text) = written(200, &[], false, &asked).expect("good");
        assert_eq!(framing, Framing::Tunnel);
        assert!(text.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{text}");
        // The example of RFC 6455.
        assert!(text.contains("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "{text}");
        assert_eq!(written(403, &[], true, &asked).map(|it| it.0), Ok(Framing::None));
    }

    #[test]
    fn trailers_are_those_that_may_be() {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        trailers.insert("content-length", HeaderValue::from_static("0"));
        let mut out = Vec::new();
        write_trailers(&mut out, Some(&trailers));
        assert_eq!(out, b"0\r\ngrpc-status: 0\r\n\r\n");
    }
}
