//! What there is in a tree of files.

use rustix::fs::{CWD, Mode, OFlags, openat};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Where a degraded tree keeps the list of its files, below its root.
pub(super) const OWN: &str = ".tiergate-degraded";

/// A file, directory or symbolic link of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    /// Its path below the root of the tree.
    pub(super) path: PathBuf,
    /// What it is.
    pub(super) what: What,
    /// By what a change is seen.
    pub(super) stamp: Stamp,
}

/// What there may be at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum What {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link to somewhere in the tree.
    Link,
}

/// By what a change of a file is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    /// Length in bytes.
    pub(super) len: u64,
    /// Time of the last modification, in seconds and nanoseconds since 1970.
    pub(super) modified: (i64, i64),
    /// Permission bits.
    pub(super) mode: u32,
    /// Number of the inode. It tells a hard link from a copy, and differs after a restore; so it is compared for links only.
    pub(super) inode: u64,
}

/// A tree.
#[derive(Debug, Default)]
pub(super) struct Walked {
    /// What there is, each directory before what is in it; in order of the paths.
    pub(super) sources: Vec<Source>,
    /// What is left out, and why.
    pub(super) left_out: Vec<(PathBuf, String)>,
    /// What could not be read, and why. Of what is below nothing is known.
    pub(super) unread: Vec<(PathBuf, String)>,
}

impl Stamp {
    /// The stamp of what has these metadata.
    pub(super) fn of(metadata: &Metadata) -> Self {
        Stamp {
            len: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            mode: metadata.mode() & 0o777,
            inode: metadata.ino(),
        }
    }

    /// Whether the content is taken for the same: length and time of modification are.
    pub(super) fn has_content_of(&self, other: &Stamp) -> bool {
        self.len == other.len && self.modified == other.modified
    }
}

/// What there is at a path, if anything. A symbolic link is not followed.
pub(super) fn look(path: &Path) -> Option<(What, Stamp)> {
    let metadata = fs::symlink_metadata(path).ok()?;
    let what = match metadata.file_type() {
        kind if kind.is_dir() => What::Directory,
        kind if kind.is_symlink() => What::Link,
        _ => What::File,
    };
    Some((what, Stamp::of(&metadata)))
}

/// Reads the tree below a directory, whose path must be canonical. Symbolic links are not followed. Without `dotfiles`, what has a name
/// that begins with a dot is left out, with what is below it: servers often keep such files from clients by path, which does not hold for another tree.
///
/// # Errors
/// When there is more than the bound, or the root cannot be read.
pub(super) fn walk(root: &Path, files_max: usize, dotfiles: bool) -> anyhow::Result<Walked> {
    let mut walked = Walked::default();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(root.join(&folder)) {
            Ok(entries) => entries,
            Err(fault) if folder.as_os_str().is_empty() => {
                anyhow::bail!("cannot read {}: {fault}", root.display())
            }
            Err(fault) => {
                walked.unread.push((folder, fault.to_string()));
                continue;
            }
        };
        for entry in entries {
            let (path, metadata) = match entry.and_then(|it| Ok((it.file_name(), it.metadata()?))) {
                Ok((name, metadata)) => (folder.join(name), metadata),
                // It has gone since.
                Err(fault) if fault.kind() == io::ErrorKind::NotFound => continue,
                // Without a name it cannot be said which; all of the directory is doubtful.
                Err(fault) => {
                    walked.unread.push((folder.clone(), fault.to_string()));
                    break;
                }
            };
            if path == Path::new(OWN) {
                continue;
            }
            if !dotfiles && is_dotfile(&path) {
                let why = "its name begins with a dot: --dotfiles includes such files";
                walked.left_out.push((path, why.to_owned()));
            } else {
                walked.add(root, path, &metadata, &mut folders);
            }
            let number = walked.sources.len() + walked.left_out.len();
            anyhow::ensure!(number <= files_max, "more than {files_max} files: set --files-max");
        }
    }
    walked.sources.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    walked.left_out.sort_unstable();
    Ok(walked)
}

impl Walked {
    fn add(&mut self, root: &Path, path: PathBuf, metadata: &Metadata, folders: &mut Vec<PathBuf>) {
        let kind = metadata.file_type();
        let what = if kind.is_file() {
            What::File
        } else if kind.is_dir() {
            folders.push(path.clone());
            What::Directory
        } else if kind.is_symlink() {
            match link_fault(root, &path) {
                None => What::Link,
                Some(why) => return self.left_out.push((path, why.to_owned())),
            }
        } else {
            return self.left_out.push((path, "neither a file nor a directory".to_owned()));
        };
        self.sources.push(Source { path, what, stamp: Stamp::of(metadata) });
    }
}

/// Whether the name begins with a dot. What is in `.well-known` is for everybody (RFC 8615).
fn is_dotfile(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name.as_encoded_bytes().starts_with(b".") && name != ".well-known"
}

/// Why a symbolic link is not copied. One that leads out of the tree would serve what is not in it; an absolute one would serve the
/// original.
fn link_fault(root: &Path, path: &Path) -> Option<&'static str> {
    let at = root.join(path);
    let Ok(target) = fs::read_link(&at) else {
        return Some("a symbolic link that cannot be read");
    };
    if let Some(why) = target_fault(path, &target) {
        return Some(why);
    }
    // On its way a link may meet others, so what counts is where it arrives.
    match at.canonicalize() {
        Ok(target) if target.starts_with(root) => None,
        Ok(_) => Some("a symbolic link that leads out of the tree"),
        Err(_) => Some("a symbolic link to nothing"),
    }
}

