//! The degraded tree on disk: files that take their place whole, and the list of what was made.

use super::manifest::{self, Entries, Entry, LINE_LEN_MAX};
use super::plan::is_made;
use super::tree::{OWN, Source, Stamp, check_parents, look};
use anyhow::{Context, ensure};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;
use tempfile::NamedTempFile;

/// The list of what was made, in [`OWN`].
const LIST: &str = "files.jsonl";
/// Where files are written before they take their place, in [`OWN`].
const TEMPORARY: &str = "tmp";
/// Held while a tree is made, in [`OWN`].
const LOCK: &str = "lock";

/// Looks at a tree that may be written.
///
/// # Errors
/// When there is something that is no degraded tree, or one and `update` is not set.
pub(super) fn check(root: &Path, update: bool) -> anyhow::Result<()> {
    if root.join(OWN).join(LIST).is_file() {
        ensure!(update, "{} is a degraded tree already: --update renews it", root.display());
        return Ok(());
    }
    let mut entries = match fs::read_dir(root) {
        Ok(entries) => entries,
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(fault) => return Err(fault).context(format!("cannot read {}", root.display())),
    };
    // What a run left that was stopped before it had written anything.
    let other = entries.find(|entry| !entry.as_ref().is_ok_and(|it| it.file_name() == OWN));
    ensure!(
        other.is_none(),
        "{} is not empty, and was not made by tiergate degrade: name a directory that is, or a new one",
        root.display()
    );
    Ok(())
}

/// What was made before; at most so many entries.
///
/// # Errors
/// When the list cannot be read.
pub(super) fn read_entries(root: &Path, files_max: usize) -> anyhow::Result<Entries> {
    let path = root.join(OWN).join(LIST);
    let context = || format!("cannot read {}", path.display());
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => return Ok(Entries::new()),
        Err(fault) => return Err(fault).with_context(context),
    };
    let (mut reader, mut entries) = (BufReader::new(file), Entries::new());
    loop {
        let mut line = Vec::new();
        if reader.by_ref().take(LINE_LEN_MAX).read_until(b'\n', &mut line).with_context(context)?
            == 0
        {
            return Ok(entries);
        }
        for (path, entry) in manifest::entries(String::from_utf8_lossy(&line).lines()) {
            let earlier = entries.get(&path);
            if !earlier.is_some_and(|earlier| is_pending(root, &path, earlier, &entry)) {
                entries.insert(path, entry);
            }
        }
        // What is there beyond would not be known as ours.
        ensure!(entries.len() <= files_max, "more than {files_max} files: set --files-max");
    }
}

/// Whether what there is at a path is still what an earlier line says: after the later one was written, the program was killed before
/// the file took its place.
fn is_pending(root: &Path, path: &Path, earlier: &Entry, later: &Entry) -> bool {
    let there = look(&root.join(path));
    there.is_some_and(|there| is_made(earlier, &there) && !is_made(later, &there))
}

/// A degraded tree that is being made. May be used by several threads.
#[derive(Debug)]
pub(super) struct Place {
    root: PathBuf,
    list: Mutex<List<File>>,
    /// Locked until dropped.
    _lock: File,
}

