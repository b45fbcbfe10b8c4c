//! A shop by servlets in an embedded Jetty, with a pool of threads.

use super::place::Place;
use crate::process::{Running, find};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Where Debian keeps libraries of Java.
const LIBRARIES: &str = "/usr/share/java";
/// What of it an embedded Jetty with servlets needs.
const NEEDED: [&str; 8] = [
    "jetty9-server.jar",
    "jetty9-servlet.jar",
    "jetty9-security.jar",
    "jetty9-http.jar",
    "jetty9-io.jar",
    "jetty9-util.jar",
    "jetty9-util-ajax.jar",
    "servlet-api.jar",
];
/// Threads that Jetty itself needs: acceptor, selector, and one to go on.
const THREADS_MIN: u32 = 4;

/// How Jetty is set.
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Jetty {
    /// Threads of the pool, its own few included.
    pub(crate) threads: u32,
}

impl Default for Jetty {
    /// Bounded as usual for pages that compute; Jetty's own number is 200.
    fn default() -> Self {
        Self { threads: 32 }
    }
}

impl Jetty {
    /// Java with its compiler; an error says how to install it, or Jetty.
    pub(super) fn installed() -> Result<PathBuf> {
        let install = "run scripts/applications.sh";
        for library in NEEDED {
            let there = Path::new(LIBRARIES).join(library).exists();
            ensure!(there, "Jetty is not installed ({library} is missing); {install}");
        }
        ensure!(find("javac").is_some(), "Java has no compiler; {install}");
        find("java").with_context(|| format!("Java is not installed; {install}"))
    }

    /// Starts it with its shop, which Java compiles first.
    pub(super) async fn start(&self, place: &Place<'_>) -> Result<Vec<Running>> {
        ensure!(self.threads >= THREADS_MIN, "origin.threads: at least {THREADS_MIN}");
        let java = Self::installed()?;
        let file =
            place.write("Shop.java", include_str!("../../../origins/jetty/Shop.java"), &[])?;
        let path = NEEDED.map(|library| format!("{LIBRARIES}/{library}")).join(":");
        let listen = place.listen;
        let words = [listen.ip().to_string(), listen.port().to_string(), self.threads.to_string()];
        let program = place.program("Jetty", java).args(["-cp", &path]).args([file]).args(words);
        Ok(vec![place.start(program, listen).await?])
    }
}