/// Why a symbolic link at a path of the tree is not copied, by the text of its target.
pub(super) fn target_fault(link: &Path, target: &Path) -> Option<&'static str> {
    if target.is_absolute() {
        Some("a symbolic link with an absolute path")
    } else if !stays_inside(link, target) {
        Some("a symbolic link that leads out of the tree")
    } else {
        None
    }
}

/// Whether the target of a link at a path of the tree is in the tree, by its text.
fn stays_inside(link: &Path, target: &Path) -> bool {
    let mut depth = link.components().count() - 1;
    for part in target.components() {
        match part {
            Component::ParentDir if depth == 0 => return false,
            Component::ParentDir => depth -= 1,
            Component::Normal(_) => depth += 1,
            _ => {}
        }
    }
    true
}

/// Whether all directories above a path of a tree are directories, and no symbolic links: what is written or removed there is
/// in the tree.
///
/// # Errors
/// When one is not, or there is none.
pub(super) fn check_parents(root: &Path, path: &Path) -> io::Result<()> {
    let mut at = root.to_owned();
    for part in path.parent().unwrap_or(Path::new("")).components() {
        at.push(part);
        if !fs::symlink_metadata(&at)?.is_dir() {
            return Err(io::Error::other(format!("{} is no directory", at.display())));
        }
    }
    Ok(())
}

/// Opens a file below a directory to be read. No symbolic link is followed, whatever became of the directories since they were read,
/// nor is a pipe waited for: who asks looks whether it is a file.
///
/// # Errors
/// When there is none, or a symbolic link on the way.
pub(super) fn open_below(root: &Path, path: &Path) -> io::Result<File> {
    let read = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = openat(CWD, root, read | OFlags::DIRECTORY, Mode::empty())?;
    for part in path.parent().unwrap_or(Path::new("")).components() {
        at = openat(&at, part.as_os_str(), read | OFlags::DIRECTORY, Mode::empty())?;
    }
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    Ok(openat(&at, name, read | OFlags::NONBLOCK, Mode::empty())?.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn dotfiles_are_left_out_unless_they_are_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let root = &folder.path().canonicalize().unwrap();
        for name in [".git/config", "a/.htpasswd", ".well-known/x", "a/b.html"] {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), "x").unwrap();
        }
        let of = |dotfiles| {
            let walked = walk(root, 100, dotfiles).unwrap();
            let sources = walked.sources.iter().map(|it| it.path.display().to_string());
            let out = walked.left_out.iter().map(|it| it.0.display().to_string());
            (sources.collect::<Vec<_>>().join(" "), out.collect::<Vec<_>>().join(" "))
        };
        let (sources, out) = of(false);
        assert_eq!(sources, ".well-known .well-known/x a a/b.html");
        assert_eq!(out, ".git a/.htpasswd");
        let (sources, out) = of(true);
        assert!(sources.contains(".git/config") && sources.contains("a/.htpasswd"), "{sources}");
        assert_eq!(out, "");
    }

    #[test]
    fn links_stay_inside_or_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let root = &folder.path().canonicalize().unwrap().join("site");
        fs::create_dir_all(root.join("d1/d2")).unwrap();
        fs::create_dir(root.join("top")).unwrap();
        fs::write(root.join("page"), "x").unwrap();
        fs::write(folder.path().join("secret"), "x").unwrap();
        for (path, target) in [
            ("ok", "page"),
            ("d1/ok", "../page"),
            ("loop", "."),
            ("away", "../secret"),
            ("rooted", "/etc/passwd"),
            ("nothing", "absent"),
            ("self", "self"),
            // Inside by its text, outside by way of another link.
            ("d1/d2/up", "../../top"),
            ("d1/d2/sly", "up/../../secret"),
        ] {
            symlink(target, root.join(path)).unwrap();
        }
        let walked = walk(root, 100, false).unwrap();
        let links = walked.sources.iter().filter(|it| it.what == What::Link);
        let links: Vec<_> = links.map(|it| it.path.to_str().unwrap()).collect();
        assert_eq!(links, ["d1/d2/up", "d1/ok", "loop", "ok"]);
        let out: Vec<_> = walked.left_out.iter().map(|it| it.0.to_str().unwrap()).collect();
        assert_eq!(out, ["away", "d1/d2/sly", "nothing", "rooted", "self"]);
        let fault = |link: &str, target: &str| target_fault(Path::new(link), Path::new(target));
        assert_eq!(fault("d1/ok", "../page"), None);
        assert!(fault("ok", "/etc/passwd").is_some() && fault("d1/ok", "../../secret").is_some());
        assert!(walk(root, 13, false).is_ok() && walk(root, 12, false).is_err());
        assert!(check_parents(root, Path::new("d1/d2/x")).is_ok());
        assert!(check_parents(root, Path::new("d1/d2/up/x")).is_err());
        assert!(check_parents(root, Path::new("absent/x")).is_err());

        fs::write(root.join("d1/d2/x"), "deep").unwrap();
        fs::write(root.join("top/x"), "top").unwrap();
        let read = |path| open_below(root, Path::new(path)).and_then(io::read_to_string).ok();
        assert_eq!(read("d1/d2/x").as_deref(), Some("deep"));
        assert_eq!(read("page").as_deref(), Some("x"));
        for path in ["d1/d2/up/x", "ok", "away", "absent", ""] {
            assert_eq!(read(path), None, "{path}");
        }
    }
}
