//! The command line.

pub mod agent;
mod bits;
pub mod calibrate;
pub mod check;
#[cfg(feature = "degrade")]
pub mod degrade;
pub mod doctor;
pub mod explain;
mod grants;
pub mod import;
mod kernel;
pub mod link;
mod observed;
mod outputs;
mod pages;
mod progress;
pub mod run;
pub mod simulate;
mod stdout;
mod warn;
mod watch;
mod words;

use crate::dashboard;
use crate::observe::program_log;
use crate::visible;
use crate::workers::{Become, become_worker};
use clap::{CommandFactory, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use stdout::{print, print_words};

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
    /// Describe policy files in words, and warn of what has no effect
    Check(check::Options),
    /// Say what a given request would get, and why
    Explain {
        /// The policy file
        file: PathBuf,
        #[command(flatten)]
        question: explain::Question,
    },
    /// Make a policy of another system's configuration, and print it
    Import {
        #[command(subcommand)]
        system: import::System,
    },
    /// Try a policy on simulated clients and a simulated server, in virtual time
    Simulate(Box<simulate::Options>),
    /// Find out how much an idle origin can do, and what bounds it
    Calibrate(Box<calibrate::Options>),
    /// Make a copy of a content tree that is cheaper to serve, for a level of an adaptation
    #[cfg(feature = "degrade")]
    Degrade(Box<degrade::Options>),
    /// Not in this build: it needs the feature `degrade`
    #[cfg(not(feature = "degrade"))]
    Degrade {
        /// What it would be asked
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        _asked: Vec<std::ffi::OsString>,
    },
    /// Read sensors beside an origin on another machine, for gateways that ask for them
    Agent(agent::Options),
    /// Have the kernel send packets of background classes last on an interface: HTB by `tc`, also beside other programs
    Link {
        #[command(subcommand)]
        action: link::Action,
    },
    /// Police and steer connections in the kernel before another server, without the gateway in between
    Kernel {
        #[command(subcommand)]
        action: kernel::Action,
    },
    /// Try what the policies' mechanisms need of this machine, and say what is missing
    Doctor(doctor::Options),
    /// Print the JSON schema of policy files, for editors
    Schema,
    /// Print a script that completes the command line
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write those of all commands into a directory
    Man {
        /// The directory, such as /usr/share/man/man1
        directory: Option<PathBuf>,
    },
    /// Become a worker: this is how the gateway starts those of a pool
    #[command(hide = true)]
    StartWorker(Become),
    /// Try the programs for the kernel: this is how doctor does it, in a network namespace of its own
    #[command(hide = true)]
    ProbeKernel,
    /// Show live metrics of a running gateway
    Top(dashboard::Options),
}

/// Does what the command line says; the exit code is 0 if it could, 1 if not, 2 if it was not
/// understood.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let logs =
        matches!(arguments.command, Command::Run(_) | Command::Agent(_) | Command::Kernel { .. });
    let result = match arguments.command {
        Command::Run(options) => {
            // What is still to be written is, when this ends.
            let _log = program_log::start();
            run::run(options)
        }
        Command::Check(options) => check::run(&options),
        Command::Explain { file, question } => print_words(explain::explain_file(&file, &question)),
        Command::Import { system } => print(import::import(&system)),
        Command::Simulate(options) => simulate::run(&options),
        Command::Calibrate(options) => calibrate::run(&options),
        #[cfg(feature = "degrade")]
        Command::Degrade(options) => degrade::run(&options),
        #[cfg(not(feature = "degrade"))]
        Command::Degrade { .. } => Err(anyhow::anyhow!(
            "this build cannot read images: build tiergate with the feature `degrade`, which is on by default"
        )),
        Command::Agent(options) => {
            let _log = program_log::start();
            agent::run(&options)
        }
        Command::Link { action } => link::run(&action),
        Command::Kernel { action } => {
            let _log = program_log::start();
            kernel::run(action)
        }
        Command::Doctor(options) => doctor::run(&options),
        Command::StartWorker(told) => become_worker(&told),
        Command::ProbeKernel => print(crate::kernel::probe::as_json()),
        Command::Schema => print(Ok::<_, anyhow::Error>(crate::config::schema())),
        Command::Completions { shell } => pages::completions(Arguments::command(), shell),
        Command::Man { directory } => pages::man(Arguments::command(), directory.as_deref()),
        Command::Top(options) => dashboard::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            match logs {
                true => program_log::last_words(&fault),
                false => eprintln!("tiergate: {}", visible::lines(&format!("{fault:#}"))),
            }
            ExitCode::FAILURE
        }
    }
}
