//! An interpreter of rules that shares no code with the compiled classifier.

use ipnet::IpNet;
use std::net::IpAddr;
use tiergate_core::classify::pattern::{HostPattern, Pattern};
use tiergate_core::classify::rule::Condition;
use tiergate_core::request::{Field, RequestView};

/// A condition as its text.
#[derive(Clone, Debug)]
pub(super) enum Spec {
    Path(Vec<String>),
    Host(Vec<String>),
    Method(Vec<String>),
    Header(String, Vec<String>),
    Cookie(String, Vec<String>),
    Client(Vec<String>),
}

#[derive(Clone, Debug)]
pub(super) struct Request {
    pub method: String,
    pub host: String,
    pub path: String,
    pub fields: Vec<(String, String)>,
    pub client: IpAddr,
}

/// Matches by trying everything, as the definition of each wildcard says. Exponential; texts are short.
fn wild(pattern: &[u8], text: &[u8], separator: Option<u8>) -> bool {
    let no_separator = |bytes: &[u8]| !bytes.iter().any(|byte| Some(*byte) == separator);
    match pattern {
        [] => text.is_empty(),
        // Two stars, or one that ends a pattern, cross separators.
        [b'*', b'*', rest @ ..] => (0..=text.len()).any(|skip| {
            let rest = if rest.first() == Some(&b'*') { &pattern[1..] } else { rest };
            wild(rest, &text[skip..], separator)
        }),
        [b'*'] => true,
        [b'*', rest @ ..] => (0..=text.len())
            .any(|skip| no_separator(&text[..skip]) && wild(rest, &text[skip..], separator)),
        [b'?', rest @ ..] => {
            !text.is_empty() && no_separator(&text[..1]) && wild(rest, &text[1..], separator)
        }
        [byte, rest @ ..] => text.first() == Some(byte) && wild(rest, &text[1..], separator),
    }
}

pub(super) fn holds(spec: &Spec, request: &Request) -> bool {
    let value = |patterns: &[String], text: &str| {
        patterns.iter().any(|pattern| wild(pattern.as_bytes(), text.as_bytes(), None))
    };
    match spec {
        Spec::Path(patterns) => patterns
            .iter()
            .any(|pattern| wild(pattern.as_bytes(), request.path.as_bytes(), Some(b'/'))),
        Spec::Host(patterns) => {
            let host = request.host.to_lowercase();
            let host = host.strip_suffix('.').unwrap_or(&host);
            patterns.iter().any(|pattern| match pattern.strip_prefix('*') {
                Some(end) => host.ends_with(end),
                None => host == pattern,
            })
        }
        Spec::Method(methods) => methods.contains(&request.method),
        Spec::Header(name, patterns) => request
            .fields
            .iter()
            .any(|(found, text)| found.to_lowercase() == *name && value(patterns, text)),
        Spec::Cookie(name, patterns) => request
            .fields
            .iter()
            .filter(|(found, _)| found.to_lowercase() == "cookie")
            .flat_map(|(_, text)| text.split(';'))
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .any(|(found, text)| found.trim() == name && value(patterns, text.trim())),
        Spec::Client(networks) => networks
            .iter()
            .any(|network| network.parse::<IpNet>().unwrap().contains(&request.client)),
    }
}

pub(super) fn compiled(spec: &Spec) -> Condition {
    let values =
        |texts: &[String]| texts.iter().map(|text| Pattern::value(text).unwrap()).collect();
    match spec {
        Spec::Path(texts) => {
            Condition::Path(texts.iter().map(|text| Pattern::path(text).unwrap()).collect())
        }
        Spec::Host(texts) => {
            Condition::Host(texts.iter().map(|text| HostPattern::parse(text).unwrap()).collect())
        }
        Spec::Method(texts) => {
            Condition::Method(texts.iter().map(|text| text.as_str().into()).collect())
        }
        Spec::Header(name, texts) => {
            Condition::Header { name: name.as_str().into(), values: values(texts) }
        }
        Spec::Cookie(name, texts) => {
            Condition::Cookie { name: name.as_str().into(), values: values(texts) }
        }
        Spec::Client(texts) => {
            Condition::Client(texts.iter().map(|text| text.parse().unwrap()).collect())
        }
    }
}

/// Runs `check` on the view of a request.
pub(super) fn with_view<R>(request: &Request, check: impl FnOnce(&RequestView<'_>) -> R) -> R {
    let fields: Vec<Field<'_>> = request
        .fields
        .iter()
        .map(|(name, value)| Field { name: name.as_bytes(), value: value.as_bytes() })
        .collect();
    check(&RequestView {
        method: request.method.as_bytes(),
        host: request.host.as_bytes(),
        path: request.path.as_bytes(),
        fields: &fields,
        client: request.client,
        ..RequestView::EMPTY
    })
}
