//! Answers of the gateway's own: refusals, made once per configuration but for their numbers, and
//! errors.

use crate::config::meant::{Denial, Policy, Refusal};
use crate::grpc;
use crate::rate_limit::RateLimit;
use crate::trace::ids::ToldId;
use aws_lc_rs::digest;
use data_encoding::BASE64;
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::SystemTime;
use tiergate_core::admit::retry;
use tiergate_core::gate::Refused;
use tiergate_core::names::RuleId;
use tiergate_core::reason::Reason;
use tiergate_core::request::Field;
use tiergate_wire::http1::put_decimal;

/// When a call that was refused may be tried again.
const GRPC_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// What a client would rather read, by its `Accept`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Anything else.
    Plain,
    /// Browsers.
    Html,
    /// Programs.
    Json,
    /// Calls by gRPC.
    Grpc,
}

impl Format {
    /// gRPC's for its calls; else the first of HTML and JSON that the client names; plain text if neither.
    ///
    /// Weights are not read: a client that accepts only one of them names only one.
    pub fn accepted(fields: &[Field<'_>]) -> Self {
        if grpc::is_grpc(fields) {
            return Format::Grpc;
        }
        let accepts =
            fields.iter().filter(|field| field.name.eq_ignore_ascii_case(b"accept")).take(4);
        for kind in accepts.flat_map(|field| field.value.split(|&byte| byte == b',')) {
            let kind = kind.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
            if kind.eq_ignore_ascii_case(b"text/html") {
                return Format::Html;
            }
            if kind.eq_ignore_ascii_case(b"application/json")
                || kind.to_ascii_lowercase().ends_with(b"+json")
            {
                return Format::Json;
            }
        }
        Format::Plain
    }
}

/// A refusal for one reason in one format: everything but the numbers of the one request.
#[derive(Debug)]
pub struct Template {
    /// The status.
    pub status: u16,
    /// The first line.
    start: Vec<u8>,
    /// Whether a rule says what the client is told: then it is told, even where others are reset.
    pub is_said: bool,
    /// Whether the client may come again, after some seconds.
    retries: bool,
    /// Whether that is said as gRPC does, too.
    is_call: bool,
    /// The lines that never change.
    lines: Vec<u8>,
    /// The same for HTTP/2.
    fields: HeaderMap,
    body: Body,
}

/// A body, and where in it the seconds stand.
#[derive(Debug)]
enum Body {
    /// Nowhere: the operator's page.
    Fixed(Arc<str>),
    /// Between these two.
    Around(String, String),
}

/// What a refusal says of the one request.
#[derive(Clone, Copy, Debug)]
pub struct Advice<'c> {
    /// Seconds after which the client may come again.
    pub seconds: u64,
    /// The policer, if clients are told of it.
    pub limit: Option<RateLimit<'c>>,
    /// What the request is known by.
    pub id: Option<ToldId<'c>>,
}

impl<'c> Advice<'c> {
    /// What the client is told of this refusal; the seconds differ from client to client.
    pub fn of(policy: &'c Policy, refused: &Refused) -> Self {
        let Refusal { retry_after: min, retry_after_max: max, .. } = policy.refusal;
        let limit = RateLimit::of(policy, refused.policer.as_ref());
        // Two fields that a client reads say the same.
        let seconds = limit.as_ref().and_then(RateLimit::seconds_to_wait).map_or_else(
            || retry::seconds(refused.wait, retry::Bounds { min, max }, fastrand::u64(..)),
            |seconds| seconds.max(retry::rounded_up(min)),
        );
        Advice { seconds, limit, id: None }
    }
}

