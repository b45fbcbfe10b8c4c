//! Random conditions and requests, small enough to meet.

use super::naive::{Request, Spec};
use proptest::prelude::*;
use tiergate_core::request::Part;

fn alternatives(one: &'static str) -> BoxedStrategy<Vec<String>> {
    prop_oneof![4 => prop::collection::vec(one, 1..2), 1 => prop::collection::vec(one, 1..6)]
        .boxed()
}

/// Ranges within `0..=most`.
fn spans(most: u64) -> impl Strategy<Value = Vec<(u64, u64)>> {
    let span = (0..=most, 0..=most).prop_map(|(one, other)| (one.min(other), one.max(other)));
    prop::collection::vec(span, 1..4)
}

fn number() -> impl Strategy<Value = Spec> {
    prop_oneof![
        2 => spans(30).prop_map(|spans| Spec::Number(Part::ContentLength, spans)),
        2 => spans(7).prop_map(|spans| Spec::Number(Part::Urgency, spans)),
        1 => spans(3).prop_map(|spans| Spec::Number(Part::Listener, spans)),
        1 => spans(5).prop_map(|spans| Spec::Number(Part::Asn, spans)),
        1 => spans(63).prop_map(|spans| Spec::Number(Part::Dscp, spans)),
        1 => prop::collection::vec("[AB][AB]", 1..4).prop_map(Spec::Country),
    ]
}

const NETWORKS: &str =
    "10\\.[01]\\.0\\.0/(8|15|16|17)|0\\.0\\.0\\.0/0|10\\.[01]\\.128\\.1/32|::/0|fe8[01]::/(15|16)";

pub(super) fn spec() -> impl Strategy<Value = Spec> {
    prop_oneof![
        4 => alternatives("/[ab/]{0,3}[*?ab/]{0,4}")
            .prop_map(|texts| Spec::Path(texts.iter().map(|text| without_doubles(text)).collect())),
        2 => alternatives("(\\*\\.)?[ab](\\.[ab]){0,2}").prop_map(Spec::Host),
        2 => alternatives("GET|PUT|PUSH").prop_map(Spec::Method),
        2 => ("x-[ab]|[ab]|purpose", alternatives("[*?xy/]{0,4}|prefetch"))
            .prop_map(|(n, v)| Spec::Header(n, v)),
        2 => ("[abAB]{1,2}", alternatives("[*?xy]{0,3}")).prop_map(|(n, v)| Spec::Cookie(n, v)),
        2 => alternatives(NETWORKS).prop_map(Spec::Client),
        1 => alternatives("[ab]|[ab]{2}").prop_map(Spec::Extension),
        1 => alternatives("\\^?/?[ab]{1,2}[*+?]?[ab./]{0,2}(\\(a\\|b\\))?\\$?").prop_map(Spec::Regex),
        2 => ("[ab ]{1,2}", alternatives("[*?xy =&]{0,3}")).prop_map(|(n, v)| Spec::Query(n, v)),
        1 => alternatives("[ab]{1,2}/[*?ab]{1,2}|\\*").prop_map(Spec::ContentType),
        1 => Just(Spec::Prefetch),
        3 => number(),
        1 => alternatives(NETWORKS).prop_map(Spec::Destination),
        1 => alternatives("(\\*\\.)?[ab](\\.[ab]){0,2}").prop_map(Spec::Sni),
        1 => alternatives("[ab]{1,2}(\\.[ab]){0,2}").prop_map(Spec::Domain),
        1 => alternatives("[*?xy]{1,3}").prop_map(Spec::Certificate),
        1 => alternatives("[*?xy]{1,3}").prop_map(Spec::Subject),
    ]
}

/// Takes out what no normalised path has.
fn without_doubles(text: &str) -> String {
    let mut text = text.to_owned();
    while text.contains("//") {
        text = text.replace("//", "/");
    }
    text
}

const ADDRESSES: &str = "10\\.[012]\\.(0|128)\\.[01]|9\\.0\\.0\\.1|fe8[012]::1";

fn field() -> impl Strategy<Value = (String, String)> {
    let cookie = "[abAB]{1,2}(=[xy]{0,2})?(; ?[abAB]{1,2}=[xy]{0,2}){0,3}";
    prop_oneof![
        6 => ("[xX]-[abAB]|[abAB]", "[xy/]{0,4}"),
        2 => ("[Cc]ookie", cookie),
        1 => ("[Cc]ontent-[Tt]ype", " ?[abAB]{1,2}/[abAB]{1,2} ?(;[ab]=x)?|;|a"),
        1 => ("Content-Length", "[0-9]{1,2}|x|"),
        1 => ("[Pp]riority", "(i, ?)?u=[0-9](;x)?(, ?u=[0-9])?|i|u=a"),
        1 => ("Sec-Purpose|[Pp]urpose|X-Moz", "[Pp]refetch(;prerender)?|preview|x, prefetch"),
    ]
}

pub(super) fn request() -> impl Strategy<Value = Request> {
    let target =
        ("/[ab/.]{0,6}", "([ab+]{1,2}|%6[12]|%2)?(=[xy+&%]{0,3})?(&[ab%20]{1,4}=[xy]{0,2}){0,3}");
    let known = (
        0u16..4,
        ADDRESSES,
        "([abAB](\\.[ab]){0,3}\\.?)?",
        "([ab]{1,2}(\\.[ab]){0,3})?",
        prop_oneof![
            "[AB][AB]".prop_map(|code| [code.as_bytes()[0], code.as_bytes()[1]]),
            Just([0; 2])
        ],
        0u32..6,
        ("[xy]{0,3}", "[xy]{0,3}"),
        prop_oneof![0u8..64, Just(255)],
    );
    (
        "GET|PUT|PUSH|get",
        "[abAB](\\.[ab]){0,3}\\.?",
        target,
        prop::collection::vec(field(), 0..5),
        ADDRESSES,
        known,
    )
        .prop_map(|(method, host, (path, query), fields, client, known)| {
            let (listener, local, sni, client_name, country, asn, names, dscp) = known;
            Request {
                method,
                host,
                path: without_doubles(&path),
                query,
                fields,
                client: client.parse().unwrap(),
                listener,
                local: local.parse().unwrap(),
                sni,
                client_name,
                country,
                asn,
                certificate: names.0,
                subject: names.1,
                dscp,
            }
        })
}
