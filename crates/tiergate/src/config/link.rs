//! `[link]`: what answers leave by.

use super::section::{Kind, section};
use super::values::whole;

section! {
    /// The link that answers leave by, which background classes use only where it is idle.
    pub(super) struct LinkKeys {
        /// How many bits a second it carries, headers included: of the narrowest part of the way that all clients share.
        capacity: Option<u64> = whole(100_000..=1_000_000_000_000).required("write capacity = 100_000_000, for 100 Mbit/s");
    }
}

/// For `tiergate check`.
pub(crate) fn words(capacity: u64) -> String {
    format!("carries {} Mbit/s", capacity as f64 / 1e6)
}
