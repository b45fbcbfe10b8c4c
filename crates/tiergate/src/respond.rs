//! Answers of the gateway's own: refusals, written once per configuration, and errors.

use crate::config::meant;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::SystemTime;
use tiergate_core::reason::Reason;
use tiergate_core::request::Field;

/// What a client would rather read, by its `Accept`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Anything else.
    Plain,
    /// Browsers.
    Html,
    /// Programs.
    Json,
}

impl Format {
    /// The first of HTML and JSON that the client names; plain text if neither.
    ///
    /// Weights are not read: a client that accepts only one of them names only one.
    pub fn accepted(fields: &[Field<'_>]) -> Self {
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

/// One answer, ready to be sent.
#[derive(Debug)]
pub struct Ready {
    /// Head and body for a connection that stays open.
    pub keep: Vec<u8>,
    /// Head and body for a connection that closes.
    pub close: Vec<u8>,
    /// Length of `keep`'s head.
    keep_head: usize,
    /// Length of `close`'s head.
    close_head: usize,
    /// The status.
    pub status: u16,
    /// The fields, for HTTP/2.
    pub fields: http::HeaderMap,
    /// The body, for HTTP/2.
    pub body: Arc<str>,
}

impl Ready {
    /// The bytes to send over HTTP/1.1.
    pub fn bytes(&self, keep: bool, head_only: bool) -> &[u8] {
        let (bytes, head) =
            if keep { (&self.keep, self.keep_head) } else { (&self.close, self.close_head) };
        if head_only { &bytes[..head] } else { bytes }
    }
}

/// Every refusal that a configuration can give, ready to be sent.
#[derive(Debug)]
pub struct Refusals {
    by_reason: Vec<[Ready; 3]>,
}

/// The status of a refusal: 429 tells a client that it asked too much (RFC 6585 §4), 503 that the site
/// cannot do more just now. Either way the request may succeed later, unchanged.
pub const fn status_of(reason: Reason) -> u16 {
    match reason {
        Reason::Policed => 429,
        _ => 503,
    }
}

impl Refusals {
    /// Writes them all.
    pub fn new(settings: &meant::Refusal) -> Self {
        let by_reason = Reason::ALL
            .iter()
            .map(|&reason| {
                [Format::Plain, Format::Html, Format::Json]
                    .map(|format| refusal(settings, reason, format))
            })
            .collect();
        Refusals { by_reason }
    }

    /// The answer for a reason, in the format that the client accepts.
    pub fn ready(&self, reason: Reason, format: Format) -> &Ready {
        &self.by_reason[reason.index()][format as usize]
    }
}

fn refusal(settings: &meant::Refusal, reason: Reason, format: Format) -> Ready {
    // Rounded up: "0" would invite the client back at once.
    let seconds = settings.retry_after.as_millis().div_ceil(1000).max(1);
    let name = reason.name();
    let status = status_of(reason);
    let error = if status == 429 { "too_many_requests" } else { "overloaded" };
    let (kind, body) = match format {
        Format::Plain => (
            "text/plain; charset=utf-8",
            match status {
                429 => format!("Too many requests. Please try again in {seconds} s.\n"),
                _ => format!("The server is busy. Please try again in {seconds} s.\n"),
            },
        ),
        Format::Json => (
            "application/json",
            format!(
                "{{\"error\":\"{error}\",\"reason\":\"{name}\",\"retry_after_s\":{seconds}}}\n"
            ),
        ),
        Format::Html => (
            "text/html; charset=utf-8",
            settings.page_html.clone().unwrap_or_else(|| busy_page(seconds)),
        ),
    };
    let mut fields = vec![
        ("retry-after".to_owned(), seconds.to_string()),
        ("content-type".to_owned(), kind.to_owned()),
        ("cache-control".to_owned(), "no-store".to_owned()),
    ];
    if let Some(header) = &settings.reason_header {
        fields.push((header.to_ascii_lowercase(), name.to_owned()));
    }
    ready(status, fields, body)
}

fn ready(status: u16, mut fields: Vec<(String, String)>, body: String) -> Ready {
    fields.push(("content-length".to_owned(), body.len().to_string()));
    let mut head = format!("HTTP/1.1 {status} {}\r\n", phrase(status));
    for (name, value) in &fields {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    let keep_head = head.len() + 2;
    let keep = format!("{head}\r\n{body}").into_bytes();
    let close_line = "connection: close\r\n";
    let close = format!("{head}{close_line}\r\n{body}").into_bytes();
    let close_head = keep_head + close_line.len();
    let fields = fields
        .into_iter()
        .filter_map(|(name, value)| Some((name.parse().ok()?, value.parse().ok()?)))
        .collect::<http::HeaderMap>();
    Ready { status, keep, close, keep_head, close_head, fields, body: body.into() }
}

fn busy_page(seconds: u128) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Busy</title>\
         <meta name=\"viewport\" content=\"width=device-width\"></head>\
         <body style=\"font:1.1em/1.5 system-ui,sans-serif;max-width:32em;margin:20vh auto;padding:0 1em\">\
         <h1>We are very busy right now</h1>\
         <p>Please try again in {seconds} seconds.</p></body></html>\n"
    )
}

/// The phrase that goes with a status of ours.
pub fn phrase(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        414 => "URI Too Long",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "Error",
    }
}

/// Writes an error of ours: `why` says what was wrong, without repeating what the client sent.
pub fn write_error(out: &mut Vec<u8>, status: u16, why: &str, keep: bool, head_only: bool) {
    let body = format!("{status} {}: {why}\n", phrase(status));
    let head = format!(
        "HTTP/1.1 {status} {}\r\ndate: {}\r\ncontent-type: text/plain; charset=utf-8\r\n\
         cache-control: no-store\r\ncontent-length: {}\r\n{}\r\n",
        phrase(status),
        httpdate::fmt_http_date(SystemTime::now()),
        body.len(),
        if keep { "" } else { "connection: close\r\n" },
    );
    out.extend_from_slice(head.as_bytes());
    if !head_only {
        out.extend_from_slice(body.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn settings() -> meant::Refusal {
        meant::Refusal {
            connection: meant::RefusalConnection::Keep,
            retry_after: Duration::from_millis(1500),
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

    #[test]
    fn heads_and_bodies_are_cut_at_the_right_place() {
        let refusals = Refusals::new(&settings());
        for reason in Reason::ALL {
            for format in [Format::Plain, Format::Html, Format::Json] {
                let ready = refusals.ready(reason, format);
                for keep in [true, false] {
                    let head = ready.bytes(keep, true);
                    assert!(head.ends_with(b"\r\n\r\n"));
                    let whole = ready.bytes(keep, false);
                    assert_eq!(&whole[head.len()..], ready.body.as_bytes());
                    let text = String::from_utf8_lossy(head);
                    assert_eq!(text.contains("connection: close"), !keep);
                    assert!(text.contains("retry-after: 2\r\n"), "{text}");
                    assert!(text.contains(&format!("x-reason: {}\r\n", reason.name())));
                    assert!(text.contains(&format!("content-length: {}\r\n", ready.body.len())));
                }
            }
        }
    }

    #[test]
    fn errors_have_a_length_and_say_why() {
        let mut out = Vec::new();
        write_error(&mut out, 431, "the head is too large", false, false);
        let text = String::from_utf8(out).expect("ASCII");
        assert!(text.starts_with("HTTP/1.1 431 Request Header Fields Too Large\r\n"));
        assert!(text.ends_with("431 Request Header Fields Too Large: the head is too large\n"));
    }
}
