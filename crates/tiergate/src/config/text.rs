//! Texts of files, of a bounded length.

use super::error::{ConfigError, Errors, Spot};
use crate::files::{self, Streams};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::string::FromUtf8Error;

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
    let mut bytes = Vec::new();
    // One byte more than allowed tells a file that is too long from one that just fits.
    from.take(len_max + 1).read_to_end(&mut bytes).map_err(fault)?;
    if bytes.len() as u64 > len_max {
        return Err(ConfigError::TooLarge(PathBuf::from(path), len_max));
    }
    String::from_utf8(bytes).map_err(|fault| not_utf8(path, &fault))
}

/// What is said of a file that is no text in UTF-8, with the place where it is none.
fn not_utf8(path: &Path, fault: &FromUtf8Error) -> ConfigError {
    let (before, rest) = fault.as_bytes().split_at(fault.utf8_error().valid_up_to());
    let before = String::from_utf8_lossy(before);
    let last = before.rsplit('\n').next().unwrap_or_default();
    let file = path.to_string_lossy();
    let spot = Spot {
        file: file.as_ref().into(),
        line: before.matches('\n').count() + 1,
        column: last.chars().count() + 1,
        key: String::new(),
    };
    let byte = rest.first().copied().unwrap_or_default();
    let message =
        format!("must be text in UTF-8, got the byte 0x{byte:02X}; save the file in UTF-8");
    ConfigError::Faults(Errors {
        file: file.into_owned(),
        faults: vec![spot.fault(message)],
        more: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_told_with_its_place() {
        for (bytes, expected) in [
            (
                &b"a = 1\nb = \"caf\xe9\"\n"[..],
                "p.toml:2:9: must be text in UTF-8, got the byte 0xE9",
            ),
            ("ä = 1 # \u{fffd}".as_bytes(), ""),
            (
                b"\xff\xfea\0",
                "p.toml:1:1: must be text in UTF-8, got the byte 0xFF; save the file in UTF-8",
            ),
        ] {
            let read = read_all(bytes, Path::new("p.toml"), 100);
            let said = read.err().map(|it| it.to_string()).unwrap_or_default();
            assert!(said.starts_with(expected) && said.is_empty() == expected.is_empty(), "{said}");
        }
    }
}