impl Template {
    /// Appends the answer as HTTP/1.1 has it, for a connection that stays open or one that closes. What
    /// is returned of the body is still to be sent behind it: a page of the operator's, which may be
    /// long, is not copied.
    pub fn write(
        &self,
        out: &mut Vec<u8>,
        told: &Advice<'_>,
        keep: bool,
        head_only: bool,
    ) -> &[u8] {
        out.extend_from_slice(&self.start);
        if self.retries {
            out.extend_from_slice(b"retry-after: ");
            put_decimal(out, told.seconds);
            out.extend_from_slice(b"\r\n");
            if self.is_call {
                out.extend_from_slice(b"grpc-retry-pushback-ms: ");
                put_decimal(out, told.seconds * 1000);
                out.extend_from_slice(b"\r\n");
            }
        }
        out.extend_from_slice(&self.lines);
        if let Some(limit) = &told.limit {
            out.extend_from_slice(b"ratelimit-policy: ");
            limit.put_policy(out);
            out.extend_from_slice(b"\r\nratelimit: ");
            limit.put_state(out);
            out.extend_from_slice(b"\r\n");
        }
        told.id.iter().for_each(|id| id.put_line(out));
        let len = self.body_len(told);
        out.extend_from_slice(b"content-length: ");
        put_decimal(out, len as u64);
        out.extend_from_slice(if keep { b"\r\n\r\n" } else { b"\r\nconnection: close\r\n\r\n" });
        if let Body::Around(before, after) = &self.body
            && !head_only
        {
            out.extend_from_slice(before.as_bytes());
            put_decimal(out, told.seconds);
            out.extend_from_slice(after.as_bytes());
        }
        self.uncopied_body(head_only)
    }

    /// Bytes of the body, as it is sent to who does not ask for the head only.
    pub fn body_len(&self, told: &Advice<'_>) -> usize {
        match &self.body {
            Body::Fixed(page) => page.len(),
            Body::Around(before, after) => {
                let digits = told.seconds.checked_ilog10().unwrap_or(0) as usize + 1;
                before.len() + digits + after.len()
            }
        }
    }

    /// What [`Template::write`] leaves to be sent behind it.
    pub fn uncopied_body(&self, head_only: bool) -> &[u8] {
        match &self.body {
            Body::Fixed(page) if !head_only => page.as_bytes(),
            _ => b"",
        }
    }

    /// The fields and the body, for HTTP/2.
    pub fn parts(&self, told: &Advice<'_>) -> (HeaderMap, Arc<str>) {
        let body = match &self.body {
            Body::Fixed(page) => page.clone(),
            Body::Around(before, after) => format!("{before}{}{after}", told.seconds).into(),
        };
        let mut fields = self.fields.clone();
        if self.retries {
            fields.insert(RETRY_AFTER, HeaderValue::from(told.seconds));
            if self.is_call {
                fields.insert(GRPC_PUSHBACK, HeaderValue::from(told.seconds * 1000));
            }
        }
        if !self.is_call {
            fields.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        }
        if let Some(limit) = &told.limit {
            limit.append_to(&mut fields);
        }
        told.id.iter().for_each(|id| id.put_in(&mut fields));
        (fields, body)
    }
}

/// Every refusal that a configuration can give, but for the numbers.
#[derive(Debug)]
pub struct Refusals {
    by_reason: Vec<[Template; 4]>,
    /// Those of rules.
    by_rule: HashMap<RuleId, [Template; 4]>,
}

/// The status of a refusal: 429 tells a client that it asked too much (RFC 6585 §4), 503 that the site
/// cannot do more just now: either way the request may succeed later, unchanged. 403: it will not, a rule forbids it.
pub const fn status_of(reason: Reason) -> u16 {
    match reason {
        Reason::Rule => 403,
        Reason::Policed | Reason::Blocked => 429,
        _ => 503,
    }
}

impl Refusals {
    /// Writes them all; `denials`: those of rules.
    pub fn new<'p>(
        settings: &Refusal,
        denials: impl Iterator<Item = (RuleId, &'p Denial)>,
    ) -> Self {
        const FORMATS: [Format; 4] = [Format::Plain, Format::Html, Format::Json, Format::Grpc];
        let by_reason = Reason::ALL
            .iter()
            .map(|&reason| FORMATS.map(|format| template(settings, reason, format)))
            .collect();
        let by_rule =
            denials.map(|(rule, it)| (rule, FORMATS.map(|format| denied(settings, it, format))));
        Refusals { by_reason, by_rule: by_rule.collect() }
    }

