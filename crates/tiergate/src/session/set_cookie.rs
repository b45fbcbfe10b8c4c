//! The effect of an origin's `Set-Cookie` on a session.

use std::time::SystemTime;
use tiergate_core::request::Field;

/// What a response does to the session's cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// It is not set.
    None,
    /// It is set to this value.
    Set(&'a [u8]),
    /// It is deleted.
    Ended,
}

/// Finds the cookie called `name` in a response; the last `Set-Cookie` counts, as in browsers. Source: RFC 6265 §5.2, read as leniently.
pub fn change<'a>(fields: &[Field<'a>], name: &[u8], now: SystemTime) -> Change<'a> {
    let lines = fields.iter().filter(|field| field.name.eq_ignore_ascii_case(b"set-cookie"));
    let mut changes = lines.filter_map(|field| change_of(field.value, name, now));
    changes.next_back().unwrap_or(Change::None)
}

fn change_of<'a>(line: &'a [u8], name: &[u8], now: SystemTime) -> Option<Change<'a>> {
    let mut parts = line.split(|byte| *byte == b';');
    let (found, value) = split(parts.next()?)?;
    if found != name {
        return None;
    }
    let mut ended = value.is_empty();
    let mut max_age = false;
    for (attribute, value) in parts.filter_map(split) {
        if attribute.eq_ignore_ascii_case(b"max-age") {
            // It takes precedence over Expires (RFC 6265 §5.3).
            max_age = true;
            ended = value.is_empty() || value == b"0" || value[0] == b'-';
        } else if attribute.eq_ignore_ascii_case(b"expires") && !max_age {
            let text = std::str::from_utf8(value).unwrap_or_default();
            // Netscape's form, still sent by some, has dashes in the date.
            let dated = httpdate::parse_http_date(text)
                .or_else(|_| httpdate::parse_http_date(&text.replace('-', " ")));
            ended |= dated.is_ok_and(|expires| expires <= now);
        }
    }
    Some(if ended { Change::Ended } else { Change::Set(value) })
}

fn split(pair: &[u8]) -> Option<(&[u8], &[u8])> {
    let sign = pair.iter().position(|byte| *byte == b'=')?;
    Some((pair[..sign].trim_ascii(), pair[sign + 1..].trim_ascii()))
}

/// Whether a shared cache may store the response, and a cookie with it.
pub fn is_shared(fields: &[Field<'_>]) -> bool {
    let lines = fields.iter().filter(|field| field.name.eq_ignore_ascii_case(b"cache-control"));
    let mut directives = lines.flat_map(|field| field.value.split(|byte| *byte == b','));
    directives.any(|directive| {
        let name = directive.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii();
        name.eq_ignore_ascii_case(b"public") || name.eq_ignore_ascii_case(b"s-maxage")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked_at(lines: &[&'static str]) -> Change<'static> {
        let field = |line: &&'static str| Field { name: b"Set-Cookie", value: line.as_bytes() };
        let fields: Vec<_> = lines.iter().map(field).collect();
        change(&fields, b"SID", SystemTime::now())
    }

    #[test]
    fn what_is_set_is_found_and_what_is_taken_away_too() {
        assert_eq!(looked_at(&[]), Change::None);
        assert_eq!(looked_at(&["other=1; Path=/", "sid=2"]), Change::None);
        assert_eq!(looked_at(&["SID=abc; Path=/; HttpOnly"]), Change::Set(b"abc"));
        assert_eq!(looked_at(&["a=1", " SID = a=b ;Max-Age=60"]), Change::Set(b"a=b"));
        assert_eq!(looked_at(&["SID=a", "SID=b"]), Change::Set(b"b"));
        for line in [
            "SID=; Path=/",
            "SID=gone; Max-Age=0",
            "SID=gone; max-age=-1",
            "SID=deleted; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
            "SID=deleted; Expires=Thu, 01-Jan-1970 00:00:01 GMT",
        ] {
            assert_eq!(looked_at(&[line]), Change::Ended, "{line}");
        }
        let kept = "SID=a; Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT";
        assert_eq!(looked_at(&[kept]), Change::Set(b"a"), "Max-Age goes first");
        assert_eq!(looked_at(&["SID"]), Change::None);
    }

    #[test]
    fn shared_answers_are_told_apart() {
        let shared = |value: &'static str| {
            is_shared(&[Field { name: b"cache-control", value: value.as_bytes() }])
        };
        assert!(shared("Public, max-age=60") && shared("max-age=0, s-maxage = 9"));
        assert!(!shared("private, max-age=60") && !shared("no-store") && !shared(""));
    }
}
