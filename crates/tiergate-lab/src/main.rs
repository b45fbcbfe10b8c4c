//! Experiments with the built gateway on real servers.
//!
//! `origin` and `load` are the two ends: a server of known capacity and an open-loop generator.
//! `demo` shows what overload does without and with Tiergate; `bench` measures the processor time
//! that Tiergate, HAProxy and nginx spend on a request. The gateway is started as a program.

#![forbid(unsafe_code)]

mod bench;
mod demo;
mod load;
mod origin;
mod process;
mod text;
mod units;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Parser)]
#[command(
    name = "tiergate-lab",
    version,
    about = "Experiments with Tiergate on real servers"
)]
struct CommandLine {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Subcommand)]
enum Experiment {
    /// The same overload without and with Tiergate, live, and a table at the end
    Demo(demo::Settings),
    /// Processor time per request: Tiergate, HAProxy and nginx side by side
    Bench(bench::Settings),
    /// A server of known capacity
    Origin(origin::Settings),
    /// An open-loop load generator
    Load(load::Settings),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(CommandLine::parse().experiment).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tiergate-lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(experiment: Experiment) -> Result<()> {
    let work = async {
        match experiment {
            Experiment::Demo(settings) => demo::run(settings).await,
            Experiment::Bench(settings) => bench::run(settings).await,
            Experiment::Origin(settings) => origin::run(settings).await,
            Experiment::Load(settings) => load::run(settings).await,
        }
    };
    tokio::select! {
        // First, so that the origin, which ends by the same signals, tells what it has done.
        biased;
        result = work => result,
        // Dropping the experiment ends every program that it started.
        () = interrupted() => anyhow::bail!("interrupted"),
    }
}

/// The gateway's program: as given, or `tiergate` in the directory of this program.
fn gateway_program(given: Option<&Path>) -> Result<PathBuf> {
    let beside = || Ok(std::env::current_exe()?.with_file_name("tiergate"));
    let path = given.map_or_else(beside, |path| Ok::<_, anyhow::Error>(path.into()))?;
    anyhow::ensure!(
        path.is_file(),
        "no gateway at {}; build it with `cargo build --release`",
        path.display()
    );
    Ok(path)
}

/// Waits for Ctrl-C or SIGTERM.
async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let mut term = signal(SignalKind::terminate()).expect("SIGTERM can be caught");
    let mut int = signal(SignalKind::interrupt()).expect("SIGINT can be caught");
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}
