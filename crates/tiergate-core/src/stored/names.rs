//! What the names of a request's fields say.
//!
//! `_` counts as `-` everywhere here: CGI, WSGI and what is like them cannot tell the two apart.

/// Fields in which a trusted peer says what its client asked for, in lower case. Copies are told apart by these
/// values; fields beside them that say the same are misleading.
pub const FORWARDED: [&str; 4] =
    ["x-forwarded-proto", "x-forwarded-host", "x-forwarded-port", "x-forwarded-prefix"];

/// Fields by which some frameworks serve another page than the target names, or a part of it, or name another host or scheme in it: an answer
/// to a request with one of them could be planted for others.
const MISLEADING: [&str; 11] = [
    "x-http-method",
    "x-method-override",
    "x-host",
    "forwarded-host",
    "x-forwarded",
    "x-url-scheme",
    "x-scheme",
    "x-matched-path",
    "front-end-https",
    "x-requested-with",
    "turbo-frame",
];
/// The same, by how their names begin.
const MISLEADING_BEGIN: [&str; 8] = [
    "x-original-",
    "x-rewrite-",
    "x-invoke-",
    "x-middleware-",
    "x-now-",
    "x-nextjs-",
    "x-pjax",
    "hx-",
];

/// Whether a field is called `known`, which is in lower case and has no `_`. O(name).
pub fn is_called(name: &[u8], known: &str) -> bool {
    name.len() == known.len() && begins(name, known)
}

fn begins(name: &[u8], known: &str) -> bool {
    name.len() >= known.len() && name.iter().zip(known.as_bytes()).all(|(a, b)| plain(*a) == *b)
}

fn ends(name: &[u8], known: &str) -> bool {
    name.len() >= known.len() && begins(&name[name.len() - known.len()..], known)
}

fn plain(byte: u8) -> u8 {
    if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() }
}

/// Whether a field of that name is likely to say whose request it is, whatever its value. O(name).
pub(super) fn is_credential(name: &[u8]) -> bool {
    let has = |at: usize, known: &[&str]| known.iter().any(|it| begins(&name[at..], it));
    let found = |(at, byte): (usize, &u8)| match plain(*byte) {
        b'a' => has(at, &["auth", "api-key", "apikey", "account"]),
        b'c' => has(
            at,
            &["credential", "client-cert", "clientcert", "client-dn", "client-verify", "consumer"],
        ),
        b'j' => has(at, &["jwt"]),
        b'l' => has(at, &["login"]),
        b'o' => has(at, &["oidc"]),
        b'p' => has(at, &["principal"]),
        b's' => has(at, &["secret", "session", "signature", "ssl-client", "ssl-cert"]),
        b't' => has(at, &["token", "tenant"]),
        b'u' => has(at, &["user-id", "userid", "user-name", "username"]),
        _ => false,
    };
    name.iter().enumerate().any(found) || ends(name, "-user") || ends(name, "-email")
}

/// Whether the answer to a request with this field may be another than its target has for others, though copies are not told apart by it.
pub(super) fn is_misleading(name: &[u8], value: &[u8]) -> bool {
    match name.first() {
        Some(b't' | b'T') if is_called(name, "tiergate-level") => return !is_full_level(value),
        Some(b'x' | b'X' | b'f' | b'F' | b't' | b'T' | b'h' | b'H') => {}
        // By far the most.
        _ => return false,
    }
    if begins(name, "x-forwarded-") {
        // What the gateway does not believe is not among the fields. It writes the addresses itself.
        let is_told_apart = |it: &str| name.eq_ignore_ascii_case(it.as_bytes());
        return !is_told_apart("x-forwarded-for") && !FORWARDED.into_iter().any(is_told_apart);
    }
    MISLEADING.iter().any(|it| is_called(name, it))
        || MISLEADING_BEGIN.iter().any(|it| begins(name, it))
        || begins(name, "x-http-") && ends(name, "-override")
}

/// Whether a `Tiergate-Level` asks for full quality: `3/3`.
fn is_full_level(value: &[u8]) -> bool {
    let cut = value.iter().position(|byte| *byte == b'/');
    cut.is_some_and(|cut| value[..cut].trim_ascii() == value[cut + 1..].trim_ascii())
}

/// Whether an option of `Connection` takes nothing away from what the origin gets of a request (RFC 9110 §7.6.1).
pub(super) fn is_plain_option(option: &[u8]) -> bool {
    let plain = ["close", "keep-alive", "te", "upgrade", "http2-settings"];
    let is = |known: &str| option.eq_ignore_ascii_case(known.as_bytes());
    plain.into_iter().any(is) || option.len() > 6 && option[..6].eq_ignore_ascii_case(b"proxy-")
}
