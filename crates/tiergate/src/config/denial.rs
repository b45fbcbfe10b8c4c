//! `refuse` of a rule: requests that are never served, and what their clients are told.

use super::place::{Place, found, wrong};
use super::section::{Definitions, Kind, section, table};
use super::values::{FILE_TO_READ, TEXT, whole};
use crate::secrets::NamedFile;
use serde_json::{Value as Json, json};
use std::sync::Arc;
use toml::de::DeValue;

/// Statuses without and with `redirect`; the first of each is the default.
const DENIED: [u16; 6] = [403, 404, 410, 451, 429, 503];
const REDIRECTED: [u16; 5] = [302, 301, 303, 307, 308];
/// Longest address that clients are sent to.
const LOCATION_LEN_MAX: usize = 2000;

section! {
    /// What clients are told whose requests a rule refuses.
    pub(super) struct RefuseKeys {
        /// The status: 403, 404, 410, 451, 429 or 503; with `redirect`: 301, 302, 303, 307 or 308. 429 and 503 ask the client to come again, with `Retry-After`.
        status: Option<u16> = whole(100..=599).optional("403; with `redirect` 302");
        /// Where clients are sent instead: an address with `http://` or `https://`, or a path that begins with `/`.
        redirect: Option<String> = TEXT.optional("none");
        /// HTML file shown to browsers, at most 256 KiB; JSON and plain text are chosen by `Accept`.
        page: Option<NamedFile> = FILE_TO_READ.optional("a built-in page");
    }
}

/// What clients are told whose requests a rule refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The status of the answer.
    pub status: u16,
    /// Where they are sent.
    pub location: Option<String>,
    /// The file of the page that browsers see; `None`: a built-in one.
    pub page: Option<NamedFile>,
    /// Its content, once it is read.
    pub page_html: Option<Arc<str>>,
}

impl Default for Denial {
    fn default() -> Self {
        Denial::of(DENIED[0])
    }
}

impl Denial {
    fn of(status: u16) -> Self {
        Denial { status, location: None, page: None, page_html: None }
    }

    /// For `tiergate check`.
    pub(crate) fn words(&self) -> String {
        let Denial { status, location, page, .. } = self;
        let mut words = format!("answered with {status}");
        words.extend(location.iter().map(|it| format!(", sent to {it}")));
        words.extend(page.iter().map(|it| format!(", the page {}", it.path.display())));
        words
    }
}

/// What `refuse` says: nothing, or how.
#[derive(Clone, Debug)]
pub(super) enum Refuse {
    /// `false`.
    No,
    /// Such requests are refused.
    Yes(Box<Denial>),
}

impl Refuse {
    pub(super) fn denial(self) -> Option<Box<Denial>> {
        match self {
            Refuse::No => None,
            Refuse::Yes(denial) => Some(denial),
        }
    }
}

/// `true` or `false`, a status, or a table.
pub(super) struct RefuseKind;

impl Kind for RefuseKind {
    type Value = Refuse;

    fn read(&self, value: &DeValue<'_>, place: &Place) -> Option<Refuse> {
        let denial = match value {
            DeValue::Boolean(false) => return Some(Refuse::No),
            DeValue::Boolean(true) => Denial::of(DENIED[0]),
            DeValue::Integer(_) => {
                let status = whole::<u16>(100..=599).read(value, place)?;
                let is_known = DENIED.contains(&status);
                if !is_known {
                    place.fault(must_be(&DENIED, status, REDIRECTED.contains(&status)));
                }
                is_known.then(|| Denial::of(status))?
            }
            DeValue::Table(_) => table::<RefuseKeys>().read(value, place)?.denial(place)?,
            _ => {
                let expected = "true, a status such as 404, or a table such as { redirect = \"https://example.org/\" }";
                return wrong(value, place, expected);
            }
        };
        Some(Refuse::Yes(Box::new(denial)))
    }

    fn schema(&self, definitions: &mut Definitions) -> Json {
        let keys = table::<RefuseKeys>().schema(definitions);
        json!({ "oneOf": [{ "type": "boolean" }, { "enum": DENIED }, keys] })
    }
}

impl RefuseKeys {
    /// What it means; reports what is wrong.
    fn denial(self, place: &Place) -> Option<Denial> {
        let RefuseKeys { status, redirect, page } = self;
        let known: &[u16] = if redirect.is_some() { &REDIRECTED } else { &DENIED };
        let status = match status {
            None => known[0],
            Some(status) if known.contains(&status) => status,
            Some(status) => {
                let is_others = redirect.is_none() && REDIRECTED.contains(&status);
                place.fault_at("status", must_be(known, status, is_others));
                return None;
            }
        };
        if let Some(location) = &redirect
            && !is_location(location)
        {
            let expected = "an address with http:// or https://, or a path that begins with one /";
            let message = format!(
                "must be {expected}, of at most {LOCATION_LEN_MAX} characters, as it stands in a browser's address bar, got {}",
                found(&DeValue::String(location.as_str().into()))
            );
            place.fault_at("redirect", message);
            return None;
        }
        if redirect.is_some() && page.is_some() {
            place.fault_at(
                "page",
                "has no effect with `redirect`: browsers follow it; leave it out",
            );
        }
        Some(Denial { location: redirect, page, ..Denial::of(status) })
    }
}

/// What is said of a status that is none of these; `redirects`: it is one that sends clients elsewhere.
fn must_be(known: &[u16], status: u16, redirects: bool) -> String {
    let known: Vec<String> = known.iter().map(u16::to_string).collect();
    let (last, others) = known.split_last().expect("there are several");
    let how = if redirects { "; with another address: { redirect = \"https://…\" }" } else { "" };
    format!("must be {} or {last}, got {status}{how}", others.join(", "))
}

/// Whether clients can be sent there: nothing in it ends a header or has a meaning in HTML but for `&`.
fn is_location(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\"<>\\^`{|}'".contains(&byte);
    let host = ["http://", "https://"].iter().find_map(|scheme| text.strip_prefix(scheme));
    let is_absolute =
        host.is_some_and(|rest| rest.starts_with(|it: char| it.is_alphanumeric() || it == '['));
    let is_path = text.starts_with('/') && !text.starts_with("//");
    text.len() <= LOCATION_LEN_MAX && text.bytes().all(is_plain) && (is_absolute || is_path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_are_locations() {
        for location in ["/busy", "https://a.example/x?y=1&z#t", "http://[::1]:80/", "http://a"] {
            assert!(is_location(location), "{location}");
        }
        for text in [
            "",
            "busy",
            "//a.example/",
            "javascript:alert(1)",
            "https://",
            "/a\r\nb: c",
            "/a b",
            "/<x>",
            "/ä",
            "ftp://a/",
        ] {
            assert!(!is_location(text), "{text}");
        }
        assert!(!is_location(&format!("/{}", "a".repeat(LOCATION_LEN_MAX))));
    }
}
