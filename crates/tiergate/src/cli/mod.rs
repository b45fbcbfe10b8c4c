//! The command line.

pub mod run;

use crate::dashboard;
use clap::{Parser, Subcommand};
use std::process::ExitCode;
use std::time::Duration;

/// Keeps the requests that matter fast when the web server behind is overloaded.
#[derive(Debug, Parser)]
#[command(name = "tiergate", version, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the gateway by a policy file, or by the defaults in front of one origin
    Run(run::Options),
    /// Show live what a running gateway does
    Top {
        /// The gateway's admin listener
        #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9090")]
        admin: String,
        /// Seconds between two looks
        #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
        interval: f64,
        /// Print one table and end
        #[arg(long)]
        once: bool,
    },
}

/// Does what the command line says; the exit code is 0 if it could, 1 if not, 2 if it was not
/// understood.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.command {
        Command::Run(options) => {
            log_to_stderr();
            run::run(options)
        }
        Command::Top { admin, interval, once } => {
            let interval = Duration::try_from_secs_f64(interval).unwrap_or(Duration::from_secs(1));
            dashboard::run(&dashboard::Options { admin, interval, once })
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("tiergate: {fault:#}");
            ExitCode::FAILURE
        }
    }
}

/// The program's own log; the level by TIERGATE_LOG (error, warn, info, debug, trace).
fn log_to_stderr() {
    use std::io::IsTerminal;
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_from_env("TIERGATE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
}
