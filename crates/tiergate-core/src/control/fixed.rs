//! The fixed limit: a number of slots that the policy names.

use super::law::Law;

/// Always the same number of slots, at least 1.
#[derive(Debug)]
pub(super) struct Fixed(pub(super) u32);

impl Law for Fixed {
    fn slots(&self) -> u32 {
        self.0.max(1)
    }
}
