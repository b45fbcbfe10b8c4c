//! A shop by Go's net/http: a goroutine for each request.

use super::place::Place;
use crate::process::{Program, Running, find, output};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest time that the compiler may take: the first time it compiles the standard library too.
const BUILD_PATIENCE: Duration = Duration::from_secs(240);

/// How the Go program is set: not at all.
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Go {
    /// How many requests at once an operator would let through to it; net/http itself has no such number.
    pub(crate) slots: u32,
}

impl Default for Go {
    /// A few: its pages only compute, on one processor.
    fn default() -> Self {
        Self { slots: 8 }
    }
}

impl Go {
    /// The compiler; an error says how to install it.
    pub(super) fn installed() -> Result<PathBuf> {
        find("go")
            .or_else(|| find("/usr/local/go/bin/go"))
            .context("Go is not installed; run scripts/applications.sh")
    }

    /// Compiles the shop and starts it.
    pub(super) async fn start(&self, place: &Place<'_>) -> Result<Vec<Running>> {
        let source = place.write("shop.go", include_str!("../../../origins/go/shop.go"), &[])?;
        let shop = place.dir().join("shop");
        build(&Self::installed()?, &shop, &source).await?;
        let program = place.program("the Go program", shop).args([place.listen.to_string()]);
        Ok(vec![place.start(program, place.listen).await?])
    }
}

/// Compiles one file without modules of others.
async fn build(go: &Path, into: &Path, source: &Path) -> Result<()> {
    let words = ["build", "-o"].map(OsStr::new);
    let program = Program::new("the Go compiler", go).args(words).args([into, source]);
    output(program, BUILD_PATIENCE).await?;
    Ok(())
}
