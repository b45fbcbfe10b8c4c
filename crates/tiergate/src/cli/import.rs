//! `tiergate import`: policies from the configuration files of other systems.

use crate::config::{FILE_LEN_MAX, read_text};
use crate::import::options_conf;
use std::path::Path;

/// Where the paper's Apache listens.
pub const ORIGIN: &str = "127.0.0.1:8080";

/// Reads DiffServer's options.conf and returns the policy that means the same.
///
/// # Errors
/// When the file cannot be read, is too large, or has lines that mean nothing: all of them.
pub fn options_conf(path: &Path, origin: &str) -> anyhow::Result<String> {
    let (name, text) = (path.to_string_lossy(), read_text(path, FILE_LEN_MAX)?);
    let policy = options_conf::policy(&text, &name, origin)?;
    // What is written is what would be read: an origin that is no server is told now.
    crate::config::parse(&policy, &format!("the policy of {name}"))?;
    Ok(policy)
}
