//! Makes a degraded tree: reads, plans, and carries out on several threads.
//!
//! Of what the threads share, `memory` waits, the list in `place` is locked while a line is written, and results are
//! put under a lock when a file is done.

use super::answer::{Answer, Page, Why};
use super::html;
use super::kind::Kind;
use super::manifest::{Entries, Entry};
use super::memory::Memory;
use super::picture;
use super::place::{self, Place};
use super::plan::{Known, Plan, Step, how, is_stale, plan};
use super::report::{Item, Report};
use super::settings::Settings;
use super::tree::{Source, Stamp, Walked, What, look, open_below, target_fault, walk};
use anyhow::{Context, ensure};
use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// How far a run is, and whether it is to end early. Read and set by any thread.
#[derive(Debug, Default)]
pub struct Progress {
    /// Files that are done.
    pub done: AtomicUsize,
    /// Files that there are to do; 0 while the tree is read.
    pub all: AtomicUsize,
    /// Set to end: files that are begun are finished.
    pub stop: AtomicBool,
}

/// Makes a degraded tree of a directory.
///
/// # Errors
/// When nothing was done: one directory is in the other, the target is something else, a selector is wrong, a bound is exceeded. What goes wrong
/// with a single file is in the report.
pub fn run(
    from: &Path,
    to: &Path,
    settings: &Settings,
    progress: &Progress,
) -> anyhow::Result<Report> {
    html::check(&settings.strip)?;
    let (from, to) = roots(from, to)?;
    place::check(&to, settings.update)?;
    let walked = walk(&from, settings.bounds.files_max, settings.dotfiles)?;
    let place = if settings.dry_run { None } else { Some(Place::open(&from, &to)?) };
    let entries = place::read_entries(&to, settings.bounds.files_max)?;
    ensure!(
        walked.sources.iter().any(|it| it.what == What::File) || entries.is_empty(),
        "{} has no files, and {} has: is it mounted? remove the latter if it is to go",
        from.display(),
        to.display()
    );
    let there = there(&to, &walked.sources, &entries);
    let unread: Vec<PathBuf> = walked.unread.iter().map(|it| it.0.clone()).collect();
    let known =
        Known { sources: &walked.sources, unread: &unread, entries: &entries, there: &there };
    let plan = plan(&known, settings);
    let memory = Memory::new(settings.bounds.memory_max);
    let results = (0..walked.sources.len()).map(|_| None).collect();
    let work = Work {
        from: &from,
        settings,
        place: place.as_ref(),
        progress,
        memory,
        sources: &walked.sources,
        results: Mutex::new(results),
    };
    Ok(work.carry_out(&walked, &plan, entries))
}

/// Both directories, canonical.
fn roots(from: &Path, to: &Path) -> anyhow::Result<(PathBuf, PathBuf)> {
    let source = from.canonicalize().with_context(|| format!("cannot read {}", from.display()))?;
    ensure!(source.is_dir(), "{} is no directory", from.display());
    let target = target(to).with_context(|| format!("cannot use {}", to.display()))?;
    ensure!(
        !target.starts_with(&source) && !source.starts_with(&target),
        "{} and {} must not be in one another: put the degraded tree beside, and have the origin map a path such as \
         /degraded_content to it",
        from.display(),
        to.display()
    );
    Ok((source, target))
}

/// The canonical path of a directory that need not exist.
fn target(path: &Path) -> anyhow::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let there = path.ancestors().find(|it| it.symlink_metadata().is_ok());
    let there = there.unwrap_or(Path::new("/"));
    let rest = path.strip_prefix(there).expect("it is an ancestor");
    ensure!(
        !rest.components().any(|it| it == Component::ParentDir),
        "it has `..` below what is not there"
    );
    // Joined with nothing, a path would get a slash at its end.
    Ok(there.canonicalize()?.components().chain(rest.components()).collect())
}

/// What there is in the degraded tree, at paths of its sources and of what was made.
fn there(root: &Path, sources: &[Source], entries: &Entries) -> BTreeMap<PathBuf, (What, Stamp)> {
    let paths = sources.iter().map(|it| &it.path).chain(entries.keys());
    paths.filter_map(|path| Some((path.clone(), look(&root.join(path))?))).collect()
}

/// What became of a source; `Err` says why nothing did.
type Result<T> = std::result::Result<T, String>;

struct Work<'a> {
    from: &'a Path,
    settings: &'a Settings,
    /// None in a dry run.
    place: Option<&'a Place>,
    progress: &'a Progress,
    memory: Memory,
    sources: &'a [Source],
    /// For each source; `None` before it is done.
    results: Mutex<Vec<Option<Result<Entry>>>>,
}

