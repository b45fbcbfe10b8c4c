//! `tiergate import`: policies from the configuration files of other systems.

use crate::config::FILE_LEN_MAX;
use crate::import::options_conf;
use anyhow::Context as _;
use std::io::Read as _;
use std::path::Path;

/// Where the paper's Apache listens.
pub const ORIGIN: &str = "127.0.0.1:8080";

/// Reads DiffServer's options.conf and returns the policy that means the same.
///
/// # Errors
/// When the file cannot be read, is too large, or has lines that mean nothing: all of them.
pub fn options_conf(path: &Path, origin: &str) -> anyhow::Result<String> {
    let name = path.to_string_lossy();
    let mut text = String::new();
    let file = std::fs::File::open(path).with_context(|| format!("{name}: cannot be read"))?;
    // One byte more than allowed tells a file that is too long from one that just fits.
    let file = file.take(FILE_LEN_MAX + 1).read_to_string(&mut text);
    file.with_context(|| format!("{name}: cannot be read"))?;
    anyhow::ensure!(
        text.len() as u64 <= FILE_LEN_MAX,
        "{name}: must have at most {FILE_LEN_MAX} bytes"
    );
    let policy = options_conf::policy(&text, &name, origin)?;
    // What is written is what would be read: an origin that is no server is told now.
    crate::config::parse(&policy, &format!("the policy of {name}"))?;
    Ok(policy)
}