    /// The answer for a reason, in the format that the client accepts; `rule`: the one that gave the request its class.
    pub fn template(&self, reason: Reason, rule: Option<RuleId>, format: Format) -> &Template {
        let denied = rule.filter(|_| reason == Reason::Rule).and_then(|it| self.by_rule.get(&it));
        &denied.unwrap_or(&self.by_reason[reason.index()])[format as usize]
    }
}

fn template(settings: &Refusal, reason: Reason, format: Format) -> Template {
    let status = status_of(reason);
    if reason == Reason::Rule {
        return finished(settings, reason, status, format, denial_body(settings, status, format));
    }
    let around = |before: &str, after: &str| Body::Around(before.to_owned(), after.to_owned());
    let body = match format {
        Format::Plain => {
            let before = match status {
                429 => "Too many requests. Please try again in ",
                _ => "The server is busy. Please try again in ",
            };
            around(before, " s.\n")
        }
        Format::Json => {
            let (error, reason) = (error_name(status), reason_member(settings, reason));
            around(&format!("{{\"error\":\"{error}\"{reason},\"retry_after_s\":"), "}\n")
        }
        Format::Html => match &settings.page_html {
            Some(page) => Body::Fixed(page.as_str().into()),
            None => around(BUSY_PAGE.0, BUSY_PAGE.1),
        },
        Format::Grpc => Body::Fixed("".into()),
    };
    finished(settings, reason, status, format, body)
}

/// What a rule has clients told.
fn denied(settings: &Refusal, denial: &Denial, format: Format) -> Template {
    let body = match (&denial.page_html, &denial.location, format) {
        (Some(page), _, Format::Html) => Body::Fixed(page.clone()),
        (_, Some(location), Format::Html) => {
            // Whatever else has a meaning in HTML is no part of an address.
            let location = location.replace('&', "&amp;");
            let link = format!("<p>It is at <a href=\"{location}\">{location}</a>.</p>");
            Body::Fixed(page("Another address", &link).into())
        }
        (.., Format::Grpc) => Body::Fixed("".into()),
        (_, Some(location), Format::Plain) => Body::Fixed(format!("See {location}\n").into()),
        _ => denial_body(settings, denial.status, format),
    };
    let mut template = finished(settings, Reason::Rule, denial.status, format, body);
    template.is_said = *denial != Denial::default();
    if let Some(location) = &denial.location {
        template.lines.extend_from_slice(format!("location: {location}\r\n").as_bytes());
        let value = HeaderValue::try_from(location).expect("an address has no control characters");
        template.fields.insert(LOCATION, value);
    }
    template
}

/// The body of an answer to what is never served, whatever the load.
fn denial_body(settings: &Refusal, status: u16, format: Format) -> Body {
    let phrase = phrase(status);
    match format {
        Format::Plain => Body::Fixed(format!("{status} {phrase}\n").into()),
        Format::Json => {
            let (error, reason) = (error_name(status), reason_member(settings, Reason::Rule));
            Body::Fixed(format!("{{\"error\":\"{error}\"{reason}}}\n").into())
        }
        Format::Html => Body::Fixed(page(phrase, &format!("<p>{}</p>", explained(status))).into()),
        Format::Grpc => Body::Fixed("".into()),
    }
}

/// The name of an error for programs.
fn error_name(status: u16) -> &'static str {
    match status {
        301 | 302 | 303 | 307 | 308 => "elsewhere",
        404 => "not_found",
        410 => "gone",
        429 => "too_many_requests",
        451 => "unavailable_for_legal_reasons",
        503 => "overloaded",
        _ => "forbidden",
    }
}

/// What a status means, for people.
fn explained(status: u16) -> &'static str {
    match status {
        404 => "There is nothing at this address.",
        410 => "What was at this address is gone, and will not come back.",
        429 => "There were too many requests. Please try again later.",
        451 => "What is at this address may not be shown for legal reasons.",
        503 => "This is not available at the moment. Please try again later.",
        _ => "You may not see what is at this address.",
    }
}

