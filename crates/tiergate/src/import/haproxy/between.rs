//! Conditions between which lies what HAProxy asks: see [`super::acl`].

use super::super::draft::quoted;

/// A condition that a rule can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) key: String,
    /// As TOML; one is enough.
    pub(super) values: Vec<String>,
}

impl Term {
    pub(super) fn new(key: impl Into<String>, values: Vec<String>) -> Self {
        Term { key: key.into(), values }
    }

    pub(super) fn quoted(key: &str, values: &[impl AsRef<str>]) -> Self {
        Term::new(key, values.iter().map(|it| quoted(it.as_ref())).collect())
    }
}

/// A bound of what an ACL asks.
#[derive(Clone, Debug)]
pub(super) enum Bound {
    Always(bool),
    Term(Term),
}

impl Bound {
    /// One of these values; without any, never.
    pub(super) fn of(key: &str, values: Vec<String>) -> Self {
        match values.is_empty() {
            true => Bound::Always(false),
            false => Bound::Term(Term::new(key, values)),
        }
    }
}

/// What HAProxy asks lies between two bounds.
#[derive(Clone, Debug)]
pub(super) struct Between {
    /// Holds whenever HAProxy's does.
    pub(super) wide: Bound,
    /// Holds only when HAProxy's does, but for `open`.
    pub(super) narrow: Bound,
    /// Why they are not the same.
    pub(super) why: Option<String>,
    /// When `narrow` holds although HAProxy's does not: less safe where it counts.
    pub(super) open: Option<&'static str>,
}

impl Between {
    pub(super) fn exact(term: Term) -> Self {
        Between {
            wide: Bound::Term(term.clone()),
            narrow: Bound::Term(term),
            why: None,
            open: None,
        }
    }

    pub(super) fn always(always: bool) -> Self {
        let bound = Bound::Always(always);
        Between { wide: bound.clone(), narrow: bound, why: None, open: None }
    }

    /// What no rule can ask.
    pub(super) fn unknown(why: impl Into<String>) -> Self {
        let (wide, narrow) = (Bound::Always(true), Bound::Always(false));
        Between { wide, narrow, why: Some(why.into()), open: None }
    }
}
