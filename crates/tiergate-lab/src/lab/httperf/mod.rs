//! The load of the papers: httperf (D. Mosberger, T. Jin, 1998), open loop.
//!
//! Without sessions each request has a connection of its own, and a client gives up when `timeout`
//! passes without progress: while connecting, sending, waiting, receiving. A session is one client
//! with a connection kept open, who thinks between calls.
//!
//! Know of httperf: it never sleeps, so each process fills its processor, and runs only when nobody
//! else wants it, because with two processors the gateway shares it. `nice` is not enough: Linux lets a process that runs
//! finish its slice before a more important one that wakes, and a gateway that wakes for each answer
//! waits those milliseconds each time. One of `SCHED_IDLE` gives way at once.
//! It holds at most 1,024 descriptors (`select`), so a high rate is split over several processes; it
//! gives latencies of all answers together, refusals among them.

mod figures;
mod lateness;

pub(crate) use figures::Figures;

use crate::load::population::{Population, Session};
use crate::load::{Arrivals, Step};
use crate::process::{Printing, Program, find};
use anyhow::{Context, Result, ensure};
use lateness::Lateness;
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

/// Clients of one kind in one step: single requests, or sessions, which are over at their first refusal
/// (503) or timeout.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Workload<'a> {
    /// How they behave.
    pub(crate) population: &'a Population,
    /// How many, and how long they begin.
    pub(crate) step: Step,
    /// What they ask for: path and query; several are asked for in turn.
    pub(crate) uris: Vec<String>,
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
pub(crate) async fn run(workloads: &[Workload<'_>], place: &Place<'_>) -> Result<Vec<Figures>> {
    let mut all = JoinSet::new();
    for (number, workload) in workloads.iter().enumerate() {
        let patience = workload.step.lasting + workload.holds_at_most() + PATIENCE;
        for program in workload.programs(number, place)? {
            all.spawn(async move { (number, run_one(program, patience).await) });
        }
    }
    let mut parts: Vec<Vec<Figures>> = vec![Vec::new(); workloads.len()];
    while let Some(done) = all.join_next().await {
        let (number, done) = done?;
        let workload = &workloads[number];
        let (said, lateness) =
            done.with_context(|| format!("workload {}", workload.population.name))?;
        let figures = figures::read(&said, workload.population.session.is_some());
        let unexpected = || format!("httperf printed something else than expected:\n{said}");
        let figures = figures.with_context(unexpected)?;
        parts[number].push(Figures { late_ms: lateness.p99_ms(), ..figures });
    }
    Ok(parts.iter().map(|parts| figures::merge(parts)).collect())
}

/// What one process prints, and how late it sent.
async fn run_one(program: Program, patience: Duration) -> Result<(String, Lateness)> {
    let printing = Printing::start(program)?;
    let pid = printing.pid().context("httperf ended at once")?;
    let (said, lateness) = tokio::join!(printing.output(patience), lateness::watch(pid, "httperf"));
    Ok((said?, lateness))
}

impl Workload<'_> {
    /// Calls of a connection, and the time between an answer and the next call.
    fn calls(&self) -> (u32, Duration) {
        let session = self.population.session.as_ref();
        session
            .map_or((1, Duration::ZERO), |session| (session.requests.unwrap_or(1), session.think))
    }

    /// How long a connection stays open when all goes as slowly as clients bear, about.
    fn holds(&self) -> Duration {
        let (calls, think) = self.calls();
        think * calls + self.population.patience
    }

    /// And at the very most: each step of each call just in time.
    fn holds_at_most(&self) -> Duration {
        let (calls, think) = self.calls();
        (think + self.population.patience * 4) * calls
    }

    fn begun(&self) -> u64 {
        (self.step.rate * self.step.lasting.as_secs_f64()).round() as u64
    }

    fn processes(&self) -> Result<u32> {
        let (name, rate) = (&self.population.name, self.step.rate);
        ensure!(rate > 0.0 && rate.is_finite(), "{name}: rate must be above 0");
        ensure!(self.begun() > 0, "{name}: nothing begins in {:?}", self.step.lasting);
        // With clients that wait for long, no more than begin at all. Each process waits for the others' turns.
        let open = (rate * self.holds().as_secs_f64()).min(self.begun() as f64);
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
            let idle = Program::new("httperf", "chrt").args(["--idle", "0"]).args([&path]);
            let program = idle.args(self.args(part, processes, place)?);
            let list = place.scratch.join(format!("httperf-{number}-{part}.uris"));
            let program = program.namespace(place.namespace).processors(place.processors);
            if self.uris.len() < 2 {
                return Ok(program);
            }
            // Each begins elsewhere in the list.
            let mut uris = self.uris.clone();
            uris.rotate_left(self.uris.len() * part as usize / processes as usize);
            std::fs::write(&list, uris.join("\0") + "\0")
                .with_context(|| format!("cannot write {}", list.display()))?;
            Ok(program.args([format!("--wlog=y,{}", list.display())]))
        };
        (0..processes).map(program).collect()
    }

    /// Arguments of part `part` of `parts`, without the list of URIs.
    fn args(&self, part: u32, parts: u32, place: &Place<'_>) -> Result<Vec<String>> {
        let period = f64::from(parts) / self.step.rate;
        let all = self.begun();
        let begun = all / u64::from(parts) + u64::from(u64::from(part) < all % u64::from(parts));
        let poisson = self.population.arrivals == Arrivals::Poisson;
        let spread = if poisson { "e" } else { "d" };
        let mut args = vec![
            format!("--server={}", place.target.ip()),
            format!("--port={}", place.target.port()),
            // Also the seed of a Poisson process.
            format!("--client={part}/{parts}"),
            format!("--timeout={}", self.population.patience.as_secs_f64()),
            format!("--period={spread}{period:.9}"),
        ];
        if let [uri] = &self.uris[..] {
            args.push(format!("--uri={uri}"));
        }
        match &self.population.session {
            None => args.push(format!("--num-conns={begun}")),
            Some(Session { requests, think, .. }) => args.extend([
                format!("--wsess={begun},{},{}", requests.unwrap_or(1), think.as_secs_f64()),
                // Else a refused call would count as any other.
                "--failure-status=503".into(),
            ]),
        }
        let mut headers = String::new();
        for (name, value) in &self.population.headers {
            let sendable = !value.contains('\\');
            ensure!(sendable, "httperf cannot send a header with a backslash: {value:?}");
            // httperf's own escape, and its only way to end a line.
            headers += &format!("{name}: {value}\\n");
        }
        args.extend((!headers.is_empty()).then(|| format!("--add-header={headers}")));
        Ok(args)
    }
}

#[cfg(test)]
mod tests;
