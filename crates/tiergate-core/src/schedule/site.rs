//! Sites: groups of classes.

use super::{Policy, Terms};
use crate::adapt::Guarantee;

/// A group of classes that is served as one, such as one of several hosts behind one gateway.
///
/// Shares and minimums of its classes are of its part of the slots: of its own share where capacity is
/// shared or fixed between sites, of its part by weight where that decides, else of all.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// The name in the policy, in logs and in metrics.
    pub name: String,
    /// Which of its classes is served next.
    pub policy: Policy,
    /// As of a class, among the sites: [`crate::class::Class::minimum`].
    pub minimum: f64,
    /// As of a class, among the sites: [`crate::class::Class::weight`].
    pub weight: f64,
    /// As of a class, among the sites: [`crate::class::Class::share`].
    pub share: f64,
    /// As of a class, among the sites: [`crate::class::Class::reserve`].
    pub reserve: f64,
    /// What it can rely on where an adaptation says what requests cost; `None`: nothing.
    pub guarantee: Option<Guarantee>,
}

impl Site {
    /// A site with every default.
    pub fn named(name: impl Into<String>) -> Self {
        let policy = Policy::default();
        Site {
            name: name.into(),
            policy,
            minimum: 0.0,
            weight: 1.0,
            share: 0.0,
            reserve: 0.0,
            guarantee: None,
        }
    }

    /// What the plan says of it among sites.
    pub fn terms(&self) -> Terms {
        let Site { minimum, weight, share, reserve, .. } = *self;
        Terms { minimum, weight, share, reserve }
    }
}
