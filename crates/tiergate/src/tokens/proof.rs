//! What a key or token proved.

/// How a key or token was found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// It holds.
    Verified,
    /// It is unknown, malformed, not signed by us, or not meant for us.
    Rejected,
    /// It held once, or will.
    Untimely,
}

impl Proof {
    /// Every proof, in the order of their indices.
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
