//! The head of a request as HTTP/2 has it, from the one that our writer has made for HTTP/1.1.

use bytes::Bytes;
use h2::ext::Protocol;
use http::header::{HeaderName, HeaderValue};
use http::uri::{Authority, PathAndQuery, Scheme, Uri};
use http::{Method, Request};

/// How the body goes on behind the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// None follows.
    None,
    /// So many bytes.
    Length(u64),
    /// Chunks, which are taken apart.
    Chunked,
    /// Whatever comes: the protocol changes if the server agrees.
    Tunnel,
}

/// A head for HTTP/2.
#[derive(Debug)]
pub(super) struct Translated {
    pub(super) request: Request<()>,
    pub(super) body: Body,
    /// HEAD: the answer has no body.
    pub(super) is_head: bool,
    /// `Sec-WebSocket-Key`, which HTTP/2 does not have; an answer over HTTP/1.1 has to show that it was read.
    pub(super) websocket_key: Option<Bytes>,
}

/// Translates a head that ends with its empty line; `None`: HTTP/2 has no words for it. `tunnels`: the server offers to change the
/// protocol of a stream (RFC 8441); to one that does not, the request goes without, as to a server that knows none.
pub(super) fn translate(head: Bytes, is_secure: bool, tunnels: bool) -> Option<Translated> {
    let text = head.strip_suffix(b"\r\n\r\n")?;
    let line_len = memchr::memmem::find(text, b"\r\n").unwrap_or(text.len());
    let mut words = text[..line_len].split(|byte| *byte == b' ');
    let (method, target) = (words.next()?, words.next()?);
    let mut request = Request::new(());
    *request.method_mut() = Method::from_bytes(method).ok()?;
    let (mut body, mut host, mut upgrade, mut websocket_key) = (Body::None, None, None, None);
    let headers = request.headers_mut();
    let mut rest = &text[(line_len + 2).min(text.len())..];
    while !rest.is_empty() {
        let len = memchr::memmem::find(rest, b"\r\n").unwrap_or(rest.len());
        let line = &rest[..len];
        rest = &rest[(len + 2).min(rest.len())..];
        let colon = memchr::memchr(b':', line)?;
        let value = head.slice_ref(line[colon + 1..].trim_ascii());
        let name = HeaderName::from_bytes(&line[..colon]).ok()?;
        match name.as_str() {
            "host" => host = Some(value),
            "connection" | "keep-alive" | "proxy-connection" | "http2-settings" => {}
            "transfer-encoding" => body = Body::Chunked,
            "upgrade" => upgrade = Some(value),
            "te" if !value.eq_ignore_ascii_case(b"trailers") => {}
            "sec-websocket-key" => websocket_key = Some(value),
            _ => {
                if name == http::header::CONTENT_LENGTH {
                    body = match std::str::from_utf8(&value).ok()?.parse().ok()? {
                        0 => Body::None,
                        len => Body::Length(len),
                    };
                }
                headers.append(name, HeaderValue::from_maybe_shared(value).ok()?);
            }
        }
    }
    let is_websocket = upgrade.is_some_and(|it| it.eq_ignore_ascii_case(b"websocket"));
    if is_websocket && tunnels && request.method() == Method::GET && body == Body::None {
        *request.method_mut() = Method::CONNECT;
        request.extensions_mut().insert(Protocol::from_static("websocket"));
        body = Body::Tunnel;
    }
    *request.uri_mut() = uri(head.slice_ref(target), host?, is_secure)?;
    let is_head = request.method() == Method::HEAD;
    Some(Translated { request, body, is_head, websocket_key })
}

fn uri(target: Bytes, host: Bytes, is_secure: bool) -> Option<Uri> {
    let mut parts = http::uri::Parts::default();
    parts.scheme = Some(if is_secure { Scheme::HTTPS } else { Scheme::HTTP });
    parts.authority = Some(Authority::from_maybe_shared(host).ok()?);
    let path = PathAndQuery::from_maybe_shared(target.clone());
    parts.path_and_query =
        Some(path.or_else(|_| PathAndQuery::from_maybe_shared(escaped(&target))).ok()?);
    Uri::from_parts(parts).ok()
}

/// The same with bytes in percent-encoding that a URI should not have, and some clients send.
#[cold]
fn escaped(target: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(target.len() + 16);
    for &byte in target {
        match byte {
            b'<' | b'>' | b'`' | b'^' | b'\\' | b'"' | b'{' | b'}' | b'|' => {
                out.extend_from_slice(format!("%{byte:02X}").as_bytes());
            }
            _ => out.push(byte),
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(head: &str, tunnels: bool) -> Option<Translated> {
        translate(Bytes::copy_from_slice(head.as_bytes()), true, tunnels)
    }

    #[test]
    fn what_concerns_a_connection_stays_behind() {
        let head = "POST /a?b=c HTTP/1.1\r\nHost: a.test:81\r\nTransfer-Encoding: chunked\r\nConnection: TE\r\n\
                    TE: trailers\r\nX-A: 1\r\nX-A:  2 \r\nX-Empty:\r\n\r\n";
        let Translated { request, body, is_head, .. } = translated(head, true).expect("good");
        assert_eq!((request.method().as_str(), body, is_head), ("POST", Body::Chunked, false));
        assert_eq!(request.uri().to_string(), "https://a.test:81/a?b=c");
        let names: Vec<&str> = request.headers().keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["te", "x-a", "x-empty"]);
        let values: Vec<_> = request.headers().get_all("x-a").iter().collect();
        assert_eq!(values, ["1", "2"]);
    }

    #[test]
    fn bodies_end_as_they_say() {
        let of = |lines: &str| {
            translated(&format!("PUT / HTTP/1.1\r\nHost: a\r\n{lines}\r\n"), false)
                .map(|it| it.body)
        };
        assert_eq!(of(""), Some(Body::None));
        assert_eq!(of("Content-Length: 0\r\n"), Some(Body::None));
        assert_eq!(of("Content-Length: 7\r\n"), Some(Body::Length(7)));
        assert_eq!(of("Content-Length: x\r\n"), None);
    }

    #[test]
    fn odd_targets_have_words() {
        let of = |target: &str| {
            let head = format!("OPTIONS {target} HTTP/1.1\r\nHost: a\r\n\r\n");
            translated(&head, false).map(|it| it.request.uri().path().to_owned())
        };
        assert_eq!(of("*").as_deref(), Some("*"));
        assert_eq!(of("/a<b>").as_deref(), Some("/a%3Cb%3E"));
    }

    #[test]
    fn a_websocket_asks_by_connect_where_the_server_offers_that() {
        let head = "GET /chat HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\
                    Sec-WebSocket-Key: abc\r\nSec-WebSocket-Version: 13\r\n\r\n";
        let it = translated(head, true).expect("good");
        assert_eq!((it.request.method().as_str(), it.body), ("CONNECT", Body::Tunnel));
        assert_eq!(it.websocket_key.as_deref(), Some(&b"abc"[..]));
        assert!(!it.request.headers().contains_key("upgrade"));
        let it = translated(head, false).expect("good");
        assert_eq!((it.request.method().as_str(), it.body), ("GET", Body::None));
    }
}
