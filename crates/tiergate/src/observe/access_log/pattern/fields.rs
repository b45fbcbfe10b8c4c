//! The variables of a pattern: their names, and how each is written.

use super::super::entry::Entry;
use super::super::escape;
use super::{Around, Escape};
use crate::config::instead;
use std::io::Write;
use std::time::{Duration, SystemTime};
use tiergate_core::reason::Reason;

/// A variable. Several names may stand for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variable {
    Client,
    User,
    TimeLocal,
    TimeIso,
    TimeMillis,
    Unix,
    Request,
    Method,
    Path,
    Protocol,
    Host,
    Status,
    SentBytes,
    BodyBytes,
    ReceivedBytes,
    DurationSeconds,
    DurationMillis,
    QueueSeconds,
    QueueMillis,
    FirstByteSeconds,
    FirstByteMillis,
    CpuSeconds,
    Server,
    Pool,
    Class,
    Resource,
    Level,
    Rule,
    Verdict,
    Reason,
    Policer,
    End,
    Cause,
    Slots,
    StoredInsteadOf,
    UserAgent,
    Referer,
    RequestId,
    Traceparent,
    RefusalsLeftOut,
}

/// Their names with what stands before them: nginx's and our own, then HAProxy's.
const NAMES: &[(&str, Variable)] = {
    use Variable as V;
    &[
        ("$remote_addr", V::Client),
        ("$remote_user", V::User),
        ("$time_local", V::TimeLocal),
        ("$time_iso8601", V::TimeIso),
        ("$time", V::TimeMillis),
        ("$msec", V::Unix),
        ("$request", V::Request),
        ("$request_method", V::Method),
        ("$uri", V::Path),
        ("$server_protocol", V::Protocol),
        ("$host", V::Host),
        ("$http_host", V::Host),
        ("$status", V::Status),
        ("$bytes_sent", V::SentBytes),
        ("$body_bytes_sent", V::BodyBytes),
        ("$request_length", V::ReceivedBytes),
        ("$request_time", V::DurationSeconds),
        ("$queue_time", V::QueueSeconds),
        ("$upstream_header_time", V::FirstByteSeconds),
        ("$gateway_cpu_time", V::CpuSeconds),
        ("$upstream_addr", V::Server),
        ("$pool", V::Pool),
        ("$class", V::Class),
        ("$resource", V::Resource),
        ("$level", V::Level),
        ("$rule", V::Rule),
        ("$verdict", V::Verdict),
        ("$reason", V::Reason),
        ("$policer", V::Policer),
        ("$end", V::End),
        ("$cause", V::Cause),
        ("$slots", V::Slots),
        ("$stored_instead_of", V::StoredInsteadOf),
        ("$http_user_agent", V::UserAgent),
        ("$http_referer", V::Referer),
        ("$http_x_request_id", V::RequestId),
        ("$http_traceparent", V::Traceparent),
        ("$refusals_left_out", V::RefusalsLeftOut),
        ("%ci", V::Client),
        ("%trg", V::TimeLocal),
        ("%r", V::Request),
        ("%HM", V::Method),
        ("%HP", V::Path),
        ("%HV", V::Protocol),
        ("%ST", V::Status),
        ("%B", V::SentBytes),
        ("%U", V::ReceivedBytes),
        ("%Ta", V::DurationMillis),
        ("%Tw", V::QueueMillis),
        ("%Tr", V::FirstByteMillis),
        ("%s", V::Server),
        ("%b", V::Pool),
    ]
};

impl Variable {
    /// The one of that name, behind `$` or `%`.
    ///
    /// # Errors
    /// There is none: why, or which is like it.
    pub(super) fn of(sign: &str, name: &str) -> Result<Variable, String> {
        let whole = format!("{sign}{name}");
        if let Some((_, variable)) = NAMES.iter().find(|(name, _)| *name == whole) {
            return Ok(*variable);
        }
        if matches!(name, "args" | "query_string" | "request_uri" | "HQ" | "HU") {
            return Err(format!("has `{whole}`: queries are never logged; `$uri` is without"));
        }
        if name.starts_with("http_") {
            let known = NAMES.iter().map(|(name, _)| *name).filter(|it| it.starts_with("$http_"));
            let known = known.collect::<Vec<_>>().join("`, `");
            return Err(format!("has `{whole}`: of the header fields only `{known}` are logged"));
        }
        let known = NAMES.iter().map(|(name, _)| *name).filter(|it| it.starts_with(sign));
        Err(format!("has the unknown variable `{whole}`{}", instead(&whole, known)))
    }

