//! What kind of server an origin is.

use super::service::{Route, SERVICE_MAX, Spread, Thrash};
use super::timeline::{Timeline, WORKERS_MAX};
use crate::process::{Program, Running};
use crate::units::{self, parse_duration};
use anyhow::{Result, ensure};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// Largest answer that `/bytes/N` gives.
pub(super) const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Whether serving a request waits or computes.
#[derive(ValueEnum, Deserialize, Serialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// The worker waits, as for a database.
    Io,
    /// The worker computes: it burns processor time of its own thread.
    Cpu,
}

/// What kind of server it is. In an experiment's file the same, `kind` called `work`.
#[derive(clap::Args, Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    /// Address to listen on
    #[serde(skip, default = "anywhere")]
    #[arg(long, default_value = "127.0.0.1:8081")]
    pub(crate) listen: SocketAddr,
    /// Requests served at once
    #[arg(long, default_value_t = 16)]
    pub(crate) workers: usize,
    /// Mean time that a worker spends on a request; 0 answers at once, without a queue
    #[serde(with = "units::text")]
    #[arg(long, default_value = "40ms", value_parser = parse_duration)]
    pub(crate) service: Duration,
    /// How that time varies
    #[arg(long, value_enum, default_value_t = Spread::Constant)]
    pub(crate) dist: Spread,
    /// Whether a worker waits (io) or computes (cpu)
    #[serde(rename = "work")]
    #[arg(long, alias = "work", value_enum, default_value_t = Kind::Io)]
    pub(crate) kind: Kind,
    /// Requests that may wait for a worker, whose clients may have left; further ones are not read.
    /// The kernel's listen queue is as long. 511 is the default of Apache, nginx, PHP-FPM and Node
    #[arg(long, default_value_t = 511)]
    pub(crate) accept_queue: u32,
    /// Connections open at once; further ones wait in the listen queue
    #[arg(long, default_value_t = 4096)]
    pub(crate) connections_max: usize,
    /// Bytes of an answer; the path /bytes/N asks for another size
    #[arg(long, default_value_t = 1024)]
    pub(crate) bytes: usize,
    /// Another mean time for paths that begin so: /report=200ms. May be repeated; the longest
    /// prefix counts
    #[arg(long = "route", alias = "routes", value_name = "PREFIX=TIME")]
    pub(crate) routes: Vec<Route>,
    /// What changes, counted from the first request: 8s:workers=8,20s:slow=/browse:5
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) timeline: Timeline,
    /// With more than so many in service, a request takes 1 + FACTOR * excess / REQUESTS times as long
    #[arg(long, value_name = "REQUESTS:FACTOR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) thrash: Option<Thrash>,
    /// Seed of the service times
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

pub(super) fn anywhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Settings as a command line says them; for defaults and tests, which have no mistakes.
pub(super) fn from_words<S: clap::Args>(words: &[&str]) -> S {
    let command = S::augment_args(clap::Command::new("origin"));
    let matches = command.get_matches_from([&["origin"], words].concat());
    S::from_arg_matches(&matches).expect("the words were written with the program")
}

/// The words of the command line that starts an origin with these settings. An option is called as
/// the setting is in a file, or has that name as an alias.
pub(super) fn words(command: &str, listen: SocketAddr, settings: &impl Serialize) -> Vec<String> {
    let settings = serde_json::to_value(settings).expect("settings are texts and numbers");
    let mut words = vec![command.to_owned(), format!("--listen={listen}")];
    for (key, value) in settings.as_object().expect("settings have names") {
        let values = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        words.extend(values.iter().map(|value| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            format!("--{}={text}", key.replace('_', "-"))
        }));
    }
    words
}

impl Default for Settings {
    /// The command line's defaults, which stand above and nowhere else.
    fn default() -> Self {
        from_words(&[])
    }
}

impl Settings {
    /// Starts it as a program of its own, which logs in that directory; returns when it listens.
    pub(crate) async fn start(&self, dir: &Path, processors: Option<&str>) -> Result<Running> {
        let program = Program::new("the origin", std::env::current_exe()?).args(self.args());
        let mut running = program.processors(processors).start(&dir.join("origin.log"))?;
        running.ready(self.listen).await?;
        Ok(running)
    }

    /// Requests a second that it can serve of a path without a route of its own; infinite when it
    /// answers at once.
    pub(crate) fn capacity(&self) -> f64 {
        self.workers as f64 / self.service.as_secs_f64()
    }

    /// The words of the command line that starts such an origin.
    pub(crate) fn args(&self) -> Vec<String> {
        words("origin", self.listen, self)
    }

    /// Whether it can be such a server; an error says what to change.
    pub(crate) fn check(&self) -> Result<()> {
        let workers = 1..=WORKERS_MAX;
        ensure!(workers.contains(&self.workers), "--workers must be from 1 to {WORKERS_MAX}");
        ensure!(self.accept_queue > 0, "--accept-queue must be at least 1");
        ensure!(self.service <= SERVICE_MAX, "--service must be at most an hour");
        ensure!(self.bytes <= ANSWER_BYTES_MAX, "--bytes must be at most 16 MiB");
        let at_once = self.service.is_zero() && self.routes.iter().all(|r| r.service.is_zero());
        let steady = self.timeline.0.is_empty() && self.thrash.is_none();
        let fine = steady || !at_once;
        ensure!(fine, "--timeline and --thrash need a --service or --route above 0");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_starts_the_same_origin() {
        let settings = from_words::<Settings>(&[
            "--listen=127.0.0.1:9",
            "--workers=3",
            "--service=1500us",
            "--dist=bimodal",
            "--kind=cpu",
            "--accept-queue=7",
            "--connections-max=8",
            "--bytes=9",
            "--route=/a=1s",
            "--route=/b=0",
            "--timeline=1s:workers=2,3s:slow=/a:2",
            "--thrash=2:0.5",
            "--seed=5",
        ]);
        let words = settings.args();
        let words: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        assert_eq!(from_words::<Settings>(&words), settings);
        assert_ne!(settings, Settings::default());
        let json = serde_json::to_string(&settings).unwrap();
        let read: Settings = serde_json::from_str(&json).unwrap();
        assert_eq!(Settings { listen: settings.listen, ..read }, settings);
    }

    #[test]
    fn impossible_origins_are_refused() {
        let fine = |words: &[&str]| from_words::<Settings>(words).check().is_ok();
        assert!(fine(&[]) && fine(&["--service=0"]) && fine(&["--timeline=1s:workers=0"]));
        assert!(fine(&["--service=0", "--route=/a=1s", "--timeline=1s:workers=0"]));
        assert!(!fine(&["--service=0", "--timeline=1s:workers=1"]));
        assert!(!fine(&["--service=0", "--thrash=1:1"]));
        for wrong in ["--workers=0", "--workers=10001", "--service=61m", "--accept-queue=0"] {
            assert!(!fine(&[wrong]), "{wrong}");
        }
    }
}
