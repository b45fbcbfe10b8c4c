//! Classification: which class a request belongs to.

use crate::class::ClassId;
use std::time::Duration;

/// What classification says of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// The class.
    pub class: ClassId,
    /// Index of the first rule that matched; `None` if none did (the class is then the default).
    pub rule: Option<u32>,
    /// How long the request may wait, where the rule says; else its class's deadline.
    pub deadline: Option<Duration>,
    /// The rule says that such requests are always refused.
    pub refuse: bool,
}
