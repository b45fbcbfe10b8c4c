//! The load of the papers: httperf (D. Mosberger, T. Jin, 1998), open loop.
//!
//! Without sessions each request has a connection of its own, and a client gives up when `timeout`
//! passes without progress: while connecting, sending, waiting, receiving. A session is one client
//! with a connection kept open, who thinks between calls.
//!
//! Know of httperf: it never sleeps, so each process fills its processor; it holds at most 1,024
//! descriptors (`select`), so a high rate is split over several processes; it gives latencies of
//! all answers together, refusals among them.

mod figures;

pub(crate) use figures::Figures;

use crate::process::{Program, find, output};
use crate::units;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use tokio::task::JoinSet;

/// Connections that one process is planned to have open: its limit of 1,024 less what a slow
/// connection holds beyond its timeout.
const OPEN_MAX: f64 = 900.0;
/// Most processes of a workload; each fills a processor.
const PROCESSES_MAX: u32 = 32;
/// How much longer than its workload httperf may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Clients of one kind.
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Workload {
    /// What results call it.
    pub(crate) name: String,
    /// What it asks for: path and query.
    #[serde(default = "root")]
    pub(crate) uri: String,
    /// If not empty, asked for in turn instead of `uri`; an experiment with a static site fills it.
    #[serde(skip)]
    pub(crate) uris: Vec<String>,
    /// Connections begun a second, or sessions.
    pub(crate) rate: f64,
    /// How long they begin.
    #[serde(with = "units::text")]
    pub(crate) lasting: Duration,
    /// How long a client waits without progress.
    #[serde(with = "units::text")]
    pub(crate) timeout: Duration,
    /// Sessions instead of single requests.
    #[serde(default)]
    pub(crate) session: Option<Session>,
    /// Request fields such as `Cookie: user=gold`.
    #[serde(default)]
    pub(crate) headers: Vec<String>,
    /// Whether they begin independently of each other (Poisson) or evenly spaced.
    #[serde(default)]
    pub(crate) poisson: bool,
}

fn root() -> String {
    "/".into()
}

/// What a session does; it is over at its first refusal (503) or timeout.
#[derive(Deserialize, Serialize, Clone, Copy, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Session {
    /// Calls.
    pub(crate) calls: u32,
    /// Time between an answer and the next call.
    #[serde(with = "units::text")]
    pub(crate) think: Duration,
}

/// Where clients are.
pub(crate) struct Place<'a> {
    /// Whom they ask.
    pub(crate) target: SocketAddr,
    /// A directory for their lists.
    pub(crate) scratch: &'a Path,
    /// Their network namespace; `None`: ours.
    pub(crate) namespace: Option<&'a str>,
    /// Their processors, in the words of `taskset`; `None`: all.
    pub(crate) processors: Option<&'a str>,
}

/// Runs workloads at the same time, each to its end, and returns their figures in the same order.
/// Cancel safe: dropped, every httperf is killed.
pub(crate) async fn run(workloads: &[Workload], place: &Place<'_>) -> Result<Vec<Figures>> {
    if let Some(namespace) = place.namespace {
        give_ports(namespace).await?;
    }
    let mut all = JoinSet::new();
    for (number, workload) in workloads.iter().enumerate() {
        let patience = workload.lasting + workload.holds_at_most() + PATIENCE;
        for program in workload.programs(number, place)? {
            all.spawn(async move { (number, output(program, patience).await) });
        }
    }
    let mut parts: Vec<Vec<Figures>> = vec![Vec::new(); workloads.len()];
    while let Some(done) = all.join_next().await {
        let (number, said) = done?;
        let workload = &workloads[number];
        let said = said.with_context(|| format!("workload {}", workload.name))?;
        let rate = workload.rate / f64::from(workload.processes()?);
        let figures =
            figures::read(&said, rate, workload.session.is_some()).with_context(|| {
                format!("httperf printed something else than expected:\n{}", said.trim_end())
            })?;
        parts[number].push(figures);
    }
    Ok(parts.iter().map(|parts| figures::merge(parts)).collect())
}

/// Lets clients use every port, again after a second. The client closes, so each port rests for a
/// minute by default: at 2,000 connections a second none was left after 7 seconds, and httperf
/// reported want of descriptors.
async fn give_ports(namespace: &str) -> Result<()> {
    let settings = "cd /proc/sys/net/ipv4 && echo 1 >tcp_tw_reuse && \
                    echo 1024 65535 >ip_local_port_range";
    let program = Program::new("setting the clients' ports", "sh").args(["-c", settings]);
    output(program.namespace(Some(namespace)), PATIENCE).await?;
    Ok(())
}

