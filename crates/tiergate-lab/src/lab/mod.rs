//! `make lab`: experiments on real servers, with Tiergate, with its peers, with nothing in front.
//!
//! An experiment is a file in `experiments/` ([`experiment`]). Each contender ([`crate::contender`]) runs
//! it several times: three machines are made ([`network`]), the origin ([`server`]) and the
//! contender are started, the clients ask ([`run`]), figures are taken ([`measure`]) and kept
//! ([`store`]). In the end all of them are one document ([`result`]) and two pages: all of it ([`page`]), and the papers'
//! figures next to ours ([`papers`]).

mod agree;
mod apart;
mod beside;
mod busy;
pub(crate) mod calibrated;
mod capacity;
mod changes;
mod check;
mod delay;
mod dns;
#[cfg(test)]
mod doubts;
mod drive;
mod experiment;
mod flood;
mod flooding;
mod hogs;
mod httperf;
mod join;
mod kernel;
mod machine;
mod measure;
mod network;
mod oha;
mod page;
mod papers;
mod progress;
mod promise;
#[cfg(test)]
mod readme;
mod result;
mod rounds;
mod run;
mod search;
mod server;
mod settings;
mod store;
mod surge;
mod transient;
mod turns;
mod waits;

pub(crate) use settings::Settings;

use crate::contender::Contender;
use anyhow::{Context, Result, ensure};
use experiment::Experiment;
use progress::Progress;
use result::Results;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use store::Store;
use tiergate_draw::Paint;
use turns::Lab;

/// Runs what is asked for.
pub(crate) async fn run(settings: Settings) -> Result<()> {
    let all = all(&settings.experiments)?;
    let experiments = chosen(&all, &settings)?;
    if settings.list {
        for experiment in &experiments {
            println!("  {:<24} {}", experiment.name, experiment.title);
        }
        return Ok(());
    }
    if let Some(file) = &settings.page {
        return finish(&settings, &read(file)?.in_words_of(&all), &all);
    }
    let gateway = crate::gateway_program(settings.gateway.as_deref())?;
    let (experiments, missing) = installed(experiments);
    for (experiment, why) in &missing {
        println!("  {} is left out: {why}", experiment.name);
    }
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
    let judged = experiments.iter().zip(&results);
    let broken: Vec<String> = judged.clone().flat_map(|(e, r)| check::broken(e, r)).collect();
    let hollow: Vec<String> = judged.flat_map(|(e, r)| check::hollow(e, r)).collect();
    let results = Results {
        machine: machine::machine(settings.jobs.unwrap_or_else(machine::Split::jobs)),
        versions: lab.versions,
        experiments: results,
    };
    finish(&settings, &results, &all)?;
    if settings.off {
        return told_off(&experiments, &hollow);
    }
    for line in &broken {
        println!("  promise broken: {line}");
    }
    ensure!(broken.is_empty() || !settings.check, "{} promises are broken", broken.len());
    Ok(())
}

/// Tells which promises hold without their features, and fails if any does.
fn told_off(experiments: &[Experiment], hollow: &[String]) -> Result<()> {
    let all: usize = experiments.iter().map(|experiment| experiment.promise.len()).sum();
    for line in hollow {
        println!("  proves nothing: {line}");
    }
    println!(
        "  {} of {all} promises fail once their feature is off, as they should",
        all - hollow.len()
    );
    ensure!(hollow.is_empty(), "{} promises hold without their features", hollow.len());
    Ok(())
}

/// Those whose origin is installed, and the others with what is missing.
fn installed(experiments: Vec<Experiment>) -> (Vec<Experiment>, Vec<(Experiment, String)>) {
    let mut missing = Vec::new();
    let mut installed = Vec::new();
    for experiment in experiments {
        match experiment.origin.installed() {
            Ok(()) => installed.push(experiment),
            Err(why) => missing.push((experiment, format!("{why:#}"))),
        }
    }
    (installed, missing)
}

