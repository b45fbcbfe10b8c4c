//! A request as spans: one for the whole, and under it one for its wait in the queue and one for its time at the origin.
//!
//! Attributes are named as OpenTelemetry's conventions for HTTP have it, and what only Tiergate knows begins with `tiergate.`. Source:
//! <https://opentelemetry.io/docs/specs/semconv/http/http-spans/>. Queries are left out, as in the access log.

use crate::observe::access_log::Entry;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, Status};
use std::time::{Duration, SystemTime};
use tiergate_core::outcome::End;
use tiergate_core::trace::Trace;
use tiergate_wire::http1::host_name;

/// Bytes of an attribute that a client has a say in.
const VALUE_LEN_MAX: usize = 1024;

/// The methods of RFC 9110 and RFC 5789: others are no names of spans, since clients could make up any number.
const METHODS: [&str; 9] =
    ["CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"];

/// When the parts of a request were.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    /// How long after its beginning it got its slot; `None`: it got none.
    pub(crate) granted: Option<Duration>,
    /// How long after its beginning the origin was done.
    pub(crate) origin_done: Option<Duration>,
    /// The status that the origin answered; 0: none.
    pub(crate) origin_status: u16,
    /// Whether it came by TLS.
    pub(crate) is_secure: bool,
}

/// The spans of a request that has ended.
pub(crate) fn spans(entry: &Entry<'_>, trace: &Trace, course: Course) -> Vec<Span> {
    let method = std::str::from_utf8(entry.method).ok().filter(|it| METHODS.contains(it));
    let error = error_type(entry);
    let whole = Span {
        kind: SpanKind::Server.into(),
        name: method.unwrap_or("HTTP").to_owned(),
        attributes: attributes(entry, method, error.as_deref(), course.is_secure),
        status: error
            .is_some()
            .then(|| Status { message: entry.cause.to_owned(), code: StatusCode::Error.into() }),
        ..span(trace, (trace.span, trace.parent), entry.time, Duration::ZERO..entry.duration)
    };
    let mut spans = vec![whole];
    let child = |id, from, to| span(trace, (id, Some(trace.span)), entry.time, from..to);
    if let Some(waited) = entry.waited.filter(|waited| !waited.is_zero()) {
        // It may have got a copy instead of a slot.
        let until = course.granted.unwrap_or(waited);
        let from = until.saturating_sub(waited);
        let id = trace.span ^ trace.origin_span.rotate_left(1);
        let attributes = vec![text("tiergate.class", entry.class.unwrap_or_default())];
        let name = "queue".to_owned();
        let kind = SpanKind::Internal.into();
        spans.push(Span { kind, name, attributes, ..child(id.max(1), from, until) });
    }
    if let (Some(granted), Some(server)) = (course.granted, entry.server) {
        let done = course.origin_done.unwrap_or(entry.duration);
        spans.push(Span {
            kind: SpanKind::Client.into(),
            name: method.unwrap_or("HTTP").to_owned(),
            attributes: origin_attributes(entry, method, server, course.origin_status),
            status: origin_error(entry, course.origin_status).map(|_| Status {
                message: entry.cause.to_owned(),
                code: StatusCode::Error.into(),
            }),
            ..child(trace.origin_span, granted, done)
        });
    }
    spans
}

/// A span without a name, from and to so long after the request's beginning.
fn span(
    trace: &Trace,
    (id, parent): (u64, Option<u64>),
    begun: SystemTime,
    time: std::ops::Range<Duration>,
) -> Span {
    let nanos = |after: Duration| {
        let since = (begun + after).duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    };
    Span {
        trace_id: trace.id.to_be_bytes().to_vec(),
        span_id: id.to_be_bytes().to_vec(),
        parent_span_id: parent.map(|it| it.to_be_bytes().to_vec()).unwrap_or_default(),
        // Bits 8 and 9: it is known whether the parent is another process's, and it is, for the whole.
        flags: u32::from(trace.told.flags) | 0x100 | if id == trace.span { 0x200 } else { 0 },
        start_time_unix_nano: nanos(time.start),
        end_time_unix_nano: nanos(time.end.max(time.start)),
        ..Span::default()
    }
}

fn attributes(
    entry: &Entry<'_>,
    method: Option<&str>,
    error: Option<&str>,
    is_secure: bool,
) -> Vec<KeyValue> {
    let mut all = vec![
        text("http.request.method", method.unwrap_or("_OTHER")),
        bytes("url.path", path(entry.target)),
        text("url.scheme", if is_secure { "https" } else { "http" }),
        text("client.address", &entry.client.to_string()),
        text("tiergate.verdict", entry.verdict.name()),
        number("http.response.body.size", entry.body_bytes),
        number("http.request.size", entry.received_bytes),
    ];
    let version = entry.protocol.map_or("", |it| it.name().trim_start_matches("HTTP/"));
    let version = if version == "1.0" { version } else { version.trim_end_matches(".0") };
    all.push(text("network.protocol.version", version));
    if method.is_none() {
        all.push(bytes("http.request.method_original", entry.method));
    }
    if entry.status > 0 {
        all.push(number("http.response.status_code", entry.status.into()));
    }
    let (host, port) = host_and_port(entry.host);
    all.push(bytes("server.address", host));
    all.extend(port.map(|port| number("server.port", port)));
    all.push(bytes("user_agent.original", entry.user_agent));
    all.push(text("tiergate.class", entry.class.unwrap_or_default()));
    all.push(text("tiergate.pool", entry.pool.unwrap_or_default()));
    all.push(text("tiergate.reason", entry.reason.map_or("", |it| it.name())));
    all.push(text("tiergate.policer", entry.policer.unwrap_or_default()));
    all.push(text("tiergate.rule", &entry.rule.map(|it| it.to_string()).unwrap_or_default()));
    all.push(text("tiergate.end", entry.end.map_or("", |it| it.name())));
    all.push(text("tiergate.cause", entry.cause));
    all.push(bytes("tiergate.request_id", entry.request_id));
    all.push(text("error.type", error.unwrap_or_default()));
    all.retain(is_said);
    all
}

