//! What a copy is for a request.

use super::answer::Terms;
use super::asked::{Asked, Credentials};
use crate::admit::connections::Level;
use std::time::Duration;

/// What a copy that is at hand may be served instead of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// There is none that the request may get.
    #[default]
    None,
    /// A wait or a refusal.
    Both,
    /// A refusal only: the request waits, because it is the one that brings a new copy, or because its client takes no copy of this age.
    Refusal,
}

/// A copy that is kept.
#[derive(Clone, Copy, Debug)]
pub struct Held<'a> {
    /// Its terms.
    pub terms: &'a Terms,
    /// For how long it has been kept.
    pub kept: Duration,
    /// How old a copy may be by the policy.
    pub age_max: Duration,
}

impl Held<'_> {
    /// The age, as `Age` says it.
    pub fn age(&self) -> Duration {
        self.terms.age.saturating_add(self.kept)
    }

    /// The age at which it is too old.
    fn end(&self) -> Duration {
        self.age_max.min(self.terms.age_max)
    }

    /// For how long it may still be served.
    pub fn left(&self) -> Duration {
        self.end().saturating_sub(self.age())
    }
}

/// Whether the request may get the copy at all.
pub fn is_usable(asked: &Asked, copy: &Held<'_>) -> bool {
    let is_for_it = asked.credentials == Credentials::None || copy.terms.public;
    is_for_it && copy.age() <= copy.end()
}

/// What the copy is for the request. `begin_refresh` is called where the copy wants to be replaced soon, half of its time being over; it says whether
/// this request is to do that, and nobody else does.
///
/// One request a copy stays in the queue for that. Without any, all copies of a lasting overload would be too old at once,
/// and what they held back would come as a herd; with all, there would be no relief.
pub fn role(asked: &Asked, copy: &Held<'_>, begin_refresh: impl FnOnce() -> bool) -> Role {
    if !is_usable(asked, copy) {
        Role::None
    } else if asked.age_max.is_some_and(|most| copy.age() > most)
        || copy.age() >= copy.end() / 2 && can_refresh(asked) && begin_refresh()
    {
        Role::Refusal
    } else {
        Role::Both
    }
}

/// Whether the request's answer may replace a copy, as far as the request says.
fn can_refresh(asked: &Asked) -> bool {
    asked.keeps && !asked.is_conditional
}

/// Whether a request of this importance (0 the most) is to replace a copy, though `other` is on its way to do that. A more important one takes
/// it over: it waits for less long.
pub fn takes_over(own: Level, other: Option<Level>) -> bool {
    other.is_none_or(|other| own < other)
}
