//! `--watch`: reloads when the policy changes.

use crate::config;
use crate::run::Process;
use anyhow::Context;
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// How long a file must be left alone before it is read: editors write in several steps.
const SETTLE: Duration = Duration::from_millis(200);
/// How often it is looked whether a folder is another one: where a link to it is moved, nothing tells.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// Reloads whenever a file of the policy changes, also when an editor or a mounted configuration replaces it or its folder, and when one
/// that is included comes or goes. That it cannot be read is a change, too: the reload says so, and the old policy stays.
pub(super) async fn watch(process: &Arc<Process>, path: &Path) -> anyhow::Result<()> {
    let (changed, mut changes) = mpsc::channel(1);
    let seen = changed.clone();
    let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|event| !event.kind.is_access()) {
            // Full: a reload is due already.
            let _ = changed.try_send(());
        }
    })?;
    let mut folders = Folders { watcher, known: HashMap::new() };
    let mut known: Result<_, String> = Ok((*process.shared.config.load().policy.sources).clone());
    let mut names = known.as_ref().map(|it| it.folders.clone()).unwrap_or_default();
    folders.follow(&names)?;
    // A change between the start and the watch was seen by neither.
    let _ = seen.try_send(());
    loop {
        match timeout(LOOK_INTERVAL, changes.recv()).await {
            Ok(Some(())) => sleep(SETTLE).await,
            Ok(None) => return Ok(()),
            Err(_) if folders.are_others().await => {}
            Err(_) => continue,
        }
        while changes.try_recv().is_ok() {}
        // Before they are read: what changes meanwhile is seen.
        folders.follow_or_warn(&names);
        let file = path.to_owned();
        // Not on this thread: a file may not answer.
        let read = tokio::task::spawn_blocking(move || config::sources(&file)).await?;
        let now = read.map_err(|fault| fault.to_string());
        if let Ok(now) = &now
            && now.folders != names
        {
            names.clone_from(&now.folders);
            folders.follow_or_warn(&names);
            // Until now nothing saw what changes there.
            let _ = seen.try_send(());
        }
        // Of a process on its way out it is the successor's matter, or the next start's.
        let leaves = process.shared.is_draining() || process.shared.has_succeeded();
        if now != known && !leaves {
            known = now;
            let process = process.clone();
            let _ = tokio::task::spawn_blocking(move || process.reload()).await;
        }
    }
}

/// The folders of a policy's files. Folders, because a file that is replaced is another file.
struct Folders {
    watcher: RecommendedWatcher,
    /// Each that is watched, and which one it was then; `None`: it was not there.
    known: HashMap<PathBuf, Option<Identity>>,
}

/// What a folder is by whatever name: its device and number.
type Identity = (u64, u64);

impl Folders {
    /// Watches these folders and no others, and those anew of which another one is in the place.
    fn follow(&mut self, names: &[PathBuf]) -> anyhow::Result<()> {
        let gone = self.known.extract_if(|name, _| !names.contains(name));
        gone.for_each(|(name, _)| drop(self.watcher.unwatch(&name)));
        let mut result = Ok(());
        for name in names {
            let now = identity(name);
            let former = self.known.insert(name.clone(), now);
            if now.is_none() || former == Some(now) {
                continue;
            }
            if former.is_some() {
                // If it has been deleted, it is watched no more.
                let _ = self.watcher.unwatch(name);
            }
            let watched = self.watcher.watch(name, RecursiveMode::NonRecursive);
            result =
                result.and(watched.with_context(|| format!("cannot watch {}", name.display())));
        }
        result
    }

    fn follow_or_warn(&mut self, names: &[PathBuf]) {
        if let Err(fault) = self.follow(names) {
            tracing::warn!("changes there will not be seen: {fault:#}");
        }
    }

    /// Whether a folder is not the one that is watched.
    async fn are_others(&self) -> bool {
        let known = self.known.clone();
        let is_other = |(name, former): (&PathBuf, &Option<Identity>)| identity(name) != *former;
        let looked = tokio::task::spawn_blocking(move || known.iter().any(is_other));
        looked.await.unwrap_or(false)
    }
}

fn identity(folder: &Path) -> Option<Identity> {
    fs::metadata(folder).ok().map(|it| (it.dev(), it.ino()))
}
