//! Conditions between which lies what HAProxy asks: see [`super::acl`].

use super::super::draft::{From, quoted};

/// A condition that a rule can have.
#[derive(Clone, Debug)]
pub(super) struct Term {
    pub(super) key: String,
    /// As TOML; one is enough.
    pub(super) values: Vec<String>,
    /// The line of its ACL, which has no part in what it means.
    pub(super) from: Option<From>,
}

impl PartialEq for Term {
    fn eq(&self, other: &Self) -> bool {
        (&self.key, &self.values) == (&other.key, &other.values)
    }
}

impl Eq for Term {}

impl Term {
    pub(super) fn new(key: impl Into<String>, values: Vec<String>) -> Self {
        Term { key: key.into(), values, from: None }
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
    /// One of these values, as a condition that holds whenever HAProxy's does: without any, always.
    pub(super) fn wide(key: &str, values: Vec<String>) -> Self {
        Bound::of(key, values, true)
    }

    /// One of these values, as a condition that holds only when HAProxy's does: without any, never.
    pub(super) fn narrow(key: &str, values: Vec<String>) -> Self {
        Bound::of(key, values, false)
    }

    fn of(key: &str, values: Vec<String>, without: bool) -> Self {
        match values.is_empty() {
            true => Bound::Always(without),
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

    /// With the line of its ACL.
    pub(super) fn said_by(mut self, from: &From) -> Self {
        for bound in [&mut self.wide, &mut self.narrow] {
            if let Bound::Term(term) = bound {
                term.from = Some(from.clone());
            }
        }
        self
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
