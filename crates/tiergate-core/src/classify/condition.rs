//! Conditions of rules: a part of the request, and what it must look like.

use super::matcher::Matcher;
use super::pattern::Pattern;
use crate::request::{Part, RequestView};

/// A part of the request must be matched by one of several alternatives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Condition {
    part: Part,
    any_of: Vec<Matcher>,
}

impl Condition {
    /// A condition on a part. Without an alternative it never holds; neither does a matcher of another
    /// kind than the part's values (a range of a text).
    pub fn new<M: Into<Matcher>>(part: Part, any_of: impl IntoIterator<Item = M>) -> Self {
        let part = match part {
            Part::Header(name) => Part::Header(name.to_ascii_lowercase().into()),
            part => part,
        };
        let any_of = any_of.into_iter().map(|matcher| matcher.into().canonical()).collect();
        Condition { part, any_of }
    }

    /// What it looks at.
    pub fn part(&self) -> &Part {
        &self.part
    }

    /// What the part may be.
    pub fn any_of(&self) -> &[Matcher] {
        &self.any_of
    }

    /// The names, in lower case, of the header fields that it looks at; `cookie` is not among them.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        let named = match &self.part {
            Part::Header(name) => Some(&**name),
            _ => None,
        };
        named.into_iter().chain(self.part.fields().iter().copied())
    }

    /// Whether the request has what the condition asks for, found out by looking at each alternative.
    pub fn holds(&self, view: &RequestView<'_>) -> bool {
        let mut holds = false;
        self.part.each(view, |value| {
            holds |= self.any_of.iter().any(|matcher| matcher.matches(value));
        });
        holds
    }

    /// Whether the condition asks for nothing: every request has a path.
    pub fn is_always_true(&self) -> bool {
        self.part == Part::Path && self.any_of.contains(&Matcher::Pattern(Pattern::Any))
    }

    /// Whether `self` holds whenever `other` does. Says no when in doubt.
    pub(super) fn covers(&self, other: &Condition) -> bool {
        let covered = |theirs: &Matcher| self.any_of.iter().any(|mine| mine.covers(theirs));
        self.part == other.part && other.any_of.iter().all(covered)
    }
}
