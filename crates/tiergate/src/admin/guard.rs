//! Keeps web pages that a person on this machine visits away from the admin listener.
//!
//! A page can make a browser send requests to loopback. It cannot read the answers (no CORS header
//! is ever sent) unless its own name is made to resolve to loopback (DNS rebinding): then `Host`
//! carries that name. It can cause effects by a POST: then the browser sends `Origin`, and cannot
//! add a header of its own without asking first (a preflight, which gets 405). A listener that is not on loopback answers to any name, which its
//! operators may have given it, unless the policy says its names (`admin_names`); without them a page could make its own name resolve to it, and
//! what changes something needs a token, or an address as `Host`.

use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, Request};
use std::net::IpAddr;
use tiergate_core::classify::pattern::HostPattern;

/// The header that a browser's script cannot add across origins; any value will do.
pub(super) const INTENT: &str = "x-tiergate-admin";

/// Whether `Host` is none that a page could have made resolve to this listener: an address, or `localhost`. A request without `Host` is
/// not from a browser.
pub(crate) fn host_is_local<B>(request: &Request<B>) -> bool {
    host_is_ours(request, &[])
}

/// The same, or one of these names.
pub(super) fn host_is_ours<B>(request: &Request<B>, names: &[HostPattern]) -> bool {
    let is_ours = |host: &str| is_local(host) || names.iter().any(|it| it.matches(host.as_bytes()));
    let mut hosts = request.headers().get_all(HOST).iter();
    let named = hosts.all(|host| {
        let authority = Authority::try_from(host.as_bytes());
        authority.is_ok_and(|authority| is_ours(authority.host()))
    });
    named && request.uri().host().is_none_or(is_ours)
}

/// Whether a request with side effects is intended: see the module's documentation.
pub(super) fn is_meant(headers: &HeaderMap) -> bool {
    let from_page = headers.contains_key(ORIGIN)
        || headers.get("sec-fetch-site").is_some_and(|site| site != "none");
    !from_page || headers.contains_key(INTENT)
}

/// Whether a page that is not of this listener asks: a browser says so to what is on its machine, also where the page cannot read the answer.
pub(super) fn is_of_another_page(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site" || site == "same-site")
}

fn is_local(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
    let host = host.to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost") || host.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(hosts: &[&str]) -> Request<()> {
        let mut request = Request::new(());
        for host in hosts {
            request.headers_mut().append(HOST, host.parse().expect("a value"));
        }
        request
    }

    #[test]
    fn addresses_and_localhost_are_local_and_names_are_not() {
        for host in ["127.0.0.1:9090", "[::1]:9090", "localhost", "LOCALHOST.:1", "a.localhost"] {
            assert!(host_is_local(&asking(&[host])), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io:9090", "", "a b"] {
            assert!(!host_is_local(&asking(&[host])), "{host}");
        }
        assert!(host_is_local(&asking(&[])));
        assert!(!host_is_local(&asking(&["localhost", "evil.example"])));
    }

    #[test]
    fn pages_must_show_intent() {
        let headers = |pairs: &[(&'static str, &str)]| -> HeaderMap {
            let pair = |(name, value): &(&'static str, &str)| {
                (name.parse().expect("a name"), value.parse().expect("a value"))
            };
            pairs.iter().map(pair).collect()
        };
        assert!(is_meant(&headers(&[])));
        assert!(!is_meant(&headers(&[("origin", "null")])));
        assert!(!is_meant(&headers(&[("sec-fetch-site", "cross-site")])));
        assert!(is_meant(&headers(&[("origin", "http://localhost"), (INTENT, "1")])));
    }
}
