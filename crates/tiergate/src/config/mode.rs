//! `mode`: whether a part of a policy is in force.

use super::kind::Choice;

/// Whether a part of a policy is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Enforce,
    Observe,
}

pub(super) const MODE: Choice<Mode> =
    Choice(&[("enforce", Mode::Enforce), ("observe", Mode::Observe)]);

impl Mode {
    pub(super) fn is_observe(self) -> bool {
        self == Mode::Observe
    }
}