/// The reason in a JSON body, where clients are told.
fn reason_member(settings: &Refusal, reason: Reason) -> String {
    match settings.reason_header {
        Some(_) => format!(",\"reason\":\"{}\"", reason.name()),
        None => String::new(),
    }
}

/// The answer with its head.
fn finished(
    settings: &Refusal,
    reason: Reason,
    status: u16,
    format: Format,
    body: Body,
) -> Template {
    let kind = match format {
        Format::Plain => "text/plain; charset=utf-8",
        Format::Html => "text/html; charset=utf-8",
        Format::Json => "application/json",
        Format::Grpc => "application/grpc",
    };
    let mut named = vec![
        ("content-type".to_owned(), kind.to_owned()),
        ("cache-control".to_owned(), "no-store".to_owned()),
    ];
    if let Some(header) = &settings.reason_header {
        named.push((header.to_ascii_lowercase(), reason.name().to_owned()));
    }
    let is_call = format == Format::Grpc;
    if is_call {
        let message =
            if matches!(status, 429 | 503) { "the server is busy" } else { phrase(status) };
        named.push(("grpc-status".to_owned(), grpc::status_of(status).to_string()));
        named.push(("grpc-message".to_owned(), message.to_owned()));
    }
    let mut lines = String::new();
    for (name, value) in &named {
        let _ = write!(lines, "{name}: {value}\r\n");
    }
    let fields = named
        .into_iter()
        .filter_map(|(name, value)| Some((name.parse().ok()?, value.parse().ok()?)))
        .collect::<HeaderMap>();
    // A call's status is in its own field.
    let sent = if is_call { 200 } else { status };
    let start = format!("HTTP/1.1 {sent} {}\r\n", phrase(sent)).into_bytes();
    let retries = matches!(status, 429 | 503);
    Template {
        status: sent,
        start,
        is_said: false,
        retries,
        is_call,
        lines: lines.into_bytes(),
        fields,
        body,
    }
}

/// A page of ours.
fn page(title: &str, text: &str) -> String {
    format!("{}{title}{}<h1>{title}</h1>{text}</body></html>\n", PAGE.0, PAGE.1)
}

/// Before the title, and between it and the text.
const PAGE: (&str, &str) = (
    "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>",
    "</title><meta name=\"viewport\" content=\"width=device-width\"></head>\
     <body style=\"font:1.1em/1.5 system-ui,sans-serif;max-width:32em;margin:20vh auto;padding:0 1em\">",
);

/// What browsers get, before and behind the seconds.
const BUSY_PAGE: (&str, &str) = (
    "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Busy</title>\
     <meta name=\"viewport\" content=\"width=device-width\"></head>\
     <body style=\"font:1.1em/1.5 system-ui,sans-serif;max-width:32em;margin:20vh auto;padding:0 1em\">\
     <h1>We are very busy right now</h1>\
     <p>Please try again in ",
    " seconds.</p></body></html>\n",
);

/// The phrase that goes with a status of ours.
pub fn phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        410 => "Gone",
        413 => "Content Too Large",
        414 => "URI Too Long",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "Error",
    }
}

/// What shows that the key was read. Source: RFC 6455 §4.2.2.
pub(crate) fn accept(key: &[u8]) -> String {
    const MAGIC: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    let mut digest = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    digest.update(key);
    digest.update(MAGIC);
    BASE64.encode(digest.finish().as_ref())
}

/// Writes an error of ours, after which the connection closes: `why` says what was wrong, without repeating what the client sent; `id`: what the
/// request is known by. Returns the length of the body that is sent.
pub fn write_error(
    out: &mut Vec<u8>,
    status: u16,
    why: &str,
    id: Option<ToldId<'_>>,
    head_only: bool,
) -> usize {
    let body = error_body(status, why);
    let head = format!(
        "HTTP/1.1 {status} {}\r\ndate: {}\r\ncontent-type: text/plain; charset=utf-8\r\n\
         cache-control: no-store\r\ncontent-length: {}\r\nconnection: close\r\n",
        phrase(status),
        httpdate::fmt_http_date(SystemTime::now()),
        body.len(),
    );
    out.extend_from_slice(head.as_bytes());
    id.iter().for_each(|id| id.put_line(out));
    out.extend_from_slice(b"\r\n");
    if head_only {
        return 0;
    }
    out.extend_from_slice(body.as_bytes());
    body.len()
}

