//! Whether a key or token holds.

/// The result of checking a key or token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// It is valid.
    Verified,
    /// It is unknown, malformed, not signed by a known secret, or for another audience.
    Rejected,
    /// It has expired, or is not valid yet.
    Untimely,
}

impl Proof {
    /// Every result, in the order of their indices.
    pub const ALL: [Proof; 3] = [Proof::Verified, Proof::Rejected, Proof::Untimely];

    /// The name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Proof::Verified => "verified",
            Proof::Rejected => "rejected",
            Proof::Untimely => "untimely",
        }
    }
}