    /// Appends its value.
    pub(super) fn push(
        self,
        line: &mut Vec<u8>,
        escape: Escape,
        entry: &Entry<'_>,
        around: &mut Around<'_>,
    ) {
        let mut text = |value: &[u8]| push_text(line, escape, value);
        match self {
            Variable::User => text(b""),
            Variable::Method => text(entry.method),
            Variable::Path => text(entry.target),
            Variable::Host => text(entry.host),
            Variable::UserAgent => text(entry.user_agent),
            Variable::Referer => text(entry.referer),
            Variable::RequestId => text(entry.request_id),
            Variable::Traceparent => text(entry.traceparent),
            Variable::Protocol => text(entry.protocol.name().as_bytes()),
            Variable::Server => text(entry.server.unwrap_or_default().as_bytes()),
            Variable::Pool => text(entry.pool.unwrap_or_default().as_bytes()),
            Variable::Class => text(entry.class.unwrap_or_default().as_bytes()),
            Variable::Resource => text(entry.resource.unwrap_or_default().as_bytes()),
            Variable::Level => text(entry.level.unwrap_or_default().as_bytes()),
            Variable::Policer => text(entry.policer.unwrap_or_default().as_bytes()),
            Variable::Cause => text(entry.cause.as_bytes()),
            Variable::Verdict => text(entry.verdict.name().as_bytes()),
            Variable::Reason => text(entry.reason.map_or("", Reason::name).as_bytes()),
            Variable::End => text(entry.end.map_or("", |it| it.name()).as_bytes()),
            Variable::StoredInsteadOf => text(entry.stored.map_or("", |it| it.name()).as_bytes()),
            Variable::Rule => match entry.rule {
                Some(rule) => put(line, format_args!("{rule}")),
                None => text(b""),
            },
            Variable::Request => {
                text(entry.method);
                line.push(b' ');
                push_text(line, escape, entry.target);
                put(line, format_args!(" {}", entry.protocol.name()));
            }
            Variable::Client => put(line, format_args!("{}", entry.client)),
            Variable::Status => put(line, format_args!("{}", entry.status)),
            Variable::SentBytes => put(line, format_args!("{}", entry.sent_bytes)),
            Variable::BodyBytes => put(line, format_args!("{}", entry.body_bytes)),
            Variable::ReceivedBytes => put(line, format_args!("{}", entry.received_bytes)),
            Variable::Slots => put(line, format_args!("{}", entry.slots)),
            Variable::RefusalsLeftOut => put(line, format_args!("{}", around.left_out)),
            Variable::TimeLocal => around.clock.push_combined(line, entry.time),
            Variable::TimeMillis => around.clock.push_rfc3339(line, entry.time),
            Variable::TimeIso => {
                around.clock.push_rfc3339(line, entry.time);
                line.truncate(line.len() - ".000Z".len());
                line.extend_from_slice(b"+00:00");
            }
            Variable::Unix => {
                let since = entry.time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                seconds(line, escape, Some(since));
            }
            Variable::DurationSeconds => seconds(line, escape, Some(entry.duration)),
            Variable::QueueSeconds => seconds(line, escape, entry.waited),
            Variable::FirstByteSeconds => seconds(line, escape, entry.first_byte),
            Variable::CpuSeconds => match entry.cpu {
                Some(cpu) => put(line, format_args!("{:.6}", cpu.as_secs_f64())),
                None => seconds(line, escape, None),
            },
            Variable::DurationMillis => millis(line, Some(entry.duration)),
            Variable::QueueMillis => millis(line, entry.waited),
            Variable::FirstByteMillis => millis(line, entry.first_byte),
        }
    }
}

fn push_text(line: &mut Vec<u8>, escape: Escape, value: &[u8]) {
    match escape {
        Escape::Text => escape::push_combined(line, value),
        Escape::Json => escape::push_json(line, value),
    }
}

/// As nginx: seconds with milliseconds.
fn seconds(line: &mut Vec<u8>, escape: Escape, span: Option<Duration>) {
    match (span, escape) {
        (Some(span), _) => {
            put(line, format_args!("{}.{:03}", span.as_secs(), span.subsec_millis()))
        }
        (None, Escape::Text) => line.push(b'-'),
        (None, Escape::Json) => line.push(b'0'),
    }
}

/// As HAProxy: milliseconds, or -1.
fn millis(line: &mut Vec<u8>, span: Option<Duration>) {
    match span {
        Some(span) => put(line, format_args!("{}", span.as_millis())),
        None => line.extend_from_slice(b"-1"),
    }
}

fn put(line: &mut Vec<u8>, arguments: std::fmt::Arguments<'_>) {
    line.write_fmt(arguments).expect("a vector takes every write");
}
