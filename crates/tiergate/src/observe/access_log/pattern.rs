//! Writes a line as an operator wants it ([`Pattern`]). What clients send is escaped: as Apache and nginx do, or, in a line that begins with `{`, as JSON
//! wants it.

use super::entry::Entry;
use super::escape;
use super::request_line::push_request;
use super::time::Clock;
use crate::config::meant::{Escape, Part, Pattern, Variable};
use crate::observe::counters::Protocol;
use std::io::Write;
use std::time::{Duration, SystemTime};
use tiergate_core::reason::Reason;

/// What is written besides the entry.
pub(super) struct Around<'a> {
    pub(super) clock: &'a mut Clock,
    /// Refused requests since the last refused one that has a line.
    pub(super) left_out: u64,
}

/// Appends a line, without its line feed. The entry's target and referrer have no query.
pub(super) fn push(
    pattern: &Pattern,
    line: &mut Vec<u8>,
    entry: &Entry<'_>,
    around: &mut Around<'_>,
) {
    for part in &pattern.parts {
        match part {
            Part::Text(text) => line.extend_from_slice(text.as_bytes()),
            Part::Variable(variable) => {
                push_variable(*variable, line, pattern.escape, entry, around)
            }
        }
    }
}

/// Appends its value.
fn push_variable(
    variable: Variable,
    line: &mut Vec<u8>,
    escape: Escape,
    entry: &Entry<'_>,
    around: &mut Around<'_>,
) {
    let mut text = |value: &[u8]| push_text(line, escape, value);
    match variable {
        Variable::User => text(b""),
        Variable::Method => text(entry.method),
        Variable::Path => text(entry.target),
        Variable::Host => text(entry.host),
        Variable::UserAgent => text(entry.user_agent),
        Variable::Referer => text(entry.referer),
        Variable::RequestId => text(entry.request_id),
        Variable::ClientRequestId => text(entry.client_request_id),
        Variable::RuleName => {
            text(entry.rule.and_then(|rule| rule.name).unwrap_or_default().as_bytes());
        }
        Variable::Traceparent => text(entry.traceparent),
        Variable::Protocol => text(entry.protocol.map_or("", Protocol::name).as_bytes()),
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
            let push = match escape {
                Escape::Text => escape::push_combined,
                Escape::Json => escape::push_json,
            };
            push_request(line, entry, push);
        }
        Variable::Client => put(line, format_args!("{}", entry.client)),
        Variable::Status => put(line, format_args!("{}", entry.status)),
        Variable::SentBytes => put(line, format_args!("{}", entry.sent_bytes)),
        Variable::BodyBytes => put(line, format_args!("{}", entry.body_bytes)),
        Variable::ReceivedBytes => put(line, format_args!("{}", entry.received_bytes)),
        Variable::Slots => put(line, format_args!("{}", entry.slots)),
        Variable::RefusalsLeftOut | Variable::BadLeftOut => {
            let is_asked = entry.is_stray() == (variable == Variable::BadLeftOut);
            put(line, format_args!("{}", if is_asked { around.left_out } else { 0 }));
        }
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

#[cfg(test)]
mod tests {
    use super::super::format::tests::entry;
    use super::*;
    use proptest::prelude::*;
    use tiergate_core::reason::Reason;

    fn line(pattern: &str, entry: &Entry<'_>) -> String {
        let pattern = Pattern::parse(pattern).unwrap_or_else(|why| panic!("{pattern}: {why}"));
        let (mut line, mut clock) = (Vec::new(), Clock::default());
        let entry = Entry { target: b"/cart/7", referer: b"https://shop.example/", ..*entry };
        push(&pattern, &mut line, &entry, &mut Around { clock: &mut clock, left_out: 3 });
        String::from_utf8(line).expect("valid UTF-8")
    }

    #[test]
    fn nginx_s_own_default_is_the_combined_format() {
        let pattern = "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \
                       \"$http_referer\" \"$http_user_agent\"";
        assert_eq!(
            line(pattern, &entry()),
            "192.0.2.7 - - [20/Nov/2026:18:23:51 +0000] \"GET /cart/7 HTTP/1.1\" 200 5120 \
             \"https://shop.example/\" \"curl/8.14.1\""
        );
    }

    #[test]
    fn times_are_in_the_unit_of_the_program_whose_name_it_is() {
        assert_eq!(line("$request_time $queue_time", &entry()), "0.041 0.001");
        assert_eq!(line("%Ta/%Tw/%Tr", &entry()), "41/1/38");
        let refused = Entry { first_byte: None, waited: None, ..entry() };
        assert_eq!(line("$queue_time %Tw/%Tr $upstream_header_time", &refused), "- -1/-1 -");
        assert_eq!(
            line("$time_iso8601 $msec", &entry()),
            "2026-11-20T18:23:51+00:00 1795199031.042"
        );
    }

    #[test]
    fn haproxy_s_names_may_follow_each_other() {
        assert_eq!(line("%ci %HM%HP%ST%% %s", &entry()), "192.0.2.7 GET/cart/7200% 10.0.0.5:8080");
    }

    #[test]
    fn tiergate_s_own() {
        let refused = Entry { reason: Some(Reason::QueueFull), ..entry() };
        let pattern = "${class}:$rule $verdict $reason $policer $refusals_left_out $$";
        assert_eq!(line(pattern, &refused), "checkout:2 queued queue_full - 3 $");
    }

    #[test]
    fn a_line_that_begins_with_a_brace_is_json() {
        let hostile = Entry { user_agent: b"a\"b\\\n\xff", reason: None, ..entry() };
        let pattern = r#"{"agent":"$http_user_agent","reason":"$reason","queue":$queue_time}"#;
        let text = line(pattern, &Entry { waited: None, ..hostile });
        let json: serde_json::Value = serde_json::from_str(&text).expect("valid JSON");
        assert_eq!(json["agent"], "a\"b\\\n\u{fffd}");
        assert_eq!((&json["reason"], &json["queue"]), (&"".into(), &0.into()));
    }

    proptest! {
        /// Whatever is written as a pattern and sent by a client, a line stays one line.
        #[test]
        fn a_line_is_one_line(pattern in "[ -~]{0,60}", sent in prop::collection::vec(any::<u8>(), 0..60)) {
            let Ok(pattern) = Pattern::parse(&pattern) else { return Ok(()) };
            let entry = Entry { user_agent: &sent, referer: &sent, host: &sent, method: &sent, ..entry() };
            let (mut line, mut clock) = (Vec::new(), Clock::default());
            push(&pattern, &mut line, &entry, &mut Around { clock: &mut clock, left_out: 0 });
            prop_assert!(line.iter().all(|byte| !matches!(byte, b'\n' | b'\r' | 0)));
        }
    }
}
