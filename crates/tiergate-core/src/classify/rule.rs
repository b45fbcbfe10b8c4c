//! Rules: what a request must look like, and what becomes of it then.

use super::cookie;
use super::networks::canonical;
use super::pattern::{HostPattern, Pattern};
use crate::admit::policer::PolicerId;
use crate::class::ClassId;
use crate::request::RequestView;
use ipnet::IpNet;
use std::time::Duration;

/// All of the conditions must hold; then the rest says what becomes of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What must hold. None at all: the rule matches every request.
    pub conditions: Vec<Condition>,
    /// The class; `None`: the default class (a rule that refuses is counted there).
    pub class: Option<ClassId>,
    /// How long the request may wait; `None`: its class's deadline.
    pub deadline: Option<Duration>,
    /// Whether such requests are always refused.
    pub refuse: bool,
    /// The policer that they come under.
    pub policer: Option<PolicerId>,
}

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
}

impl Rule {
    /// Whether every condition holds, found out by looking at each: for explanations, and the
    /// compiled form's measure.
    pub fn matches(&self, view: &RequestView<'_>) -> bool {
        self.conditions.iter().all(|condition| condition.holds(view))
    }

    /// Whether every request that `other` matches is surely matched by `self`. Says no when in doubt.
    pub fn covers(&self, other: &Rule) -> bool {
        let covered = |mine: &Condition| {
            mine.is_always_true() || other.conditions.iter().any(|theirs| mine.covers(theirs))
        };
        self.conditions.iter().all(covered)
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
            Condition::Client(networks) => networks.len(),
        }
    }

    /// Whether `self` holds whenever `other` does. Says no when in doubt.
    fn covers(&self, other: &Condition) -> bool {
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
            (Condition::Client(all), Condition::Client(some)) => {
                each(all, some, |a, b| canonical(*a).contains(&canonical(*b)))
            }
            _ => false,
        }
    }
}
