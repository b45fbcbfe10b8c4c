//! `make lab`: experiments on real servers, with Tiergate, with its peers, with nothing in front.
//!
//! An experiment is a file in `experiments/` ([`experiment`]). Each contender ([`contender`]) runs
//! it several times: three machines are made ([`network`]), the origin ([`server`]) and the
//! contender are started, the clients ask ([`run`]), figures are taken ([`measure`]) and kept
//! ([`store`]). In the end all of them are one document ([`result`]) and one page ([`page`]).

mod agree;
mod capacity;
mod check;
pub(crate) mod contender;
mod drive;
mod experiment;
mod httperf;
mod machine;
mod measure;
mod network;
mod page;
mod progress;
mod result;
mod rounds;
mod run;
mod search;
mod server;
mod store;
mod surge;

use anyhow::{Context, Result, ensure};
use contender::Contender;
use experiment::Experiment;
use progress::Progress;
use result::Results;
use rounds::Lab;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use store::Store;

/// Command line of `tiergate-lab lab`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Settings {
    /// Only experiments whose name contains this, or one of several parts set apart by commas
    #[arg(long)]
    only: Option<String>,
    /// Only these contenders, set apart by commas
    #[arg(long, value_delimiter = ',', value_parser = Contender::parse)]
    contenders: Vec<Contender>,
    /// Runs of each contender in each experiment
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=50))]
    rounds: u64,
    /// Runs at a time, each with processors of its own [default: one for every two processors].
    /// More than that share processors: quicker, and rougher
    #[arg(long, value_parser = jobs)]
    jobs: Option<usize>,
    /// Begin no run after so many minutes; what is kept counts all the same
    #[arg(long)]
    minutes: Option<u64>,
    /// Directory of the experiments' files
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/experiments"))]
    experiments: PathBuf,
    /// The gateway's program [default: `tiergate` beside this one]
    #[arg(long)]
    gateway: Option<PathBuf>,
    /// Where runs that are done are kept
    #[arg(long, default_value = "target/lab")]
    store: PathBuf,
    /// Forget runs that are done and begin anew
    #[arg(long)]
    fresh: bool,
    /// Fail if a promise of an experiment is broken; experiments without one are left out
    #[arg(long)]
    check: bool,
    /// Where the page and its pictures go, with a copy of the results; none: nowhere
    #[arg(long)]
    docs: Option<PathBuf>,
    /// Another lab's results.json: tell where the two do not agree within their spread
    #[arg(long)]
    agree: Option<PathBuf>,
    /// List the experiments and end
    #[arg(long)]
    list: bool,
}

/// Reads a number of runs at a time: at most one for each processor.
fn jobs(text: &str) -> Result<usize, String> {
    let most = machine::machine(1).processors;
    let jobs = text.parse().ok().filter(|jobs| (1..=most).contains(jobs));
    jobs.ok_or_else(|| format!("expected 1 to {most}, got {text:?}"))
}

/// Runs what is asked for.
pub(crate) async fn run(settings: Settings) -> Result<()> {
    let experiments = chosen(&settings)?;
    if settings.list {
        for experiment in &experiments {
            println!("  {:<24} {}", experiment.name, experiment.title);
        }
        return Ok(());
    }
    let gateway = crate::gateway_program(settings.gateway.as_deref())?;
    let store = Store::new(&settings.store)?;
    if settings.fresh {
        store.clear()?;
    }
    let removed = network::remove_left_behind();
    if removed > 0 {
        println!("  removed {removed} network namespaces of labs that are no longer alive");
    }
    let mut lab = Lab {
        settings: &settings,
        gateway,
        store,
        progress: Progress::new(&experiments, &settings),
        versions: BTreeMap::new(),
        end: settings.minutes.map(|minutes| Instant::now() + Duration::from_secs(minutes * 60)),
    };
    let mut results = Vec::new();
    for experiment in &experiments {
        results.push(lab.experiment(experiment).await?);
    }
    let broken: Vec<String> =
        experiments.iter().zip(&results).flat_map(|(e, r)| check::broken(e, r)).collect();
    let results = Results {
        machine: machine::machine(settings.jobs.unwrap_or_else(machine::Split::jobs)),
        versions: lab.versions,
        experiments: results,
    };
    finish(&settings, &results)?;
    for line in &broken {
        println!("  promise broken: {line}");
    }
    ensure!(broken.is_empty() || !settings.check, "{} promises are broken", broken.len());
    Ok(())
}

/// Writes the results and the page, and compares with other results.
fn finish(settings: &Settings, results: &Results) -> Result<()> {
    let file = settings.store.join("results.json");
    write_json(&file, results)?;
    println!("\n{}", page::summary(results).render(crate::text::Palette::of_stdout()));
    println!("  written to {}", file.display());
    if let Some(docs) = &settings.docs {
        page::write(results, docs)?;
        write_json(&docs.join("results").join("results.json"), results)?;
        println!("  page: {}", docs.join("results.md").display());
    }
    if let Some(other) = &settings.agree {
        let text =
            std::fs::read(other).with_context(|| format!("cannot read {}", other.display()))?;
        let other: Results = serde_json::from_slice(&text).context("not results of a lab")?;
        println!("\n{}", agree::agree(&other, results).render(crate::text::Palette::of_stdout()));
    }
    Ok(())
}

fn write_json(file: &Path, results: &Results) -> Result<()> {
    if let Some(directory) = file.parent() {
        std::fs::create_dir_all(directory)?;
    }
    std::fs::write(file, serde_json::to_string_pretty(results)? + "\n")
        .with_context(|| format!("cannot write {}", file.display()))
}

/// The experiments that are asked for, in the order of the page.
fn chosen(settings: &Settings) -> Result<Vec<Experiment>> {
    let mut all = Vec::new();
    let directory = &settings.experiments;
    let entries = std::fs::read_dir(directory)
        .with_context(|| format!("no experiments in {}", directory.display()))?;
    for entry in entries.flatten() {
        let path = entry.path();
        let (Some(name), Some("toml")) = (
            path.file_stem().and_then(|stem| stem.to_str()),
            path.extension().and_then(|end| end.to_str()),
        ) else {
            continue;
        };
        all.push(Experiment::read(name, &std::fs::read_to_string(&path)?)?);
    }
    all.sort_by(|a, b| (a.order, &a.name).cmp(&(b.order, &b.name)));
    let names = all.iter().map(|e| e.name.clone()).collect::<Vec<_>>().join(", ");
    if let Some(only) = &settings.only {
        all.retain(|e| only.split(',').any(|part| e.name.contains(part)));
    }
    if settings.check {
        all.retain(|e| !e.promise.is_empty());
        // Only those of whom a promise speaks.
        for experiment in &mut all {
            let named = experiment.promise.iter().filter_map(|promise| promise.of);
            experiment.contenders = named.chain([Contender::Tiergate]).collect();
        }
    }
    ensure!(!all.is_empty(), "no such experiment; there are: {names}");
    Ok(all)
}
