//! What is wrong with something that a policy says.

use std::fmt;

/// What is wrong with something that a policy says, and what to write instead: one line for a person, who
/// is the only one to act on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(String);

impl Fault {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Fault(message.into())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Fault {}