impl Work<'_> {
    fn carry_out(&self, walked: &Walked, plan: &Plan, mut entries: Entries) -> Report {
        let mut report = Report {
            dry_run: self.settings.dry_run,
            left_out: walked.left_out.clone(),
            failed: walked.unread.clone(),
            ..Report::default()
        };
        let changed =
            |path: &PathBuf| (path.clone(), "changed since it was made: it stays".to_owned());
        report.left_out.extend(plan.changed.iter().map(changed));
        self.progress.all.store(self.sources.len(), Ordering::Relaxed);
        self.remove(&plan.first, &mut entries, &mut report);

        let to_make = |index: &usize| plan.steps[*index] == Step::Make;
        let all = 0..self.sources.len();
        let (files, others): (Vec<_>, Vec<_>) =
            all.partition(|index| self.sources[*index].what == What::File);
        // A directory comes before what is in it.
        self.each(others.into_iter().filter(to_make).collect(), 1);
        let (contents, copies): (Vec<_>, Vec<_>) = files
            .into_iter()
            .partition(|index| Kind::of(&self.sources[*index].path) != Kind::Other);
        let mut making: Vec<_> = contents.iter().copied().filter(to_make).collect();
        // The longest first, so that no thread is left alone with one at the end.
        making.sort_by_key(|index| std::cmp::Reverse(self.sources[*index].stamp.len));
        self.each(making, self.settings.bounds.threads);

        let renewed = self.renewed(&contents, plan, &entries);
        let (stale, copies): (Vec<_>, Vec<_>) =
            copies.into_iter().partition(|index| is_stale(&self.sources[*index].path, &renewed));
        self.each(copies.into_iter().filter(to_make).collect(), self.settings.bounds.threads);
        if !self.stopped() {
            let stale = self.leave_out(&stale, plan, &entries, &mut report);
            self.remove(&stale, &mut entries, &mut report);
            self.remove(&plan.last, &mut entries, &mut report);
        } else {
            report.interrupted = true;
        }
        self.conclude(plan, entries, report)
    }

    /// Sources whose content is not in the degraded tree as it is, so that their compressed copies are not either.
    fn renewed(&self, contents: &[usize], plan: &Plan, entries: &Entries) -> HashSet<PathBuf> {
        let results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        let is_renewed = |index: &&usize| {
            let path = &self.sources[**index].path;
            match (plan.steps[**index], &results[**index]) {
                (Step::Keep, _) => entries.get(path).is_none_or(|entry| entry.why.is_none()),
                (Step::Make, Some(Ok(entry))) => entry.why.is_none(),
                _ => true,
            }
        };
        let renewed = contents.iter().filter(is_renewed);
        renewed.map(|index| self.sources[*index].path.clone()).collect()
    }

    /// Reports compressed copies that are stale; those that were made before are to be removed.
    fn leave_out(
        &self,
        stale: &[usize],
        plan: &Plan,
        entries: &Entries,
        report: &mut Report,
    ) -> Vec<PathBuf> {
        let path = |index: &usize| self.sources[*index].path.clone();
        let why = "the compressed copy of a file that was changed".to_owned();
        report.left_out.extend(stale.iter().map(|index| (path(index), why.clone())));
        let made = |index: &&usize| {
            plan.steps[**index] != Step::Foreign && entries.contains_key(&path(index))
        };
        stale.iter().filter(made).map(path).collect()
    }

    fn remove(&self, paths: &[PathBuf], entries: &mut Entries, report: &mut Report) {
        for path in paths {
            match self.place.map_or(Ok(()), |place| place.remove(path)) {
                // A directory with files of others stays, and is no longer ours.
                Ok(()) => report.removed += 1,
                Err(fault) if fault.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                Err(fault) if fault.kind() == io::ErrorKind::NotFound => {}
                Err(fault) => {
                    report.failed.push((path.clone(), format!("cannot be removed: {fault}")));
                    continue;
                }
            }
            entries.remove(path);
        }
    }

    /// Makes these sources, on so many threads.
    fn each(&self, indices: Vec<usize>, threads: usize) {
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(&index) = indices.get(next.fetch_add(1, Ordering::Relaxed)) {
                if self.stopped() {
                    break;
                }
                let made = self.make(&self.sources[index]);
                self.results.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(made);
                self.progress.done.fetch_add(1, Ordering::Relaxed);
            }
        };
        std::thread::scope(|scope| {
            let threads = threads.clamp(1, indices.len().max(1));
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            work();
            drop(others);
        });
    }

    fn stopped(&self) -> bool {
        self.progress.stop.load(Ordering::Relaxed)
    }

    fn make(&self, source: &Source) -> Result<Entry> {
        let entry = Entry {
            what: source.what.clone(),
            source: source.stamp,
            made: source.stamp,
            how: how(source, self.settings, Some(&Why::Other)),
            why: Some(Why::Other),
            page: Page::default(),
        };
        let made = match (&source.what, self.place) {
            (What::File, _) => self.file(source, entry),
            (_, None) => Ok(entry),
            (What::Directory, Some(place)) => place.directory(source, entry),
            (What::Link, Some(place)) => self.link(place, source, entry),
        };
        made.map_err(|fault| fault.to_string())
    }

    fn link(&self, place: &Place, source: &Source, entry: Entry) -> io::Result<Entry> {
        let target = fs::read_link(self.from.join(&source.path))?;
        // It may be another one than when the tree was read.
        match target_fault(&source.path, &target) {
            Some(why) => Err(io::Error::other(why)),
            None => place.link(source, &target, entry),
        }
    }

    fn file(&self, source: &Source, mut entry: Entry) -> io::Result<Entry> {
        let path = self.from.join(&source.path);
        let mut file = open_below(self.from, &source.path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("no longer a file"));
        }
        // As it was before it was read: what changes meanwhile is seen at the next update.
        entry.source = Stamp::of(&metadata);
        entry.made = entry.source;
        match self.answer(source, &mut file)? {
            Answer::New(bytes, page) => {
                let made = Stamp { len: bytes.len() as u64, ..entry.source };
                let how = how(source, self.settings, None);
                let entry = Entry { made, how, why: None, page, ..entry };
                self.place.map_or(Ok(entry.clone()), |place| place.write(source, &bytes, entry))
            }
            Answer::Original(why) => {
                file.rewind()?;
                let how = how(source, self.settings, Some(&why));
                let (entry, link) = (Entry { how, why: Some(why), ..entry }, self.settings.link);
                let Some(place) = self.place else { return Ok(entry) };
                place.copy(source, (&path, &mut file), link, entry)
            }
        }
    }

    fn answer(&self, source: &Source, file: &mut File) -> io::Result<Answer> {
        let (kind, most) = (Kind::of(&source.path), self.settings.bounds.file_len_max);
        if kind == Kind::Other {
            return Ok(Answer::Original(Why::Other));
        }
        let mut bytes = Vec::new();
        if source.stamp.len <= most {
            file.take(most + 1).read_to_end(&mut bytes)?;
        }
        if source.stamp.len > most || bytes.len() as u64 > most {
            return Ok(Answer::Original(Why::TooLong));
        }
        if !kind.fits(&bytes) {
            return Ok(Answer::Original(Why::NotItsType));
        }
        // A decoder that panics is a fault of one file, not of all.
        let decide = || match kind {
            Kind::Html => html::degrade(&bytes, self.settings),
            _ => picture::degrade(kind, &bytes, self.settings, &self.memory),
        };
        let answer = catch_unwind(AssertUnwindSafe(decide));
        Ok(answer.unwrap_or_else(|_| Answer::Original(Why::Broken("the decoder failed".into()))))
    }

    /// Lists and reports what was made.
    fn conclude(&self, plan: &Plan, mut entries: Entries, mut report: Report) -> Report {
        let results =
            std::mem::take(&mut *self.results.lock().unwrap_or_else(PoisonError::into_inner));
        let left_out: HashSet<PathBuf> = report.left_out.iter().map(|it| it.0.clone()).collect();
        for ((source, step), result) in self.sources.iter().zip(&plan.steps).zip(results) {
            match (step, result) {
                (_, Some(Ok(entry))) => {
                    report.made += 1;
                    entries.insert(source.path.clone(), entry);
                }
                (_, Some(Err(why))) => {
                    report.failed.push((source.path.clone(), why));
                    continue;
                }
                (Step::Foreign, None) => {
                    let why = "what is there was not made by tiergate, or was changed: it stays";
                    if !left_out.contains(&source.path) {
                        report.left_out.push((source.path.clone(), why.to_owned()));
                    }
                    continue;
                }
                (Step::Keep, None) if !left_out.contains(&source.path) => report.kept += 1,
                (Step::Keep, None) => continue,
                (Step::Make, None) => {
                    report.interrupted |= !left_out.contains(&source.path);
                    continue;
                }
            }
            let entry = &entries[&source.path];
            if source.what == What::File {
                report.items.push(Item::of(&source.path, entry));
            }
        }
        if let Some(Err(fault)) = self.place.map(|place| place.finish(&entries)) {
            report.failed.push((super::tree::OWN.into(), fault.to_string()));
        }
        report
    }
}
