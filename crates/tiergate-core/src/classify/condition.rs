//! Conditions of rules: what a request must look like.

use super::cookie;
use super::head::{self, MediaType};
use super::networks::canonical;
use super::numbers::Span;
use super::pattern::{HostPattern, Pattern};
use super::regexes::PathRegex;
use crate::request::RequestView;
use ipnet::IpNet;

/// The fields in which clients say that they fetch ahead of need.
pub(super) const PURPOSES: [&[u8]; 3] = [b"sec-purpose", b"purpose", b"x-moz"];

/// One thing that must hold; of the alternatives in each list, one is enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The normalised path.
    Path(Vec<Pattern>),
    /// The host, without port.
    Host(Vec<HostPattern>),
    /// The method; case matters (RFC 9110 §9.1).
    Method(Vec<Box<str>>),
    /// A header field of this name (case does not matter) has such a value. With several fields of
    /// the name, one is enough; a field's value is taken whole, not split at commas.
    Header {
        /// The field's name.
        name: Box<str>,
        /// What its value may be; [`Pattern::Any`] for any.
        values: Vec<Pattern>,
    },
    /// A cookie of this name (case matters) has such a value. With several of the name, one is enough.
    Cookie {
        /// The cookie's name.
        name: Box<str>,
        /// What its value may be; [`Pattern::Any`] for any.
        values: Vec<Pattern>,
    },
    /// The client's address lies in a network; IPv4 written as IPv6 counts as IPv4.
    Client(Vec<IpNet>),
    /// The extension of the path's last segment, in lower case; case does not matter.
    Extension(Vec<Box<str>>),
    /// The normalised path, by expressions.
    PathRegex(Vec<PathRegex>),
    /// A parameter of the query of this name (case matters) has such a value, both decoded. With several
    /// of the name, one is enough.
    Query {
        /// The parameter's name.
        name: Box<str>,
        /// What its value may be; [`Pattern::Any`] for any.
        values: Vec<Pattern>,
    },
    /// The media type of the body, without parameters, in lower case.
    ContentType(Vec<Pattern>),
    /// The client fetches ahead of need: `Sec-Purpose`, `Purpose` or `X-Moz` says `prefetch`.
    Prefetch,
    /// A number lies in a range. What is not known lies in none.
    Number {
        /// Which number.
        of: Number,
        /// What it may be.
        spans: Vec<Span>,
    },
    /// The address that the client connected to lies in a network.
    Destination(Vec<IpNet>),
    /// The server name that the client asked for in its TLS handshake.
    Sni(Vec<HostPattern>),
    /// The client's verified name.
    Domain(Vec<HostPattern>),
    /// The name in the client's verified certificate. Without one, nothing matches, not even
    /// [`Pattern::Any`].
    Certificate(Vec<Pattern>),
    /// The verified subject. Without one, nothing matches, not even [`Pattern::Any`].
    Subject(Vec<Pattern>),
}

/// A number that a request has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Number {
    /// Bytes of the body by `Content-Length`; a body of unknown length has none.
    ContentLength,
    /// The urgency of RFC 9218: 0 the most urgent, 7 the least; 3 for requests that do not say.
    Urgency,
    /// The listener's place in the policy.
    Listener,
    /// The client's country, as [`Number::country`] makes it.
    Country,
    /// The client's autonomous system.
    Asn,
    /// The code point of the client's packets.
    Dscp,
}

impl Number {
    /// A country as a number.
    pub fn country(code: [u8; 2]) -> u64 {
        u16::from_be_bytes(code).into()
    }

    /// The country of such a number.
    pub fn country_code(number: u64) -> [u8; 2] {
        (number as u16).to_be_bytes()
    }

    /// What the request has; `None`: not known.
    pub fn of(self, view: &RequestView<'_>) -> Option<u64> {
        match self {
            Number::ContentLength => view.values(b"content-length").find_map(head::content_length),
            Number::Urgency => {
                let said = view.values(b"priority").filter_map(head::urgency).last();
                Some(said.unwrap_or(head::URGENCY_DEFAULT).into())
            }
            Number::Listener => Some(view.listener.into()),
            Number::Country => (view.country != [0; 2]).then(|| Self::country(view.country)),
            Number::Asn => (view.asn != 0).then_some(view.asn.into()),
            Number::Dscp => (view.dscp != RequestView::DSCP_UNKNOWN).then_some(view.dscp.into()),
        }
    }
}

