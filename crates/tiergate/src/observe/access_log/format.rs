//! Writes a line.

use super::entry::Entry;
use super::escape;
use super::pattern::{self, Around};
use super::request_line::push_request;
use super::time::Clock;
use crate::config::meant::{AccessLog, LogFormat, Pattern};
use crate::observe::counters::Protocol;
use crate::observed::ObservedVerdict;
use crate::userinfo;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;
use tiergate_core::plan::RuleLabel;
use tiergate_core::reason::Reason;

/// How lines are written.
#[derive(Clone, Debug)]
pub(super) enum Format {
    /// In one of ours.
    Named(LogFormat),
    /// In an operator's.
    Own(Arc<Pattern>),
}

impl Format {
    pub(super) fn of(settings: &AccessLog) -> Self {
        match &settings.line {
            Some(pattern) => Format::Own(Arc::clone(pattern)),
            None => Format::Named(settings.format),
        }
    }
}

/// State of the formatting besides the entry.
#[derive(Debug, Default)]
pub(super) struct Formatter {
    clock: Clock,
}

impl Formatter {
    /// Appends the entry's line, with its line feed.
    /// `left_out`: how many refused requests before it have none.
    pub(super) fn push(
        &mut self,
        line: &mut Vec<u8>,
        format: &Format,
        entry: &Entry<'_>,
        left_out: u64,
    ) {
        let (target, referer) = (bare_target(entry.target), without_secrets(entry.referer));
        let entry = Entry { target, referer, ..*entry };
        match format {
            Format::Named(LogFormat::Json) => self.push_json(line, &entry, left_out),
            Format::Named(LogFormat::Common) => self.push_common(line, &entry),
            Format::Named(LogFormat::Combined) => self.push_combined(line, &entry),
            Format::Named(LogFormat::Extended) => self.push_extended(line, &entry),
            Format::Own(own) => {
                let mut around = Around { clock: &mut self.clock, left_out };
                pattern::push(own, line, &entry, &mut around);
            }
        }
        line.push(b'\n');
    }

    fn push_json(&mut self, line: &mut Vec<u8>, entry: &Entry<'_>, left_out: u64) {
        line.extend_from_slice(b"{\"time\":\"");
        self.clock.push_rfc3339(line, entry.time);
        put(line, format_args!("\",\"client\":\"{}\"", entry.client));
        text(line, "method", entry.method);
        text(line, "target", entry.target);
        text(line, "protocol", entry.protocol.map_or("", Protocol::name).as_bytes());
        text(line, "host", entry.host);
        put(
            line,
            format_args!(
                ",\"status\":{},\"sent_bytes\":{},\"body_bytes\":{},\"received_bytes\":{}",
                entry.status, entry.sent_bytes, entry.body_bytes, entry.received_bytes
            ),
        );
        seconds(line, "duration_seconds", Some(entry.duration));
        seconds(line, "queue_seconds", entry.waited);
        seconds(line, "first_byte_seconds", entry.first_byte);
        seconds(line, "gateway_cpu_seconds", entry.cpu);
        text(line, "class", entry.class.unwrap_or_default().as_bytes());
        text(line, "pool", entry.pool.unwrap_or_default().as_bytes());
        text(line, "resource", entry.resource.unwrap_or_default().as_bytes());
        text(line, "level", entry.level.unwrap_or_default().as_bytes());
        if let Some(RuleLabel { number, name }) = entry.rule {
            put(line, format_args!(",\"rule\":{number}"));
            text(line, "rule_name", name.unwrap_or_default().as_bytes());
        }
        put(line, format_args!(",\"verdict\":\"{}\"", entry.verdict.name()));
        if let Some(instead) = entry.stored {
            put(line, format_args!(",\"stored_instead_of\":\"{}\"", instead.name()));
        }
        if let Some(reason) = entry.reason {
            put(line, format_args!(",\"reason\":\"{}\"", reason.name()));
        }
        text(line, "policer", entry.policer.unwrap_or_default().as_bytes());
        if let Some(end) = entry.end {
            put(line, format_args!(",\"end\":\"{}\"", end.name()));
        }
        if let Some(ObservedVerdict { class, verdict, reason, rule, level }) = entry.observed {
            text(line, "observed_class", class.as_bytes());
            text(line, "observed_verdict", verdict.as_bytes());
            text(line, "observed_reason", reason.map_or("", Reason::name).as_bytes());
            if let Some(rule) = rule {
                put(line, format_args!(",\"observed_rule\":{rule}"));
            }
            if let Some((level, highest)) = level {
                put(line, format_args!(",\"observed_level\":\"{level}/{highest}\""));
            }
        }
        text(line, "server", entry.server.unwrap_or_default().as_bytes());
        text(line, "cause", entry.cause.as_bytes());
        put(line, format_args!(",\"slots\":{}", entry.slots));
        text(line, "user_agent", entry.user_agent);
        text(line, "referer", entry.referer);
        text(line, "request_id", entry.request_id);
        text(line, "client_request_id", entry.client_request_id);
        text(line, "traceparent", entry.traceparent);
        if left_out > 0 {
            let what = if entry.is_stray() { "bad" } else { "refusals" };
            put(line, format_args!(",\"{what}_left_out\":{left_out}"));
        }
        line.push(b'}');
    }