fn origin_attributes(
    entry: &Entry<'_>,
    method: Option<&str>,
    server: &str,
    status: u16,
) -> Vec<KeyValue> {
    let (host, port) = host_and_port(server.as_bytes());
    let mut all = vec![
        text("http.request.method", method.unwrap_or("_OTHER")),
        bytes("server.address", host),
    ];
    all.extend(port.map(|port| number("server.port", port)));
    if status > 0 {
        all.push(number("http.response.status_code", status.into()));
    }
    if let Some(first_byte) = entry.first_byte {
        let value = Some(Value::DoubleValue(first_byte.as_secs_f64()));
        let value = Some(AnyValue { value });
        let key = "tiergate.first_byte_seconds".to_owned();
        all.push(KeyValue { key, value, ..KeyValue::default() });
    }
    all.push(text("error.type", &origin_error(entry, status).unwrap_or_default()));
    all.retain(is_said);
    all
}

/// What went wrong with the whole, in few different words; `None`: nothing that is not the client's own fault.
fn error_type(entry: &Entry<'_>) -> Option<String> {
    if let Some(reason) = entry.reason {
        return Some(reason.name().to_owned()).filter(|_| entry.status == 0 || entry.status >= 500);
    }
    match (entry.status, failed(entry)) {
        (500.., _) => Some(entry.status.to_string()),
        // An answer that broke off, or a call that failed.
        (0..=399, Some(end)) => Some(end.name().to_owned()),
        (0, None) => Some("client_left".to_owned()),
        _ => None,
    }
}

/// What went wrong at the origin: the status that it gave, or how it ended; `None`: nothing.
fn origin_error(entry: &Entry<'_>, status: u16) -> Option<String> {
    match status {
        400.. => Some(status.to_string()),
        _ => failed(entry).map(|end| end.name().to_owned()),
    }
}

fn failed(entry: &Entry<'_>) -> Option<End> {
    let fails = [End::Error, End::Failed, End::TimedOut, End::Pushback];
    entry.end.filter(|end| fails.contains(end))
}

/// The path of a target that may be absolute, without its query.
fn path(target: &[u8]) -> &[u8] {
    let end = target.iter().position(|byte| matches!(byte, b'?' | b'#'));
    let target = &target[..end.unwrap_or(target.len())];
    match target.windows(3).position(|three| three == b"://") {
        Some(at) if !target.starts_with(b"/") => {
            let behind = &target[at + 3..];
            let slash = behind.iter().position(|&byte| byte == b'/');
            slash.map_or(b"/", |slash| &behind[slash..])
        }
        _ => target,
    }
}

/// The parts of `host:port`, `[::1]:port`; all of a UNIX socket's path.
fn host_and_port(authority: &[u8]) -> (&[u8], Option<u64>) {
    if authority.contains(&b'/') {
        return (authority, None);
    }
    let host = host_name(authority);
    let port = authority.get(host.len() + 1..).and_then(|it| std::str::from_utf8(it).ok());
    (host, port.and_then(|port| port.parse().ok()))
}

fn is_said(attribute: &KeyValue) -> bool {
    !matches!(
        &attribute.value,
        Some(AnyValue { value: Some(Value::StringValue(text)) }) if text.is_empty()
    )
}

fn text(key: &str, value: &str) -> KeyValue {
    let value = Some(AnyValue { value: Some(Value::StringValue(value.to_owned())) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

/// What is not UTF-8 becomes U+FFFD.
fn bytes(key: &str, value: &[u8]) -> KeyValue {
    text(key, &String::from_utf8_lossy(&value[..value.len().min(VALUE_LEN_MAX)]))
}

fn number(key: &str, value: u64) -> KeyValue {
    let value = Value::IntValue(i64::try_from(value).unwrap_or(i64::MAX));
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_neither_authority_nor_query() {
        for (target, expected) in [
            (&b"/a/b?c=d"[..], &b"/a/b"[..]),
            (b"http://host:1/a?b", b"/a"),
            (b"http://host", b"/"),
            (b"/to?http://host/a", b"/to"),
            (b"/to/http://host/a", b"/to/http://host/a"),
            (b"*", b"*"),
        ] {
            assert_eq!(path(target), expected);
        }
    }

    #[test]
    fn addresses_have_their_ports_apart() {
        for (authority, host, port) in [
            (&b"10.0.0.5:8080"[..], &b"10.0.0.5"[..], Some(8080)),
            (b"shop.example", b"shop.example", None),
            (b"unix:/run/app.sock", b"unix:/run/app.sock", None),
            (b"", b"", None),
        ] {
            assert_eq!(host_and_port(authority), (host, port));
        }
        assert_eq!(host_and_port(b"[::1]:443").1, Some(443));
    }
}
