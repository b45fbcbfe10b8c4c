//! Whether the access log can be opened, without making it.

use rustix::fs::{Access, FsWord, OFlags, PROC_SUPER_MAGIC, access, statfs};
use rustix::io::Errno;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Longest name of a file in a folder, in bytes.
const NAME_LEN_MAX: usize = 255;
/// Most links that lead to a file, as in the kernel.
const LINKS_MAX: usize = 40;
/// The file systems of the kernel's own files, in which there are no others (`linux/magic.h`): those of /proc and /sys.
const OF_THE_KERNEL: [FsWord; 2] = [PROC_SUPER_MAGIC, 0x6265_6572];

/// Why the access log cannot be opened, of which the system says this.
pub(crate) fn cannot_log(path: &Path, fault: &io::Error) -> String {
    unwritable(path).unwrap_or_else(|| format!("{} cannot be written: {fault}", path.display()))
}

/// Why nothing can be appended to a file, which need not be there yet.
pub(super) fn unwritable(path: &Path) -> Option<String> {
    let shown = path.display();
    if path.is_dir() {
        return Some(format!("{shown} is a directory: name a file in it"));
    }
    if path.metadata().is_ok_and(|it| it.file_type().is_socket()) {
        return Some(format!("{shown} is a socket: name a file"));
    }
    let fault = match path.exists() {
        true => cannot_append(path)?,
        false => cannot_make(path)?,
    };
    Some(format!("{shown} cannot be written: {fault}"))
}

/// Opens a file as the log does, but for making it.
fn cannot_append(path: &Path) -> Option<String> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let fault = OpenOptions::new().append(true).custom_flags(flags).open(path).err()?;
    Some(match Errno::from_io_error(&fault) {
        Some(Errno::NXIO) => {
            "it is a pipe that nobody reads, or there is no terminal; name a file".to_owned()
        }
        Some(Errno::ACCESS | Errno::PERM) => format!("{fault}; let this user write there"),
        _ => fault.to_string(),
    })
}

/// Why a file that is not there cannot be made.
fn cannot_make(path: &Path) -> Option<String> {
    let path = match target(path) {
        Ok(path) => path,
        Err(fault) => return Some(fault),
    };
    let name = path.as_os_str().as_bytes();
    if name.ends_with(b"/") || name.ends_with(b"/.") {
        return Some("there is no such directory; name a file".to_owned());
    }
    let len = path.file_name().map_or(0, |name| name.len());
    if len > NAME_LEN_MAX {
        return Some(format!("its name has {len} bytes, and {NAME_LEN_MAX} are the most"));
    }
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let shown = folder.display();
    let of_folder = |fault: io::Error, how: &str| Some(format!("{shown}: {fault}; {how}"));
    match fs::metadata(folder) {
        Ok(it) if !it.is_dir() => {
            return Some(format!("{shown} is a file; name another directory"));
        }
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => {
            return of_folder(fault, "make this directory");
        }
        Err(fault) if fault.kind() == io::ErrorKind::NotADirectory => {
            return of_folder(fault, "name another directory");
        }
        _ => {}
    }
    if let Err(fault) = access(folder, Access::WRITE_OK | Access::EXEC_OK) {
        return of_folder(fault.into(), "let this user write there");
    }
    let is_kernels = statfs(folder).is_ok_and(|it| OF_THE_KERNEL.contains(&it.f_type));
    is_kernels.then(|| format!("{shown} has only files of the kernel; name another directory"))
}

/// The file that a link leads to, which is not there.
fn target(path: &Path) -> Result<PathBuf, String> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(next) = fs::read_link(&path) else { return Ok(path) };
        path = path.parent().unwrap_or(Path::new("")).join(next);
    }
    Err("it is a link that leads to itself; name a file".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_log_needs_a_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "").expect("our own folder");
        for (link, to) in
            [("dangling", "missing/x"), ("new-by-link", "other.log"), ("self", "self")]
        {
            symlink(to, at(link)).expect("our own folder");
        }
        let long = "a".repeat(300);
        for (path, expected) in [
            (at("new.log"), ""),
            (at("file"), ""),
            (at("new-by-link"), ""),
            ("/dev/null".into(), ""),
            (at("missing/new.log"), "No such file or directory (os error 2); make this directory"),
            (at("dangling"), "No such file or directory (os error 2); make this directory"),
            (at("self"), "it is a link that leads to itself; name a file"),
            (at(""), "is a directory: name a file in it"),
            (at("new/"), "there is no such directory; name a file"),
            (at("file/x"), "file is a file; name another directory"),
            (at("file/x/y"), "Not a directory (os error 20); name another directory"),
            (at(&long), "its name has 300 bytes, and 255 are the most"),
            ("/proc/x.log".into(), "/proc has only files of the kernel; name another directory"),
        ] {
            let said = unwritable(&path).unwrap_or_default();
            assert!(
                said.ends_with(expected) && said.is_empty() == expected.is_empty(),
                "{path:?}: {said}"
            );
        }
        assert!(!at("new.log").exists() && !at("other.log").exists(), "looking makes nothing");
    }
}
