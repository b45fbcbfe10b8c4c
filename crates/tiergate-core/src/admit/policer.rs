//! Policers: who has had its share of the request rate.

/// A policer, by its place in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicerId(pub u16);
