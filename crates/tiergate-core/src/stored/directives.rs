//! The members of `Cache-Control` (RFC 9111 §5.2).

use crate::request::Field;
use std::time::Duration;

/// What fields called `Cache-Control`, or the like, say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Directives {
    pub(super) no_store: bool,
    pub(super) no_cache: bool,
    pub(super) private: bool,
    pub(super) public: bool,
    /// `must-revalidate` or `proxy-revalidate`.
    pub(super) revalidate: bool,
    pub(super) max_age: Option<Duration>,
    pub(super) s_maxage: Option<Duration>,
    /// RFC 5861.
    pub(super) stale_if_error: Option<Duration>,
}

impl Directives {
    /// Of every field of this name, which is in lower case. Of several values the least counts, and of one that cannot be read 0.
    pub(super) fn of(fields: &[Field<'_>], name: &str) -> Self {
        let mut all = Directives::default();
        let found = fields.iter().filter(|it| it.name.eq_ignore_ascii_case(name.as_bytes()));
        found.for_each(|field| members(field.value).for_each(|member| all.add(member)));
        all
    }

    fn add(&mut self, member: &[u8]) {
        let cut = member.iter().position(|byte| *byte == b'=');
        let name = member[..cut.unwrap_or(member.len())].trim_ascii();
        let value = cut.map(|cut| member[cut + 1..].trim_ascii());
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        let time = |of: Option<Duration>| {
            let seconds = seconds(value.unwrap_or_default()).unwrap_or_default();
            Some(of.map_or(seconds, |of| of.min(seconds)))
        };
        // With a list of fields they say less: taken for the whole.
        if is("no-store") {
            self.no_store = true;
        } else if is("no-cache") {
            self.no_cache = true;
        } else if is("private") {
            self.private = true;
        } else if is("public") {
            self.public = true;
        } else if is("must-revalidate") || is("proxy-revalidate") {
            self.revalidate = true;
        } else if is("max-age") {
            self.max_age = time(self.max_age);
        } else if is("s-maxage") {
            self.s_maxage = time(self.s_maxage);
        } else if is("stale-if-error") {
            self.stale_if_error = time(self.stale_if_error);
        }
    }
}

/// The members of a list, without white space; a comma within quotes separates nothing.
pub(super) fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    let ends = move |byte: &u8| {
        let was_escaped = std::mem::take(&mut escaped);
        match byte {
            b'"' if !was_escaped => quoted = !quoted,
            b'\\' if quoted && !was_escaped => escaped = true,
            b',' => return !quoted,
            _ => {}
        }
        false
    };
    value.split(ends).map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}

/// Whole seconds, also in quotes; more digits than a year has count as a century.
pub(super) fn seconds(text: &[u8]) -> Option<Duration> {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
    let unquoted = text.strip_prefix(b"\"").and_then(|it| it.strip_suffix(b"\""));
    let text = unquoted.unwrap_or(text);
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    Some(number.map_or(CENTURY, Duration::from_secs).min(CENTURY))
}