impl Place {
    /// Creates the directory of the tree, with the permission bits of that of the source, or locks the one that there is.
    ///
    /// # Errors
    /// When it cannot be written, or another process writes it.
    pub(super) fn open(source: &Path, root: &Path) -> anyhow::Result<Self> {
        create(source, root).with_context(|| format!("cannot create {}", root.display()))?;
        let own = root.join(OWN);
        let context = || format!("cannot write {}", own.display());
        // A server must not show the list, whose paths may be secrets of the site.
        match fs::DirBuilder::new().mode(0o700).create(&own) {
            Err(fault) if fault.kind() != io::ErrorKind::AlreadyExists => {
                return Err(fault).with_context(context);
            }
            _ => check_parents(root, &Path::new(OWN).join(LIST)).with_context(context)?,
        }
        let mut open = OpenOptions::new();
        open.create(true).append(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        let lock = open.open(own.join(LOCK)).with_context(context)?;
        ensure!(lock.try_lock().is_ok(), "another process is making {}", root.display());
        // What a run left that was killed.
        match fs::remove_dir_all(own.join(TEMPORARY)) {
            Err(fault) if fault.kind() != io::ErrorKind::NotFound => Err(fault),
            _ => fs::create_dir(own.join(TEMPORARY)),
        }
        .with_context(context)?;
        let mut list = open.open(own.join(LIST)).with_context(context)?;
        // After a line that was cut off.
        list.write_all(b"\n").with_context(context)?;
        let list = Mutex::new(List { to: list, is_cut: false });
        Ok(Place { root: root.to_owned(), list, _lock: lock })
    }

    /// Writes new content, with mode and time of modification of the source.
    ///
    /// The time of the source lets a client whose copy is the original keep it: `If-Modified-Since` is answered 304.
    ///
    /// # Errors
    /// When the disk is full, and other faults of writing; nothing has changed then.
    pub(super) fn write(&self, source: &Source, bytes: &[u8], entry: Entry) -> io::Result<Entry> {
        let mut file = self.temporary()?;
        file.write_all(bytes)?;
        self.settle(source, file, entry)
    }

    /// Copies a file that is open, or links it.
    ///
    /// # Errors
    /// As those of [`Place::write`].
    pub(super) fn copy(
        &self,
        source: &Source,
        (path, content): (&Path, &mut File),
        link: bool,
        entry: Entry,
    ) -> io::Result<Entry> {
        if link {
            let name = self.temporary()?.into_temp_path();
            fs::remove_file(&name)?;
            // Where links cannot be: another file system, or too many of them.
            if fs::hard_link(path, &name).is_ok() {
                let made = Stamp::of(&fs::symlink_metadata(&name)?);
                // Not what was opened: it was replaced meanwhile.
                if made.inode == entry.source.inode {
                    let entry = Entry { made, ..entry };
                    self.record(source, &entry, || {
                        fs::rename(&name, self.root.join(&source.path))
                    })?;
                    return Ok(entry);
                }
            }
        }
        let mut file = self.temporary()?;
        io::copy(content, file.as_file_mut())?;
        self.settle(source, file, entry)
    }

    fn settle(&self, source: &Source, file: NamedTempFile, entry: Entry) -> io::Result<Entry> {
        let (seconds, nanos) = entry.source.modified;
        let since = std::time::Duration::new(seconds.max(0) as u64, nanos.max(0) as u32);
        file.as_file().set_modified(SystemTime::UNIX_EPOCH + since)?;
        file.as_file().set_permissions(Permissions::from_mode(entry.source.mode))?;
        let entry = Entry { made: Stamp::of(&file.as_file().metadata()?), ..entry };
        self.record(source, &entry, || {
            file.persist(self.root.join(&source.path)).map(drop).map_err(|fault| fault.error)
        })?;
        Ok(entry)
    }

    /// Creates a directory, which its owner may write.
    ///
    /// # Errors
    /// When there is something else, and faults of writing.
    pub(super) fn directory(&self, source: &Source, entry: Entry) -> io::Result<Entry> {
        let path = self.root.join(&source.path);
        self.record(source, &entry, || match fs::create_dir(&path) {
            Err(fault) if fault.kind() == io::ErrorKind::AlreadyExists => {
                match fs::symlink_metadata(&path)?.is_dir() {
                    true => Ok(()),
                    false => Err(fault),
                }
            }
            made => made,
        })?;
        fs::set_permissions(&path, Permissions::from_mode(entry.source.mode | 0o700))?;
        Ok(entry)
    }

    /// Creates a symbolic link like that of the source.
    ///
    /// # Errors
    /// Faults of writing.
    pub(super) fn link(&self, source: &Source, target: &Path, entry: Entry) -> io::Result<Entry> {
        let name = self.temporary()?.into_temp_path();
        fs::remove_file(&name)?;
        symlink(target, &name)?;
        let entry = Entry { made: Stamp::of(&fs::symlink_metadata(&name)?), ..entry };
        self.record(source, &entry, || fs::rename(&name, self.root.join(&source.path)))?;
        Ok(entry)
    }

    /// Removes what was made at a path. Of a directory that is not empty nothing is removed.
    ///
    /// # Errors
    /// When it cannot be.
    pub(super) fn remove(&self, path: &Path) -> io::Result<()> {
        check_parents(&self.root, path)?;
        let at = self.root.join(path);
        match fs::symlink_metadata(&at) {
            Ok(metadata) if metadata.is_dir() => fs::remove_dir(at),
            Ok(_) => fs::remove_file(at),
            Err(fault) => Err(fault),
        }
    }

    /// Replaces the list by these entries.
    ///
    /// # Errors
    /// Faults of writing; the list that there is remains, and is right.
    pub(super) fn finish(&self, entries: &Entries) -> io::Result<()> {
        let mut file = self.temporary()?;
        let mut writer = io::BufWriter::new(file.as_file_mut());
        for (path, entry) in entries {
            writer.write_all(manifest::line(path, entry).as_bytes())?;
        }
        writer.flush()?;
        drop(writer);
        file.as_file().sync_all()?;
        file.persist(self.root.join(OWN).join(LIST)).map_err(|fault| fault.error)?;
        fs::remove_dir_all(self.root.join(OWN).join(TEMPORARY))
    }

    fn temporary(&self) -> io::Result<NamedTempFile> {
        NamedTempFile::new_in(self.root.join(OWN).join(TEMPORARY))
    }

    /// Lists an entry, and puts it in its place.
    fn record(
        &self,
        source: &Source,
        entry: &Entry,
        put: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        check_parents(&self.root, &source.path)?;
        let line = manifest::line(&source.path, entry);
        self.list.lock().unwrap_or_else(PoisonError::into_inner).add(&line)?;
        put()
    }
}

/// The list of what was made, to which lines are added.
#[derive(Debug)]
struct List<W> {
    to: W,
    /// Whether the last line may have been cut off, as where the disk is full.
    is_cut: bool,
}

impl<W: Write> List<W> {
    /// Adds a line, which has its end.
    fn add(&mut self, line: &str) -> io::Result<()> {
        if self.is_cut {
            // What is there of the last one is no part of this one.
            self.to.write_all(b"\n")?;
        }
        self.is_cut = true;
        self.to.write_all(line.as_bytes())?;
        self.is_cut = false;
        Ok(())
    }
}

/// Creates the directory of the tree. What only some may enter is not shown to others in another quality.
fn create(source: &Path, root: &Path) -> io::Result<()> {
    let mode = fs::metadata(source)?.permissions().mode() & 0o777;
    let mode = mode | 0o700;
    if let Some(parent) = root.parent() {
        fs::create_dir_all(parent)?;
    }
    match fs::DirBuilder::new().mode(mode).create(root) {
        Err(fault) if fault.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(fault) => Err(fault),
        // The umask may have left less.
        Ok(()) => fs::set_permissions(root, Permissions::from_mode(mode)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::answer::{Page, Why};
    use super::super::tree::What;
    use super::*;

    /// A disk with room for so many bytes.
    struct Disk(Vec<u8>, usize);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(self.1 - self.0.len());
            self.0.extend_from_slice(&bytes[..count]);
            if count == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(count) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_that_was_cut_off_spoils_no_other() {
        let mut list = List { to: Disk(Vec::new(), 8), is_cut: false };
        list.add("one\n").unwrap();
        list.add("second\n").unwrap_err();
        list.add("third\n").unwrap_err();
        list.to.1 = 100;
        list.add("4th\n").unwrap();
        list.add("5th\n").unwrap();
        assert_eq!(String::from_utf8_lossy(&list.to.0), "one\nseco\n4th\n5th\n");
    }

    #[test]
    fn a_long_list_is_read_in_time_that_grows_with_its_length() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let stamp = Stamp { len: 1, modified: (2, 3), mode: 0o644, inode: 4 };
        let (source, made, page) = (stamp, stamp, Page::default());
        let (what, how, why) = (What::File, "1".to_owned(), Some(Why::Other));
        let entry = Entry { what, source, made, how, why, page };
        let line = |number| manifest::line(Path::new(&format!("{number}.css")), &entry);
        fs::create_dir(root.join(OWN)).unwrap();
        let lines: String = (0..30_000).chain(0..30_000).map(line).collect();
        fs::write(root.join(OWN).join(LIST), lines).unwrap();
        let start = std::time::Instant::now();
        assert_eq!(read_entries(root, 30_000).unwrap().len(), 30_000);
        // It takes a second without optimisation; copying the entries at each line takes minutes.
        assert!(start.elapsed().as_secs() < 30, "{:?}", start.elapsed());
        assert!(read_entries(root, 29_999).is_err());
    }
}
