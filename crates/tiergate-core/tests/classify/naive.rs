//! An interpreter of rules that shares no code with the compiled classifier.

use ipnet::IpNet;
use regex_automata::meta::Regex;
use std::net::IpAddr;
use tiergate_core::classify::pattern::{HostPattern, Pattern};
use tiergate_core::classify::{Condition, Matcher, PathRegex, Span};
use tiergate_core::request::{Field, Part, RequestView};

/// A condition as its text.
#[derive(Clone, Debug)]
pub(super) enum Spec {
    Path(Vec<String>),
    Host(Vec<String>),
    Method(Vec<String>),
    Header(String, Vec<String>),
    Cookie(String, Vec<String>),
    Client(Vec<String>),
    Extension(Vec<String>),
    Regex(Vec<String>),
    Query(String, Vec<String>),
    ContentType(Vec<String>),
    Prefetch,
    Country(Vec<String>),
    Number(Part, Vec<(u64, u64)>),
    Destination(Vec<String>),
    Sni(Vec<String>),
    Domain(Vec<String>),
    Certificate(Vec<String>),
    Subject(Vec<String>),
}

#[derive(Clone, Debug)]
pub(super) struct Request {
    pub method: String,
    pub host: String,
    pub path: String,
    pub query: String,
    pub fields: Vec<(String, String)>,
    pub client: IpAddr,
    pub listener: u16,
    pub local: IpAddr,
    pub sni: String,
    pub client_name: String,
    pub country: [u8; 2],
    pub asn: u32,
    pub certificate: String,
    pub subject: String,
    pub dscp: u8,
}

impl Request {
    pub(super) fn get(path: &str) -> Self {
        let nowhere = "192.0.2.1".parse().unwrap();
        Request {
            method: "GET".into(),
            host: "a".into(),
            path: path.into(),
            query: String::new(),
            fields: Vec::new(),
            client: nowhere,
            listener: 0,
            local: nowhere,
            sni: String::new(),
            client_name: String::new(),
            country: [0; 2],
            asn: 0,
            certificate: String::new(),
            subject: String::new(),
            dscp: 255,
        }
    }

    /// The values of all fields of a name.
    fn values<'r>(&'r self, name: &'r str) -> impl Iterator<Item = &'r str> {
        let fields = self.fields.iter().filter(move |(found, _)| found.to_lowercase() == name);
        fields.map(|(_, value)| value.as_str())
    }
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

fn value(patterns: &[String], text: &str) -> bool {
    patterns.iter().any(|pattern| wild(pattern.as_bytes(), text.as_bytes(), None))
}

fn host(patterns: &[String], host: &str) -> bool {
    let host = host.to_lowercase();
    let host = host.strip_suffix('.').unwrap_or(&host);
    patterns.iter().any(|pattern| match pattern.strip_prefix('*') {
        Some(end) => host.ends_with(end),
        None => host == pattern,
    })
}

/// Decodes by going through the characters, with what is left of the text after each.
fn decoded(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let code = rest.get(1..3).filter(|code| code.chars().all(|c| c.is_ascii_hexdigit()));
        match (first, code) {
            ('%', Some(code)) => {
                out.push(u8::from_str_radix(code, 16).unwrap().into());
                rest = &rest[3..];
            }
            _ => {
                out.push(if first == '+' { ' ' } else { first });
                rest = &rest[1..];
            }
        }
    }
    out
}

fn number(part: &Part, request: &Request) -> Option<u64> {
    match part {
        Part::ContentLength => {
            request.values("content-length").find_map(|value| value.parse().ok())
        }
        Part::Urgency => {
            let joined = request.values("priority").collect::<Vec<_>>().join(",");
            let mut urgency = joined.split(',').filter_map(|member| {
                member.split(';').next()?.trim().strip_prefix("u=")?.parse::<u64>().ok()
            });
            Some(urgency.rfind(|urgency| *urgency < 8).unwrap_or(3))
        }
        Part::Listener => Some(request.listener.into()),
        Part::Asn => Some(request.asn.into()).filter(|asn| *asn > 0),
        Part::Dscp => Some(request.dscp.into()).filter(|dscp| *dscp < 64),
        other => panic!("{other:?} is no number"),
    }
}

