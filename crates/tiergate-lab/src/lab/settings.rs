//! What the lab is asked to do.

use super::machine;
use crate::contender::Contender;
use std::path::PathBuf;

/// Command line of `tiergate-lab lab`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Settings {
    /// Only the experiment of this name, or those whose names contain this; several set apart by commas
    #[arg(long)]
    pub(super) only: Option<String>,
    /// Only these contenders, set apart by commas
    #[arg(long, value_delimiter = ',', value_parser = Contender::parse)]
    pub(super) contenders: Vec<Contender>,
    /// Runs of each contender in each experiment
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=50))]
    pub(super) rounds: u64,
    /// Runs at a time, each with processors of its own [default: one for every two processors].
    /// More than that share processors: quicker, and rougher
    #[arg(long, value_parser = jobs)]
    pub(super) jobs: Option<usize>,
    /// Begin no run after so many minutes; what is kept counts all the same
    #[arg(long)]
    pub(super) minutes: Option<u64>,
    /// Directory of the experiments' files
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/experiments"))]
    pub(super) experiments: PathBuf,
    /// The gateway's program [default: `tiergate` beside this one]
    #[arg(long)]
    pub(super) gateway: Option<PathBuf>,
    /// Where runs that are done are kept
    #[arg(long, default_value = "target/lab")]
    pub(super) store: PathBuf,
    /// Forget the runs that are kept and start over
    #[arg(long)]
    pub(super) fresh: bool,
    /// Fail if a promise of an experiment is broken; experiments without one are left out
    #[arg(long)]
    pub(super) check: bool,
    /// With --check: also the experiments that take long
    #[arg(long, requires = "check")]
    pub(super) weekly: bool,
    /// With --check: with each promise's feature switched off in Tiergate; fail if the promise holds all the same
    #[arg(long, requires = "check")]
    pub(super) off: bool,
    /// Where the page and its plots go, with a copy of the results; none: nowhere
    #[arg(long)]
    pub(super) docs: Option<PathBuf>,
    /// Another lab's results.json: report where the two do not agree within their spread
    #[arg(long)]
    pub(super) agree: Option<PathBuf>,
    /// Make the page anew from a results.json, with the words of the experiments' files, and end
    #[arg(long, value_name = "FILE", requires = "docs")]
    pub(super) page: Option<PathBuf>,
    /// List the experiments and end
    #[arg(long)]
    pub(super) list: bool,
}

/// Reads a number of runs at a time: at most one for each processor.
fn jobs(text: &str) -> Result<usize, String> {
    let most = machine::machine(1).processors;
    let jobs = text.parse().ok().filter(|jobs| (1..=most).contains(jobs));
    jobs.ok_or_else(|| format!("expected 1 to {most}, got {text:?}"))
}