    /// `client - - [time] "request" status bytes`, those of the body.
    fn push_common(&mut self, line: &mut Vec<u8>, entry: &Entry<'_>) {
        put(line, format_args!("{} - - [", entry.client));
        self.clock.push_combined(line, entry.time);
        line.extend_from_slice(b"] \"");
        push_request(line, entry, escape::push_combined);
        put(line, format_args!("\" {} {}", entry.status, entry.body_bytes));
    }

    /// The same with `"referer" "user agent"`.
    fn push_combined(&mut self, line: &mut Vec<u8>, entry: &Entry<'_>) {
        self.push_common(line, entry);
        quoted(line, entry.referer);
        quoted(line, entry.user_agent);
    }

    /// The same with Tiergate's own:
    /// `class rule verdict reason duration queue first_byte server slots "host" "id" "traceparent" "cause"`, and
    /// `"pool"` of a request that went to another than the default pool.
    fn push_extended(&mut self, line: &mut Vec<u8>, entry: &Entry<'_>) {
        self.push_combined(line, entry);
        quoted(line, entry.class.unwrap_or_default().as_bytes());
        line.push(b' ');
        match entry.rule {
            Some(rule) => put(line, format_args!("{rule}")),
            None => line.push(b'-'),
        }
        let reason = entry.reason.map_or("-", |reason| reason.name());
        put(line, format_args!(" {} {reason}", entry.verdict.name()));
        for span in [Some(entry.duration), entry.waited, entry.first_byte] {
            match span {
                Some(span) => put(line, format_args!(" {:.6}", span.as_secs_f64())),
                None => line.extend_from_slice(b" -"),
            }
        }
        quoted(line, entry.server.unwrap_or_default().as_bytes());
        put(line, format_args!(" {}", entry.slots));
        quoted(line, entry.host);
        quoted(line, entry.request_id);
        quoted(line, entry.traceparent);
        quoted(line, entry.cause.as_bytes());
        if let Some(pool) = entry.pool {
            quoted(line, pool.as_bytes());
        }
    }
}

/// A target without its query; one that is a whole URL also without user name and password.
fn bare_target(target: &[u8]) -> &[u8] {
    match target.starts_with(b"/") {
        true => without_query(target),
        false => without_secrets(target),
    }
}

/// A URL without its query; one with a user name and a password without these, and without its scheme.
fn without_secrets(target: &[u8]) -> &[u8] {
    // Most have no name.
    let target = match memchr::memchr(b'@', target) {
        Some(_) => &target[userinfo::of(target).end..],
        None => target,
    };
    without_query(target)
}

fn without_query(target: &[u8]) -> &[u8] {
    let end = target.iter().position(|&byte| matches!(byte, b'?' | b'#'));
    &target[..end.unwrap_or(target.len())]
}

fn put(line: &mut Vec<u8>, arguments: std::fmt::Arguments<'_>) {
    line.write_fmt(arguments).expect("a vector takes every write");
}

fn text(line: &mut Vec<u8>, key: &str, value: &[u8]) {
    if value.is_empty() {
        return;
    }
    line.extend_from_slice(b",\"");
    line.extend_from_slice(key.as_bytes());
    line.extend_from_slice(b"\":\"");
    escape::push_json(line, value);
    line.push(b'"');
}

