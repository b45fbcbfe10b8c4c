//! How a condition matches a part of a request: one alternative, whatever the part.

use super::networks::canonical;
use super::numbers::Span;
use super::pattern::{HostPattern, Pattern};
use super::regexes::PathRegex;
use crate::request::Value;
use ipnet::IpNet;
use std::fmt;

/// One thing that a part of a request may be. Every kind has its own index
/// ([`Index`](super::index::Index)).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Matcher {
    /// Exactly this text; case matters.
    Exact(Box<str>),
    /// This text in any case.
    Caseless(Box<str>),
    /// A text with wildcards; [`Pattern::Any`] asks only that there is one.
    Pattern(Pattern),
    /// A host, or all hosts of a domain.
    Host(HostPattern),
    /// A text in which an expression is found.
    Regex(PathRegex),
    /// An address in a network.
    Network(IpNet),
    /// A number in a range.
    Range(Span),
}

impl Matcher {
    /// The form in which equal matchers are equal: networks without host bits, names in lower case.
    pub(super) fn canonical(self) -> Self {
        match self {
            Matcher::Caseless(text) => Matcher::Caseless(text.to_ascii_lowercase().into()),
            Matcher::Network(network) => Matcher::Network(canonical(network)),
            matcher => matcher,
        }
    }

    /// Whether a value matches; one of another kind does not.
    pub fn matches(&self, value: Value<'_>) -> bool {
        match (self, value) {
            (Matcher::Exact(one), Value::Text(text)) => one.as_bytes() == text,
            (Matcher::Caseless(one), Value::Text(text)) => {
                text.eq_ignore_ascii_case(one.as_bytes())
            }
            (Matcher::Pattern(pattern), Value::Text(text)) => pattern.matches(text),
            (Matcher::Host(host), Value::Text(text)) => host.matches(text),
            (Matcher::Regex(regex), Value::Text(text)) => regex.matches(text),
            (Matcher::Network(network), Value::Address(address)) => {
                network.contains(&address.to_canonical())
            }
            (Matcher::Range(range), Value::Number(number)) => range.contains(number),
            _ => false,
        }
    }

    /// Whether everything that `other` matches is surely matched by `self`. Says no when in doubt.
    pub(super) fn covers(&self, other: &Matcher) -> bool {
        match (self, other) {
            (Matcher::Pattern(all), Matcher::Pattern(some)) => all.covers(some),
            (Matcher::Host(all), Matcher::Host(some)) => all.covers(some),
            (Matcher::Network(all), Matcher::Network(some)) => all.contains(some),
            (Matcher::Range(all), Matcher::Range(some)) => all.covers(*some),
            _ => self == other,
        }
    }
}

impl fmt::Display for Matcher {
    /// As it would be written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Matcher::Exact(text) | Matcher::Caseless(text) => f.write_str(text),
            Matcher::Pattern(pattern) => pattern.fmt(f),
            Matcher::Host(host) => host.fmt(f),
            Matcher::Regex(regex) => regex.fmt(f),
            Matcher::Network(network) => network.fmt(f),
            Matcher::Range(range) => range.fmt(f),
        }
    }
}

/// Makes matchers of what they hold.
macro_rules! from {
    ($( $Inner:ty => $Kind:ident, )*) => {
        $( impl From<$Inner> for Matcher {
            fn from(inner: $Inner) -> Self {
                Matcher::$Kind(inner)
            }
        } )*
    };
}

from! {
    Pattern => Pattern,
    HostPattern => Host,
    PathRegex => Regex,
    IpNet => Network,
    Span => Range,
}
