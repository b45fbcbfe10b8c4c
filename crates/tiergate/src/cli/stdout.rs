//! Standard output.

use crate::visible;

/// Prints words about names that others gave, as a terminal can bear them.
pub(super) fn print_words<E: Into<anyhow::Error>>(text: Result<String, E>) -> anyhow::Result<()> {
    print(text.map(|text| visible::lines(&text).into_owned()))
}

/// Prints a text; it is no fault that its reader has gone (`tiergate check | head`).
pub(super) fn print<E: Into<anyhow::Error>>(text: Result<String, E>) -> anyhow::Result<()> {
    use std::io::Write;
    match std::io::stdout().write_all(text.map_err(Into::into)?.as_bytes()) {
        Err(fault) if fault.kind() != std::io::ErrorKind::BrokenPipe => Err(fault.into()),
        _ => Ok(()),
    }
}
