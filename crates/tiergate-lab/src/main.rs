//! Experiments with the built gateway on real servers.
//!
//! `origin` and `load` are the two ends: a server of known capacity and an open-loop generator;
//! `app` is a server whose capacity nobody knows.
//! `demo` shows what overload does without and with Tiergate; `bench` measures the processor time
//! that Tiergate, HAProxy and nginx spend on a request; `predict` compares the simulator with a real run;
//! `chaos` puts the gateway under random faults and judges what becomes of its clients.
//! `flood` sends SYNs on a machine of the lab. The gateway is started as a program.

#![forbid(unsafe_code)]

mod bench;
mod chaos;
mod contender;
mod cpu;
mod demo;
mod flood;
mod lab;
mod load;
mod origin;
mod predict;
mod process;
mod units;

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tokio::signal::unix::{Signal, SignalKind, signal};

#[derive(Parser)]
#[command(name = "tiergate-lab", version, about = "Experiments with Tiergate on real servers")]
struct CommandLine {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Subcommand)]
enum Experiment {
    /// The same overload without and with Tiergate: live view, then a table
    Demo(demo::Settings),
    /// CPU time per request, compared with HAProxy and nginx
    Bench(bench::Settings),
    /// Experiments on real servers with Tiergate, its peers and no proxy
    Lab(lab::Settings),
    /// Compare a prediction of `tiergate simulate` with a real run
    Predict(predict::Settings),
    /// Compare `tiergate calibrate` on three unlike servers with what wrk finds
    Calibrate(lab::calibrated::Settings),
    /// The gateway under random faults, with a verdict on every promise
    Chaos(chaos::Settings),
    /// SYNs from forged addresses, in a network of the lab
    #[command(hide = true)]
    Flood(flood::Settings),
    /// A server that fails as it is told
    #[command(hide = true)]
    ChaosOrigin(chaos::OriginSettings),
    /// Run Tiergate or one of its peers in front of an origin
    Contender(contender::command::Settings),
    /// A server of known capacity
    Origin(origin::Settings),
    /// A small dynamic site: pages that use CPU or memory, or wait
    App(origin::app::Settings),
    /// An open-loop load generator
    Load(load::Settings),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    open_files_as_many_as_allowed();
    match run(CommandLine::parse().experiment).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tiergate-lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(experiment: Experiment) -> Result<()> {
    // Caught before anything is started, so that nothing is started that a signal would leave.
    let mut interruption = Interruption::catch()?;
    let work = async {
        match experiment {
            Experiment::Demo(settings) => demo::run(settings).await,
            Experiment::Bench(settings) => bench::run(settings).await,
            Experiment::Lab(settings) => lab::run(settings).await,
            Experiment::Predict(settings) => predict::run(settings).await,
            Experiment::Calibrate(settings) => lab::calibrated::run(settings).await,
            Experiment::Chaos(settings) => chaos::run(settings).await,
            Experiment::Flood(settings) => flood::run(settings).await,
            Experiment::ChaosOrigin(settings) => chaos::run_origin(settings).await,
            Experiment::Contender(settings) => contender::command::run(settings).await,
            Experiment::Origin(settings) => origin::run(settings).await,
            Experiment::App(settings) => origin::app::run(settings).await,
            Experiment::Load(settings) => load::run(settings).await,
        }
    };
    tokio::select! {
        // First, so that the origin, which ends by the same signals, tells what it has done.
        biased;
        result = work => result,
        // Dropping the experiment ends every program that it started.
        () = interruption.happens() => anyhow::bail!("interrupted"),
    }
}

/// Raises the soft limit on open files to the hard one: Debian's soft limit of 1,024 is fewer
/// connections than an overload has. Started programs inherit it.
fn open_files_as_many_as_allowed() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Refused, the limit stays as it was, and a run that needs more shows it by failed requests.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// The gateway's program: as given, or `tiergate` in the directory of this program.
fn gateway_program(given: Option<&Path>) -> Result<PathBuf> {
    let beside = std::env::current_exe()?.with_file_name("tiergate");
    let path = given.map_or(beside, Path::to_path_buf);
    let name = path.display();
    ensure!(path.is_file(), "no gateway at {name}; build it with `cargo build --release`");
    Ok(path)
}

/// Ctrl-C and SIGTERM, which from the moment of catching no longer end the program by themselves.
struct Interruption {
    term: Signal,
    int: Signal,
}

impl Interruption {
    fn catch() -> Result<Self> {
        let catch = |kind| signal(kind).context("cannot catch signals");
        Ok(Self { term: catch(SignalKind::terminate())?, int: catch(SignalKind::interrupt())? })
    }

    /// Waits for one of them. Cancel safe.
    async fn happens(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.int.recv() => {}
        }
    }
}
