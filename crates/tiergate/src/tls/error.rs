//! Why there is no TLS configuration.

use std::fmt::Display;
use std::path::Path;

/// Why there is no TLS configuration, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(String);

impl TlsError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        TlsError(message.into())
    }

    /// What is wrong with a file.
    pub(super) fn of(file: &Path, what: impl Display) -> Self {
        TlsError(format!("{}: {what}", file.display()))
    }
}
