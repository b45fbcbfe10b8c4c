//! Runs, as many at a time as there may be.

use super::experiment::Experiment;
use super::progress::Progress;
use super::result;
use super::run::{self, Run, Turn};
use super::settings::Settings;
use super::store::Store;
use super::{machine, network};
use crate::contender::Contender;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A lab at work.
pub(super) struct Lab<'a> {
    pub(super) settings: &'a Settings,
    /// The gateway's program.
    pub(super) gateway: PathBuf,
    pub(super) store: Store,
    pub(super) progress: Progress,
    /// What each program says its version is.
    pub(super) versions: BTreeMap<String, String>,
    /// When no further run is begun.
    pub(super) end: Option<Instant>,
}

/// A run's figures, or why the contender could not take part.
pub(super) type Outcome = Result<result::Round, String>;

impl Lab<'_> {
    /// Those runs, as many at a time as there may be, and what came of each; `None`: time is up.
    pub(super) async fn turns(
        &mut self,
        experiment: &Experiment,
        capacity: f64,
        turns: &[Turn],
    ) -> Result<Vec<Option<Outcome>>> {
        // An origin that computes is measured alone: runs share caches and memory. A flood fills a processor.
        let jobs = match experiment.origin.computes() || !experiment.floods.is_empty() {
            true => 1,
            false => self.settings.jobs.unwrap_or_else(machine::Split::jobs),
        };
        let policies = turns.iter().map(|turn| policy(experiment, turn.contender));
        let policies: Vec<Option<String>> = policies.collect::<Result<_>>()?;
        let gateway = self.gateway.clone();
        let run = |number: usize| Run {
            experiment,
            turn: turns[number],
            capacity,
            job: number % jobs,
            jobs,
            gateway: &gateway,
            policy: policies[number].as_deref(),
        };
        let numbers: Vec<usize> = (0..turns.len()).collect();
        let mut outcomes: Vec<Option<Outcome>> = vec![None; turns.len()];
        for some in numbers.chunks(jobs) {
            let mut under_way = Vec::new();
            let mut words = Vec::new();
            let time_is_up = self.end.is_some_and(|end| Instant::now() >= end);
            let find = |number: &usize| (*number, self.store.find(&run(*number)));
            let some: Vec<_> = some.iter().map(find).collect();
            let (some, late): (Vec<_>, Vec<_>) =
                some.into_iter().partition(|(_, kept)| kept.is_some() || !time_is_up);
            late.iter().for_each(|_| self.progress.skipped());
            let mut numbers = Vec::new();
            for (number, kept) in some {
                numbers.push(number);
                if kept.is_none() {
                    let Turn { contender, slots, round } = turns[number];
                    words.push(format!("{} ({slots} at once, round {round})", contender.name()));
                }
                under_way.push(async move {
                    match kept {
                        Some(done) => (Ok(done), false),
                        None => (run(number).go().await, true),
                    }
                });
            }
            let all = futures_util::future::join_all(under_way);
            let done = self.progress.during(&words.join(", "), experiment.lasting(), all).await;
            for (&number, (done, fresh)) in numbers.iter().zip(done) {
                outcomes[number] = Some(self.take(&run(number), done, fresh)?);
            }
        }
        Ok(outcomes)
    }

    /// Keeps and shows what came of a run.
    fn take(&mut self, run: &Run<'_>, done: Result<run::Done>, fresh: bool) -> Result<Outcome> {
        match done {
            Ok(done) => {
                // What is void is tried again by the next lab.
                if fresh && done.round.void.is_none() {
                    self.store.keep(run, &done)?;
                }
                if !done.version.is_empty() {
                    let (name, now) = (run.turn.contender.name(), done.version.clone());
                    let former = self.versions.insert(name.into(), done.version);
                    let other = former.filter(|former| *former != now);
                    if let Some(other) = other {
                        bail!(
                            "{name} was version {other} in some runs and is {now} in others; \
                             measure all of them anew, with --fresh"
                        );
                    }
                }
                self.progress.ended(run.experiment, run.turn.contender, &done.round, fresh);
                Ok(Ok(done.round))
            }
            // Ours must be there; a peer may be missing.
            Err(error) if run.turn.contender.is_ours() => Err(error),
            Err(error) if error.is::<network::Refused>() => Err(error),
            Err(error) => {
                let why = format!("{error:#}");
                self.progress.failed(run.turn.contender, &why);
                Ok(Err(why))
            }
        }
    }
}

/// The experiment's own policy for a contender, where it has one.
pub(super) fn policy(experiment: &Experiment, contender: Contender) -> Result<Option<String>> {
    let whose = if contender == Contender::Off { Contender::Tiergate } else { contender };
    let name = experiment.policy.get(whose.name());
    let file = name.map(|name| Path::new(env!("CARGO_MANIFEST_DIR")).join(name));
    let read = |file: PathBuf| {
        std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
    };
    file.map(read).transpose()
}
