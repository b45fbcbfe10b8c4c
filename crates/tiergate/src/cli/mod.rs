//! The command line.

pub mod check;
pub mod explain;
pub mod import;
mod outputs;
pub mod run;
pub mod schema;
pub mod simulate;
mod stdout;
mod warn;
mod words;

use crate::dashboard;
use clap::{Parser, Subcommand};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use stdout::print;

/// Keeps the requests that matter fast when your web server is overloaded.
#[derive(Debug, Parser)]
#[command(name = "tiergate", version, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the gateway with a policy file, or with the defaults in front of one origin
    Run(run::Options),
    /// Describe a policy file in words, and warn of what has no effect
    Check {
        /// The policy file
        file: PathBuf,
    },
    /// Say what a given request would get, and why
    Explain {
        /// The policy file
        file: PathBuf,
        /// The request, such as 'GET /x'
        #[arg(long, value_name = "METHOD TARGET")]
        request: String,
        /// A header of the request; may be given several times
        #[arg(long = "header", value_name = "NAME: VALUE")]
        headers: Vec<String>,
        /// The client's address; loopback if not given
        #[arg(long, value_name = "ADDRESS")]
        client: Option<IpAddr>,
        /// The host; else the target's or the Host header's
        #[arg(long)]
        host: Option<String>,
        #[command(flatten)]
        known: explain::Known,
    },
    /// Convert DiffServer's options.conf to a policy, and print it
    Import {
        /// The options.conf
        file: PathBuf,
        /// The origin server
        #[arg(long, value_name = "HOST:PORT", default_value = import::ORIGIN)]
        origin: String,
    },
    /// Try a policy on simulated clients and a simulated server, in virtual time
    Simulate(Box<simulate::Options>),
    /// Print the JSON schema of policy files, for editors
    Schema,
    /// Show live metrics of a running gateway
    Top {
        /// The gateway's admin listener
        #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9090")]
        admin: String,
        /// Seconds between two updates
        #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
        interval: f64,
        /// Print one table and exit
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
        Command::Check { file } => print(check::check(&file)),
        Command::Explain { file, request, headers, client, host, known } => {
            let question = explain::Question { request, headers, client, host, known };
            print(explain::explain_file(&file, &question))
        }
        Command::Import { file, origin } => print(import::options_conf(&file, &origin)),
        Command::Simulate(options) => simulate::run(&options),
        Command::Schema => print(Ok::<_, anyhow::Error>(schema::schema())),
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

/// The program's own log; its level is set by TIERGATE_LOG (error, warn, info, debug, trace).
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
