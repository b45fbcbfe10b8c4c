//! Why there is no TLS configuration.

use std::fmt::{self, Display};
use std::path::Path;

/// Why there is no TLS configuration, and what to do about it.
#[derive(Debug)]
pub struct TlsError(String);

impl TlsError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        TlsError(message.into())
    }

    /// What is wrong with a file.
    pub(super) fn of(file: &Path, what: impl Display) -> Self {
        TlsError(format!("{}: {what}", file.display()))
    }
}

impl Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TlsError {}
