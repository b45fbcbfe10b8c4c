//! User name and password in a URL: no message, log or page shows them.

use std::borrow::Cow;

/// Length of what stands before the `@` of the URL's authority, `@` included; 0 if there is none.
///
/// Source: RFC 3986 §3.2.1.
pub(crate) fn end(url: &[u8]) -> usize {
    let Some(scheme) = url.windows(3).position(|it| it == b"://").map(|at| at + 3) else {
        return 0;
    };
    let is_end = |byte: &u8| matches!(byte, b'/' | b'?' | b'#');
    let authority = url[scheme..].split(is_end).next().unwrap_or_default();
    authority.iter().rposition(|byte| *byte == b'@').map_or(0, |at| scheme + at + 1)
}

/// The URL with its password masked.
pub(crate) fn masked(url: &str) -> Cow<'_, str> {
    match (end(url.as_bytes()), url.split_once("://")) {
        (1.., Some((scheme, rest))) if has_password(url) => {
            let after = &rest[end(url.as_bytes()) - scheme.len() - 3..];
            Cow::Owned(format!("{scheme}://(masked)@{after}"))
        }
        _ => Cow::Borrowed(url),
    }
}

/// Whether there is a password in the URL.
pub(crate) fn has_password(url: &str) -> bool {
    let before = &url[..end(url.as_bytes())];
    before.split_once("://").is_some_and(|(_, user)| user.contains(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_masked() {
        for (url, shown, rest) in [
            ("http://bob:hush@app:80/a@b", "http://(masked)@app:80/a@b", "app:80/a@b"),
            ("http://bob:hu@sh@app?x", "http://(masked)@app?x", "app?x"),
            ("http://bob@app/", "http://bob@app/", "app/"),
            ("http://app/a:b@c", "http://app/a:b@c", "http://app/a:b@c"),
            ("bob:hush@app", "bob:hush@app", "bob:hush@app"),
            ("", "", ""),
            ("://:@", "://(masked)@", ""),
        ] {
            assert_eq!(masked(url), shown);
            assert_eq!(&url[end(url.as_bytes())..], rest, "{url}");
        }
    }
}
