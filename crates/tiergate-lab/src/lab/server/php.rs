//! A shop by PHP-FPM behind nginx: a process for each request.

use super::nginx;
use super::place::Place;
use crate::process::{Running, versioned};
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Who PHP's processes are if who starts them is root.
const USER: &str =
    "user = www-data\ngroup = www-data\nlisten.owner = www-data\nlisten.group = www-data";
/// How long PHP-FPM may take to begin.
const READY_PATIENCE: Duration = Duration::from_secs(30);

/// How PHP-FPM is set.
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Php {
    /// `pm.max_children`: processes, and so requests served at once.
    pub(crate) children: u32,
}

impl Default for Php {
    /// About 15 MB each.
    fn default() -> Self {
        Self { children: 16 }
    }
}

impl Php {
    /// PHP-FPM's program; an error says how to install it.
    pub(super) fn installed() -> Result<PathBuf> {
        versioned("/usr/sbin", "php-fpm", "")
            .context("PHP-FPM is not installed; run scripts/applications.sh")
    }

    /// Starts nginx and PHP-FPM with the shop.
    pub(super) async fn start(&self, place: &Place<'_>) -> Result<Vec<Running>> {
        ensure!(self.children >= 1, "origin.children: at least 1");
        place.write("shop.php", include_str!("../../../origins/php/shop.php"), &[])?;
        let is_root = rustix::process::geteuid().is_root();
        let user = if is_root { USER } else { "" }.to_owned();
        let values = [("CHILDREN", self.children.to_string()), ("USER", user)];
        let template = include_str!("../../../origins/php/php-fpm.conf");
        let file = place.write("php-fpm.conf", template, &values)?;
        let program = place.program("PHP-FPM", Self::installed()?).args(["-F", "-y"]).args([file]);
        let mut fpm = program.start(&place.log())?;
        exists(&place.dir().join("php-fpm.sock"), &mut fpm).await?;
        let template = include_str!("../../../origins/php/nginx.conf");
        let file = place.write("nginx.conf", template, &[])?;
        Ok(vec![nginx::run(place, &file).await?, fpm])
    }
}

/// Waits until the program has made its socket.
async fn exists(socket: &Path, of: &mut Running) -> Result<()> {
    let begun = Instant::now();
    while !socket.exists() {
        if let Some(why) = of.ended() {
            bail!("{why}");
        }
        ensure!(begun.elapsed() < READY_PATIENCE, "PHP-FPM makes no {}", socket.display());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