/// The body of an error of ours.
pub fn error_body(status: u16, why: &str) -> String {
    format!("{status} {}: {why}\n", phrase(status))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::meant::RefusalConnection;
    use std::time::Duration;

    fn settings() -> Refusal {
        Refusal {
            connection: RefusalConnection::Keep,
            retry_after: Duration::from_millis(1500),
            retry_after_max: Duration::from_secs(30),
            reason_header: Some("X-Reason".into()),
            page_html: None,
        }
    }

    fn field<'a>(name: &'a str, value: &'a str) -> Field<'a> {
        Field { name: name.as_bytes(), value: value.as_bytes() }
    }

    #[test]
    fn the_format_follows_accept() {
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        assert_eq!(Format::accepted(&[field("Accept", browser)]), Format::Html);
        let api = "application/problem+json; charset=utf-8";
        assert_eq!(Format::accepted(&[field("accept", api)]), Format::Json);
        assert_eq!(Format::accepted(&[field("accept", "*/*")]), Format::Plain);
        assert_eq!(Format::accepted(&[]), Format::Plain);
    }

    /// The whole answer by HTTP/1.1: head and body.
    fn written(template: &Template, told: &Advice<'_>, keep: bool) -> (String, String) {
        let mut head = Vec::new();
        assert!(template.write(&mut head, told, keep, true).is_empty());
        let mut whole = Vec::new();
        let rest = template.write(&mut whole, told, keep, false).to_vec();
        whole.extend_from_slice(&rest);
        assert!(whole.starts_with(&head));
        let body = whole.split_off(head.len());
        [head, body].map(|bytes| String::from_utf8(bytes).expect("ours is UTF-8")).into()
    }

    #[test]
    fn heads_and_bodies_are_cut_at_the_right_place_and_say_the_seconds() {
        let page = Some("<h1>Busy</h1>".to_owned());
        for settings in [settings(), Refusal { page_html: page, ..settings() }] {
            let refusals = Refusals::new(&settings, std::iter::empty());
            for reason in Reason::ALL.into_iter().filter(|it| *it != Reason::Rule) {
                for format in [Format::Plain, Format::Html, Format::Json] {
                    let template = refusals.template(reason, None, format);
                    for (keep, seconds) in [(true, 2), (false, 1234)] {
                        let told = Advice { seconds, limit: None, id: None };
                        let (head, body) = written(template, &told, keep);
                        assert!(head.ends_with("\r\n\r\n"));
                        assert_eq!(head.matches("\r\n\r\n").count(), 1);
                        assert_eq!(head.contains("connection: close\r\n"), !keep);
                        assert!(
                            head.contains(&format!("\r\nretry-after: {seconds}\r\n")),
                            "{head}"
                        );
                        assert!(head.contains(&format!("\r\nx-reason: {}\r\n", reason.name())));
                        assert!(head.contains(&format!("content-length: {}\r\n", body.len())));
                        let own = settings.page_html.is_some() && format == Format::Html;
                        assert_eq!(body.contains(&seconds.to_string()), !own, "{body}");
                        same_by_http2(template, &told, &head, &body);
                    }
                }
            }
        }
    }

    fn same_by_http2(template: &Template, told: &Advice<'_>, head: &str, body: &str) {
        let (fields, sent) = template.parts(told);
        assert_eq!(&*sent, body);
        for (name, value) in &fields {
            let line = format!("\r\n{name}: {}\r\n", value.to_str().expect("ASCII"));
            assert!(head.contains(&line), "{line} in {head}");
        }
        let lines = head.lines().filter(|line| line.contains(": ") && !line.ends_with("close"));
        assert_eq!(lines.count(), fields.len());
    }

    #[test]
    fn what_a_rule_forbids_is_not_called_busy() {
        let mut names = tiergate_core::names::Names::default();
        let policy = "[origin]\nservers = [\"a:1\"]\n[[rule]]\npath = \"/a\"\nrefuse = true\n\
             [[rule]]\npath = \"/b\"\nrefuse = 410\n[[rule]]\npath = \"/c\"\nrefuse = { status = 451 }\n\
             [[rule]]\npath = \"/d\"\nrefuse = { redirect = \"https://a.example/?x=1&y=2\" }\n\
             [[rule]]\npath = \"/e\"\nrefuse = 503\n";
        let policy = crate::config::parse_with(policy, "", &mut names).expect("it is right");
        let denials = policy.denials();
        let quiet = Refusal { reason_header: None, ..settings() };
        let refusals = Refusals::new(&quiet, denials);
        let rules = policy.plan.rule_ids();
        let told = Advice { seconds: 7, limit: None, id: None };
        for (rule, status, line, error) in [
            (0, 403, "HTTP/1.1 403 Forbidden\r\n", "forbidden"),
            (1, 410, "HTTP/1.1 410 Gone\r\n", "gone"),
            (2, 451, "HTTP/1.1 451 Unavailable", "unavailable_for_legal_reasons"),
            (3, 302, "HTTP/1.1 302 Found\r\n", "elsewhere"),
            (4, 503, "HTTP/1.1 503 Service", "overloaded"),
        ] {
            for format in [Format::Plain, Format::Html, Format::Json] {
                let template = refusals.template(Reason::Rule, Some(rules[rule]), format);
                let (head, body) = written(template, &told, true);
                assert_eq!(template.status, status);
                assert!(head.starts_with(line), "{head}");
                assert_eq!(head.contains("\r\nretry-after: 7\r\n"), status == 503, "{head}");
                assert!(!body.contains("busy") && !body.contains("\"reason\""), "{body}");
                assert_eq!(
                    head.contains("\r\nlocation: https://a.example/?x=1&y=2\r\n"),
                    rule == 3
                );
                let is_json = format == Format::Json;
                assert_eq!(body == format!("{{\"error\":\"{error}\"}}\n"), is_json, "{body}");
                assert!(!(is_json || rule != 3) || !body.contains("&y"), "{body}");
                same_by_http2(template, &told, &head, &body);
            }
            // Of other reasons the rule says nothing.
            let busy = refusals.template(Reason::QueueFull, Some(rules[rule]), Format::Plain);
            assert_eq!(busy.status, 503);
        }
        assert_eq!(refusals.template(Reason::Rule, None, Format::Plain).status, 403);
    }

    #[test]
    fn every_reason_for_429_is_the_clients_own_doing() {
        let too_many = Reason::ALL.into_iter().filter(|&reason| status_of(reason) == 429);
        assert_eq!(too_many.collect::<Vec<_>>(), [Reason::Policed, Reason::Blocked]);
    }

    #[test]
    fn what_clients_are_told_differs_and_keeps_to_the_bounds() {
        let mut policy = Policy::for_origin("a:1", None, None).expect("a server");
        policy.refusal = settings();
        let wait = Duration::from_secs(20);
        let refused = Refused { wait, ..Refused::of(Reason::QueueFull) };
        let told: Vec<u64> = (0..200).map(|_| Advice::of(&policy, &refused).seconds).collect();
        assert!(told.iter().all(|seconds| (20..=30).contains(seconds)), "{told:?}");
        let distinct = told.iter().collect::<std::collections::BTreeSet<_>>().len();
        assert!(distinct >= 8, "{distinct} of 11 in 200 draws");
        let unknown = Refused::of(Reason::Draining);
        assert!((2..=3).contains(&Advice::of(&policy, &unknown).seconds), "1.5 s, rounded up");
    }

    #[test]
    fn errors_have_a_length_and_say_why() {
        let mut out = Vec::new();
        write_error(&mut out, 431, "the head is too large", None, false);
        let text = String::from_utf8(out).expect("ASCII");
        assert!(text.starts_with("HTTP/1.1 431 Request Header Fields Too Large\r\n"));
        assert!(text.ends_with("431 Request Header Fields Too Large: the head is too large\n"));
    }
}
