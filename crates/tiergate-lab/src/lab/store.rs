//! Runs that are done, one file each, so that a lab that was interrupted goes on where it was.
//!
//! The runs of an experiment are kept for one *sitting*: all contenders on the same machine, in the same configurations, with the same
//! gateway, within half a day. If anything of that changes, or the sitting has become too old, all of them are run again: figures
//! of other days or programs are never compared with each other.

use super::capacity;
use super::experiment::Experiment;
use super::run::{Done, Run, Turn};
use crate::contender::{Contender, Off};
use anyhow::{Context, Result};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// An experiment's runs that are this far apart are not compared: other tenants of the machine come and go.
const SITTING: Duration = Duration::from_secs(12 * 3600);

/// What the runs that are kept of an experiment have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct Sitting {
    /// A hash of what they depend on.
    of: u64,
    /// When the first began, in seconds since 1970.
    began_s: u64,
}

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

    /// Goes on with the experiment's sitting if it has these contenders, each with its configuration, this gateway and
    /// machine, and began not long ago. Else it begins another, and forgets the runs of the former.
    pub(super) fn sit(
        &self,
        experiment: &Experiment,
        contenders: &[(Contender, Option<String>)],
        gateway: &Path,
        machine: &str,
    ) -> Result<()> {
        let mut hasher = DefaultHasher::new();
        experiment.essence.hash(&mut hasher);
        for (contender, policy) in contenders {
            contender.name().hash(&mut hasher);
            policy.as_deref().unwrap_or(contender.template()).hash(&mut hasher);
        }
        if contenders.iter().any(|(contender, _)| *contender == Contender::Off) {
            experiment.off.as_ref().map(Off::words).hash(&mut hasher);
        }
        std::fs::read(gateway).unwrap_or_default().hash(&mut hasher);
        machine.hash(&mut hasher);
        let of = hasher.finish();
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let file = self.directory.join(format!("{}.sitting.json", experiment.name));
        let kept = std::fs::read(&file).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let goes_on = |kept: &Sitting| {
            kept.of == of && now_s.saturating_sub(kept.began_s) < SITTING.as_secs()
        };
        if kept.as_ref().is_some_and(goes_on) {
            return Ok(());
        }
        self.forget(&format!("{}.", experiment.name))?;
        std::fs::write(&file, serde_json::to_vec(&Sitting { of, began_s: now_s })?)
            .with_context(|| format!("cannot write {}", file.display()))
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
        let file = self.directory.join(format!("{}.capacity.json", experiment.name));
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
        self.forget("")
    }

    /// Forgets what begins with this.
    fn forget(&self, prefix: &str) -> Result<()> {
        for entry in std::fs::read_dir(&self.directory)?.flatten() {
            let name = entry.file_name();
            let begins = name.to_str().is_some_and(|name| name.starts_with(prefix));
            if begins && entry.path().extension().is_some_and(|end| end == "json") {
                std::fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    fn file(&self, run: &Run<'_>) -> PathBuf {
        let (name, Turn { contender, slots, round }) = (&run.experiment.name, run.turn);
        self.directory.join(format!("{name}.{}.{slots}.{round}.json", contender.name()))
    }
}
