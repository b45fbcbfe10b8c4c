//! What is made, kept and removed, from what there is.

use super::answer::Why;
use super::kind::{Kind, compressed_of};
use super::manifest::{Entries, Entry};
use super::settings::Settings;
use super::tree::{Source, Stamp, What};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

/// What is known before anything is done.
#[derive(Debug)]
pub(super) struct Known<'a> {
    /// The tree that it is made of, in order of the paths.
    pub(super) sources: &'a [Source],
    /// Directories of which nothing is known.
    pub(super) unread: &'a [PathBuf],
    /// What was made before.
    pub(super) entries: &'a Entries,
    /// What there is in the degraded tree now, at paths of either.
    pub(super) there: &'a BTreeMap<PathBuf, (What, Stamp)>,
}

/// What becomes of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It is made, in the place of what may have been made before.
    Make,
    /// It is as it should be.
    Keep,
    /// What is there was not made by this program, or was changed since, and stays.
    Foreign,
}

/// What is to be done.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// A step for each source.
    pub(super) steps: Vec<Step>,
    /// What goes before anything is made, as something else is to be in its place; what is in a directory before it.
    pub(super) first: Vec<PathBuf>,
    /// What goes after all is made, as its source has gone; what is in a directory before it.
    pub(super) last: Vec<PathBuf>,
    /// What stays though its source has gone: it was changed since it was made.
    pub(super) changed: Vec<PathBuf>,
}

/// The plan. Never touches what is not in `entries`, nor what differs from it.
pub(super) fn plan(known: &Known<'_>, settings: &Settings) -> Plan {
    let mut plan = Plan {
        steps: known.sources.iter().map(|source| step(source, known, settings)).collect(),
        ..Plan::default()
    };
    let wanted: BTreeMap<&Path, &What> =
        known.sources.iter().map(|it| (it.path.as_path(), &it.what)).collect();
    let is_taken = |path: &Path| wanted.get(path).is_some_and(|it| **it != What::Directory);
    for (path, entry) in known.entries.iter().rev() {
        let Some(there) = known.there.get(path) else { continue };
        match wanted.get(path.as_path()) {
            Some(what) if is_replaced(&entry.what, what) => {}
            _ if known.unread.iter().any(|unread| path.starts_with(unread)) => {}
            _ if !is_made(entry, there) => plan.changed.push(path.clone()),
            Some(_) => plan.first.push(path.clone()),
            // Below a path at which a file or link is wanted.
            None if path.ancestors().skip(1).any(is_taken) => plan.first.push(path.clone()),
            None => plan.last.push(path.clone()),
        }
    }
    plan
}

/// Whether one can take the place of the other by being renamed.
fn is_replaced(old: &What, new: &What) -> bool {
    (*old == What::Directory) == (*new == What::Directory)
}

fn step(source: &Source, known: &Known<'_>, settings: &Settings) -> Step {
    let there = known.there.get(&source.path);
    let Some(entry) = known.entries.get(&source.path) else {
        // A directory that was there may be used: nothing of it is lost.
        let shared = there.is_some_and(|(what, _)| [what, &source.what] == [&What::Directory; 2]);
        return if there.is_none() || shared { Step::Make } else { Step::Foreign };
    };
    let Some(there) = there else { return Step::Make };
    if !is_made(entry, there) {
        return Step::Foreign;
    }
    let how = how(source, settings, entry.why.as_ref());
    let same = match source.what {
        What::Directory => entry.what == What::Directory && entry.source.mode == source.stamp.mode,
        _ => {
            entry.what == source.what
                && entry.source.has_content_of(&source.stamp)
                && entry.source.mode == source.stamp.mode
                && entry.how == how
        }
    };
    if same { Step::Keep } else { Step::Make }
}

/// The settings that what is made of a source depends on, by why it is the original; `None` if it is not.
pub(super) fn how(source: &Source, settings: &Settings, why: Option<&Why>) -> String {
    let bounds = &settings.bounds;
    let bound = match why {
        Some(Why::TooLong) => format!(" file={}", bounds.file_len_max),
        Some(Why::TooManyPixels) => {
            format!(" pixels={} memory={}", bounds.pixels_max, bounds.memory_max)
        }
        _ => String::new(),
    };
    let link = if why.is_some() && settings.link { " link" } else { "" };
    settings.how(Kind::of(&source.path)) + &bound + link
}

/// Whether what is there is what was made.
pub(super) fn is_made(entry: &Entry, (what, stamp): &(What, Stamp)) -> bool {
    let linked = entry.made.inode == entry.source.inode && entry.why.is_some();
    entry.what == *what
        && match what {
            What::Directory => true,
            // A hard link changes with its source.
            What::File if linked && stamp.inode == entry.made.inode => true,
            What::File | What::Link => stamp.has_content_of(&entry.made),
        }
}