pub(super) fn holds(spec: &Spec, request: &Request) -> bool {
    let within = |networks: &[String], address: &IpAddr| {
        networks.iter().any(|network| network.parse::<IpNet>().unwrap().contains(address))
    };
    match spec {
        Spec::Path(patterns) => patterns
            .iter()
            .any(|pattern| wild(pattern.as_bytes(), request.path.as_bytes(), Some(b'/'))),
        Spec::Host(patterns) => host(patterns, &request.host),
        Spec::Method(methods) => methods.contains(&request.method),
        Spec::Header(name, patterns) => request
            .fields
            .iter()
            .any(|(found, text)| found.to_lowercase() == *name && value(patterns, text)),
        Spec::Cookie(name, patterns) => request
            .values("cookie")
            .flat_map(|text| text.split(';'))
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .any(|(found, text)| found.trim() == name && value(patterns, text.trim())),
        Spec::Client(networks) => within(networks, &request.client),
        Spec::Extension(extensions) => {
            let segment = request.path.rsplit('/').next().unwrap();
            let found = segment.rsplit_once('.').filter(|(before, _)| !before.is_empty());
            found.is_some_and(|(_, found)| extensions.contains(&found.to_lowercase()))
        }
        Spec::Regex(texts) => {
            texts.iter().any(|text| Regex::new(text).unwrap().is_match(&request.path))
        }
        Spec::Query(name, patterns) => request
            .query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .any(|(found, text)| decoded(found) == *name && value(patterns, &decoded(text))),
        Spec::ContentType(patterns) => request.values("content-type").any(|text| {
            let media = text.split(';').next().unwrap().trim().to_lowercase();
            !media.is_empty() && value(patterns, &media)
        }),
        Spec::Prefetch => ["sec-purpose", "purpose", "x-moz"].iter().any(|name| {
            request.values(name).any(|text| {
                text.split([';', ',']).next().unwrap().trim().to_lowercase() == "prefetch"
            })
        }),
        Spec::Country(codes) => codes.iter().any(|code| code.as_bytes() == request.country),
        Spec::Number(of, spans) => number(of, request)
            .is_some_and(|number| spans.iter().any(|(from, to)| (*from..=*to).contains(&number))),
        Spec::Destination(networks) => within(networks, &request.local),
        Spec::Sni(patterns) => !request.sni.is_empty() && host(patterns, &request.sni),
        Spec::Domain(domains) => domains.iter().any(|domain| {
            let name = &request.client_name;
            name == domain || name.ends_with(&format!(".{domain}"))
        }),
        Spec::Certificate(patterns) => {
            !request.certificate.is_empty() && value(patterns, &request.certificate)
        }
        Spec::Subject(patterns) => !request.subject.is_empty() && value(patterns, &request.subject),
    }
}

pub(super) fn compiled(spec: &Spec) -> Condition {
    fn each<T>(texts: &[String], of: impl Fn(&str) -> T) -> Vec<T> {
        texts.iter().map(|text| of(text)).collect()
    }
    fn on<M: Into<Matcher>>(part: Part, texts: &[String], of: impl Fn(&str) -> M) -> Condition {
        Condition::new(part, each(texts, of))
    }
    let value = |text: &str| Pattern::value(text).unwrap();
    let host = |text: &str| HostPattern::parse(text).unwrap();
    let network = |text: &str| text.parse::<IpNet>().unwrap();
    let exact = |text: &str| Matcher::Exact(text.into());
    match spec {
        Spec::Path(texts) => on(Part::Path, texts, |text| Pattern::path(text).unwrap()),
        Spec::Host(texts) => on(Part::Host, texts, host),
        Spec::Method(texts) => on(Part::Method, texts, exact),
        Spec::Header(name, texts) => on(Part::Header(name.as_str().into()), texts, value),
        Spec::Cookie(name, texts) => on(Part::Cookie(name.as_str().into()), texts, value),
        Spec::Client(texts) => on(Part::Client, texts, network),
        Spec::Extension(texts) => on(Part::Extension, texts, |text| Matcher::Caseless(text.into())),
        Spec::Regex(texts) => on(Part::Path, texts, |text| PathRegex::parse(text).unwrap()),
        Spec::Query(name, texts) => on(Part::Query(name.as_str().into()), texts, value),
        Spec::ContentType(texts) => on(Part::ContentType, texts, value),
        Spec::Prefetch => Condition::new(Part::Prefetch, [Pattern::Any]),
        Spec::Country(texts) => on(Part::Country, texts, exact),
        Spec::Number(of, spans) => {
            let span = |(first, last): &(u64, u64)| Span { first: *first, last: *last };
            Condition::new(of.clone(), spans.iter().map(span))
        }
        Spec::Destination(texts) => on(Part::Destination, texts, network),
        Spec::Sni(texts) => on(Part::Sni, texts, host),
        Spec::Domain(texts) => {
            on(Part::ClientName, texts, |text| HostPattern::domain(text).unwrap())
        }
        Spec::Certificate(texts) => on(Part::Certificate, texts, value),
        Spec::Subject(texts) => on(Part::Subject, texts, value),
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
        query: request.query.as_bytes(),
        fields: &fields,
        client: request.client,
        listener: request.listener,
        local: request.local,
        sni: request.sni.as_bytes(),
        client_name: request.client_name.as_bytes(),
        country: request.country,
        asn: request.asn,
        certificate: request.certificate.as_bytes(),
        subject: request.subject.as_bytes(),
        dscp: request.dscp,
    })
}
