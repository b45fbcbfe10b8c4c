//! What both sides did, counted.

use crate::reason::Reason;

/// Of one class: requests that both sides are done with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassTally {
    /// Both let them through.
    pub both_admit: u64,
    /// Both refused them, if for other reasons.
    pub both_refuse: u64,
    /// The policy in force refused them; the observed one would have let them through.
    pub would_admit: u64,
    /// The policy in force let them through; the observed one would have refused them, by reason.
    pub would_refuse: [u64; Reason::COUNT],
    /// Their clients left before one of both had decided.
    pub left: u64,
}

impl ClassTally {
    /// All that the observed policy would have refused and the one in force let through.
    pub fn would_refuse_total(&self) -> u64 {
        self.would_refuse.iter().sum()
    }
}
