//! A Python shop under gunicorn: processes with threads.

use super::place::Place;
use crate::process::{Running, find};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// How gunicorn is set.
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Gunicorn {
    /// Processes.
    pub(crate) workers: u32,
    /// Threads of each.
    pub(crate) threads: u32,
}

impl Default for Gunicorn {
    /// Two processes on one processor, with eight threads each.
    fn default() -> Self {
        Self { workers: 2, threads: 8 }
    }
}

impl Gunicorn {
    /// Its program; an error says how to install it.
    pub(super) fn installed() -> Result<PathBuf> {
        find("gunicorn").context("gunicorn is not installed; run scripts/applications.sh")
    }

    /// Requests that it works on at once.
    pub(super) fn slots(&self) -> u32 {
        self.workers * self.threads
    }

    /// Starts it with its shop.
    pub(super) async fn start(&self, place: &Place<'_>) -> Result<Vec<Running>> {
        let shop = include_str!("../../../origins/gunicorn/shop.py");
        Ok(vec![self.run(place, shop, None).await?])
    }

    /// Starts it with a shop, which is told something in its environment (`NAME=value`).
    pub(crate) async fn run(
        &self,
        place: &Place<'_>,
        shop: &str,
        told: Option<&str>,
    ) -> Result<Running> {
        place.write("shop.py", shop, &[])?;
        let told = told.map_or(String::new(), |told| format!("{told:?}"));
        let values = [
            ("WORKERS", self.workers.to_string()),
            ("THREADS", self.threads.to_string()),
            ("TOLD", told),
        ];
        let template = include_str!("../../../origins/gunicorn/gunicorn.conf.py");
        let file = place.write("gunicorn.conf.py", template, &values)?;
        let program = place.program("gunicorn", Self::installed()?);
        place.start(program.args(["-c".as_ref(), file.as_os_str()]), place.listen).await
    }
}
