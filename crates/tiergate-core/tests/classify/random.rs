//! Random conditions and requests, small enough to meet.

use super::naive::{Request, Spec};
use proptest::prelude::*;

fn alternatives(one: &'static str) -> BoxedStrategy<Vec<String>> {
    prop_oneof![4 => prop::collection::vec(one, 1..2), 1 => prop::collection::vec(one, 1..6)]
        .boxed()
}

pub(super) fn spec() -> impl Strategy<Value = Spec> {
    prop_oneof![
        4 => alternatives("/[ab/]{0,3}[*?ab/]{0,4}")
            .prop_map(|texts| Spec::Path(texts.iter().map(|text| without_doubles(text)).collect())),
        2 => alternatives("(\\*\\.)?[ab](\\.[ab]){0,2}").prop_map(Spec::Host),
        2 => alternatives("GET|PUT|PUSH").prop_map(Spec::Method),
        2 => ("x-[ab]|[ab]", alternatives("[*?xy/]{0,4}")).prop_map(|(n, v)| Spec::Header(n, v)),
        2 => ("[abAB]{1,2}", alternatives("[*?xy]{0,3}")).prop_map(|(n, v)| Spec::Cookie(n, v)),
        2 => alternatives("10\\.[01]\\.0\\.0/(8|15|16|17)|0\\.0\\.0\\.0/0|10\\.[01]\\.128\\.1/32|::/0|fe8[01]::/(15|16)")
            .prop_map(Spec::Client),
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

pub(super) fn request() -> impl Strategy<Value = Request> {
    let cookie = "[abAB]{1,2}(=[xy]{0,2})?(; ?[abAB]{1,2}=[xy]{0,2}){0,3}";
    let field = prop_oneof![
        3 => ("[xX]-[abAB]|[abAB]", "[xy/]{0,4}"),
        1 => ("[Cc]ookie", cookie),
    ];
    (
        "GET|PUT|PUSH|get",
        "[abAB](\\.[ab]){0,3}\\.?",
        "/[ab/]{0,6}",
        prop::collection::vec(field, 0..5),
        "10\\.[012]\\.(0|128)\\.[01]|9\\.0\\.0\\.1|fe8[012]::1",
    )
        .prop_map(|(method, host, path, fields, client)| Request {
            method,
            host,
            path: without_doubles(&path),
            fields,
            client: client.parse().unwrap(),
        })
}
