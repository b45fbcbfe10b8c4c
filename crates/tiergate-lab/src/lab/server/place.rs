//! Where a server runs, and what starting one there takes.

use crate::process::{Program, Running};
use anyhow::{Context, Result};
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Where a server runs.
pub(crate) struct Place<'a> {
    /// A directory that is removed in the end ([`crate::process::scratch`]).
    pub(crate) scratch: &'a Path,
    /// Where it listens.
    pub(crate) listen: SocketAddr,
    /// Its network namespace; `None`: ours.
    pub(crate) namespace: Option<&'a str>,
    /// Its processors, in the words of `taskset`; `None`: all.
    pub(crate) processors: Option<&'a str>,
}

impl Place<'_> {
    /// The server's own directory.
    pub(super) fn dir(&self) -> PathBuf {
        self.scratch.join("origin")
    }

    /// What its programs print.
    pub(super) fn log(&self) -> PathBuf {
        self.dir().join("log")
    }

    /// A program by path, on the server's machine.
    pub(super) fn program(&self, name: &str, path: impl AsRef<OsStr>) -> Program {
        Program::new(name, path).namespace(self.namespace).processors(self.processors)
    }

    /// Starts a program and waits until it listens on that address.
    pub(super) async fn start(&self, program: Program, listen: SocketAddr) -> Result<Running> {
        let mut running = program.start(&self.log())?;
        running.ready(listen).await?;
        Ok(running)
    }

    /// Writes a file of the server, with each `@NAME@` of `values` filled in, `@LISTEN@` and `@DIR@` besides.
    pub(super) fn write(
        &self,
        name: &str,
        template: &str,
        values: &[(&str, String)],
    ) -> Result<PathBuf> {
        let file = self.dir().join(name);
        std::fs::write(&file, self.filled(template, values))
            .with_context(|| format!("cannot write {}", file.display()))?;
        Ok(file)
    }

    /// The template with its values.
    pub(super) fn filled(&self, template: &str, values: &[(&str, String)]) -> String {
        let common =
            [("LISTEN", self.listen.to_string()), ("DIR", self.dir().display().to_string())];
        let fill = |text: String, (name, value): &(&str, String)| {
            text.replace(&format!("@{name}@"), value)
        };
        values.iter().chain(&common).fold(template.to_owned(), fill)
    }
}
