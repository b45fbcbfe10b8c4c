//! User name and password in a URL: no message, log or page shows them.

use std::borrow::Cow;
use std::ops::Range;

/// Where in a URL its user name and password are, `@` included; empty if there are none. As loosely as browsers read: with any number of
/// slashes before them, and whatever is in a password.
///
/// Source: RFC 3986 §3.2.1; the URL standard, §4.4.
pub(crate) fn of(url: &[u8]) -> Range<usize> {
    let is_of_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    let is_slash = |byte: &u8| matches!(byte, b'/' | b'\\');
    let scheme = url.iter().position(|byte| !is_of_scheme(byte));
    let scheme = scheme.filter(|at| url[*at] == b':').map_or(0, |at| at + 1);
    let slashes = url[scheme..].iter().take_while(|it| is_slash(it)).count();
    // After one slash without a scheme there is a path.
    if slashes < if scheme == 0 { 2 } else { 1 } {
        let at = url.iter().position(|byte| *byte == b'@').unwrap_or_default();
        let is_mail = url[..scheme].eq_ignore_ascii_case(b"mailto:");
        let before = &url[..at];
        // A name and a password alone, or behind a scheme that forgot its slashes.
        let is_pair = before.contains(&b':') && !before.iter().any(is_slash) && !is_mail;
        return if is_pair { 0..at + 1 } else { 0..0 };
    }
    let begin = scheme + slashes;
    let authority = url[begin..].split(is_slash).next().unwrap_or_default();
    let at = authority.iter().rposition(|byte| *byte == b'@');
    at.map_or(0..0, |at| begin..begin + at + 1)
}

/// The URL with its password masked.
pub(crate) fn masked(url: &str) -> Cow<'_, str> {
    if !has_password(url) {
        return Cow::Borrowed(url);
    }
    let Range { start, end } = of(url.as_bytes());
    Cow::Owned(format!("{}(masked)@{}", &url[..start], &url[end..]))
}

/// Whether there is a password in the URL.
pub(crate) fn has_password(url: &str) -> bool {
    url[of(url.as_bytes())].contains(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_masked() {
        for (url, shown) in [
            ("http://bob:hush@app:80/a@b", "http://(masked)@app:80/a@b"),
            ("http://bob:hu@sh@app?x", "http://(masked)@app?x"),
            ("http://bob:h?u#sh@app/", "http://(masked)@app/"),
            ("http:///bob:hush@app/", "http:///(masked)@app/"),
            ("http:\\\\bob:hush@app", "http:\\\\(masked)@app"),
            ("//bob:hush@app/", "//(masked)@app/"),
            ("bob:hush@app:80", "(masked)@app:80"),
            ("http:bob:hush@app/", "(masked)@app/"),
            ("mailto:a@b.c", "mailto:a@b.c"),
            ("app:80/a@b", "app:80/a@b"),
            ("http://bob@app/", "http://bob@app/"),
            ("http://app/a:b@c", "http://app/a:b@c"),
            ("/@a:b/c@d", "/@a:b/c@d"),
            ("é://b:c@d", "é://b:c@d"),
            ("", ""),
            ("x://:@", "x://(masked)@"),
        ] {
            assert_eq!(masked(url), shown);
        }
        assert_eq!(of(b"http://bob@app/"), 7..11);
    }
}