/// Whether a file is the compressed copy of one whose content is no longer that of the source.
pub(super) fn is_stale(path: &Path, renewed: &HashSet<PathBuf>) -> bool {
    compressed_of(path).is_some_and(|original| renewed.contains(&original))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(len: u64) -> Stamp {
        Stamp { len, modified: (len as i64, 0), mode: 0o644, inode: 1 }
    }

    fn source(path: &str, what: What, len: u64) -> Source {
        Source { path: path.into(), what, stamp: stamp(len) }
    }

    /// Made of content of one length, of a third of it, with default settings.
    fn entry(path: &str, what: What, len: u64) -> (PathBuf, Entry) {
        let made = Stamp { inode: 9, ..stamp(len / 3) };
        let how = Settings::default().how(Kind::of(Path::new(path)));
        let (source, page) = (stamp(len), Default::default());
        (path.into(), Entry { what, source, made, how, why: None, page })
    }

    fn there(entries: &Entries) -> BTreeMap<PathBuf, (What, Stamp)> {
        entries.iter().map(|(path, it)| (path.clone(), (it.what.clone(), it.made))).collect()
    }

    fn paths(paths: &[&str]) -> Vec<PathBuf> {
        paths.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn only_what_changed_is_made_anew() {
        let names = ["a.jpg", "b.jpg", "c.html", "d.jpg", "e.jpg"];
        let entries: Entries = names.iter().map(|it| entry(it, What::File, 30)).collect();
        let mut there = there(&entries);
        there.insert("d.jpg".into(), (What::File, stamp(99)));
        there.remove(Path::new("e.jpg"));
        there.insert("f.jpg".into(), (What::File, stamp(30)));
        let mut sources: Vec<_> = names.iter().map(|it| source(it, What::File, 30)).collect();
        sources[1].stamp = stamp(31);
        sources.push(source("f.jpg", What::File, 30));
        sources.push(source("g.jpg", What::File, 30));
        let known = Known { sources: &sources, unread: &[], entries: &entries, there: &there };
        let made = plan(&known, &Settings::default());
        use Step::{Foreign, Keep, Make};
        assert_eq!(made.steps, [Keep, Make, Keep, Foreign, Make, Foreign, Make]);
        assert_eq!((made.first, made.last, made.changed), Default::default());
        let other = Settings { quality: 50, ..Settings::default() };
        assert_eq!(plan(&known, &other).steps[..3], [Make, Make, Keep]);
        // Only originals are linked.
        let other = Settings { link: true, ..Settings::default() };
        assert_eq!(plan(&known, &other).steps[0], Keep);
    }

    #[test]
    fn what_has_gone_is_removed_unless_it_was_changed_or_is_unknown() {
        let mut entries: Entries = ["gone/a.jpg", "gone/b.jpg", "dim/c.jpg", "edited.jpg"]
            .iter()
            .map(|it| entry(it, What::File, 30))
            .collect();
        entries.extend([entry("gone", What::Directory, 0), entry("dim", What::Directory, 0)]);
        let mut there = there(&entries);
        there.insert("edited.jpg".into(), (What::File, stamp(99)));
        let sources = [source("dim", What::Directory, 0)];
        let unread = paths(&["dim"]);
        let known = Known { sources: &sources, unread: &unread, entries: &entries, there: &there };
        let made = plan(&known, &Settings::default());
        assert_eq!(made.last, paths(&["gone/b.jpg", "gone/a.jpg", "gone"]));
        assert_eq!((made.first, made.changed), (vec![], paths(&["edited.jpg"])));
    }

    #[test]
    fn a_directory_that_becomes_a_file_goes_first() {
        let entries: Entries = [
            entry("a", What::Directory, 0),
            entry("a/b.jpg", What::File, 30),
            entry("c", What::File, 30),
            entry("d", What::Link, 3),
        ]
        .into();
        let there = there(&entries);
        let sources = [
            source("a", What::File, 5),
            source("c", What::Directory, 0),
            source("d", What::File, 5),
        ];
        let known = Known { sources: &sources, unread: &[], entries: &entries, there: &there };
        let made = plan(&known, &Settings::default());
        assert_eq!(made.steps, [Step::Make; 3]);
        // A file takes the place of a link by itself.
        assert_eq!(made.first, paths(&["c", "a/b.jpg", "a"]));
        assert_eq!(made.last, paths(&[]));
    }

    #[test]
    fn a_hard_link_is_ours_while_its_source_changes() {
        let (path, mut entry) = entry("a.css", What::File, 30);
        entry.why = Some(crate::degrade::answer::Why::Other);
        entry.made = entry.source;
        let now = Stamp { inode: 1, ..stamp(77) };
        assert!(is_made(&entry, &(What::File, now)));
        assert!(!is_made(&entry, &(What::File, Stamp { inode: 2, ..now })));
        let renewed = HashSet::from([path]);
        assert!(is_stale(Path::new("a.css.gz"), &renewed));
        assert!(
            !is_stale(Path::new("b.css.gz"), &renewed) && !is_stale(Path::new("a.css"), &renewed)
        );
    }
}
