//! The server that an experiment protects: what its file says of it, and how it is started.

use super::surge;
use crate::origin::{self, app};
use crate::process::{Program, Running, find, output};
use crate::units;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::env::current_exe;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where Debian keeps Apache's modules.
const APACHE_MODULES: &str = "/usr/lib/apache2/modules";
/// Processes of an Apache at most: each is some megabytes and a place in its scoreboard.
const APACHE_WORKERS_MAX: u32 = 2000;
/// Longest time that the C compiler may take for one page.
const COMPILE_PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of Apache's static page: the average of DiffServer's (Rao and Ramamurthy 2001, 4.1).
const PAGE_BYTES: usize = 6401;

/// A server, by an experiment's `[origin]`.
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Server {
    /// `tiergate-lab origin`: of known capacity.
    Workers(origin::Settings),
    /// `tiergate-lab app`: pages that use the machine.
    App(app::Settings),
    /// Apache with a process for each request: static files and `/cgi-bin/page`.
    Apache(Apache),
    /// nginx with one worker: static files.
    Nginx(Nginx),
}

/// How Apache is set.
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Apache {
    /// `MaxRequestWorkers`: processes, and so connections served at once.
    pub(crate) workers: u32,
    /// How long an idle connection is kept, and its process with it; 0: closed after a request.
    #[serde(with = "units::text")]
    pub(crate) keep_alive: Duration,
    /// Static files.
    pub(crate) files: u32,
    /// Their seed.
    pub(crate) seed: u64,
}

impl Default for Apache {
    /// The papers' number of processes, Apache's own time, about 65 MB of files.
    fn default() -> Self {
        Self { workers: 32, keep_alive: Duration::from_secs(5), files: 1000, seed: 1 }
    }
}

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

impl Server {
    /// Starts it and waits until it listens.
    pub(crate) async fn start(&self, place: &Place<'_>) -> Result<Started> {
        let dir = place.scratch.join("origin");
        std::fs::create_dir_all(&dir)?;
        let files = dir.join("files");
        let ours = |words| anyhow::Ok(Program::new("the origin", current_exe()?).args(words));
        let (program, paths) = match self {
            Self::Workers(settings) => {
                settings.check()?;
                let settings = origin::Settings { listen: place.listen, ..settings.clone() };
                (ours(settings.args())?, Vec::new())
            }
            Self::App(settings) => {
                settings.check()?;
                let settings = app::Settings { listen: place.listen, ..settings.clone() };
                (ours(settings.args())?, Vec::new())
            }
            Self::Apache(apache) => {
                let paths = surge::write(&files, apache.files, apache.seed)?;
                std::fs::write(files.join("page.html"), "x".repeat(PAGE_BYTES))?;
                compile_page(&dir.join("cgi-bin")).await?;
                let file = dir.join("apache.conf");
                std::fs::write(&file, apache.configuration(place.listen, &dir, &files)?)?;
                let path = find("apache2").context("apache2 is not installed")?;
                let program = Program::new("Apache", path).args([Path::new("-f"), &file]);
                (program.args(["-D", "FOREGROUND"]), paths)
            }
            Self::Nginx(nginx) => {
                let paths = surge::write(&files, nginx.files, nginx.seed)?;
                let file = dir.join("nginx.conf");
                std::fs::write(&file, nginx_configuration(place.listen, &dir, &files))?;
                let path = find("nginx").context("nginx is not installed")?;
                // Errors before the configuration is read go here instead of to /var/log.
                let program = Program::new("nginx", path).args(["-e", "stderr", "-c"]);
                (program.args([file]), paths)
            }
        };
        let log = dir.join("log");
        let program = program.namespace(place.namespace).processors(place.processors);
        let mut running = program.start(&log)?;
        running.ready(place.listen).await?;
        Ok(Started { running, log, paths })
    }

    /// Requests a second that it can serve; `None`: must be measured.
    pub(crate) fn capacity(&self) -> Option<f64> {
        match self {
            Self::Workers(settings) if settings.routes.is_empty() => Some(settings.capacity()),
            _ => None,
        }
    }

    /// Whether it needs a processor rather than time.
    pub(crate) fn computes(&self) -> bool {
        !matches!(self, Self::Workers(settings) if settings.kind == origin::Kind::Io)
    }

    /// Requests that it serves at once: what an operator would configure in a gateway.
    pub(crate) fn slots(&self) -> u32 {
        let workers = |workers: usize| u32::try_from(workers).unwrap_or(u32::MAX);
        match self {
            Self::Workers(settings) => workers(settings.workers),
            Self::App(settings) => workers(settings.workers),
            Self::Apache(apache) => apache.workers,
            Self::Nginx(nginx) => nginx.slots,
        }
    }
}

/// A server under way; ended when dropped.
pub(crate) struct Started {
    running: Running,
    log: PathBuf,
    /// Static files, the most popular first; empty if it has none.
    pub(crate) paths: Vec<String>,
}

/// What became of the requests, by the origin's own account.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Requests whose client got the answer.
    pub(crate) served: u64,
    /// Requests that were served although their client had left.
    pub(crate) wasted: u64,
}

impl Started {
    /// Why it is no longer there; `None` while it runs.
    pub(crate) fn ended(&mut self) -> Option<String> {
        self.running.ended()
    }

    /// Ends it, and returns what it says that it did; `None`: a server that does not tell.
    pub(crate) fn stop(mut self) -> Option<Counts> {
        self.running.stop();
        counts_in(&std::fs::read_to_string(&self.log).ok()?)
    }
}

/// What an origin of ours prints last.
fn counts_in(said: &str) -> Option<Counts> {
    serde_json::from_str(said.lines().last()?).ok()
}

impl Apache {
    fn configuration(&self, listen: SocketAddr, dir: &Path, files: &Path) -> Result<String> {
        let workers = self.workers;
        let fine = (1..=APACHE_WORKERS_MAX).contains(&workers);
        ensure!(fine, "origin.workers: Apache has 1 to {APACHE_WORKERS_MAX}, not {workers}");
        let kept = if self.keep_alive.is_zero() { "Off" } else { "On" };
        Ok(include_str!("../../../origins/apache.conf")
            .replace("@LISTEN@", &listen.to_string())
            .replace("@DIR@", &dir.display().to_string())
            .replace("@FILES@", &files.display().to_string())
            .replace("@MODULES@", APACHE_MODULES)
            .replace("@WORKERS@", &workers.to_string())
            .replace("@KEEP_ALIVE@", kept)
            .replace("@KEEP_ALIVE_MS@", &self.keep_alive.as_millis().to_string()))
    }
}

fn nginx_configuration(listen: SocketAddr, dir: &Path, files: &Path) -> String {
    include_str!("../../../origins/nginx.conf")
        .replace("@LISTEN@", &listen.to_string())
        .replace("@DIR@", &dir.display().to_string())
        .replace("@FILES@", &files.display().to_string())
}

/// Makes the CGI program `page` in that directory.
async fn compile_page(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir)?;
    let source = dir.with_file_name("page.c");
    std::fs::write(&source, include_str!("../../../origins/page.c"))?;
    let cc = find("cc").context("cc is not installed; run scripts/setup.sh")?;
    let program = Program::new("the C compiler", cc)
        .args(["-O2", "-Wall", "-Werror", "-o"])
        .args([&dir.join("page"), &source]);
    output(program, COMPILE_PATIENCE).await?;
    Ok(())
}

#[cfg(test)]
mod tests;