/// Writes the results and the pages, and compares with other results. Of `all` experiments that there are, those on the
/// pages that were not run anew stay as they are.
fn finish(settings: &Settings, results: &Results, all: &[Experiment]) -> Result<()> {
    write_json(&settings.store, results)?;
    println!("\n{}", page::summary(results).render(Paint::stdout()));
    println!("  written to {}", settings.store.join("results.json").display());
    if let Some(docs) = &settings.docs {
        let file = docs.join("results/results.json");
        let former = file.exists().then(|| read(&file)).transpose()?;
        let results = results.clone().joined(former, all).in_words_of(all);
        page::write(&results, docs)?;
        write_json(&docs.join("results"), &results)?;
        papers::write(&results, all, docs)?;
        for page in ["results.md", "papers.md"] {
            println!("  page: {}", docs.join(page).display());
        }
    }
    if let Some(other) = &settings.agree {
        println!("\n{}", agree::agree(&read(other)?, results).render(Paint::stdout()));
    }
    Ok(())
}

fn read(file: &Path) -> Result<Results> {
    let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_slice(&text).context("not results of a lab")
}

impl Results {
    /// The same figures, with what the experiments' files and the contenders say of themselves now. What is of an earlier sitting
    /// keeps its words: the file may say another thing since.
    fn in_words_of(mut self, experiments: &[Experiment]) -> Self {
        for result in self.experiments.iter_mut().filter(|result| result.sitting.is_none()) {
            if let Some(experiment) = experiments.iter().find(|e| e.name == result.name) {
                result.title.clone_from(&experiment.title);
                result.asks.clone_from(&experiment.asks);
                result.remarks.clone_from(&experiment.remarks);
            }
            for contender in &mut result.contenders {
                if let Ok(known) = Contender::parse(&contender.name) {
                    contender.about = known.about().into();
                }
            }
        }
        self
    }
}

fn write_json(directory: &Path, results: &Results) -> Result<()> {
    std::fs::create_dir_all(directory)?;
    let file = directory.join("results.json");
    std::fs::write(&file, serde_json::to_string_pretty(results)? + "\n")
        .with_context(|| format!("cannot write {}", file.display()))
}

/// All experiments, in the order of the page.
fn all(directory: &Path) -> Result<Vec<Experiment>> {
    let mut all = Vec::new();
    let entries = std::fs::read_dir(directory)
        .with_context(|| format!("no experiments in {}", directory.display()))?;
    for entry in entries.flatten() {
        let name = entry.file_name();
        if let Some(name) = name.to_str().and_then(|name| name.strip_suffix(".toml")) {
            all.push(Experiment::read(name, &std::fs::read_to_string(entry.path())?)?);
        }
    }
    let place = |e: &Experiment| (e.order.unwrap_or(u32::MAX), e.name.clone());
    all.sort_by_key(place);
    Ok(all)
}

/// Those that are asked for.
fn chosen(experiments: &[Experiment], settings: &Settings) -> Result<Vec<Experiment>> {
    let names = experiments.iter().map(|e| e.name.clone()).collect::<Vec<_>>().join(", ");
    let mut all = experiments.to_vec();
    if let Some(only) = &settings.only {
        let is_name = |part: &str| experiments.iter().any(|e| e.name == part);
        all.retain(|e| {
            only.split(',').any(|part| e.name == part || !is_name(part) && e.name.contains(part))
        });
    }
    if settings.check {
        all.retain(|e| !e.promise.is_empty() && (settings.weekly || !e.weekly));
        // Only those of whom a promise speaks.
        let ours = if settings.off { Contender::Off } else { Contender::Tiergate };
        if settings.off {
            all = all.iter().flat_map(check::by_feature).collect();
        }
        for experiment in &mut all {
            let named = experiment.promise.iter().filter_map(|promise| promise.of);
            experiment.contenders = named.chain([ours]).collect();
        }
    }
    ensure!(!all.is_empty(), "no such experiment; there are: {names}");
    Ok(all)
}