impl Condition {
    /// Whether the request has what the condition asks for.
    pub fn holds(&self, view: &RequestView<'_>) -> bool {
        let matches =
            |values: &[Pattern], text: &[u8]| values.iter().any(|value| value.matches(text));
        match self {
            Condition::Path(patterns) => matches(patterns, view.path),
            Condition::Host(patterns) => patterns.iter().any(|host| host.matches(view.host)),
            Condition::Method(methods) => {
                methods.iter().any(|method| method.as_bytes() == view.method)
            }
            Condition::Header { name, values } => {
                view.values(name.as_bytes()).any(|value| matches(values, value))
            }
            Condition::Cookie { name, values } => view
                .values(b"cookie")
                .flat_map(cookie::pairs)
                .any(|(found, value)| found == name.as_bytes() && matches(values, value)),
            Condition::Client(networks) => {
                let client = view.client.to_canonical();
                networks.iter().any(|network| canonical(*network).contains(&client))
            }
            Condition::Extension(extensions) => head::extension(view.path).is_some_and(|found| {
                extensions.iter().any(|wanted| found.eq_ignore_ascii_case(wanted.as_bytes()))
            }),
            Condition::PathRegex(regexes) => regexes.iter().any(|regex| regex.matches(view.path)),
            Condition::Query { name, values } => {
                let mut holds = false;
                head::parameters(view.query, &mut Vec::new(), |found, value| {
                    holds |= found == name.as_bytes() && matches(values, value);
                });
                holds
            }
            Condition::ContentType(types) => view
                .values(b"content-type")
                .filter_map(MediaType::of)
                .any(|media| matches(types, media.as_bytes())),
            Condition::Prefetch => {
                PURPOSES.iter().any(|name| view.values(name).any(head::is_prefetch))
            }
            Condition::Number { of, spans } => {
                of.of(view).is_some_and(|number| spans.iter().any(|span| span.contains(number)))
            }
            Condition::Destination(networks) => {
                let local = view.local.to_canonical();
                networks.iter().any(|network| canonical(*network).contains(&local))
            }
            Condition::Sni(hosts) => {
                !view.sni.is_empty() && hosts.iter().any(|host| host.matches(view.sni))
            }
            Condition::Domain(domains) => {
                let name = view.client_name;
                !name.is_empty() && domains.iter().any(|domain| domain.matches(name))
            }
            Condition::Certificate(names) => {
                !view.certificate.is_empty() && matches(names, view.certificate)
            }
            Condition::Subject(names) => !view.subject.is_empty() && matches(names, view.subject),
        }
    }

    /// Whether the condition asks for nothing.
    pub(super) fn is_always_true(&self) -> bool {
        matches!(self, Condition::Path(patterns) if patterns.contains(&Pattern::Any))
    }

    /// How many alternatives there are.
    pub(super) fn alternatives(&self) -> usize {
        match self {
            Condition::Path(patterns) => patterns.len(),
            Condition::Host(hosts) => hosts.len(),
            Condition::Method(methods) => methods.len(),
            Condition::Header { values, .. } | Condition::Cookie { values, .. } => values.len(),
            Condition::Client(networks) | Condition::Destination(networks) => networks.len(),
            Condition::Extension(extensions) => extensions.len(),
            Condition::PathRegex(regexes) => regexes.len(),
            Condition::Query { values, .. } => values.len(),
            Condition::ContentType(patterns)
            | Condition::Certificate(patterns)
            | Condition::Subject(patterns) => patterns.len(),
            Condition::Prefetch => 1,
            Condition::Number { spans, .. } => spans.len(),
            Condition::Sni(hosts) | Condition::Domain(hosts) => hosts.len(),
        }
    }

    /// Whether `self` holds whenever `other` does. Says no when in doubt.
    pub(super) fn covers(&self, other: &Condition) -> bool {
        /// Whether each of `some` is inside one of `all`.
        fn each<T>(all: &[T], some: &[T], covers: impl Fn(&T, &T) -> bool) -> bool {
            some.iter().all(|inner| all.iter().any(|outer| covers(outer, inner)))
        }
        match (self, other) {
            (Condition::Path(all), Condition::Path(some)) => each(all, some, Pattern::covers),
            (Condition::Host(all), Condition::Host(some)) => each(all, some, HostPattern::covers),
            (Condition::Method(all), Condition::Method(some)) => each(all, some, |a, b| a == b),
            (
                Condition::Header { name, values: all },
                Condition::Header { name: other, values: some },
            ) => name.eq_ignore_ascii_case(other) && each(all, some, Pattern::covers),
            (
                Condition::Cookie { name, values: all },
                Condition::Cookie { name: other, values: some },
            ) => name == other && each(all, some, Pattern::covers),
            (Condition::Client(all), Condition::Client(some))
            | (Condition::Destination(all), Condition::Destination(some)) => {
                each(all, some, |a, b| canonical(*a).contains(&canonical(*b)))
            }
            (Condition::Extension(all), Condition::Extension(some)) => {
                each(all, some, |a, b| a.eq_ignore_ascii_case(b))
            }
            (Condition::PathRegex(all), Condition::PathRegex(some)) => {
                each(all, some, |a, b| a == b)
            }
            (
                Condition::Query { name, values: all },
                Condition::Query { name: other, values: some },
            ) => name == other && each(all, some, Pattern::covers),
            (Condition::ContentType(all), Condition::ContentType(some))
            | (Condition::Certificate(all), Condition::Certificate(some))
            | (Condition::Subject(all), Condition::Subject(some)) => {
                each(all, some, Pattern::covers)
            }
            (Condition::Prefetch, Condition::Prefetch) => true,
            (
                Condition::Number { of, spans: all },
                Condition::Number { of: other, spans: some },
            ) => of == other && each(all, some, |a, b| a.covers(*b)),
            (Condition::Sni(all), Condition::Sni(some))
            | (Condition::Domain(all), Condition::Domain(some)) => {
                each(all, some, HostPattern::covers)
            }
            _ => false,
        }
    }
}
