//! A file that a policy names and that is read with it.

use std::path::PathBuf;

/// A file that a policy names and that is read with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedFile {
    /// The file.
    pub path: PathBuf,
    /// The key that names it, such as `key[1].secret_file`.
    pub key: String,
    /// Where in the policy's text, in bytes.
    pub at: usize,
}
