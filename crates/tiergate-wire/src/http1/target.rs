//! The request target and the authority in it (RFC 9112 §3.2).

use super::message::HeadError;
use std::net::Ipv6Addr;

/// A request target taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target<'b> {
    pub(super) path: &'b [u8],
    /// What follows the first `?`; `None` if there is none.
    pub(super) query: Option<&'b [u8]>,
    /// The authority of the absolute form.
    pub(super) authority: Option<&'b [u8]>,
}

impl<'b> Target<'b> {
    /// Takes apart a target of visible ASCII without `#`.
    #[inline]
    pub(super) fn parse(method: &[u8], target: &'b [u8]) -> Result<Target<'b>, HeadError> {
        match target {
            [b'/', ..] => Ok(Target::origin_form(target)),
            b"*" if method == b"OPTIONS" => {
                Ok(Target { path: target, query: None, authority: None })
            }
            b"*" => Err(HeadError::bad("target * needs the method OPTIONS")),
            _ => Target::absolute_form(method, target),
        }
    }

    #[inline]
    fn origin_form(target: &'b [u8]) -> Target<'b> {
        let (path, query) = match memchr::memchr(b'?', target) {
            Some(mark) => (&target[..mark], Some(&target[mark + 1..])),
            None => (target, None),
        };
        Target { path, query, authority: None }
    }

    fn absolute_form(method: &[u8], target: &'b [u8]) -> Result<Target<'b>, HeadError> {
        const MALFORMED: &str = "target is neither a path nor an http address";
        let colon = memchr::memchr(b':', target).ok_or(HeadError::bad(MALFORMED))?;
        let scheme = &target[..colon];
        if !scheme.eq_ignore_ascii_case(b"http") && !scheme.eq_ignore_ascii_case(b"https") {
            return Err(HeadError::bad(MALFORMED));
        }
        let rest = target[colon + 1..].strip_prefix(b"//").ok_or(HeadError::bad(MALFORMED))?;
        let authority_len = memchr::memchr2(b'/', b'?', rest).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(authority_len);
        check_host(authority)?;
        let mut parts = Target::origin_form(rest);
        if parts.path.is_empty() {
            // RFC 9112 §3.2.4: OPTIONS of a whole server is `*` in the last hop; otherwise an
            // empty path is `/`.
            let whole_server = method == b"OPTIONS" && parts.query.is_none();
            parts.path = if whole_server { b"*" } else { b"/" };
        }
        parts.authority = Some(authority);
        Ok(parts)
    }
}

/// Checks an authority: a DNS name, an IPv4 address or an IPv6 address in brackets, and a port.
///
/// RFC 3986 would also allow sub-delimiters and percent-encoding in a name, and user information
/// before it. No host is called so, and recipients differ in what they make of it.
#[inline]
pub(super) fn check_host(authority: &[u8]) -> Result<(), HeadError> {
    let name = host_name(authority);
    let port = &authority[name.len()..];
    let name_is_good = match name {
        [] => return Err(HeadError::bad("host is empty")),
        [b'[', inner @ .., b']'] => is_ipv6(inner),
        _ => {
            name.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~'))
        }
    };
    if !name_is_good {
        return Err(HeadError::bad("host is malformed"));
    }
    match port {
        [] | [b':'] => Ok(()),
        [b':', digits @ ..] if is_port(digits) => Ok(()),
        _ => Err(HeadError::bad("port of the host is malformed")),
    }
}

/// `authority` without its port.
#[inline]
pub fn host_name(authority: &[u8]) -> &[u8] {
    let name_len = if authority.first() == Some(&b'[') {
        authority.iter().position(|&b| b == b']').map(|at| at + 1)
    } else {
        authority.iter().position(|&b| b == b':')
    };
    &authority[..name_len.unwrap_or(authority.len())]
}

/// Whether `host` names what an `authority` names: case does not matter, nor whether the port of the scheme is said, with which `target` begins.
#[cold]
pub(super) fn is_same_authority(host: &[u8], target: &[u8], authority: &[u8]) -> bool {
    let is_https = target.get(4).is_some_and(|byte| byte.eq_ignore_ascii_case(&b's'));
    let usual: &[u8] = if is_https { b"443" } else { b"80" };
    let port = |of: &[u8]| match of[host_name(of).len()..].strip_prefix(b":") {
        None | Some([]) => usual.to_vec(),
        Some(port) => port.to_vec(),
    };
    host_name(host).eq_ignore_ascii_case(host_name(authority)) && port(host) == port(authority)
}

fn is_ipv6(inner: &[u8]) -> bool {
    std::str::from_utf8(inner).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok())
}

fn is_port(digits: &[u8]) -> bool {
    digits.len() <= 5
        && digits.iter().all(u8::is_ascii_digit)
        && digits.iter().fold(0, |n, b| n * 10 + u32::from(b - b'0')) <= 65_535
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        let good: [&[u8]; 8] = [
            b"a",
            b"a.b-c_d:80",
            b"127.0.0.1:8080",
            b"[::1]",
            b"[2001:db8::1]:443",
            b"a:",
            b"A.",
            b"[::ffff:1.2.3.4]:0",
        ];
        for host in good {
            assert_eq!(check_host(host), Ok(()), "{}", host.escape_ascii());
        }
        let bad: [&[u8]; 16] = [
            b"",
            b":80",
            b"a b",
            b"a,b",
            b"u@a",
            b"a:65536",
            b"a:x",
            b"a:1:2",
            b"[::1",
            b"::1",
            b"[::1]x",
            b"[v1.x]",
            b"[]",
            b"a/b",
            b"a:000080",
            b"[fe80::1%25eth0]",
        ];
        for host in bad {
            assert!(check_host(host).is_err(), "{}", host.escape_ascii());
        }
    }

    #[test]
    fn authorities_that_are_the_same() {
        for (host, target, authority, is_same) in [
            ("a", "http://a/", "a", true),
            ("A.b", "http://a.B/", "a.B", true),
            ("a:80", "http://a/", "a", true),
            ("a", "HTTP://a:80", "a:80", true),
            ("a:", "https://a:443?", "a:443", true),
            ("[::1]", "https://[::1]/", "[::1]", true),
            ("a:80", "https://a/", "a", false),
            ("a:443", "http://a/", "a", false),
            ("a:8080", "http://a:8081/", "a:8081", false),
            ("b", "http://a/", "a", false),
        ] {
            let [host, of, authority] = [host, target, authority].map(str::as_bytes);
            assert_eq!(is_same_authority(host, of, authority), is_same, "{target}");
        }
    }

    #[test]
    fn absolute_form_gives_the_origin_form() {
        let parse = |method: &str, target: &'static str| {
            let parts = Target::parse(method.as_bytes(), target.as_bytes()).unwrap();
            let text = |bytes| std::str::from_utf8(bytes).unwrap();
            (text(parts.path), parts.query.map(text), parts.authority.map(text))
        };
        assert_eq!(parse("GET", "http://a/b?c"), ("/b", Some("c"), Some("a")));
        assert_eq!(parse("GET", "HTTPS://a:1?c/d?e"), ("/", Some("c/d?e"), Some("a:1")));
        assert_eq!(parse("GET", "http://a"), ("/", None, Some("a")));
        assert_eq!(parse("OPTIONS", "http://a"), ("*", None, Some("a")));
        assert_eq!(parse("GET", "/http://a?"), ("/http://a", Some(""), None));
    }
}
