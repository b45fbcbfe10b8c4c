//! Errors of the gateway's own, after which a connection closes.

use crate::trace::ids::ToldId;
use std::time::SystemTime;

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

/// The phrase that goes with a status of ours.
pub(super) fn phrase(status: u16) -> &'static str {
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
