//! Cases of RFC 9111 and beyond: what may be kept, and who may get it.

use super::*;
use crate::request::Field;
use proptest::prelude::*;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// Fields as a message has them: `name: value` lines.
fn fields(lines: &str) -> Vec<Field<'_>> {
    lines
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| Field { name: name.trim().as_bytes(), value: value.trim().as_bytes() })
        .collect()
}

fn asked(request: &str) -> Asked {
    Asked::of(b"GET", &fields(request), false).expect("copies concern it")
}

fn fate_of(request: &str, status: u16, answer: &str) -> Fate {
    let (request, answer) = (fields(request), fields(answer));
    let asked = Asked::of(b"GET", &request, false).expect("copies concern it");
    keep(&asked, &request, &Answer { status, fields: &answer, is_framed: true, is_full: true })
}

fn fate(request: &str, answer: &str) -> Fate {
    fate_of(request, 200, answer)
}

#[track_caller]
fn kept(request: &str, answer: &str) -> Terms {
    match fate(request, answer) {
        Fate::Keep(terms) => terms,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_the_origin_forbids_is_not_kept_and_makes_copies_go() {
    for forbids in [
        "Cache-Control: no-store",
        "Cache-Control: private",
        "Cache-Control: no-cache",
        "cache-control: public, max-age=60 , NO-STORE",
        "Cache-Control: public\nCache-Control: private",
        "Cache-Control: private=\"set-cookie, x-user\"",
        "Cache-Control: no-cache=\"set-cookie\", public",
        "CDN-Cache-Control: no-store",
    ] {
        assert_eq!(fate("", forbids), Fate::Drop, "{forbids}");
        // One user's page says nothing of what others get.
        assert_eq!(fate("Cookie: a=1", forbids), Fate::Pass, "{forbids}");
        assert_eq!(fate("Authorization: Basic eA==", forbids), Fate::Pass, "{forbids}");
    }
    // A quoted comma begins no member.
    for allows in
        ["", "Cache-Control: ext=\"a, no-store\"", "Cache-Control: max-age=0", "Expires: 0"]
    {
        assert!(matches!(fate("", allows), Fate::Keep(_)), "{allows}");
    }
}

#[test]
fn only_whole_answers_of_full_quality_are_kept() {
    for (status, fate) in [
        (200, None),
        (203, Some(Fate::Pass)),
        (204, Some(Fate::Pass)),
        (206, Some(Fate::Pass)),
        (301, Some(Fate::Pass)),
        (304, Some(Fate::Pass)),
        (404, Some(Fate::Drop)),
        (410, Some(Fate::Drop)),
        (500, Some(Fate::Pass)),
        (503, Some(Fate::Pass)),
    ] {
        let found = fate_of("", status, "Cache-Control: public");
        match fate {
            Some(fate) => assert_eq!(found, fate, "{status}"),
            None => assert!(matches!(found, Fate::Keep(_)), "{status}"),
        }
    }
    assert_eq!(fate_of("Cookie: a=1", 404, ""), Fate::Pass, "what one user may not see");
    let answer = Answer { status: 200, fields: &[], is_framed: true, is_full: true };
    let asked = asked("");
    for answer in [Answer { is_framed: false, ..answer }, Answer { is_full: false, ..answer }] {
        assert_eq!(keep(&asked, &[], &answer), Fate::Pass, "{answer:?}");
    }
    for one in [
        "Set-Cookie: a=b",
        "Set-Cookie2: a=b",
        "Content-Range: bytes 0-1/2",
        "Trailer: x",
        "Vary: *",
        "Vary: accept, *",
        "Age: soon",
        "Vary: X-Forwarded-For",
    ] {
        let answer = format!("Cache-Control: public, max-age=60\n{one}");
        assert_eq!(fate("", &answer), Fate::Pass, "{one}");
    }
    let many: String = (0..=VARY_MAX).map(|at| format!("Vary: x-{at}\n")).collect();
    assert_eq!(fate("", &many), Fate::Pass, "more fields than are told apart");
    let long = format!("X-A: {}", "a".repeat(VARY_VALUE_MAX + 1));
    assert_eq!(fate(&long, "Vary: x-a"), Fate::Pass, "a longer value than is kept");
}

#[test]
fn credentials_need_the_origins_word() {
    let (cookie, authorization) = ("Cookie: a=1", "Authorization: Basic eA==");
    let both = "Cookie: a=1\nAuthorization: Basic eA==";
    for (request, answer, is_kept) in [
        (cookie, "", false),
        (cookie, "Cache-Control: max-age=60", false),
        (cookie, "Cache-Control: s-maxage=60", false),
        (cookie, "Cache-Control: public", true),
        (cookie, "Cache-Control: public\nVary: Cookie", false),
        (authorization, "", false),
        (authorization, "Cache-Control: must-revalidate, max-age=60", false),
        (authorization, "Cache-Control: s-maxage=60", false),
        (authorization, "Cache-Control: public", true),
        (authorization, "Cache-Control: public\nVary: Authorization", false),
        (both, "Cache-Control: s-maxage=60", false),
        (both, "Cache-Control: public", true),
        ("", "Vary: Cookie", true),
        ("X-Api-Key: x", "", false),
        ("X-Api-Key: x", "Cache-Control: s-maxage=60", false),
        ("X-Api-Key: x", "Cache-Control: public\nVary: X-Api-Key", false),
        ("", "Vary: X-Api-Key", true),
        ("X-Original-URL: /admin", "Cache-Control: public", false),
        ("X-HTTP-Method-Override: DELETE", "", false),
        ("Cache-Control: no-store", "Cache-Control: public", false),
    ] {
        let fate = fate(request, answer);
        assert_eq!(matches!(fate, Fate::Keep(_)), is_kept, "{request} / {answer}: {fate:?}");
    }
    // A certificate, or a key that the policy knows.
    let identified = Asked::of(b"GET", &[], true).expect("a GET");
    let answer = Answer { status: 200, fields: &[], is_framed: true, is_full: true };
    assert_eq!(keep(&identified, &[], &answer), Fate::Pass);
}

#[test]
fn fields_that_carry_keys_are_credentials_whoever_checks_them() {
    for name in [
        "Authorization",
        "X-Auth",
        "X_AUTH_TOKEN",
        "Api-Key",
        "api_key",
        "ApiKey",
        "X-Access-Token",
        "X-Amz-Security-Token",
        "X-CSRF-Token",
        "X-Client-Secret",
        "Mcp-Session-Id",
        "Cf-Access-Jwt-Assertion",
        "X-Forwarded-User",
        "Client-Cert",
        "X-SSL-Client-S-Dn",
        "SSL_CLIENT_CERT",
        "X-Ssl-Cert",
        "X-Client-DN",
        "X-Client-Verify",
        "X-ClientCert",
        "X-User-Id",
        "X_UserId",
        "X-Username",
        "X-WEBAUTH-USER-NAME",
        "X-User-Login",
        "X-Consumer-Custom",
        "X-Account",
        "X-Tenant-Name",
    ] {
        let line = format!("{name}: x");
        assert_eq!(asked(&line).credentials, Credentials::Identity, "{name}");
    }
    for name in [
        "Accept",
        "User-Agent",
        "Origin",
        "Sec-CH-UA",
        "X-Requested-With",
        "Traceparent",
        "Priority",
    ] {
        assert_eq!(asked(&format!("{name}: x")).credentials, Credentials::None, "{name}");
    }
    assert_eq!(asked("Cookie: a=1\nX-Api-Key: x").credentials, Credentials::Cookie);
}

#[test]
fn what_may_mislead_is_neither_kept_nor_makes_copies_go() {
    for field in [
        "X_Original_URL: /admin",
        "X-Original-Method: x",
        "x-rewrite-path: x",
        "X-HTTP-Method-Override: x",
        "X-HTTP_Verb-Override: x",
        "X-HTTP-Method: x",
        "X-Method-Override: x",
        "X_Host: x",
        "X-Forwarded: x",
        "X-Forwarded-Server: x",
        "X-Forwarded-Scheme: x",
        "X-Forwarded-Ssl: on",
        "X_Forwarded_Host: x",
        "Front-End-Https: on",
        "X-Url-Scheme: https",
        "X-Invoke-Path: x",
        "X-Middleware-Prefetch: 1",
        "X-Now-Route-Matches: 1",
        "HX-Request: true",
        "Hx_Target: x",
        "X-PJAX: true",
        "X-PJAX-Container: x",
        "Turbo-Frame: x",
        "X-Requested-With: XMLHttpRequest",
        "Tiergate-Level: 1/3",
        "Tiergate-Level: full",
        "Connection: Origin",
        "Connection: close, accept-language",
    ] {
        assert!(!asked(field).keeps, "{field}");
        assert_eq!(fate(field, "Cache-Control: public"), Fate::Pass, "{field}");
        assert_eq!(fate_of(field, 404, ""), Fate::Pass, "{field}");
        assert_eq!(fate(field, "Cache-Control: no-store"), Fate::Pass, "{field}");
    }
    for field in [
        "X-Forwarded-For: x",
        "X-Forwarded-Proto: https",
        "x-forwarded-host: a",
        "Tiergate-Level: 3/3",
        "TE: trailers",
        "X-Requested: x",
        "Connection: keep-alive, TE, Proxy-Connection",
        "Connection:",
    ] {
        assert!(asked(field).keeps, "{field}");
    }
}

#[test]
fn the_copy_that_nobody_asked_for_makes_room() {
    for (hits, expected) in [
        (&[3, 0, 1, 0][..], Room::InPlaceOf(1)),
        (&[0], Room::InPlaceOf(0)),
        (&[1, 2], Room::None),
        (&[], Room::None),
    ] {
        assert_eq!(room(hits.iter().copied()), expected, "{hits:?}");
    }
}

#[test]
fn a_more_important_request_takes_the_replacement_over() {
    for (own, other, expected) in
        [(3, None, true), (2, Some(3), true), (3, Some(3), false), (4, Some(3), false)]
    {
        assert_eq!(takes_over(own, other), expected, "{own} and {other:?}");
    }
}

#[test]
fn only_public_copies_are_for_requests_with_credentials() {
    let (own, public) = (kept("", ""), kept("", "Cache-Control: public"));
    let shared = kept("", "Cache-Control: s-maxage=600");
    for request in ["Cookie: a=1", "Authorization: x"] {
        let usable = |terms: &Terms| {
            is_usable(&asked(request), &Held { terms, kept: Duration::ZERO, age_max: MINUTE })
        };
        assert_eq!((usable(&own), usable(&public), usable(&shared)), (false, true, false));
    }
    let identified = Asked::of(b"GET", &[], true).expect("a GET");
    let held = Held { terms: &own, kept: Duration::ZERO, age_max: MINUTE };
    assert!(!is_usable(&identified, &held) && is_usable(&asked(""), &held));
}

#[test]
fn requests_that_copies_do_not_concern() {
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "get", "PROPFIND"] {
        assert_eq!(Asked::of(method.as_bytes(), &[], false), None, "{method}");
    }
    for field in ["Range: bytes=0-1", "If-Match: \"a\"", "If-Unmodified-Since: x", "Upgrade: h2c"] {
        assert_eq!(Asked::of(b"GET", &fields(field), false), None, "{field}");
    }
    assert!(!Asked::of(b"HEAD", &[], false).expect("it gets one").keeps);
    for (method, changes) in
        [("GET", false), ("HEAD", false), ("OPTIONS", false), ("POST", true), ("PROPPATCH", true)]
    {
        assert_eq!(is_unsafe(method.as_bytes()), changes, "{method}");
    }
}

/// Until which age a copy may be served where the policy says an hour, in seconds.
fn lasts(answer: &str) -> u64 {
    let terms = kept("", answer);
    let age_max = Duration::from_secs(3600);
    let usable = |kept| {
        is_usable(&asked(""), &Held { terms: &terms, kept: Duration::from_secs(kept), age_max })
    };
    (0..=3601).take_while(|kept| usable(*kept)).last().expect("now")
}

#[test]
fn an_origin_that_forbids_stale_answers_is_obeyed() {
    for (answer, seconds) in [
        ("", 3600),
        ("Cache-Control: max-age=10", 3600),
        ("Cache-Control: max-age=10, must-revalidate", 10),
        ("Cache-Control: max-age=10, proxy-revalidate", 10),
        ("Cache-Control: max-age=10, s-maxage=20", 20),
        ("Cache-Control: max-age=10, max-age=20, must-revalidate", 10),
        ("Cache-Control: max-age=\"10\", must-revalidate", 10),
        ("Cache-Control: max-age=10, stale-if-error=30", 40),
        ("Cache-Control: max-age=99999999999999999999, must-revalidate", 3600),
        ("Cache-Control: max-age=60, must-revalidate\nAge: 50", 10),
        ("Age: 600", 3000),
    ] {
        assert_eq!(lasts(answer), seconds, "{answer}");
    }
    for never in [
        "Cache-Control: must-revalidate",
        "Cache-Control: max-age=soon, must-revalidate",
        "Cache-Control: s-maxage=0",
        "Cache-Control: max-age=60, must-revalidate\nAge: 60",
    ] {
        assert_eq!(fate("", never), Fate::Pass, "{never}");
    }
}

#[test]
fn vary_tells_copies_apart() {
    let terms = kept("Accept: a\naccept: b\nX: 1", "Vary: Accept, accept-language\nVary: ACCEPT");
    let selects = |request: &str| super::selects(&terms.vary, &fields(request));
    assert!(selects("accept: a, b") && selects("Accept: a\nAccept: b\nX: 2"));
    assert!(!selects("Accept: a") && !selects("") && !selects("Accept: a, b\nAccept-Language:"));
}

#[test]
fn half_of_its_time_over_one_request_replaces_a_copy() {
    let terms = kept("", "");
    let held = |kept| Held { terms: &terms, kept: Duration::from_secs(kept), age_max: MINUTE };
    let role_of = |request: &str, kept, free| role(&asked(request), &held(kept), || free);
    for (request, kept, free, expected) in [
        ("", 0, true, Role::Both),
        ("", 29, true, Role::Both),
        ("", 30, true, Role::Refusal),
        ("", 30, false, Role::Both),
        ("", 60, true, Role::Refusal),
        ("", 61, true, Role::None),
        // A client that wants a fresh answer waits for it, but gets the copy rather than a refusal.
        ("Cache-Control: no-cache", 1, true, Role::Refusal),
        ("Cache-Control: max-age=0", 1, true, Role::Refusal),
        ("Cache-Control: max-age=5", 5, true, Role::Both),
        ("Cache-Control: max-age=5", 6, true, Role::Refusal),
        ("Pragma: no-cache", 1, true, Role::Refusal),
        ("Pragma: no-cache\nCache-Control: max-age=9", 1, true, Role::Both),
        ("Cookie: a", 1, true, Role::None),
        // What it brings would not be kept.
        ("X-Host: evil", 50, true, Role::Both),
        ("Connection: origin", 50, true, Role::Both),
        ("If-None-Match: \"a\"", 50, true, Role::Both),
        ("If-Modified-Since: x", 50, true, Role::Both),
    ] {
        assert_eq!(role_of(request, kept, free), expected, "{request} after {kept} s");
    }
}

proptest! {
    /// Comparing in place says what joining and comparing says.
    #[test]
    fn selects_compares_joined_values(
        kept in prop::option::of("[a, ]{0,6}"),
        values in prop::collection::vec("[a, ]{0,3}", 0..4),
    ) {
        let request: Vec<_> =
            values.iter().map(|it| Field { name: b"X", value: it.as_bytes() }).collect();
        let joined = (!values.is_empty()).then(|| values.join(", "));
        let vary = |it: Option<String>| [("x".into(), it.map(String::into_bytes))];
        prop_assert!(selects(&vary(joined.clone()), &request));
        prop_assert_eq!(selects(&vary(kept.clone()), &request), kept == joined);
    }

    /// Whatever else is said: nothing private gets out, and nothing is older than the policy has it.
    #[test]
    fn nothing_is_kept_or_served_against_the_rules(
        request in prop::sample::subsequence(vec![
            "Cookie: a=1", "Authorization: x", "Accept: a", "Cache-Control: no-cache",
            "Cache-Control: no-store", "X-Host: b", "Pragma: no-cache",
        ], 0..5),
        answer in prop::sample::subsequence(vec![
            "Cache-Control: public", "Cache-Control: private", "Cache-Control: no-store",
            "Cache-Control: s-maxage=9", "Cache-Control: max-age=20", "Vary: Accept", "Vary: *",
            "Set-Cookie: a=b", "Age: 5", "Cache-Control: must-revalidate", "Vary: Cookie",
        ], 0..7),
        other in prop::sample::subsequence(vec!["Cookie: b=2", "Authorization: y", "Accept: b"], 0..3),
        after in 0..100u64,
        age_max in 1..60u64,
    ) {
        let (request, answer, other) = (request.join("\n"), answer.join("\n"), other.join("\n"));
        let says = |text: &str| answer.contains(text);
        if let Fate::Keep(terms) = fate(&request, &answer) {
            prop_assert!(!says("private") && !says("no-store") && !says("Set-Cookie") && !says("*"));
            prop_assert!(!request.contains("no-store") && !request.contains("X-Host"));
            prop_assert!(!request.contains("Cookie") || says("public") && !says("Vary: Cookie"));
            prop_assert!(!request.contains("Authorization") || says("public"));
            let age_max = Duration::from_secs(age_max);
            let held = Held { terms: &terms, kept: Duration::from_secs(after), age_max };
            let is_served = role(&asked(&other), &held, || true) != Role::None;
            prop_assert_eq!(is_served, is_usable(&asked(&other), &held));
            if is_served {
                prop_assert!(held.age() <= age_max);
                prop_assert!(says("public") || !other.contains("Cookie") && !other.contains("Auth"));
                let revalidates = says("must-revalidate") || says("s-maxage");
                let fresh = if says("s-maxage") { 9 } else { 20 };
                prop_assert!(!revalidates || held.age() <= Duration::from_secs(fresh));
            }
        }
    }
}
