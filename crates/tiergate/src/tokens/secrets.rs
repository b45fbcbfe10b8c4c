//! Files of secrets: read once, line by line, and forgotten.

use crate::config::meant::NamedFile;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;

/// Longest file of secrets: some hundred thousand keys.
const FILE_LEN_MAX: u64 = 64 << 20;

/// The text of a file of secrets. Warns if everybody may read it.
///
/// # Errors
/// What to do about it.
pub(super) fn read(named: &NamedFile, warnings: &mut Vec<String>) -> Result<String, String> {
    let shown = named.path.display();
    let fault = |cause: std::io::Error| format!("{shown} cannot be read: {cause}");
    let file = std::fs::File::open(&named.path).map_err(fault)?;
    let about = file.metadata().map_err(fault)?;
    if about.permissions().mode() & 0o004 != 0 {
        warnings.push(format!("everybody may read {shown}: chmod o-r"));
    }
    let mut text = String::new();
    // The kind of the error alone: its text might show what is not UTF-8.
    file.take(FILE_LEN_MAX + 1).read_to_string(&mut text).map_err(|cause| match cause.kind() {
        std::io::ErrorKind::InvalidData => format!("{shown} must be UTF-8 text"),
        _ => fault(cause),
    })?;
    if text.len() as u64 > FILE_LEN_MAX {
        return Err(format!("{shown} must have at most {FILE_LEN_MAX} bytes"));
    }
    Ok(text)
}

/// The lines that say something, each with its number from 1: neither empty nor begun by `#`.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}
