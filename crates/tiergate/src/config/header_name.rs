//! Names of headers to which a policy gives a meaning: they must not have another one.

use super::kind::Text;
use super::values::is_token;
use serde_json::json;
use tiergate_wire::http1::is_special;

/// The name of a header that means nothing else to clients, origins, or what is between them.
pub(super) const OWN_HEADER: Text<String> = Text {
    expected: "the name of a header",
    schema: || json!({ "examples": ["X-Api-Key"] }),
    parse: |text| match is_token(text) {
        true if has_other_meaning(text) => Err(Some(FREE.to_owned())),
        true => Ok(text.to_owned()),
        false => Err(None),
    },
};

/// The same, or `authorization`, which carries keys and tokens.
pub(super) const CREDENTIAL_HEADER: Text<String> = Text {
    parse: |text| match text.eq_ignore_ascii_case("authorization") {
        true => Ok(text.to_owned()),
        false => (OWN_HEADER.parse)(text),
    },
    ..OWN_HEADER
};

/// The same, or one that only trusted peers may send: `X-Tiergate-…`.
pub(super) const TRUSTED_HEADER: Text<String> = Text {
    parse: |text| match text.to_ascii_lowercase().starts_with("x-tiergate-") && is_token(text) {
        true => Ok(text.to_owned()),
        false => (OWN_HEADER.parse)(text),
    },
    ..OWN_HEADER
};

const FREE: &str = "must be a header without another meaning";

/// Fields of HTTP and what is built on it (the registry of RFC 9110 §16.3.1), beside those that the gateway itself reads or writes.
const TAKEN: [&str; 42] = [
    "accept",
    "age",
    "allow",
    "alt-svc",
    "alt-used",
    "authentication-info",
    "authorization",
    "cache-control",
    "cache-status",
    "clear-site-data",
    "cookie",
    "dnt",
    "early-data",
    "etag",
    "expires",
    "from",
    "http2-settings",
    "last-modified",
    "link",
    "origin",
    "permissions-policy",
    "pragma",
    "priority",
    "purpose",
    "range",
    "referer",
    "referrer-policy",
    "refresh",
    "retry-after",
    "server",
    "server-timing",
    "set-cookie",
    "strict-transport-security",
    "traceparent",
    "tracestate",
    "trailer",
    "user-agent",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "x-moz",
];

/// What the names of further such fields begin with.
const FAMILIES: [&str; 8] = [
    "accept-",
    "access-control-",
    "content-",
    "cross-origin-",
    "grpc-",
    "if-",
    "ratelimit",
    "sec-",
];

fn has_other_meaning(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let is_of_family = || FAMILIES.iter().any(|begin| lower.starts_with(begin));
    is_special(name.as_bytes()) || TAKEN.contains(&&*lower) || is_of_family()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_meaning() {
        let allowed = |kind: &Text<String>, name: &str| (kind.parse)(name).is_ok();
        for name in ["X-Request-Id", "x-api-key", "X-Deadline-Ms", "Tiergate-Reason", "api-key"] {
            for kind in [OWN_HEADER, CREDENTIAL_HEADER, TRUSTED_HEADER] {
                assert!(allowed(&kind, name), "{name}");
            }
        }
        for name in [
            "Content-Length",
            "Transfer-Encoding",
            "Connection",
            "Retry-After",
            "Trailer",
            "Range",
            "ETag",
            "Server",
            "Alt-Svc",
            "grpc-timeout",
            "X-Forwarded-For",
            "Content_Length",
            "Set-Cookie",
            "RateLimit-Policy",
            "a b",
            "",
        ] {
            for kind in [OWN_HEADER, CREDENTIAL_HEADER, TRUSTED_HEADER] {
                assert!(!allowed(&kind, name), "{name}");
            }
        }
        assert!(allowed(&CREDENTIAL_HEADER, "Authorization"));
        assert!(!allowed(&OWN_HEADER, "Authorization"));
        assert!(allowed(&TRUSTED_HEADER, "X-Tiergate-Deadline"));
        assert!(!allowed(&OWN_HEADER, "X-Tiergate-Deadline"));
    }
}