fn seconds(line: &mut Vec<u8>, key: &str, span: Option<Duration>) {
    if let Some(span) = span {
        put(line, format_args!(",\"{key}\":{}.{:06}", span.as_secs(), span.subsec_micros()));
    }
}

fn quoted(line: &mut Vec<u8>, value: &[u8]) {
    line.extend_from_slice(b" \"");
    escape::push_combined(line, value);
    line.push(b'"');
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::Verdict;
    use super::*;
    use crate::observe::counters::Protocol;
    use proptest::prelude::*;
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::SystemTime;
    use tiergate_core::outcome::End;
    use tiergate_core::plan::RuleLabel;
    use tiergate_core::reason::Reason;

    pub(in crate::observe::access_log) fn entry() -> Entry<'static> {
        Entry {
            time: SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_199_031_042),
            client: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)),
            method: b"GET",
            target: b"/cart/7?token=hush",
            protocol: Some(Protocol::Http11),
            host: b"shop.example",
            status: 200,
            sent_bytes: 5300,
            body_bytes: 5120,
            received_bytes: 0,
            duration: Duration::from_micros(41_500),
            waited: Some(Duration::from_micros(1_250)),
            first_byte: Some(Duration::from_millis(38)),
            cpu: Some(Duration::from_micros(21)),
            class: Some("checkout"),
            pool: None,
            resource: None,
            level: None,
            observed: None,
            rule: Some(RuleLabel { number: 2, name: None }),
            verdict: Verdict::Queued,
            stored: None,
            reason: None,
            policer: None,
            end: Some(End::Served),
            server: Some("10.0.0.5:8080"),
            cause: "",
            slots: 40,
            user_agent: b"curl/8.14.1",
            referer: b"https://shop.example/?q=secret",
            request_id: b"",
            client_request_id: b"",
            traceparent: b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        }
    }

    fn line(format: LogFormat, entry: &Entry<'_>) -> String {
        let mut line = Vec::new();
        Formatter::default().push(&mut line, &Format::Named(format), entry, 0);
        String::from_utf8(line).expect("valid UTF-8")
    }

    #[test]
    fn a_json_line() {
        assert_eq!(
            line(LogFormat::Json, &entry()),
            "{\"time\":\"2026-11-20T18:23:51.042Z\",\"client\":\"192.0.2.7\",\"method\":\"GET\",\
             \"target\":\"/cart/7\",\"protocol\":\"HTTP/1.1\",\"host\":\"shop.example\",\
             \"status\":200,\"sent_bytes\":5300,\"body_bytes\":5120,\"received_bytes\":0,\
             \"duration_seconds\":0.041500,\"queue_seconds\":0.001250,\
             \"first_byte_seconds\":0.038000,\"gateway_cpu_seconds\":0.000021,\"class\":\"checkout\",\"rule\":2,\
             \"verdict\":\"queued\",\"end\":\"served\",\"server\":\"10.0.0.5:8080\",\"slots\":40,\
             \"user_agent\":\"curl/8.14.1\",\"referer\":\"https://shop.example/\",\
             \"traceparent\":\"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\"}\n"
        );
    }

    #[test]
    fn lines_as_other_servers_write_them() {
        let common = "192.0.2.7 - - [20/Nov/2026:18:23:51 +0000] \"GET /cart/7 HTTP/1.1\" 200 5120";
        assert_eq!(line(LogFormat::Common, &entry()), format!("{common}\n"));
        let both = "\"https://shop.example/\" \"curl/8.14.1\"";
        assert_eq!(line(LogFormat::Combined, &entry()), format!("{common} {both}\n"));
    }

    #[test]
    fn an_extended_line() {
        let mut refused = entry();
        refused.verdict = Verdict::Refused;
        refused.reason = Some(Reason::QueueFull);
        (refused.first_byte, refused.server, refused.rule) = (None, None, None);
        assert_eq!(
            line(LogFormat::Extended, &refused),
            "192.0.2.7 - - [20/Nov/2026:18:23:51 +0000] \"GET /cart/7 HTTP/1.1\" 200 5120 \
             \"https://shop.example/\" \"curl/8.14.1\" \"checkout\" - refused queue_full \
             0.041500 0.001250 - \"-\" 40 \"shop.example\" \"-\" \
             \"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\" \"-\"\n"
        );
    }

    #[test]
    fn the_cause_of_a_failure_is_logged() {
        let failed = Entry { cause: "connection refused", status: 502, ..entry() };
        assert!(line(LogFormat::Json, &failed).contains(",\"cause\":\"connection refused\","));
        assert!(line(LogFormat::Extended, &failed).ends_with(" \"connection refused\"\n"));
    }

    #[test]
    fn the_resource_of_a_request_is_logged() {
        let needing = Entry { resource: Some("db"), ..entry() };
        let line = line(LogFormat::Json, &needing);
        assert!(line.contains(",\"class\":\"checkout\",\"resource\":\"db\","), "{line}");
    }

    #[test]
    fn passwords_of_urls_are_never_logged() {
        let sent: &[u8] = b"https://bob:hush@shop.example/cart?q=1";
        let entry = Entry { referer: sent, target: sent, ..entry() };
        for format in [LogFormat::Json, LogFormat::Combined, LogFormat::Extended] {
            let line = line(format, &entry);
            assert!(line.contains("shop.example/cart") && !line.contains("hush"), "{line}");
        }
        // A path of its own may begin so.
        let entry = Entry { target: b"//@scope/pkg@1?x", ..entry };
        assert!(line(LogFormat::Json, &entry).contains("\"target\":\"//@scope/pkg@1\""));
    }

    #[test]
    fn queries_are_never_logged() {
        for format in [LogFormat::Json, LogFormat::Common, LogFormat::Combined, LogFormat::Extended]
        {
            let line = line(format, &entry());
            assert!(!line.contains("hush") && !line.contains("secret"), "{line}");
        }
    }

    #[test]
    fn a_request_without_anything_is_still_a_line() {
        let mut bare = entry();
        bare.verdict = Verdict::Bad;
        (bare.method, bare.target, bare.host) = (b"", b"", b"");
        (bare.user_agent, bare.referer, bare.traceparent) = (b"", b"", b"");
        (bare.class, bare.rule, bare.end, bare.server) = (None, None, None, None);
        (bare.waited, bare.first_byte, bare.status) = (None, None, 400);
        let json: serde_json::Value =
            serde_json::from_str(&line(LogFormat::Json, &bare)).expect("valid JSON");
        assert_eq!(json["verdict"], "bad");
        assert_eq!(json.get("method"), None);
        let combined = line(LogFormat::Extended, &bare);
        assert!(combined.contains("\"-\" 400"), "{combined}");
    }

    proptest! {
        #[test]
        fn whatever_strangers_send_is_one_line_of_json_with_the_same_fields(
            fields in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..60), 8)
        ) {
            let mut hostile = entry();
            hostile.method = &fields[0];
            hostile.target = &fields[1];
            hostile.host = &fields[2];
            hostile.user_agent = &fields[3];
            hostile.referer = &fields[4];
            hostile.request_id = &fields[5];
            hostile.traceparent = &fields[6];
            hostile.client_request_id = &fields[7];
            let text = line(LogFormat::Json, &hostile);
            prop_assert_eq!(text.matches('\n').count(), 1);
            let json: serde_json::Value = serde_json::from_str(&text).expect("valid JSON");
            let keys = ["method", "target", "host", "user_agent", "referer", "request_id",
                "traceparent", "client_request_id"];
            let mut logged = 25;
            for (key, bytes) in keys.into_iter().zip(&fields) {
                let bytes = match key {
                    "target" | "referer" => without_secrets(bytes),
                    _ => bytes,
                };
                let text = String::from_utf8_lossy(bytes);
                logged -= usize::from(text.is_empty());
                prop_assert_eq!(json[key].as_str(), (!text.is_empty()).then_some(&*text));
            }
            prop_assert_eq!(json.as_object().map(|object| object.len()), Some(logged));

            let combined = line(LogFormat::Extended, &hostile);
            prop_assert_eq!(combined.matches('\n').count(), 1);
            // Quotes that are not escaped stand in pairs, one pair a quoted field.
            let unescaped = combined.replace("\\\\", "").replace("\\\"", "");
            prop_assert_eq!(unescaped.matches('"').count(), 2 * 9);
        }
    }
}
