//! The server that an experiment protects: what its file says of it, and how it is started.

mod apache;
mod go;
mod gunicorn;
mod jetty;
mod nginx;
mod node;
mod php;
mod place;
mod postgres;

pub(crate) use apache::Apache;
pub(crate) use go::Go;
pub(crate) use gunicorn::Gunicorn;
pub(crate) use jetty::Jetty;
pub(crate) use nginx::Nginx;
pub(crate) use node::Node;
pub(crate) use php::Php;
pub(crate) use place::Place;
pub(crate) use postgres::Postgres;

use crate::origin::{self, app};
use crate::process::Running;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::env::current_exe;
use std::path::PathBuf;

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
    /// A shop in Python: gunicorn with processes and threads.
    Gunicorn(Gunicorn),
    /// A shop in JavaScript: Node with one event loop.
    Node(Node),
    /// A shop in Go: net/http, a goroutine for each request.
    Go(Go),
    /// A shop in Java: Jetty with a pool of threads.
    Jetty(Jetty),
    /// A shop in PHP: PHP-FPM behind nginx, a process for each request.
    Php(Php),
    /// A shop in Python that queries PostgreSQL.
    Postgres(Postgres),
}

impl Server {
    /// Whether its programs are there; an error says which is not, and how to install it.
    pub(crate) fn installed(&self) -> Result<()> {
        match self {
            Self::Workers(_) | Self::App(_) | Self::Apache(_) | Self::Nginx(_) => return Ok(()),
            Self::Gunicorn(_) => Gunicorn::installed(),
            Self::Node(_) => Node::installed(),
            Self::Go(_) => Go::installed(),
            Self::Jetty(_) => Jetty::installed(),
            Self::Php(_) => Php::installed(),
            Self::Postgres(_) => Postgres::installed(),
        }
        .map(|_| ())
    }

    /// Starts it and waits until it listens.
    pub(crate) async fn start(&self, place: &Place<'_>) -> Result<Started> {
        std::fs::create_dir_all(place.dir())?;
        let none = Vec::new();
        let (running, paths) = match self {
            Self::Workers(settings) => {
                settings.check()?;
                let settings = origin::Settings { listen: place.listen, ..settings.clone() };
                (vec![ours(settings.args(), place).await?], none)
            }
            Self::App(settings) => {
                settings.check()?;
                let settings = app::Settings { listen: place.listen, ..settings.clone() };
                (vec![ours(settings.args(), place).await?], none)
            }
            Self::Apache(apache) => apache.start(place).await?,
            Self::Nginx(nginx) => nginx.start(place).await?,
            Self::Gunicorn(gunicorn) => (gunicorn.start(place).await?, none),
            Self::Node(node) => (node.start(place).await?, none),
            Self::Go(go) => (go.start(place).await?, none),
            Self::Jetty(jetty) => (jetty.start(place).await?, none),
            Self::Php(php) => (php.start(place).await?, none),
            Self::Postgres(postgres) => (postgres.start(place).await?, none),
        };
        Ok(Started { running, log: place.log(), paths })
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
            Self::Gunicorn(gunicorn) => gunicorn.slots(),
            Self::Node(node) => node.slots,
            Self::Go(go) => go.slots,
            Self::Jetty(jetty) => jetty.threads,
            Self::Php(php) => php.children,
            Self::Postgres(postgres) => postgres.slots(),
        }
    }
}

/// Starts this program as an origin.
async fn ours(words: Vec<String>, place: &Place<'_>) -> Result<Running> {
    let program = place.program("the origin", current_exe()?).args(words);
    place.start(program, place.listen).await
}

/// A server under way; ended when dropped.
pub(crate) struct Started {
    /// What gateways connect to first, then what is behind it.
    running: Vec<Running>,
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
        self.running.iter_mut().find_map(Running::ended)
    }

    /// Its processes, as they were started.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.running.iter().map(Running::pid).collect()
    }

    /// Ends it, and returns what it says that it did; `None`: a server that does not tell.
    pub(crate) fn stop(mut self) -> Option<Counts> {
        self.running.iter_mut().for_each(Running::stop);
        counts_in(&std::fs::read_to_string(&self.log).ok()?)
    }
}

/// What an origin of ours prints last.
fn counts_in(said: &str) -> Option<Counts> {
    serde_json::from_str(said.lines().last()?).ok()
}

#[cfg(test)]
mod tests;
