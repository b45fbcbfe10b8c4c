//! Texts of files, of a bounded length.

use super::error::ConfigError;
use crate::files::{self, Streams};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Longest file that is read as a policy: some hundred thousand rules.
pub(crate) const FILE_LEN_MAX: u64 = 32 << 20;

/// The text of a file of at most `len_max` bytes.
///
/// # Errors
/// When it cannot be read or is longer.
pub(crate) fn read_text(path: &Path, len_max: u64) -> Result<String, ConfigError> {
    read_all(opened(path)?, path, len_max)
}

/// The text of such a file, with U+FFFD for what is not UTF-8.
///
/// # Errors
/// As [`read_text`], but for bytes that are not UTF-8.
pub(crate) fn read_text_lossily(path: &Path, len_max: u64) -> Result<String, ConfigError> {
    let fault = |cause| ConfigError::Read(path.to_owned(), cause);
    let mut bytes = Vec::new();
    opened(path)?.take(len_max + 1).read_to_end(&mut bytes).map_err(fault)?;
    match bytes.len() as u64 > len_max {
        true => Err(ConfigError::TooLarge(PathBuf::from(path), len_max)),
        false => Ok(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

/// The file, unless it is a pipe that has a name.
fn opened(path: &Path) -> Result<File, ConfigError> {
    let fault = |cause| ConfigError::Read(path.to_owned(), cause);
    files::open(path, Streams::Taken).map_err(fault)
}

/// The text of what comes from there.
pub(super) fn read_all(from: impl Read, path: &Path, len_max: u64) -> Result<String, ConfigError> {
    let fault = |cause| ConfigError::Read(path.to_owned(), cause);
    let mut text = String::new();
    // One byte more than allowed tells a file that is too long from one that just fits.
    from.take(len_max + 1).read_to_string(&mut text).map_err(fault)?;
    match text.len() as u64 > len_max {
        true => Err(ConfigError::TooLarge(PathBuf::from(path), len_max)),
        false => Ok(text),
    }
}
