//! The origin's answer: its head as HTTP/2 has it, its body without chunks.

use super::request::Facts;
use crate::body::AnswerBody;
use crate::decide::range_in;
use crate::http1::{self, FieldTable, HeadLimits, Parsed, ResponseHead};
use crate::rate_limit::RateLimit;
use crate::shared::Config;
use crate::streaming::Streaming;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, DATE, HeaderMap, HeaderName, HeaderValue, SET_COOKIE, VIA};
use http::{Response, StatusCode};
use std::time::SystemTime;
use tiergate_core::request::Field;

/// What was found at the beginning of what the origin sent.
pub(super) enum Seen {
    /// More must come.
    Partial,
    /// It cannot be passed on.
    Bad(&'static str),
    /// A head of `len` bytes, and another follows.
    Interim { len: usize, response: Response<()> },
    /// The final head, of `len` bytes.
    Final { len: usize, response: Response<()>, body: AnswerBody },
}

/// Looks for an answer's head. Apart from the exchange so that the table of fields is not kept across
/// its waits.
pub(super) fn look(bytes: &[u8], config: &Config, facts: &Facts) -> Seen {
    if bytes.is_empty() {
        return Seen::Partial;
    }
    let limits = HeadLimits {
        head_len_max: config.policy.limits.response_head_max,
        target_len_max: 0,
        fields_max: config.policy.limits.fields_max,
    };
    let mut table = FieldTable::new();
    let head = match http1::parse_response(bytes, &mut table, &limits, facts.head_only) {
        Ok(Parsed::Complete(head)) => head,
        Ok(Parsed::Partial) => return Seen::Partial,
        Err(error) => return Seen::Bad(error.why),
    };
    if head.upgrade {
        return Seen::Bad("the origin switched protocols unasked");
    }
    let Some(mut response) = translate(bytes, &head, &table, config.policy.forwarding.via) else {
        return Seen::Bad("head that HTTP/2 cannot say");
    };
    let len = head.len;
    match head.is_interim() {
        true => Seen::Interim { len, response },
        false => {
            if let (Some(visit), Some(session)) = (&facts.visit, &config.policy.session)
                && let Some(cookie) = visit.answered(session, head.status, table.fields())
            {
                let value = HeaderValue::try_from(cookie).expect("ours is ASCII");
                response.headers_mut().append(SET_COOKIE, value);
            }
            if let Some(limit) = RateLimit::of(&config.policy, facts.left.as_deref()) {
                limit.append_to(response.headers_mut());
            }
            let mut body = AnswerBody::new(head.body, true, head.keep_alive);
            body.streaming = Streaming::of(table.fields());
            Seen::Final { len, response, body }
        }
    }
}

/// The head in terms of HTTP/2. Its values share one copy of the head's bytes.
fn translate(
    bytes: &[u8],
    head: &ResponseHead<'_>,
    table: &FieldTable<'_>,
    via: bool,
) -> Option<Response<()>> {
    let shared = Bytes::copy_from_slice(&bytes[..head.len]);
    // Three more: length, date and via.
    let mut headers = HeaderMap::with_capacity(table.fields().len() + 3);
    for Field { name, value } in http1::response_fields(table) {
        let value = match value.is_empty() {
            true => HeaderValue::from_static(""),
            false => HeaderValue::from_maybe_shared(shared.slice(range_in(bytes, value))).ok()?,
        };
        headers.append(HeaderName::from_bytes(name).ok()?, value);
    }
    if let Some(len) = http1::response_length(head) {
        headers.append(CONTENT_LENGTH, HeaderValue::from(len));
    }
    if !head.has_date && !head.is_interim() {
        // RFC 9110 §6.6.1: who passes an answer without a date on gives it one.
        let now = httpdate::fmt_http_date(SystemTime::now());
        headers.append(DATE, HeaderValue::try_from(now).ok()?);
    }
    if via {
        headers.append(VIA, HeaderValue::from_static("1.1 tiergate"));
    }
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(head.status).ok()?;
    *response.headers_mut() = headers;
    Some(response)
}

/// The trailers of a body that has ended.
pub(super) fn trailers(body: &AnswerBody) -> Option<HeaderMap> {
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
