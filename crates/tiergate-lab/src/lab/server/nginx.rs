//! nginx with one worker and static files.

use super::place::Place;
use crate::lab::surge;
use crate::process::{Running, find};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// How nginx is set.
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Nginx {
    /// How many requests at once an operator would let through to it; nginx itself has no such
    /// number.
    pub(crate) slots: u32,
    /// Static files.
    pub(crate) files: u32,
    /// Their seed.
    pub(crate) seed: u64,
}

impl Default for Nginx {
    /// Enough to fill a link while files are sent, about 65 MB of files.
    fn default() -> Self {
        Self { slots: 64, files: 1000, seed: 1 }
    }
}

impl Nginx {
    /// Starts it, and returns it with its static files, the most popular first.
    pub(super) async fn start(&self, place: &Place<'_>) -> Result<(Vec<Running>, Vec<String>)> {
        let files = place.dir().join("files");
        let paths = surge::write(&files, self.files, self.seed)?;
        let file = place.dir().join("nginx.conf");
        std::fs::write(&file, configuration(place, &files))?;
        Ok((vec![run(place, &file).await?], paths))
    }
}

/// Starts nginx with that configuration.
pub(super) async fn run(place: &Place<'_>, file: &Path) -> Result<Running> {
    let path = find("nginx").context("nginx is not installed")?;
    // Errors before the configuration is read go here instead of to /var/log.
    let program = place.program("nginx", path).args(["-e", "stderr", "-c"]).args([file]);
    place.start(program, place.listen).await
}

pub(super) fn configuration(place: &Place<'_>, files: &Path) -> String {
    let values = [("FILES", files.display().to_string())];
    place.filled(include_str!("../../../origins/nginx.conf"), &values)
}