impl Workload {
    /// How long a connection stays open when all goes as slowly as clients bear, about.
    fn holds(&self) -> Duration {
        match self.session {
            None => self.timeout,
            Some(session) => session.think * session.calls + self.timeout,
        }
    }

    /// And at the very most: each step of each call just in time.
    fn holds_at_most(&self) -> Duration {
        let (calls, think) = self.session.map_or((1, Duration::ZERO), |s| (s.calls, s.think));
        (think + self.timeout * 4) * calls
    }

    fn begun(&self) -> u64 {
        (self.rate * self.lasting.as_secs_f64()).round() as u64
    }

    fn processes(&self) -> Result<u32> {
        let name = &self.name;
        ensure!(self.rate > 0.0 && self.rate.is_finite(), "{name}: rate must be above 0");
        ensure!(!self.timeout.is_zero(), "{name}: timeout must be above 0");
        ensure!(self.session.is_none_or(|s| s.calls > 0), "{name}: calls must be at least 1");
        ensure!(self.begun() > 0, "{name}: nothing begins in {:?}", self.lasting);
        let open = self.rate * self.holds().as_secs_f64();
        let processes = (open / OPEN_MAX).ceil().max(1.0);
        ensure!(
            processes <= f64::from(PROCESSES_MAX),
            "{name}: {open:.0} connections open at once need {processes} httperf processes, more \
             than {PROCESSES_MAX}; lower rate or timeout"
        );
        // Each has at least one connection to begin.
        Ok((processes as u32).min(u32::try_from(self.begun()).unwrap_or(u32::MAX)))
    }

    /// The processes that make the load together.
    fn programs(&self, number: usize, place: &Place<'_>) -> Result<Vec<Program>> {
        let path = find("httperf").context("httperf is not installed; run scripts/setup.sh")?;
        let processes = self.processes()?;
        let program = |part| {
            let program = Program::new("httperf", &path).args(self.args(part, processes, place)?);
            let list = place.scratch.join(format!("httperf-{number}-{part}.uris"));
            let program = match self.uris.len() {
                0 => program,
                _ => {
                    // Each begins elsewhere in the list.
                    let mut uris = self.uris.clone();
                    uris.rotate_left(self.uris.len() * part as usize / processes as usize);
                    std::fs::write(&list, uris.join("\0") + "\0")
                        .with_context(|| format!("cannot write {}", list.display()))?;
                    program.args([format!("--wlog=y,{}", list.display())])
                }
            };
            Ok(program.namespace(place.namespace).processors(place.processors))
        };
        (0..processes).map(program).collect()
    }

    /// Arguments of part `part` of `parts`, without the list of URIs.
    fn args(&self, part: u32, parts: u32, place: &Place<'_>) -> Result<Vec<String>> {
        let period = f64::from(parts) / self.rate;
        let (part_64, parts_64) = (u64::from(part), u64::from(parts));
        let begun = self.begun() / parts_64 + u64::from(part_64 < self.begun() % parts_64);
        let mut args = vec![
            format!("--server={}", place.target.ip()),
            format!("--port={}", place.target.port()),
            // Also the seed of a Poisson process.
            format!("--client={part}/{parts}"),
            format!("--timeout={}", self.timeout.as_secs_f64()),
            format!("--period={}{period:.9}", if self.poisson { "e" } else { "d" }),
        ];
        if self.uris.is_empty() {
            args.push(format!("--uri={}", self.uri));
        }
        match self.session {
            None => args.push(format!("--num-conns={begun}")),
            Some(Session { calls, think }) => args.extend([
                format!("--wsess={begun},{calls},{}", think.as_secs_f64()),
                // Else a refused call would count as any other.
                "--failure-status=503".into(),
            ]),
        }
        for header in &self.headers {
            let plain = header.contains(':') && !header.contains(['\r', '\n', '\\']);
            ensure!(plain, "{}: a header is written Name: value, got {header:?}", self.name);
        }
        if !self.headers.is_empty() {
            // httperf's own escape, and its only way to end a line.
            args.push(format!("--add-header={}\\n", self.headers.join("\\n")));
        }
        Ok(args)
    }
}

#[cfg(test)]
mod tests;
