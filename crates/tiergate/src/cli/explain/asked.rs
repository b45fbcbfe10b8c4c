//! The request that is asked about, as the gateway would receive it: read and judged by what reads and judges those of clients.

use super::question::Question;
use crate::config::meant::Limits;
use crate::request::limits::of_request_heads;
use http::uri::PathAndQuery;
use ipnet::IpNet;
use std::net::IpAddr;
use tiergate_core::request::Field;
use tiergate_wire::forwarded::client_address;
use tiergate_wire::http1::{FieldRoom, FieldTable, HeadError, Parsed, RequestHead, parse_request};

/// Stands in for the host of a question that has none.
const NO_HOST: &str = "localhost";

/// A request as it would be received: by HTTP/1.1, and with a target that HTTP/2 and HTTP/3 let through if it came by one of them.
#[derive(Debug)]
pub(super) struct Asked {
    /// Its method and target as they were written.
    pub(super) line: String,
    /// HTTP/2 and HTTP/3 have no such target, and one of them was asked about.
    pub(super) is_malformed: bool,
    /// The target had a fragment, which HTTP/2 and HTTP/3 leave out.
    pub(super) had_fragment: bool,
    bytes: Vec<u8>,
    /// The host in it is made up.
    is_without_host: bool,
}

/// What rules see of a request's fields and client, which depends on whether its peer is trusted.
#[derive(Debug)]
pub(super) struct Believed<'b> {
    /// The client: the peer, or whom a trusted peer names.
    pub(super) client: IpAddr,
    /// The fields that rules see.
    pub(super) fields: Vec<Field<'b>>,
    /// The names of those that are hidden from them.
    pub(super) hidden: Vec<&'b [u8]>,
}

/// The target as it is read over HTTP/2 and HTTP/3, by the crate `http` there; `None`: it is none.
fn over_streams(target: &str) -> Option<String> {
    // Another form tells the host, too, which has a field of its own there.
    if !target.starts_with('/') {
        return Some(target.to_owned());
    }
    target.parse::<PathAndQuery>().ok().map(|it| it.as_str().to_owned())
}

impl Asked {
    /// # Errors
    /// When the question cannot be read as a request; the message says what is expected.
    pub(super) fn of(question: &Question) -> Result<Asked, String> {
        let request = &question.request;
        let words: Vec<&str> = request.split_ascii_whitespace().collect();
        let (mut is_malformed, mut had_fragment) = (false, false);
        let (line, received, version) = match words[..] {
            [method, target] => {
                let line = format!("{method} {target}");
                (line.clone(), line, "HTTP/1.1")
            }
            // As logs write them: what the request says is the same, but for what a target may have.
            [method, target, "HTTP/2" | "HTTP/2.0" | "HTTP/3" | "HTTP/3.0"] => {
                let taken = over_streams(target);
                is_malformed = taken.is_none();
                let taken = taken.as_deref().unwrap_or(target);
                had_fragment = taken != target;
                (format!("{method} {target}"), format!("{method} {taken}"), "HTTP/1.1")
            }
            [method, target, version] => {
                let line = format!("{method} {target}");
                (line.clone(), line, version)
            }
            _ => {
                return Err(format!(
                    "the request must be a method and a target, such as 'GET /x', got {request:?}"
                ));
            }
        };
        let mut bytes = format!("{received} {version}\r\n");
        let mut hosts = Vec::new();
        for header in &question.headers {
            let Some((name, value)) = header.split_once(':') else {
                return Err(format!("a header must be 'Name: value', got {header:?}"));
            };
            if name.trim().eq_ignore_ascii_case("host") {
                hosts.push(value.trim());
            }
            bytes += header;
            bytes += "\r\n";
        }
        let target = words[1];
        let authority = target.split_once("://").filter(|_| !target.starts_with('/'));
        let authority = authority.map(|(_, rest)| {
            let end = rest.find(['/', '?']).unwrap_or(rest.len());
            &rest[..end]
        });
        let given = question.host.as_deref();
        if let (Some(given), Some(other)) = (given, hosts.iter().find(|it| Some(**it) != given)) {
            return Err(format!(
                "the host is {given:?} by --host, and {other:?} by the header: leave one of them out"
            ));
        }
        if hosts.is_empty() {
            let host = given.or(authority).unwrap_or(NO_HOST);
            bytes += &format!("Host: {host}\r\n");
        }
        let is_without_host = hosts.is_empty() && authority.is_none() && given.is_none();
        let bytes = (bytes + "\r\n").into_bytes();
        Ok(Asked { line, is_malformed, had_fragment, bytes, is_without_host })
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
            Parsed::Complete(head) if self.is_without_host => Ok(RequestHead { host: b"", ..head }),
            Parsed::Complete(head) => Ok(head),
            // It has an end.
            Parsed::Partial => Err(HeadError { status: 400, why: "the head has no end" }),
        }
    }

    /// What the gateway would believe of its fields, of which `table` has those, if `peer` sent it.
    pub(super) fn believed<'b>(
        &self,
        table: &FieldTable<'b>,
        peer: IpAddr,
        trusted: &[IpNet],
    ) -> Believed<'b> {
        let own = peer.to_canonical();
        let mut room = FieldRoom::new();
        let seen = table.believed(trusted.iter().any(|it| it.contains(&own)), &mut room);
        let is_asked =
            |it: &&Field<'b>| !self.is_without_host || !it.name.eq_ignore_ascii_case(b"host");
        let hidden = table.fields().iter().filter(|it| !seen.contains(it));
        let named = client_address(peer, table.fields(), trusted);
        Believed {
            client: if named == own { peer } else { named },
            fields: seen.iter().filter(is_asked).copied().collect(),
            hidden: hidden.map(|it| it.name).collect(),
        }
    }
}
