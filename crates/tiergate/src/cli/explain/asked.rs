//! The request that is asked about, as the gateway would receive it: read and judged by what reads and judges those of clients.

use super::Question;
use crate::config::meant::Limits;
use crate::request::limits::of_request_heads;
use tiergate_core::request::Field;
use tiergate_wire::http1::{FieldTable, HeadError, Parsed, RequestHead, parse_request};

/// Stands in for the host of a question that has none.
const NO_HOST: &str = "localhost";

/// A request as it would be received by HTTP/1.1.
#[derive(Debug)]
pub(super) struct Asked {
    /// Its method and target as they were written.
    pub(super) line: String,
    bytes: Vec<u8>,
    /// The host that is to be taken for it; empty: it has none.
    host: Option<String>,
}

impl Asked {
    /// # Errors
    /// When the question cannot be read as a request; the message says what is expected.
    pub(super) fn of(question: &Question) -> Result<Asked, String> {
        let request = &question.request;
        let words: Vec<&str> = request.split_ascii_whitespace().collect();
        let (line, version) = match words[..] {
            [method, target] => (format!("{method} {target}"), "HTTP/1.1"),
            // As logs write them: what the request says is the same.
            [method, target, "HTTP/2" | "HTTP/2.0" | "HTTP/3" | "HTTP/3.0"] => {
                (format!("{method} {target}"), "HTTP/1.1")
            }
            [method, target, version] => (format!("{method} {target}"), version),
            _ => {
                return Err(format!(
                    "the request must be a method and a target, such as 'GET /x', got {request:?}"
                ));
            }
        };
        let mut bytes = format!("{line} {version}\r\n");
        let mut has_host = false;
        for header in &question.headers {
            let Some((name, _)) = header.split_once(':') else {
                return Err(format!("a header must be 'Name: value', got {header:?}"));
            };
            has_host |= name.trim().eq_ignore_ascii_case("host");
            bytes += header;
            bytes += "\r\n";
        }
        let target = words[1];
        let authority = target.split_once("://").filter(|_| !target.starts_with('/'));
        let authority = authority.map(|(_, rest)| {
            let end = rest.find(['/', '?']).unwrap_or(rest.len());
            &rest[..end]
        });
        if !has_host {
            let host = authority.or(question.host.as_deref()).unwrap_or(NO_HOST);
            bytes += &format!("Host: {host}\r\n");
        }
        let is_without = !has_host && authority.is_none() && question.host.is_none();
        let host = question.host.clone().or_else(|| is_without.then(String::new));
        Ok(Asked { line, bytes: (bytes + "\r\n").into_bytes(), host })
    }

    /// Its head; `fields` are those of it.
    ///
    /// # Errors
    /// The status with which the gateway refuses it, and why.
    pub(super) fn head<'b>(
        &'b self,
        limits: &Limits,
        fields: &mut FieldTable<'b>,
    ) -> Result<RequestHead<'b>, HeadError> {
        match parse_request(&self.bytes, fields, &of_request_heads(limits))? {
            Parsed::Complete(head) => match &self.host {
                Some(host) => Ok(RequestHead { host: host.as_bytes(), ..head }),
                None => Ok(head),
            },
            // It has an end.
            Parsed::Partial => Err(HeadError { status: 400, why: "the head has no end" }),
        }
    }

    /// What of `fields` was asked about.
    pub(super) fn said<'b>(&self, fields: &FieldTable<'b>) -> Vec<Field<'b>> {
        let is_made_up = self.host.as_ref().is_some_and(String::is_empty);
        let fields = fields.fields().iter();
        fields.filter(|it| !is_made_up || !it.name.eq_ignore_ascii_case(b"host")).copied().collect()
    }
}
