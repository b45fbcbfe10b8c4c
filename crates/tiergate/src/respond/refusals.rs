//! Every refusal that a configuration can give: statuses, words and pages.

use super::errors::phrase;
use super::format::Format;
use super::template::{Body, Template};
use crate::config::meant::{Denial, Refusal};
use crate::grpc;
use http::header::{HeaderMap, HeaderValue, LOCATION};
use std::collections::HashMap;
use std::fmt::Write as _;
use tiergate_core::names::RuleId;
use tiergate_core::reason::Reason;

/// Every refusal that a configuration can give, but for the numbers.
#[derive(Debug)]
pub struct Refusals {
    by_reason: Vec<[Template; 4]>,
    /// Those of rules.
    by_rule: HashMap<RuleId, [Template; 4]>,
}

/// The status of a refusal: 429 tells a client that it asked too much (RFC 6585 §4), 503 that the site
/// cannot do more just now: either way the request may succeed later, unchanged. 403: it will not, a rule forbids it.
pub(super) const fn status_of(reason: Reason) -> u16 {
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
