//! `tiergate completions` and `tiergate man`: from the declarations that the command line is read by.

use super::stdout::print;
use anyhow::Context;
use clap::Command;
use clap_complete::Shell;
use std::path::Path;

/// Prints a script that completes the command line in that shell.
///
/// # Errors
/// Standard output cannot be written.
pub(super) fn completions(mut of: Command, shell: Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut of, "tiergate", &mut script);
    print(String::from_utf8(script))
}

/// Writes the manual pages into a directory, one for each command; or prints that of the whole.
///
/// # Errors
/// They cannot be written.
pub(super) fn man(of: Command, directory: Option<&Path>) -> anyhow::Result<()> {
    let Some(directory) = directory else {
        let mut page = Vec::new();
        clap_mangen::Man::new(of).render(&mut page)?;
        return print(String::from_utf8(page));
    };
    clap_mangen::generate_to(of, directory)
        .with_context(|| format!("cannot write to {}", directory.display()))
}
