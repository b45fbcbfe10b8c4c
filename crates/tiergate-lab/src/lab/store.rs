//! Runs that are done, one file each, so that a lab that was interrupted goes on where it was.
//!
//! A run is kept under a key of everything that it depends on: what the experiment does, the
//! contender's configuration and, for ours, the program. What has changed is run again.

use super::capacity;
use super::experiment::Experiment;
use super::run::{Done, Run, Turn};
use anyhow::{Context, Result};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// Where runs are kept.
pub(super) struct Store {
    directory: PathBuf,
}

impl Store {
    /// In that directory.
    pub(super) fn new(directory: &Path) -> Result<Self> {
        std::fs::create_dir_all(directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        Ok(Self { directory: directory.into() })
    }

    /// The run, if it is done; an unreadable file is as good as none.
    pub(super) fn find(&self, run: &Run<'_>) -> Option<Done> {
        serde_json::from_slice(&std::fs::read(self.file(run)).ok()?).ok()
    }

    /// Keeps a run. Written aside and renamed, so that a crash leaves no half of it.
    pub(super) fn keep(&self, run: &Run<'_>, done: &Done) -> Result<()> {
        let (file, aside) = (self.file(run), self.directory.join("new"));
        std::fs::write(&aside, serde_json::to_vec_pretty(done)?)?;
        std::fs::rename(&aside, &file).with_context(|| format!("cannot write {}", file.display()))
    }

    /// The origin's capacity as it was measured for the experiment, now or before: all contenders,
    /// and a lab that goes on, have the same.
    pub(super) async fn capacity(&self, experiment: &Experiment) -> Result<f64> {
        let mut hasher = DefaultHasher::new();
        experiment.essence.hash(&mut hasher);
        let name = format!("{}.capacity.{:016x}.json", experiment.name, hasher.finish());
        let file = self.directory.join(name);
        let kept = std::fs::read(&file).ok().and_then(|text| serde_json::from_slice(&text).ok());
        if let Some(capacity) = kept {
            return Ok(capacity);
        }
        let capacity = capacity::measured(experiment).await?;
        std::fs::write(&file, serde_json::to_vec(&capacity)?)?;
        Ok(capacity)
    }

    /// Forgets all runs.
    pub(super) fn clear(&self) -> Result<()> {
        for entry in std::fs::read_dir(&self.directory)?.flatten() {
            if entry.path().extension().is_some_and(|end| end == "json") {
                std::fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    fn file(&self, run: &Run<'_>) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        run.experiment.essence.hash(&mut hasher);
        let Turn { contender, slots, round } = run.turn;
        run.policy.unwrap_or(contender.template()).hash(&mut hasher);
        slots.hash(&mut hasher);
        if contender.is_ours() {
            std::fs::read(run.gateway).unwrap_or_default().hash(&mut hasher);
        }
        let (name, front, key) = (&run.experiment.name, contender.name(), hasher.finish());
        self.directory.join(format!("{name}.{front}.{round}.{key:016x}.json"))
    }
}
