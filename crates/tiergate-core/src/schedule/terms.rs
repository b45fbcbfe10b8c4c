//! What a plan says of each child, and what its requests are said to cost.

/// What a request is said to cost the origin, for shares by weight and turns of flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Costing {
    /// Every request costs the same.
    Requests,
    /// The time that it holds its slots: by what requests of its rule took, put right when it is known.
    #[default]
    Seconds,
    /// The bytes of its answer, likewise.
    Bytes,
}

/// What the plan says of one child.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// Part of the slots that it is sure of under [`Policy::Strict`], 0.0 to 1.0.
    pub minimum: f64,
    /// Its part of the work, relative to the others', under [`Policy::Weighted`]. More than 0.
    pub weight: f64,
    /// Its part of the slots under [`Policy::Shared`] and [`Policy::Fixed`], 0.0 to 1.0.
    pub share: f64,
    /// What of its share is never lent under [`Policy::Shared`], 0.0 to `share`.
    pub reserve: f64,
}
