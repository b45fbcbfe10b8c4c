//! Answers as HTTP/2 and HTTP/3 have them.

use crate::client::alt_svc::AltSvc;
use crate::grpc;
use crate::request::answer::AnswerHead;
use crate::request::body::AnswerBody;
use crate::respond;
use crate::trace::ids::ToldId;
use bytes::Bytes;
use http::header::{
    ALT_SVC, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, DATE, HeaderMap, HeaderName, HeaderValue,
    LOCATION, SEC_WEBSOCKET_ACCEPT, SET_COOKIE, VIA,
};
use http::{Response, StatusCode};
use std::time::SystemTime;
use tiergate_core::request::Field;
use tiergate_wire::http1::{self, ResponseHead};

/// Bytes of a head on the wire, as if nothing were compressed.
pub(in crate::client) fn head_len(response: &Response<()>) -> u64 {
    let field = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len() + 2;
    response.headers().iter().map(field).sum::<usize>() as u64
}

/// The head of an origin's answer, with what is added to it; `None`: the protocol has no words for it. `alt_svc`: the
/// listener's HTTP/3 to announce, if there is any.
pub(in crate::client) fn translate(
    answer: &AnswerHead<'_, '_>,
    alt_svc: Option<&AltSvc>,
) -> Option<Response<()>> {
    let mut headers = headers(answer)?;
    if answer.lacks_date() {
        let now = httpdate::fmt_http_date(SystemTime::now());
        headers.append(DATE, HeaderValue::try_from(now).ok()?);
    }
    if answer.policy.forwarding.via {
        headers.append(VIA, HeaderValue::from_static("1.1 tiergate"));
    }
    if let Some(cookie) = &answer.cookie {
        headers.append(SET_COOKIE, HeaderValue::try_from(cookie).expect("ours is ASCII"));
    }
    for (name, value) in answer.cache_control() {
        headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    if let Some(location) = &answer.location {
        headers.insert(LOCATION, HeaderValue::from_bytes(location).ok()?);
    }
    if let Some(limit) = &answer.limit {
        limit.append_to(&mut headers);
    }
    answer.id().iter().for_each(|id| id.put_in(&mut headers));
    if let Some(value) = alt_svc.and_then(AltSvc::value)
        && !headers.contains_key(ALT_SVC)
    {
        headers.append(ALT_SVC, HeaderValue::try_from(value).expect("ours is ASCII"));
    }
    if answer.head.upgrade {
        // It was asked for by CONNECT, and shows nothing by a key.
        headers.remove(SEC_WEBSOCKET_ACCEPT);
        return Some(response(StatusCode::OK, headers));
    }
    Some(response(StatusCode::from_u16(answer.head.status).ok()?, headers))
}

/// Whether the origin has agreed to a WebSocket as it should, or has not at all.
///
/// # Errors
/// What is wrong: to the client any 2xx would be the beginning of its tunnel.
pub(in crate::client) fn check_websocket(
    answer: &AnswerHead<'_, '_>,
    key: &str,
) -> Result<(), &'static str> {
    if !answer.head.upgrade {
        let is_success = (200..300).contains(&answer.head.status);
        return if is_success { Err("the origin has not agreed to a WebSocket") } else { Ok(()) };
    }
    let mut fields = answer.fields.fields().iter();
    let shown = fields.find(|it| it.name.eq_ignore_ascii_case(b"sec-websocket-accept"));
    match shown.is_some_and(|it| it.value == respond::accept(key.as_bytes()).as_bytes()) {
        true => Ok(()),
        false => Err("the origin has not understood what WebSocket was asked for"),
    }
}

/// The origin's fields. Their values share one copy of the head's bytes.
fn headers(answer: &AnswerHead<'_, '_>) -> Option<HeaderMap> {
    let ResponseHead { len, .. } = *answer.head;
    let shared = Bytes::copy_from_slice(&answer.bytes[..len]);
    // Three more: length, date and via.
    let mut headers = HeaderMap::with_capacity(answer.fields.fields().len() + 3);
    for Field { name, value } in http1::response_fields(answer.fields) {
        let value = match value.is_empty() {
            true => HeaderValue::from_static(""),
            false => {
                let start = value.as_ptr() as usize - answer.bytes.as_ptr() as usize;
                HeaderValue::from_maybe_shared(shared.slice(start..start + value.len())).ok()?
            }
        };
        headers.append(HeaderName::from_bytes(name).ok()?, value);
    }
    if let Some(len) = http1::response_length(answer.head) {
        headers.append(CONTENT_LENGTH, HeaderValue::from(len));
    }
    Some(headers)
}

/// The trailers of a body that has ended.
pub(in crate::client) fn trailers(body: &AnswerBody) -> Option<HeaderMap> {
    let trailers: HeaderMap = body
        .chunks()?
        .trailers()
        .filter_map(|field| {
            let name = HeaderName::from_bytes(field.name).ok()?;
            Some((name, HeaderValue::from_bytes(field.value).ok()?))
        })
        .collect();
    (!trailers.is_empty()).then_some(trailers)
}

/// A head.
pub(in crate::client) fn response(status: StatusCode, headers: HeaderMap) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// The status of a call that fails like an answer with this status of HTTP.
pub(in crate::client) fn call_status(status: u16, why: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let code = HeaderValue::from(u16::from(grpc::status_of(status)));
    headers.insert(HeaderName::from_static("grpc-status"), code);
    if let Ok(why) = HeaderValue::from_str(why) {
        headers.insert(HeaderName::from_static("grpc-message"), why);
    }
    headers
}

/// The head and the body of an error of ours; `why` says what was wrong, without repeating what the client sent.
pub(in crate::client) fn error(
    status: u16,
    why: &str,
    id: Option<ToldId<'_>>,
) -> (HeaderMap, String) {
    let body = respond::error_body(status, why);
    let mut headers = HeaderMap::new();
    id.iter().for_each(|id| id.put_in(&mut headers));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    (headers, body)
}

/// The head of an error of ours for a call by gRPC.
pub(in crate::client) fn call_error(status: u16, why: &str, id: Option<ToldId<'_>>) -> HeaderMap {
    let mut headers = call_status(status, why);
    id.iter().for_each(|id| id.put_in(&mut headers));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers
}
